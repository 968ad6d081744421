"""The capacity model beside what was measured: prediction against figure, and the constants of a machine.

    dedup bench store, tests/bench commands, tests/bench log, each with --json FILE
    the files -> checks: predicted, measured
              -> costs: the constants of dedup.lab.capacity, each with its source in SOURCES

Invariant: a check compares what the model says of a number of documents with what was
measured of that number; nothing that was measured at a size is used to predict that size, but for
the constants.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
from page_figures import short
from service_commands import CPU, CPU_DEEP, WIRE

from dedup.cli import terminal
from dedup.lab.bench import Result
from dedup.lab.bench.store import keys_of
from dedup.lab.capacity import MEASURED, Costs, estimated_us, index_bytes, probe_us, working_bytes
from dedup.model.errors import UsageError
from dedup.store.segmented_table import MERGED_MOST

STORE = "dedup bench store"
COMMANDS = "chrt -r 5 python tests/bench commands"
LOG = "python tests/bench log"
KEY_BYTES = sum(map(len, keys_of(0, 1000))) / 1000  # of a key, in stores
COMMAND_KEY_BYTES = sum(map(len, keys_of(10**10, 1000))) / 1000  # and in commands


class Measured(NamedTuple):
    """A benchmark's figures at one size: by row, and of stores only, or by row and column. k, documents: 0 for the log."""

    bench: str
    documents: int
    k: int
    rows: dict[str, dict[str, float]]
    segments: list[int]

    def __call__(self, row: str, column: str = "") -> float:
        """Return a figure."""
        return self.rows[row][column]


class Source(NamedTuple):
    """Where a constant of the model comes from: its unit, the command, and how it follows from the figures."""

    unit: str
    command: str
    of: Callable[[Measured], float] | None  # None: it is not taken from one run


def _search(measured: Measured) -> float:
    return probe_us(measured.documents, measured.k)


def _beside_search(row: str, column: str) -> Callable[[Measured], float]:
    return lambda measured: measured(row, column) - _search(measured)


def _wire(row: str) -> Callable[[Measured], float]:
    return lambda measured: measured(row, WIRE) - COMMAND_KEY_BYTES


def _segment_us(store: Measured) -> float:
    alone, many = (store(f"us of CPU of their search, {how}") for how in ("alone", "of many"))
    return (alone - many) / len(store.segments)


def _buffer_bytes(store: Measured) -> float:
    grown = store("MB of memory while filled, at most") - store("MB of memory before it is opened")
    return grown * 1e6 - MEASURED.merge_bytes * min(store.documents, MERGED_MOST)


SOURCES = {
    "process_bytes": Source(
        "B", LOG, lambda log: log("a service without documents", "MB of memory") * 1e6
    ),
    "buffer_bytes": Source("B", STORE, _buffer_bytes),
    "merge_bytes": Source("B a document", STORE, None),
    "record_bytes": Source(
        "B a document", STORE, lambda store: store("B of disk a document: documents") - KEY_BYTES
    ),
    "event_bytes": Source(
        "B a document", LOG, lambda log: log("a record in the log", "B, in a batch of its own")
    ),
    "reserve_us": Source("us of CPU", COMMANDS, _beside_search("RESERVE", CPU)),
    "away_us": Source("us of CPU", COMMANDS, _beside_search("RESERVE away from home", CPU)),
    "insert_us": Source("us of CPU", LOG, lambda log: log("INSERT until it is applied", CPU)),
    "release_us": Source(
        "us of CPU", COMMANDS, lambda command: command("RELEASE with the next RESERVE", CPU)
    ),
    "reserve_deep_us": Source("us of CPU", COMMANDS, _beside_search("RESERVE", CPU_DEEP)),
    "away_deep_us": Source(
        "us of CPU", COMMANDS, _beside_search("RESERVE away from home", CPU_DEEP)
    ),
    "release_deep_us": Source("us of CPU", COMMANDS, lambda command: command("RELEASE", CPU_DEEP)),
    "applied_us": Source("us of CPU", LOG, lambda log: log("an event of another service", CPU)),
    "probe_share": Source(
        "",
        STORE,
        lambda store: (
            store("us of CPU of their search, of many") / estimated_us(store.segments, store.k)
        ),
    ),
    "segment_us": Source("us of CPU", STORE, _segment_us),
    "rebuild_us": Source("us", STORE, lambda store: 1e6 / store("events/s, all")),
    "written_bytes": Source("B an event", STORE, lambda store: store("B written an event")),
    "open_us": Source(
        "us a document",
        STORE,
        lambda store: store("s to open after kill -9") / store.documents * 1e6,
    ),
    "reserve_wire_bytes": Source("B", COMMANDS, _wire("RESERVE")),
    "away_wire_bytes": Source("B", COMMANDS, _wire("RESERVE away from home")),
    "insert_wire_bytes": Source("B", COMMANDS, _wire("INSERT")),
    "release_wire_bytes": Source("B", COMMANDS, _wire("RELEASE")),
}


class Check(NamedTuple):
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


def read_results(files: Sequence[bytes]) -> list[Measured]:
    """Return what was measured in several runs, as --json wrote them. Raises UsageError for what it did not write."""
    try:
        results = [msgspec.json.decode(file, type=Result) for file in files]
    except msgspec.DecodeError as error:
        raise UsageError(f"these are no figures of a benchmark's --json: {error}") from error
    return [measured for result in results for measured in _measured(result)]


def _measured(result: Result) -> Iterator[Measured]:
    """Yield the figures of a benchmark; of stores those of each size."""
    rows = {
        row: {column: figure.median for column, figure in cells.items()}
        for row, cells in result.rows.items()
    }
    facts, k = result.facts, result.facts.get("distance", 0)
    if result.bench != "store":
        yield Measured(result.bench, facts.get("documents", 0), k, rows, [])
        return
    for column in dict.fromkeys(column for cells in rows.values() for column in cells):
        of_size = {row: {"": cells[column]} for row, cells in rows.items() if column in cells}
        segments = facts[f"segments of {column}"]
        yield Measured("store", int(column.replace(",", "")), k, of_size, segments)


def checks(results: Sequence[Measured], costs: Costs = MEASURED) -> list[Check]:
    """Return what the model says beside what was measured, stores before commands."""
    found = []
    for one in results:
        n, k = one.documents, one.k
        if one.bench == "store":
            record, working = costs.record_bytes + KEY_BYTES, working_bytes(n, costs) / 1e6
            search, filled = probe_us(n, k, costs), 1e6 / one("events/s, all")
            opened = one("s to open after kill -9") / n * 1e6
            held, index = (one(f"B of disk a document: {what}") for what in ("documents", "index"))
            memory = one("MB of memory while filled, at most")
            probed = one("us of CPU of their search, alone")
            found += [
                Check("documents.mdb", n, None, "B a document", record, held),
                Check("index", n, k, "B a document", index_bytes(n, k) / n, index),
                Check("memory while filled", n, k, "MB", working, memory),
                Check("a probe, at most", n, k, "us of CPU", search, probed),
                Check("filled", n, k, "us an event", costs.rebuild_us, filled),
                Check(
                    "written", n, k, "B an event", costs.written_bytes, one("B written an event")
                ),
                Check("opened", n, k, "us a document", costs.open_us, opened),
            ]
        elif one.bench == "commands":
            search = probe_us(n, k, costs)
            found += [
                Check(row, n, k, CPU, said, one(row, CPU))
                for row, said in (
                    ("RESERVE", costs.reserve_us + search),
                    ("RESERVE away from home", costs.away_us + search),
                    ("RELEASE with the next RESERVE", costs.release_us),
                )
            ]
    return found


HEADERS = ("what", "documents", "k", "unit", "the model", "measured", "deviation")


def cells(results: Sequence[Measured], costs: Costs = MEASURED) -> list[tuple[str, ...]]:
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
        for check in checks(results, costs)
    ]


def costs_of(results: Sequence[Measured]) -> Costs:
    """Return this machine's constants; what was not measured stays as dedup.lab.capacity has it.

    Of several sizes the largest counts, and of the tables in memory the most that any store took.
    """
    given: dict[str, float] = {}
    for one in sorted(results, key=lambda measured: measured.documents):
        for name, source in SOURCES.items():
            if source.of is not None and source.command.split()[-1] == one.bench:
                # the difference of two measured times comes out below 0 on a busy machine
                cost = max(0.0, source.of(one))
                given[name] = max(cost, given.get(name, 0.0)) if name == "buffer_bytes" else cost
    return msgspec.structs.replace(MEASURED, **given)


FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog="Example: python tests/bench capacity store.json commands.json log.json")
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option(
    "--costs",
    "costs_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write this machine's constants, for `dedup plan --cluster --costs`.",
)
def capacity(files: tuple[Path, ...], costs_file: Path | None) -> None:
    """Compare the model of `dedup plan --cluster` with what was measured.

    FILES are what `dedup bench store`, and `commands` and `log` here, wrote with --json.
    """
    results = read_results([file.read_bytes() for file in files])
    if costs_file is not None:
        costs_file.write_bytes(msgspec.json.format(msgspec.json.encode(costs_of(results))) + b"\n")
    terminal.out(terminal.table(HEADERS, cells(results)))
