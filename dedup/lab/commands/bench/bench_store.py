"""`dedup bench store`: a store that grows, killed and opened: rates, bytes, memory, pauses, times."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from dedup.cli import terminal
from dedup.cli.common_options import distance_option, quick_option
from dedup.lab.commands.bench.bench_tables import numbers
from dedup.model.errors import UsageError

__all__ = ["store"]


@click.command(epilog="Example: dedup bench store --path DISK --sizes 10000000,100000000")
@click.option(
    "--sizes",
    metavar="N,N",
    callback=numbers,
    help="Numbers of documents to measure at (default: 1000000). A document takes 210 bytes of disk.",
)
@distance_option("Greatest distance in bits.", 3)
@click.option(
    "--path",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to keep the store in; one that holds documents is filled further.",
)
@click.option(
    "--memory", metavar="SIZE", help="Memory that the processes may have: bytes, 512M, 8G."
)
@click.option(
    "--cgroup",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A memory cgroup of your own, for --memory: files in memory count too. [default: RLIMIT_DATA]",
)
@click.option(
    "--requests",
    type=click.IntRange(100),
    default=10_000,
    show_default=True,
    help="Pages that are reserved and inserted.",
)
@quick_option("200,000 documents, 2,000 pages")
@click.option("--json", "json_file", metavar="FILE", help="Write what was measured; - is stdout.")
def store(
    sizes: list[int] | None,
    distance: int,
    path: Path | None,
    memory: str | None,
    cgroup: Path | None,
    requests: int,
    quick: bool,
    json_file: str | None,
) -> None:
    """Fill a store, kill the process that does, open it, and reserve and insert pages.

    The small store of the last rows has a million documents, or a tenth as many.
    """
    import msgspec

    from dedup.core.bulk.out_of_core import memory_bytes
    from dedup.lab.bench.capacity.capacity_comparison import CapacityBench, packages
    from dedup.lab.bench.capacity.part_process import Limit
    from dedup.lab.bench.capacity.store_figures import measure_stores, store_rows

    if cgroup is not None and memory is None:
        raise UsageError("--cgroup needs --memory: how much the processes may have")
    limit = None if memory is None else Limit(memory_bytes(memory), cgroup)
    with ExitStack() as stack:
        folder = path or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = measure_stores(
            sizes or [200_000 if quick else 1_000_000],
            distance,
            2_000 if quick else requests,
            folder,
            limit,
            terminal.progress("documents"),
        )
        result = CapacityBench(packages(), stores=[*found])
    if json_file == "-":
        terminal.out_json(msgspec.to_builtins(result))
        return
    if json_file is not None:
        Path(json_file).write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    headers, *cells = store_rows(result.stores)
    terminal.out(terminal.table(headers, cells))
    if limit is not None:
        terminal.out(f"memory of a process: {memory}, by {limit}")
    terminal.out("\n" + result.machine.text())
