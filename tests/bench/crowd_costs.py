"""Crowds: what a probe costs where fingerprints or documents stand close together.

    crowd -> a mutable table, and a segment of the same pairs -> the same probes, the same answers

Invariants: a crowd is the same numbers everywhere; times are CPU time of this process, and
stand beside the size of the answer; the answers of table and segment are compared, for a few probes
with those of a plain search.
"""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec
import numpy as np
from page_figures import figure_options, rate, rows, short, show
from segment_data import write_segment

from dedup._native import ffi, lib
from dedup.cli import terminal
from dedup.cli.common_options import distance_option
from dedup.core.native import check
from dedup.core.numbers import Array, pointer
from dedup.core.table import Answers, ProbedMany, Table
from dedup.lab.bench import Machine, Samples, machine, samples
from dedup.lab.bench.tables import brute_force, flipped, make_data
from dedup.model.errors import DedupError
from dedup.store.segmented_table import Segment

_CENTRE = np.uint64(0x9E3779B97F4A7C15)
_FARTHEST = 20  # bits from the centre of a neighbourhood, at most
_QUERIES = 1 << 14  # different ones; they are asked again and again
_CHANGED = 10_000
_CHECKED = 32
_TURN_SECONDS = 0.1


class Probes(msgspec.Struct, frozen=True):
    """Probes of one kind. matches: documents found by one; times in microseconds a probe.

    table, segment  many probes a call
    single          one probe a call, of the table
    """

    name: str
    matches: float
    table: Samples
    segment: Samples
    single: Samples


class Changes(msgspec.Struct, frozen=True):
    """Pairs a second: all at once, then 10,000 a call, then one a call that is removed."""

    built: float
    inserted: Samples
    removed: float


class Crowd(msgspec.Struct, frozen=True):
    """One crowd: bytes for each pair, of table and segment, all included."""

    name: str
    table_bytes: float
    segment_bytes: float
    changes: Changes
    probes: list[Probes]


class CrowdsBench(msgspec.Struct, frozen=True):
    """The outcome."""

    size: int
    k: int
    rounds: int
    crowds: list[Crowd]
    machine: Machine


class _Made(msgspec.Struct):
    """A crowd's pairs, what is inserted later, and probes by name, with their limits."""

    name: str
    values: Array
    documents: Array
    later: list[tuple[Array, Array]]
    probes: list[tuple[str, Array, int | None]]


def bench_crowds(
    size: int, k: int, rounds: int = 3, progress: Callable[[int, int], None] | None = None
) -> CrowdsBench:
    """Measure crowds of `size` pairs. Raises DedupError if an answer is wrong."""
    crowds: list[Crowd] = []
    for make in _CROWDS:
        made = make(np.random.default_rng(1), size, k, rounds)
        crowds.append(_measure(made, k, rounds))
        if progress:
            progress(len(crowds), len(_CROWDS))
    return CrowdsBench(size, k, rounds, crowds, machine("crawl-dedup", "numpy"))


# --------------------------------------------------------------------------------- the crowds


def _places(values: Array) -> Array:
    return np.arange(len(values), dtype=np.uint64)


def _spread(rng: np.random.Generator, size: int, k: int, rounds: int) -> _Made:
    data = make_data("uniform", size, rounds, k)
    later = [(values, _places(values) + np.uint64(size)) for values in data.later]
    return _Made(
        "none: spread evenly",
        data.stored,
        _places(data.stored),
        later,
        [("near ones and random ones", rng.permutation(data.queries)[:_QUERIES], None)],
    )


def _clusters(rng: np.random.Generator, size: int, k: int, rounds: int) -> _Made:
    data = make_data("clustered", size, rounds, k)
    later = [(values, _places(values) + np.uint64(size)) for values in data.later]
    return _Made(
        "clusters of up to 1,000",
        data.stored,
        _places(data.stored),
        later,
        [
            ("members", data.queries[:_QUERIES], None),
            ("members, limit 1", rng.permutation(data.queries)[:_QUERIES], 1),
        ],
    )


def _neighbourhood(rng: np.random.Generator, size: int, k: int, rounds: int) -> _Made:
    each = min(_CHANGED, max(1, size // 100))
    count = size + each * rounds
    values = flipped(rng, np.full(count, _CENTRE, np.uint64), k + 1, _FARTHEST)
    centres = np.full(_QUERIES, _CENTRE, np.uint64)
    near, member = values[rng.integers(0, size, _QUERIES)], values[rng.integers(0, size, _QUERIES)]
    later = [
        (part, _places(part) + np.uint64(size + i * each))
        for i, part in enumerate(np.split(values[size:], rounds))
    ]
    return _Made(
        f"one centre, {k + 1} to {_FARTHEST} bits around it",
        values[:size],
        _places(values[:size]),
        later,
        [
            ("the centre, beyond k of all", centres, None),
            (f"1 to {k} bits beside it", flipped(rng, centres, 1, k), None),
            ("members", near, None),
            ("members, limit 1", member, 1),
            ("random ones", rng.integers(0, 2**64, _QUERIES, dtype=np.uint64), None),
        ],
    )


def _block(rng: np.random.Generator, size: int, k: int, rounds: int, bits: int) -> _Made:
    """Values that agree in their leading bits and are random in the others."""
    data = make_data("uniform", size, rounds, k)
    lead, shift = _CENTRE >> np.uint64(64 - bits) << np.uint64(64 - bits), np.uint64(bits)

    def moved(values: Array) -> Array:
        return values >> shift | lead

    members = moved(data.stored[rng.integers(0, size, _QUERIES)])
    later = [(moved(values), _places(values) + np.uint64(size)) for values in data.later]
    return _Made(
        f"{bits} leading bits equal, the others random",
        moved(data.stored),
        _places(data.stored),
        later,
        [
            ("others with these bits", moved(rng.permutation(data.queries)[:_QUERIES]), None),
            ("members, 0 to k bits flipped", flipped(rng, members, 0, k), None),
        ],
    )


def _documents(rng: np.random.Generator, size: int, _k: int, rounds: int) -> _Made:
    documents = rng.integers(0, 2**63, size, dtype=np.uint64)
    each = min(_CHANGED, max(1, size // 100))
    later = [
        (np.full(each, _CENTRE, np.uint64), rng.integers(2**63, 2**64, each, dtype=np.uint64))
        for _ in range(rounds)
    ]
    one = np.full(_QUERIES, _CENTRE, np.uint64)
    return _Made(
        "one fingerprint, all documents",
        np.full(size, _CENTRE, np.uint64),
        documents,
        later,
        [("limit 1", one, 1), ("limit 100", one, 100), ("no limit", one[:1], None)],
    )


_CROWDS: tuple[Callable[[np.random.Generator, int, int, int], _Made], ...] = (
    _spread,
    _clusters,
    _neighbourhood,
    lambda rng, size, k, rounds: _block(rng, size, k, rounds, 16),
    lambda rng, size, k, rounds: _block(rng, size, k, rounds, 32),
    _documents,
)


# -------------------------------------------------------------------------------- measuring


def _measure(made: _Made, k: int, rounds: int) -> Crowd:
    table = Table(k)
    built = _rate(len(made.values), _insert(table, made.values, made.documents))
    size = max(1, len(table))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "segment"
        write_segment(path, made.values, made.documents, k)
        segment = Segment(path)
        probes = [_probe(made, one, table, segment, rounds) for one in made.probes]
        bytes_each = table.stats().bytes / size, segment.bytes / size
        del segment
    return Crowd(made.name, *bytes_each, _changes(made, table, built), probes)


def _probe(
    made: _Made,
    probes: tuple[str, Array, int | None],
    table: Table,
    segment: Segment,
    rounds: int,
) -> Probes:
    name, queries, limit = probes
    matches = _compare(made, table, segment, queries, limit)
    listed: list[int] = queries.tolist()

    def single(part: Array, limit: int | None) -> None:
        for value in listed[: len(part)]:
            table.probe(value, limit)

    measured: list[tuple[float, float, float]] = [
        (
            _microseconds(table.probe_many, queries, limit),
            _microseconds(lambda q, n: _find(segment, q, table.k, n or 0), queries, limit),
            _microseconds(single, queries, limit),
        )
        for _ in range(rounds)
    ]
    return Probes(name, matches, *(samples(one) for one in zip(*measured, strict=True)))


def _find(segment: Segment, values: Array, k: int, limit: int) -> ProbedMany:
    answers, handles = Answers(), ffi.new("ndd_segment *[]", [segment.handle])
    answer = answers.take()
    place = pointer(values), len(values)
    check(
        lib.ndd_segments_probe(handles, 1, ffi.NULL, *place, k, limit, answer.handle, ffi.NULL),
        "probing a segment",
    )
    return answers.arrays(answer, len(values))


def _compare(
    made: _Made, table: Table, segment: Segment, queries: Array, limit: int | None
) -> float:
    """Return the matches of a probe, on average; raise DedupError where answers differ."""
    asked = queries[: _CHECKED * 8]
    ours = table.probe_many(asked, limit)
    other = _find(segment, asked, table.k, limit or 0)
    if not _same(ours, other):
        raise DedupError(f"{made.name}: table and segment differ; please report this")
    if limit is None:
        expected = brute_force(made.values, asked[:_CHECKED], table.k)
        for i, places in enumerate(expected):
            found = ours[1][int(ours[0][i]) : int(ours[0][i + 1])]
            if not np.array_equal(np.sort(found), np.unique(made.documents[places])):
                raise DedupError(f"{made.name}: a probe is wrong; please report this")
    return len(ours[1]) / len(asked)


def _same(ours: ProbedMany, other: ProbedMany) -> bool:
    return all(np.array_equal(ours[i], other[i]) for i in range(3))


def _changes(made: _Made, table: Table, built: float) -> Changes:
    inserted = [
        _rate(len(values), _insert(table, values, documents)) for values, documents in made.later
    ]
    gone = [
        pair
        for values, documents in made.later
        for pair in zip(values.tolist(), documents.tolist(), strict=True)
    ]

    def remove() -> None:
        for value, document in gone:
            table.remove(value, document)

    return Changes(built, samples(inserted), _rate(len(gone), remove))


def _insert(table: Table, values: Array, documents: Array) -> Callable[[], object]:
    return lambda: table.insert_many(values, documents)


def _microseconds(
    probe: Callable[[Array, int | None], object], queries: Array, limit: int | None
) -> float:
    """Return CPU microseconds a probe, of as many as take about a tenth of a second."""
    count, took = 1, 0.0
    while True:
        begin = time.process_time()
        probe(queries[:count], limit)
        took = time.process_time() - begin
        if took >= _TURN_SECONDS / 4 or count >= len(queries):
            return took / min(count, len(queries)) * 1e6
        count *= 4


def _rate(count: int, call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return count / max(time.process_time() - begin, 1e-9)


# ------------------------------------------------------------------------------- the command


@figure_options("figures")
@click.command(
    epilog="Example: python tests/bench crowds --distance 6 --page docs/appendix/benchmarks/crowds.md"
)
@click.option(
    "--size",
    type=click.IntRange(1000),
    default=1_000_000,
    show_default=True,
    help="Number of pairs.",
)
@distance_option("Greatest distance in bits.", 3)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
def crowds(size: int, distance: int, rounds: int, **given: Any) -> None:
    """Time probes where fingerprints are crowded.

    Fingerprints are around one centre, have equal leading bits, or one has all documents. Answers of
    table and segment are compared, and the first ones with those of a plain search.
    """
    result = bench_crowds(size, distance, rounds, terminal.progress("crowds"))
    show(result, given, _text, {"figures": _page})


_PROBES = ("crowd", "probed", "matches", "us a probe", "batched", "segment, batched")
_CHANGES = ("crowd", "built/s", "inserted/s", "removed/s", "B each", "segment, B each")


def _text(result: CrowdsBench) -> str:
    return "\n".join(
        [
            f"{result.size:,} pairs, k = {result.k}; CPU time, medians of "
            f"{terminal.count(result.rounds, 'round')}",
            terminal.table(_PROBES, _probe_rows(result)),
            "",
            terminal.table(_CHANGES, _change_rows(result)),
            "",
            result.machine.text(),
        ]
    )


def _probe_rows(result: CrowdsBench) -> list[tuple[str, ...]]:
    return [
        (
            crowd.name if i == 0 else "",
            one.name,
            short(one.matches),
            short(one.single.median),
            short(one.table.median),
            short(one.segment.median),
        )
        for crowd in result.crowds
        for i, one in enumerate(crowd.probes)
    ]


def _change_rows(result: CrowdsBench) -> list[tuple[str, ...]]:
    return [
        (
            crowd.name,
            rate(crowd.changes.built),
            rate(crowd.changes.inserted.median),
            rate(crowd.changes.removed),
            f"{crowd.table_bytes:,.0f}",
            f"{crowd.segment_bytes:,.0f}",
        )
        for crowd in result.crowds
    ]


def _page(result: CrowdsBench) -> str:
    return "\n\n".join(
        [
            f"{result.size:,} pairs, k = {result.k}, {terminal.count(result.rounds, 'round')}; {result.machine.text()}.",
            rows(_PROBES, _probe_rows(result)),
            rows(_CHANGES, _change_rows(result)),
        ]
    )
