"""Fingerprints for benchmarks of tables, and what times a call.

Invariant: the same kind, size and k give the same numbers everywhere.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dedup.core.numbers import Array
from dedup.model.errors import UsageError

GENERATED = ("uniform", "clustered")
QUERIES = 1 << 20  # more than any cache holds of what they touch in a large table
MOST_INSERTED = 10_000  # in a round, of data of which there is no more
SIZE = 1_000_000
LARGEST_CLUSTER = 1_000
CLUSTER_EXPONENT = 2.0
MOST_FLIPS = 6
CHUNK = 1 << 17  # 1 MB of fingerprints: they stay in the cache while they are compared
TURN_SECONDS = 0.3


class Data(msgspec.Struct, frozen=True):
    """Arrays of uint64.

    stored   what the table is built of; the document of stored[i] is i
    later    of shape (rounds, n): what each round inserts, as documents len(stored) and up
    queries  what is probed
    """

    stored: Array
    later: Array
    queries: Array


def make_data(kind: str, size: int | None, rounds: int, k: int) -> Data:
    """Return fingerprints to store, to insert later and to probe.

    kind   uniform: random numbers. Probed are stored ones with 0 to k + 1 bits flipped and new ones,
           in turns
           clustered: clusters of 1 to 1,000 members; s members have a chance in proportion to
           s ** -2. A cluster is a random centre and copies of it with 1 to 6 bits flipped. Probed are
           members that are not stored
           a file: a decimal fingerprint a line; probed are those that are not stored
    size   how many to store; None: a million, or four fifths of a file
    rounds how often some are inserted later: a twentieth of the size; of a file 10,000, or a hundredth
           of the size if that is less

    Raises UsageError if there are not as many, OSError if a file cannot be read.
    """
    rng = np.random.default_rng(1)
    found = None if kind in GENERATED else _read(kind)
    if size is None:
        size = SIZE if found is None else len(found) * 4 // 5
    each = max(1, size // 20 if found is None else min(MOST_INSERTED, size // 100))
    later, probed = rounds * each, max(64, min(QUERIES, size))
    if kind == "uniform":
        values = rng.integers(0, 2**64, size + later, dtype=np.uint64)
        queries = rng.integers(0, 2**64, probed, dtype=np.uint64)
        near = queries[::2]
        near[:] = flipped(rng, values[rng.integers(0, size, len(near))], 0, k + 1)
        return Data(values[:size], values[size:].reshape(rounds, each), queries)
    if found is None:
        found = _clustered(rng, size + later + probed)
    rng.shuffle(found)
    if not size or len(found) <= size + later:
        raise UsageError(
            f"{kind} has {len(found):,} fingerprints, too few to store {size:,}, insert {later:,} "
            "later and probe others; give more of them, or a smaller --size"
        )
    later_values = found[size : size + later].reshape(rounds, each)
    return Data(found[:size], later_values, found[size + later :][:probed])


def check_data(kind: str) -> None:
    """Raise UsageError if a kind of data is neither generated nor a file."""
    if kind not in GENERATED and not Path(kind).is_file():
        raise UsageError(f"{kind} is no file; give one, or one of {', '.join(GENERATED)}")


def _read(path: str) -> Array:
    check_data(path)
    try:
        lines = Path(path).read_text(encoding="ascii").split()
        return np.array([int(line) for line in lines], dtype=np.uint64)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{path} must hold decimal numbers below 2**64: {error}") from error


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


def _clustered(rng: np.random.Generator, count: int) -> Array:
    sizes = np.arange(1, LARGEST_CLUSTER + 1)
    chances = sizes**-CLUSTER_EXPONENT
    chances /= chances.sum()
    mean = float((sizes * chances).sum())
    members = rng.choice(sizes, size=int(count / mean * 1.2) + 1_000, p=chances)
    cluster = np.repeat(np.arange(len(members)), members)[:count]
    values = rng.integers(0, 2**64, len(members), dtype=np.uint64)[cluster]
    first = np.concatenate(([True], cluster[1:] != cluster[:-1]))
    values[~first] = flipped(rng, values[~first], 1, MOST_FLIPS)
    return values


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
