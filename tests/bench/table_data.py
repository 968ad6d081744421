"""Fingerprints for benchmarks of tables, and what times a call.

Invariant: the same size and k give the same numbers everywhere.
"""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from dedup.core.numbers import Array

QUERIES = 1 << 20  # more than any cache holds of what they touch in a large table
CHUNK = 1 << 17  # 1 MB of fingerprints: they stay in the cache while they are compared
TURN_SECONDS = 0.3


class Data(msgspec.Struct, frozen=True):
    """Arrays of uint64.

    stored   what the table is built of; the document of stored[i] is i
    later    what each round inserts, as documents len(stored) and up
    queries  what is probed
    """

    stored: Array
    later: Array
    queries: Array


def make_data(size: int, k: int) -> Data:
    """Return random fingerprints to store, a twentieth as many to insert later, and those to probe.

    Probed are stored ones with 0 to k + 1 bits flipped and new ones, in turns.
    """
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2**64, size + max(1, size // 20), dtype=np.uint64)
    queries = rng.integers(0, 2**64, max(64, min(QUERIES, size)), dtype=np.uint64)
    near = queries[::2]
    near[:] = flipped(rng, values[rng.integers(0, size, len(near))], 0, k + 1)
    return Data(values[:size], values[size:], queries)


def brute_force(stored: Array, queries: Array, k: int) -> list[list[int]]:
    """Return for each query the documents of all stored values within k, ascending.

    It clears k bits of every difference, and looks whether something is left.
    """
    found: list[list[int]] = [[] for _ in queries]
    one = np.uint64(1)
    for begin in range(0, len(stored), CHUNK):
        chunk = stored[begin : begin + CHUNK]
        for answer, query in zip(found, queries, strict=True):
            left = chunk ^ query
            for _ in range(k):
                left &= left - one
            answer.extend((np.flatnonzero(left == 0) + begin).tolist())
    return found


def flipped(rng: np.random.Generator, values: Array, least: int, most: int) -> Array:
    """Return the values, each with least to most of its bits flipped (both inclusive)."""
    values = values.copy()
    left = rng.integers(least, most + 1, len(values))
    changed = np.zeros(len(values), dtype=np.uint64)
    while (unfinished := np.flatnonzero(left)).size:
        bits = np.uint64(1) << rng.integers(0, 64, unfinished.size, dtype=np.uint64)
        new = (changed[unfinished] & bits) == 0
        changed[unfinished[new]] |= bits[new]
        left[unfinished[new]] -= 1
    return values ^ changed


# ---------------------------------------------------------------------------------- measuring


def cpu_seconds(call: Callable[[], object]) -> float:
    """Return the CPU seconds that a call takes."""
    begin = time.process_time()
    call()
    return max(time.process_time() - begin, 1e-9)


def cpu_us(
    probe: Callable[[Any], object],
    queries: Array,
    ready: Callable[[Array], Any] = lambda queries: queries,
    seconds: float = TURN_SECONDS,
) -> float:
    """Return CPU microseconds a query, of as many as take about so long; ready() makes them what probe() takes."""
    count = min(4, len(queries))
    while True:
        some = ready(queries[:count])
        took = cpu_seconds(lambda: probe(some))  # noqa: B023 - called here
        if took >= seconds / 4 or count == len(queries):
            return took / count * 1e6
        count = min(4 * count, len(queries))
