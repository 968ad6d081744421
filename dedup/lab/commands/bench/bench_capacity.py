"""`dedup bench capacity`: the constants of the capacity model on this machine, and how right it is."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dedup.cli import terminal
from dedup.cli.common_options import quick_option
from dedup.lab.commands.bench.bench_tables import numbers
from dedup.model.errors import UsageError

if TYPE_CHECKING:
    from dedup.lab.bench.capacity.capacity_comparison import CapacityBench

__all__ = ["capacity"]

PARTS = ("store", "commands", "log")


@click.command(
    epilog="Example: dedup bench capacity --part commands --sizes 1000000 --distances 3,7"
)
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice(PARTS),
    help="Part to measure; may be repeated (default: all but log, which needs Java).",
)
@click.option(
    "--sizes",
    metavar="N,N",
    callback=numbers,
    help="Numbers of documents (default: 1000000). A store of 10 million takes 3 GB of disk.",
)
@click.option(
    "--distances",
    metavar="K,K",
    callback=numbers,
    help="Distances to measure (default: 3,7); for stores only the first.",
)
@click.option(
    "--requests",
    type=click.IntRange(100),
    default=10_000,
    show_default=True,
    help="Number of pages judged by the service.",
)
@quick_option("200,000 documents, 2,000 pages")
@click.option(
    "--read",
    "read_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Measure nothing: read files that --json wrote; may be repeated.",
)
@click.option(
    "--json", "json_file", metavar="FILE", help="Write the measurements here; - is stdout."
)
@click.option(
    "--costs",
    "costs_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write this machine's constants, for `dedup plan --cluster --costs`.",
)
@click.option(
    "--page",
    "page_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Markdown page whose figures are replaced, between the marks `checks` and `stores`.",
)
def capacity(
    parts: tuple[str, ...],
    sizes: list[int] | None,
    distances: list[int] | None,
    requests: int,
    quick: bool,
    read_files: tuple[Path, ...],
    json_file: str | None,
    costs_file: Path | None,
    page_file: Path | None,
) -> None:
    """Measure the costs of documents and pages.

    They are compared with the model of `dedup plan --cluster`. store: as `dedup bench store`.
    commands: RESERVE, INSERT, RELEASE at a real `dedup serve`. log: two services on a real Kafka.
    """
    import msgspec

    from dedup.lab.bench.capacity.capacity_comparison import (
        Plan,
        bench_capacity,
        costs_of,
        page,
        read_results,
        stores_page,
    )
    from dedup.lab.bench.figures import marked, put

    if page_file is not None:
        for name in ("checks", "stores"):
            marked(page_file, name)
    if read_files:
        result = read_results([file.read_bytes() for file in read_files])
    else:
        plan = Plan(
            parts or PARTS[:-1],
            sizes or [200_000 if quick else 1_000_000],
            distances or [3, 7],
            2_000 if quick else requests,
        )
        if plan.requests * len(plan.sizes) > 10_000_000:
            raise UsageError("that is more than ten million pages: give fewer --requests")
        result = bench_capacity(plan, terminal.progress("parts"))
    if page_file is not None:
        put(page_file, "checks", page(result))
        put(page_file, "stores", stores_page(result))
    if costs_file is not None:
        costs_file.write_bytes(msgspec.json.format(msgspec.json.encode(costs_of(result))) + b"\n")
    if json_file == "-":
        terminal.out_json(msgspec.to_builtins(result))
        return
    if json_file is not None:
        Path(json_file).write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    terminal.out(_text(result))


def _text(result: "CapacityBench") -> str:
    from dedup.lab.bench.capacity.capacity_comparison import checks

    cells = [
        (
            check.what,
            f"{check.documents:,}",
            "-" if check.k is None else str(check.k),
            check.unit,
            f"{check.predicted:,.2f}",
            f"{check.measured:,.2f}",
            f"{check.deviation:+.1%}",
        )
        for check in checks(result)
    ]
    headers = ("", "documents", "k", "", "the model", "measured", "deviation")
    lines = [terminal.table(headers, cells)] if cells else []
    if result.log is not None:
        log = result.log
        lines.append(
            f"through Kafka: INSERT {log.insert_us:.0f} us of CPU until it is applied, "
            f"{log.applied_us:.0f} us at another service, {log.log_bytes:.0f} B of log a record "
            f"({log.alone_bytes:.0f} B when they come one by one)"
        )
    return "\n".join([*lines, "", result.machine.text()])
