"""Batch search: a million queries against a stream of fingerprints, beside the paper's 200 mappers.

    counters -> splitmix64 -> a stream with known near-duplicates -> Queries -> matches, all checked

Invariants: the stream is generated while it is searched, and the time of that counts; the
planted near-duplicates must be found, each with its distance, and those one bit too far must not.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from runner import DISTANCE, THREADS, Bench, case, number

from dedup.core.bulk.batch import HIT, PIECE, Queries
from dedup.core.native import lib
from dedup.core.numbers import Array, pointer
from dedup.core.pairs import cores
from dedup.model.errors import DedupError

PAPER_STORED = 1 << 33  # section 3.3: 8 G fingerprints
_QUERY_SEED, _STREAM_SEED = 1, 2
_APART = 1 << 14  # fingerprints from one planted near-duplicate to the next


@case(
    "batch",
    number("queries", 1_000_000, "Number of queries."),
    number("stored", 1 << 30, "Number of fingerprints in the stream; the paper's: 8589934592."),
    DISTANCE,
    THREADS,
    queries=100_000,
    stored=1 << 24,
)
def command(queries, stored, distance, threads):
    """Search a generated stream for fingerprints near one of many queries.

    Fails unless all planted near-duplicates are found. The paper: 200 mappers, 100 seconds.
    """
    threads = threads or cores()
    facts: dict[str, Any] = {"queries": queries, "stored": stored, "distance": distance}
    facts |= {"threads": threads, "the paper": "200 mappers, 100 s"}

    def measure():
        values = _generate(_QUERY_SEED, 0, queries)
        begin = time.perf_counter()
        index = Queries(values, distance)
        index_seconds = time.perf_counter() - begin
        found = [np.empty(0, HIT)]
        cpu, begin = time.process_time(), time.perf_counter()
        for matches in index.probe_stream(_stream(values, stored, distance), threads=threads):
            found.append(matches.hits)
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        planted, near_misses, others = _check(np.concatenate(found), queries, stored, distance)
        facts["planted"], facts["near_misses"], facts["others"] = planted, near_misses, others
        facts["others_expected"] = round(queries * stored * _ball(distance) / 2.0**64, 1)
        figures = {
            "s to index the queries": index_seconds,
            "s to search the stream": seconds,
            "s of CPU of all threads": cpu,
            "s for 2^33 fingerprints, at this rate": index_seconds
            + seconds * PAPER_STORED / stored,
        }
        return {name: {"": figure} for name, figure in figures.items()}

    yield Bench(facts, measure, ("numpy",))


def _ball(k: int) -> int:
    """Return how many fingerprints lie within k bits of one."""
    ways = total = 1
    for i in range(k):
        ways = ways * (64 - i) // (i + 1)
        total += ways
    return total


def _generate(seed: int, first: int, count: int) -> Array:
    values = np.empty(count, dtype=np.uint64)
    lib.ndd_generate(seed, first, count, pointer(values))
    return values


def _stream(queries: Array, stored: int, k: int) -> Iterator[Array]:
    for first in range(0, stored, PIECE):
        values = _generate(_STREAM_SEED, first, min(PIECE, stored - first))
        query, position, distance = _planted(len(queries), first, len(values), k)
        values[position - np.uint64(first)] = queries[query] ^ _flips(position, distance)
        yield values


def _planted(
    queries: int, first: int, count: int, k: int
) -> tuple[npt.NDArray[np.intp], Array, npt.NDArray[np.intp]]:
    """Return (query, position, distance) of what is planted at first .. first + count - 1.

    Distances go from 0 to k + 1, in turns: the last of them is too far.
    """
    number = np.arange(-(-first // _APART), -(-(first + count) // _APART), dtype=np.intp)
    if not queries:
        number = number[:0]
    position = (number * _APART).astype(np.uint64)
    return number * 7919 % max(queries, 1), position, number % (k + 2)


def _flips(position: Array, distance: npt.NDArray[np.intp]) -> Array:
    """Return masks with `distance` bits set, others for each position."""
    flips = np.zeros(len(position), dtype=np.uint64)
    at = position * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(58)
    for turn in range(int(distance.max(initial=0))):
        # 11 is odd, so the steps reach every bit before one twice
        bit = (at + np.uint64(11 * turn)) & np.uint64(63)
        flips |= np.where(distance > turn, np.uint64(1) << bit, np.uint64(0))
    return flips


def _check(found: npt.NDArray[np.void], queries: int, stored: int, k: int) -> tuple[int, int, int]:
    """Return how many near-duplicates and near misses were planted, and how many others found."""
    query, position, distance = _planted(queries, 0, stored, k)
    pairs = zip(found["position"].tolist(), found["query"].tolist(), strict=True)
    seen = dict(zip(pairs, found["distance"].tolist(), strict=True))
    planted = misses = 0
    for pair in zip(position.tolist(), query.tolist(), distance.tolist(), strict=True):
        wanted = pair[2] if pair[2] <= k else None
        if seen.get(pair[:2]) != wanted:
            raise DedupError(
                f"fingerprint {pair[0]} lies {pair[2]} bits from query {pair[1]} and was found at "
                f"{seen.get(pair[:2])}; please report this"
            )
        planted += wanted is not None
        misses += wanted is None
    return planted, misses, len(found) - planted
