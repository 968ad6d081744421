"""The capacity model beside what was measured: one process a part, then prediction against figure.

    parts, sizes -> figures (capacity_parts, capacity_commands) -> checks: predicted, measured
                                                                -> costs of this machine

The rule kept here: a check compares what the model says of a number of documents with what was
measured of that number; nothing that was measured at a size is used to predict that size, but for
the constants of dedup.lab.capacity.costs, which SOURCES names.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dedup.lab.bench.capacity.parts import StoreFigures, TableFigures, TreeFigures
from dedup.lab.bench.capacity.service_commands import CommandFigures, LogFigures
from dedup.lab.bench.figures import rows
from dedup.lab.bench.samples import Machine, machine
from dedup.lab.capacity.costs import MEASURED, Costs
from dedup.lab.capacity.shard_size import probe_us, table_bytes
from dedup.model.errors import UsageError

__all__ = [
    "CapacityBench",
    "Check",
    "Plan",
    "bench_capacity",
    "checks",
    "costs_of",
    "page",
    "read_results",
]


class Plan(msgspec.Struct, frozen=True):
    """What is measured: which parts, of how many documents, at every k; requests: of the commands.

    fill_seconds bounds how long a store is filled: it ends with fewer documents, and says how many.
    """

    parts: Sequence[str]
    sizes: Sequence[int]
    distances: Sequence[int]
    requests: int
    fill_seconds: float


class CapacityBench(msgspec.Struct):
    """Everything that was measured, and on which machine."""

    machine: Machine
    tables: list[TableFigures] = []
    stores: list[StoreFigures] = []
    trees: list[TreeFigures] = []
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


def bench_capacity(plan: Plan, progress: Callable[[int, int], None] | None = None) -> CapacityBench:
    """Measure. Raises OSError with what a part said when it fails."""
    jobs = list(_jobs(plan))
    result = CapacityBench(machine("crawl-dedup", "lmdb", "numpy", "hiredis", "uvloop", "aiokafka"))
    for done, (part, arguments) in enumerate(jobs):
        with tempfile.TemporaryDirectory() as folder:
            where = {} if part in {"commands", "log"} else {"folder": folder}
            figures = _measured(part, arguments | where)
        match part:
            case "table":
                result.tables.append(msgspec.convert(figures, TableFigures))
            case "store":
                result.stores.append(msgspec.convert(figures, StoreFigures))
            case "tree":
                result.trees.append(msgspec.convert(figures, TreeFigures))
            case "commands":
                result.commands.append(msgspec.convert(figures, CommandFigures))
            case _:
                result.log = msgspec.convert(figures, LogFigures)
        if progress:
            progress(done + 1, len(jobs))
    return result


def _jobs(plan: Plan) -> list[tuple[str, dict[str, Any]]]:
    each: dict[str, list[dict[str, Any]]] = {
        "table": [{"documents": n, "k": k} for n in plan.sizes for k in plan.distances],
        "store": [
            {"documents": n, "k": plan.distances[0], "seconds": plan.fill_seconds}
            for n in plan.sizes
        ],
        "tree": [{"keys": n} for n in plan.sizes],
        "commands": [
            {"documents": n, "k": k, "requests": plan.requests}
            for n in plan.sizes
            for k in plan.distances
        ],
        "log": [{"requests": plan.requests}],
    }
    return [(part, arguments) for part in plan.parts for arguments in each[part]]


def _measured(part: str, arguments: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(  # noqa: S603  (ourselves)
        [
            sys.executable,
            "-m",
            "dedup.lab.bench.capacity.part_process",
            part,
            json.dumps(arguments),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise OSError(f"measuring {part} failed: {done.stderr.strip()[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def checks(result: CapacityBench, costs: Costs = MEASURED) -> list[Check]:
    """Return what the model says beside what was measured, byte counts before times."""
    found = []
    for one in result.tables:
        n, k = one.documents, one.k
        said = table_bytes(n, k, costs=costs)
        found += [
            Check("table, loaded", n, k, "B a document", said.made / n, one.made_bytes / n),
            Check("table, at most", n, k, "B a document", said.most / n, one.peak_bytes / n),
        ]
    for store in result.stores:
        n = store.documents
        record = costs.record_bytes + store.key_bytes
        found += [
            Check("records", n, None, "B a document", record, store.records_bytes),
            Check("tree of keys", n, None, "B a document", costs.tree_bytes, store.keys_bytes),
            Check(
                "documents.mdb",
                n,
                None,
                "B a document",
                record + costs.tree_bytes + costs.free_bytes,
                store.file_bytes,
            ),
            Check("table.ndd", n, None, "B a document", costs.snapshot_bytes, store.snapshot_bytes),
        ]
    found += [
        Check("tree of keys", tree.keys, None, "B a document", costs.tree_bytes, tree.tree_bytes)
        for tree in result.trees
    ]
    found += [
        Check(
            "a probe, at most",
            one.documents,
            one.k,
            "us",
            probe_us(one.documents, one.k, costs),
            max(one.batch_us, one.made_batch_us),
        )
        for one in result.tables
    ]
    for store in result.stores:
        n = store.documents
        found += [
            Check(
                "filled from a log", n, None, "us an event", costs.rebuild_us, store.apply_wall_us
            ),
            Check("opened", n, None, "us a document", costs.open_us, store.open_seconds / n * 1e6),
        ]
        if store.stall_seconds is not None:
            stall = store.stall_seconds / n * 1e6
            found.append(
                Check("held by a snapshot", n, None, "us a document", costs.stall_us, stall)
            )
    found += [
        Check(
            "index rebuilt",
            one.documents,
            one.k,
            "us of CPU a document",
            costs.index_us,
            one.reload_stall_cpu_seconds / one.documents * 1e6,
        )
        for one in result.tables
        if one.reload_stall_cpu_seconds
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
        first.tables += other.tables
        first.stores += other.stores
        first.trees += other.trees
        first.commands += other.commands
        first.log = first.log or other.log
    return first


def page(result: CapacityBench, costs: Costs = MEASURED) -> str:
    """Return the checks as a Markdown table."""
    cells = [
        [
            check.what,
            f"{check.documents:,}",
            "" if check.k is None else str(check.k),
            check.unit,
            _short(check.predicted),
            _short(check.measured),
            f"{check.deviation:+.0%}",
        ]
        for check in checks(result, costs)
    ]
    headers = ["what", "documents", "k", "unit", "the model", "measured", "deviation"]
    return rows(headers, cells)


def _short(number: float) -> str:
    return f"{number:,.{2 if number < 10 else 1 if number < 100 else 0}f}"


def costs_of(result: CapacityBench) -> Costs:
    """Return this machine's constants; what was not measured stays as dedup.lab.capacity.costs has it.

    Of several sizes the largest counts, of the times to rebuild an index the longest.
    """
    costs = MEASURED
    given: dict[str, float] = {}
    again = [one for one in result.tables if one.reload_stall_cpu_seconds is not None]
    if again:
        given["index_us"] = max(
            (one.reload_stall_cpu_seconds or 0.0) / one.documents * 1e6 for one in again
        )
    if result.stores:
        store = max(result.stores, key=lambda figures: figures.documents)
        given |= {
            "tree_bytes": store.keys_bytes,
            "free_bytes": store.file_bytes - store.records_bytes - store.keys_bytes,
            "record_bytes": store.records_bytes - store.key_bytes,
            "snapshot_bytes": store.snapshot_bytes,
            "rebuild_us": store.apply_wall_us,
            "written_bytes": store.written_bytes,
            "open_us": store.open_seconds / store.documents * 1e6,
        }
    if stalls := [one for one in result.stores if one.stall_seconds is not None]:
        store = max(stalls, key=lambda figures: figures.documents)
        given["stall_us"] = (store.stall_seconds or 0.0) / store.documents * 1e6
    if result.commands:
        command = max(result.commands, key=lambda figures: figures.documents)
        search = probe_us(command.documents, command.k, costs)
        given |= {
            "reserve_us": max(0.0, command.reserve_us - search),
            "away_us": max(0.0, command.away_us - search),
            "release_us": command.release_us if command.told_us is None else command.told_us,
            "reserve_wire_bytes": command.reserve_bytes - command.key_bytes,
            "away_wire_bytes": command.away_bytes - command.key_bytes,
            "release_wire_bytes": command.release_bytes - command.key_bytes,
            "insert_wire_bytes": command.insert_bytes - command.key_bytes,
        }
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
