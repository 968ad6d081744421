"""Crowds: what a probe costs where fingerprints or documents stand close together.

    crowd -> a mutable table, and a segment of the same pairs -> the same probes, the same answers

Invariants: a crowd is the same numbers everywhere; times are CPU time of this process, and
stand beside the size of the answer; the answers of table and segment are compared, for a few probes
with those of a plain search.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from runner import Bench, Progress, Round
from segment_data import write_segment
from table_data import brute_force, cpu_seconds, cpu_us, flipped, make_data

from dedup._native import ffi, lib
from dedup.core.native import check
from dedup.core.numbers import Array, pointer
from dedup.core.table import IdleAnswers, ProbedMany, Table
from dedup.model.errors import DedupError
from dedup.store.segmented_table import Segment

_CENTRE = np.uint64(0x9E3779B97F4A7C15)
_FARTHEST = 20  # bits from the centre of a neighbourhood, at most
_QUERIES = 1 << 14  # different ones; they are asked again and again
_CHANGED = 10_000
_CHECKED = 32
_TURN_SECONDS = 0.1


class _Made(NamedTuple):
    """A crowd: its pairs, pairs that are inserted later, and probes by name, with their limits."""

    name: str
    values: Array
    documents: Array
    later: tuple[Array, Array]
    probes: list[tuple[str, Array, int | None]]


@contextmanager
def open_case(size: int, distance: int, progress: Progress | None = None) -> Iterator[Bench]:
    """Measure crowds of a number of pairs. Raises DedupError if an answer is wrong."""
    del progress

    def measure() -> Round:
        rows: dict[str, dict[str, float]] = {}
        for make in _CROWDS:
            made = make(np.random.default_rng(1), size, distance)
            rows |= _measured(made, distance)
        return rows

    yield Bench({"pairs": size, "distance": distance}, measure, ("numpy",))


# --------------------------------------------------------------------------------- the crowds


def _places(values: Array) -> Array:
    return np.arange(len(values), dtype=np.uint64)


def _spread(rng: np.random.Generator, size: int, k: int) -> _Made:
    data = make_data("uniform", size, 1, k)
    later = data.later[0], _places(data.later[0]) + np.uint64(size)
    return _Made(
        "spread evenly",
        data.stored,
        _places(data.stored),
        later,
        [("near ones and random ones", rng.permutation(data.queries)[:_QUERIES], None)],
    )


def _clusters(rng: np.random.Generator, size: int, k: int) -> _Made:
    data = make_data("clustered", size, 1, k)
    later = data.later[0], _places(data.later[0]) + np.uint64(size)
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


def _neighbourhood(rng: np.random.Generator, size: int, k: int) -> _Made:
    each = min(_CHANGED, max(1, size // 100))
    values = flipped(rng, np.full(size + each, _CENTRE, np.uint64), k + 1, _FARTHEST)
    centres = np.full(_QUERIES, _CENTRE, np.uint64)
    near, member = values[rng.integers(0, size, _QUERIES)], values[rng.integers(0, size, _QUERIES)]
    later = values[size:], _places(values[size:]) + np.uint64(size)
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


def _block(rng: np.random.Generator, size: int, k: int, bits: int) -> _Made:
    """Values that agree in their leading bits and are random in the others."""
    data = make_data("uniform", size, 1, k)
    lead, shift = _CENTRE >> np.uint64(64 - bits) << np.uint64(64 - bits), np.uint64(bits)

    def moved(values: Array) -> Array:
        return values >> shift | lead

    members = moved(data.stored[rng.integers(0, size, _QUERIES)])
    later = moved(data.later[0]), _places(data.later[0]) + np.uint64(size)
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


def _documents(rng: np.random.Generator, size: int, _k: int) -> _Made:
    documents = rng.integers(0, 2**63, size, dtype=np.uint64)
    each = min(_CHANGED, max(1, size // 100))
    others = rng.integers(2**63, 2**64, each, dtype=np.uint64)
    one = np.full(_QUERIES, _CENTRE, np.uint64)
    return _Made(
        "one fingerprint, all documents",
        np.full(size, _CENTRE, np.uint64),
        documents,
        (np.full(each, _CENTRE, np.uint64), others),
        [("limit 1", one, 1), ("limit 100", one, 100), ("no limit", one[:1], None)],
    )


_CROWDS: tuple[Callable[[np.random.Generator, int, int], _Made], ...] = (
    _spread,
    _clusters,
    _neighbourhood,
    lambda rng, size, k: _block(rng, size, k, 16),
    lambda rng, size, k: _block(rng, size, k, 32),
    _documents,
)


# -------------------------------------------------------------------------------- measuring


def _measured(made: _Made, k: int) -> dict[str, dict[str, float]]:
    """Return a row for the crowd, and one for each kind of its probes."""
    table, size = Table(k), len(made.values)
    built = cpu_seconds(lambda: table.insert_many(made.values, made.documents))
    held = max(1, len(table))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "segment"
        write_segment(path, made.values, made.documents, k)
        segment = Segment(path)
        each = {"B each": table.stats().bytes / held, "segment, B each": segment.bytes / held}
        rows = {
            f"{made.name}: {name}": _probed(made, table, segment, queries, limit)
            for name, queries, limit in made.probes
        }
        del segment
    values, documents = made.later
    inserted = cpu_seconds(lambda: table.insert_many(values, documents))
    pairs = list(zip(values.tolist(), documents.tolist(), strict=True))

    def remove() -> None:
        for value, document in pairs:
            table.remove(value, document)

    return rows | {
        made.name: {
            "built k/s": size / built / 1e3,
            "inserted k/s": len(values) / inserted / 1e3,
            "removed k/s": len(values) / cpu_seconds(remove) / 1e3,
            **each,
        }
    }


def _probed(
    made: _Made, table: Table, segment: Segment, queries: Array, limit: int | None
) -> dict[str, float]:
    def single(values: list[int]) -> None:
        for value in values:
            table.probe(value, limit)

    ways: dict[str, tuple[Callable[..., object], Callable[[Array], object]]] = {
        "us a probe": (single, lambda values: values.tolist()),
        "us, batched": (lambda values: table.probe_many(values, limit), np.ascontiguousarray),
        "segment, us, batched": (
            lambda values: _find(segment, values, table.k, limit or 0),
            np.ascontiguousarray,
        ),
    }
    matches = _compare(made, table, segment, queries, limit)
    times = {
        name: cpu_us(probe, queries, ready, _TURN_SECONDS) for name, (probe, ready) in ways.items()
    }
    return {"matches": matches, **times}


def _find(segment: Segment, values: Array, k: int, limit: int) -> ProbedMany:
    answers, handles = IdleAnswers(), ffi.new("ndd_segment *[]", [segment.handle])
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
