"""The capacity model beside what was measured: one process a part, then prediction against figure.

    parts, sizes -> figures (store_figures, service_commands) -> checks: predicted, measured
                                                              -> costs of this machine

Invariant: a check compares what the model says of a number of documents with what was
measured of that number; nothing that was measured at a size is used to predict that size, but for
the constants of dedup.lab.capacity, each with its source in SOURCES.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from page_figures import figure_options, rows, short, show
from service_commands import CommandFigures, LogFigures

from dedup.cli import terminal
from dedup.cli.bench import numbers
from dedup.lab.bench import Machine, machine
from dedup.lab.bench.store import StoreFigures, lines_of, measure_stores, store_rows
from dedup.lab.capacity import MEASURED, Costs, estimated_us, index_bytes, probe_us, working_bytes
from dedup.model.errors import UsageError
from dedup.store.segmented_table import MERGED_MOST

STORE = "dedup bench store"
COMMANDS = "chrt -r 5 python tests/bench capacity --part commands"
LOG = "python tests/bench capacity --part log"

# The unit of each constant of the model, and the command that measures it.
SOURCES = {
    "process_bytes": ("B", LOG),
    "buffer_bytes": ("B", STORE),
    "merge_bytes": ("B a document", STORE),
    "record_bytes": ("B a document", STORE),
    "event_bytes": ("B a document", LOG),
    "reserve_us": ("us of CPU", COMMANDS),
    "away_us": ("us of CPU", COMMANDS),
    "insert_us": ("us of CPU", LOG),
    "release_us": ("us of CPU", COMMANDS),
    "reserve_deep_us": ("us of CPU", COMMANDS),
    "away_deep_us": ("us of CPU", COMMANDS),
    "release_deep_us": ("us of CPU", COMMANDS),
    "applied_us": ("us of CPU", LOG),
    "probe_share": ("", STORE),
    "segment_us": ("us of CPU", STORE),
    "rebuild_us": ("us", STORE),
    "written_bytes": ("B an event", STORE),
    "open_us": ("us a document", STORE),
    "reserve_wire_bytes": ("B", COMMANDS),
    "away_wire_bytes": ("B", COMMANDS),
    "insert_wire_bytes": ("B", COMMANDS),
    "release_wire_bytes": ("B", COMMANDS),
}


class Plan(msgspec.Struct, frozen=True):
    """What is measured: which parts, of how many documents, at every k (a store: at the first)."""

    parts: Sequence[str]
    sizes: Sequence[int]
    distances: Sequence[int]
    requests: int


class CapacityBench(msgspec.Struct):
    """Everything that was measured, and on which machine."""

    machine: Machine
    stores: list[StoreFigures] = []
    commands: list[CommandFigures] = []
    log: LogFigures | None = None


class Check(msgspec.Struct, frozen=True):
    """What the model says, and what was measured, of a number of documents at k (None: at any)."""

    what: str
    documents: int
    k: int | None
    unit: str
    predicted: float
    measured: float

    @property
    def deviation(self) -> float:
        """How much more the model says, as a share of what was measured."""
        return self.predicted / self.measured - 1 if self.measured else float("inf")


def packages() -> Machine:
    """Return this machine, with the packages that figures depend on."""
    return machine("crawl-dedup", "lmdb", "numpy", "hiredis", "uvloop", "aiokafka")


def bench_capacity(plan: Plan, progress: Callable[[int, int], None] | None = None) -> CapacityBench:
    """Measure. Raises OSError with what a part said when it fails."""
    result = CapacityBench(packages())
    for done, part in enumerate(plan.parts):
        if part == "store":
            with tempfile.TemporaryDirectory() as folder:
                first = plan.distances[0]
                result.stores += measure_stores(plan.sizes, first, plan.requests, Path(folder))
        elif part == "commands":
            result.commands += [
                msgspec.convert(line, CommandFigures)
                for n in plan.sizes
                for k in plan.distances
                for line in lines_of(
                    part, {"documents": n, "k": k, "requests": plan.requests}, program=PROGRAM
                )
            ]
        else:
            (line,) = lines_of(part, {"requests": plan.requests}, program=PROGRAM)
            result.log = msgspec.convert(line, LogFigures)
        if progress:
            progress(done + 1, len(plan.parts))
    return result


def checks(result: CapacityBench, costs: Costs = MEASURED) -> list[Check]:
    """Return what the model says beside what was measured, byte counts before times."""
    found = []
    for store in result.stores:
        n, k = store.documents, store.k
        record = costs.record_bytes + store.key_bytes
        working = working_bytes(n, costs) / 1e6
        found += [
            Check("documents.mdb", n, None, "B a document", record, store.documents_bytes),
            Check("index", n, k, "B a document", index_bytes(n, k) / n, store.index_bytes),
            Check("memory while filled", n, k, "MB", working, store.fill_memory_bytes / 1e6),
            Check("a probe, at most", n, k, "us of CPU", probe_us(n, k, costs), store.probe_us),
            Check("filled", n, k, "us an event", costs.rebuild_us, 1e6 / store.per_second),
            Check("written", n, k, "B an event", costs.written_bytes, store.written_bytes),
            Check("opened", n, k, "us a document", costs.open_us, store.open_seconds / n * 1e6),
        ]
    for command in result.commands:
        n, k = command.documents, command.k
        said_us = costs.reserve_us + probe_us(n, k, costs)
        found += [
            Check("RESERVE", n, k, "us of CPU", said_us, command.reserve_us),
            Check(
                "RESERVE away from home",
                n,
                k,
                "us of CPU",
                costs.away_us + probe_us(n, k, costs),
                command.away_us,
            ),
        ]
        if command.told_us is not None:
            found.append(
                Check(
                    "RELEASE with the next RESERVE",
                    n,
                    k,
                    "us of CPU",
                    costs.release_us,
                    command.told_us,
                )
            )
    return found


def read_results(files: Sequence[bytes]) -> CapacityBench:
    """Return what was measured in several runs, as --json wrote them; the machine of the first.

    Raises UsageError for what it did not write.
    """
    try:
        found = [msgspec.json.decode(file, type=CapacityBench) for file in files]
    except msgspec.DecodeError as error:
        raise UsageError(
            f"these are no figures of `dedup bench capacity --json`: {error}"
        ) from error
    first = found[0]
    for other in found[1:]:
        first.stores += other.stores
        first.commands += other.commands
        first.log = first.log or other.log
    return first


def page(result: CapacityBench, costs: Costs = MEASURED) -> str:
    """Return the checks as a Markdown table."""
    return rows(HEADERS, cells(result, costs))


HEADERS = ("what", "documents", "k", "unit", "the model", "measured", "deviation")


def cells(result: CapacityBench, costs: Costs = MEASURED) -> list[tuple[str, ...]]:
    """Return the checks as rows of HEADERS."""
    return [
        (
            check.what,
            f"{check.documents:,}",
            "" if check.k is None else str(check.k),
            check.unit,
            short(check.predicted),
            short(check.measured),
            f"{check.deviation:+.0%}",
        )
        for check in checks(result, costs)
    ]


def stores_page(result: CapacityBench) -> str:
    """Return what was measured of stores as a Markdown table."""
    made = store_rows(result.stores)
    sizes = [f"{one.documents:,}" for one in result.stores]
    cells = [
        [name, *(short(found[size]) if size in found else "-" for size in sizes)]
        for name, found in made.items()
    ]
    return rows(["", *sizes], cells)


def costs_of(result: CapacityBench) -> Costs:
    """Return this machine's constants; what was not measured stays as dedup.lab.capacity has it.

    Of several sizes the largest counts, and of the tables in memory the most that any store took.
    """
    costs = MEASURED
    given: dict[str, float] = {}
    if result.stores:
        store = max(result.stores, key=lambda figures: figures.documents)
        n = store.documents
        given = {
            "buffer_bytes": max(
                one.fill_memory_bytes
                - one.started_bytes
                - costs.merge_bytes * min(one.documents, MERGED_MOST)
                for one in result.stores
            ),
            "record_bytes": store.documents_bytes - store.key_bytes,
            "probe_share": store.batch_us / estimated_us(store.segments, store.k),
            "segment_us": (store.probe_us - store.batch_us) / len(store.segments),
            "rebuild_us": 1e6 / store.per_second,
            "written_bytes": store.written_bytes,
            "open_us": store.open_seconds / n * 1e6,
        }
    if result.commands:
        command = max(result.commands, key=lambda figures: figures.documents)
        search = probe_us(command.documents, command.k, costs)
        given |= {
            "reserve_us": max(0.0, command.reserve_us - search),
            "away_us": max(0.0, command.away_us - search),
            "release_us": command.release_us if command.told_us is None else command.told_us,
            "reserve_deep_us": command.reserve_deep_us - search,
            "release_deep_us": command.release_deep_us,
            "reserve_wire_bytes": command.reserve_bytes - command.key_bytes,
            "away_wire_bytes": command.away_bytes - command.key_bytes,
            "release_wire_bytes": command.release_bytes - command.key_bytes,
            "insert_wire_bytes": command.insert_bytes - command.key_bytes,
        }
        if command.away_deep_us is not None:
            given["away_deep_us"] = command.away_deep_us - search
        if result.log is None:
            given["insert_us"] = command.insert_us
    if result.log is not None:
        given |= {
            "insert_us": result.log.insert_us,
            "applied_us": result.log.applied_us,
            "event_bytes": result.log.alone_bytes,
            "process_bytes": result.log.service_bytes,
        }
    # a cost that is the difference of two measured times comes out below 0 on a busy machine
    return msgspec.structs.replace(
        costs, **{name: max(0.0, value) for name, value in given.items()}
    )


# ------------------------------------------------------------------------------- the command

PROGRAM = (str(Path(__file__).with_name("service_commands.py")),)
PARTS = ("store", "commands", "log")


@figure_options("checks", "stores")
@click.command(
    epilog="Example: python tests/bench capacity --part commands --sizes 1000000 --distances 3,7"
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
    callback=numbers(2**31 - 2),
    help="Numbers of documents (default: 1000000). A store of 10 million takes 3 GB of disk.",
)
@click.option(
    "--distances",
    metavar="K,K",
    callback=numbers(15),
    help="Distances to measure (default: 3,7); for stores only the first.",
)
@click.option(
    "--requests",
    type=click.IntRange(100),
    default=10_000,
    show_default=True,
    help="Number of pages judged by the service.",
)
@click.option("--quick", is_flag=True, help="A first look: 200,000 documents, 2,000 pages.")
@click.option(
    "--read",
    "read_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Measure nothing: read files that --json wrote; may be repeated.",
)
@click.option(
    "--costs",
    "costs_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write this machine's constants, for `dedup plan --cluster --costs`.",
)
def capacity(
    parts: tuple[str, ...],
    sizes: list[int] | None,
    distances: list[int] | None,
    requests: int,
    quick: bool,
    read_files: tuple[Path, ...],
    costs_file: Path | None,
    **given: Any,
) -> None:
    """Measure the costs of documents and pages.

    They are compared with the model of `dedup plan --cluster`. store: as `dedup bench store`.
    commands: RESERVE, INSERT, RELEASE at a real `dedup serve`. log: two services on a real Kafka.
    """
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
    if costs_file is not None:
        costs_file.write_bytes(msgspec.json.format(msgspec.json.encode(costs_of(result))) + b"\n")
    show(result, given, _text, {"checks": page, "stores": stores_page})


def _text(result: CapacityBench) -> str:
    found = cells(result)
    lines = [terminal.table(HEADERS, found)] if found else []
    if result.log is not None:
        log = result.log
        lines.append(
            f"through Kafka: INSERT {log.insert_us:.0f} us of CPU until it is applied, "
            f"{log.applied_us:.0f} us at another service, {log.log_bytes:.0f} B of log a record "
            f"({log.alone_bytes:.0f} B when they come one by one)"
        )
    return "\n".join([*lines, "", result.machine.text()])
