"""A plain scan, against which tables and pairs are tested, and values for it."""

import numpy as np
from hypothesis import strategies as st

from dedup.core.table import Match

ALL = 2**64 - 1
DISTANCES = range(16)
PRESETS = ("auto", "compact")


def bits_between(values: np.ndarray, value: int) -> np.ndarray:
    """Return the Hamming distances of a uint64 array to a value, by counting each byte's bits."""
    counts = np.array([i.bit_count() for i in range(256)], dtype=np.uint8)
    differences = values ^ np.uint64(value)
    return counts[differences.view(np.uint8).reshape(-1, 8)].sum(axis=1)


def scan(values: np.ndarray, documents: np.ndarray, value: int, k: int) -> list[Match]:
    """Return what a probe must return, by comparing with every value."""
    distances = bits_between(values, value)
    near = np.flatnonzero(distances <= k)
    columns = distances[near].tolist(), documents[near].tolist(), values[near].tolist()
    rows = sorted(zip(*columns, strict=True))
    return [Match(document, found, distance) for distance, document, found in rows]


def scan_pairs(values: np.ndarray, k: int) -> list[list[int]]:
    """Return what find_all must return, by comparing all with all."""
    pairs = set()
    for i, value in enumerate(values.tolist()):
        for other in values[i + 1 :][bits_between(values[i + 1 :], value) <= k].tolist():
            pairs.add((min(value, other), max(value, other)))
    return [list(pair) for pair in sorted(pairs)]


def scan_clusters(values: np.ndarray, k: int) -> list[int]:
    """Return what find_clusters must return, by walking from each value to all its neighbours."""
    labels = [-1] * len(values)
    for first in range(len(values)):
        if labels[first] >= 0:
            continue
        labels[first], waiting = first, [first]
        while waiting:
            near = np.flatnonzero(bits_between(values, int(values[waiting.pop()])) <= k)
            for i in near.tolist():
                if labels[i] < 0:
                    labels[i] = first
                    waiting.append(i)
    return labels


# ------------------------------------------------------------------------------------- the data


def uniform(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return values that have nothing to do with each other."""
    return rng.integers(0, ALL, n, dtype=np.uint64, endpoint=True)


def clustered(rng: np.random.Generator, n: int, centres: int = 50, bits: int = 6) -> np.ndarray:
    """Return values within a few bits of a few centres, as real fingerprints are."""
    values = uniform(rng, centres)[rng.integers(0, centres, n)]
    for _ in range(bits):
        flips = np.uint64(1) << rng.integers(0, 64, n, dtype=np.uint64)
        values ^= np.where(rng.integers(0, 2, n) == 1, flips, np.uint64(0))
    return values


def crowded(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return values that differ in 20 bits only: all others are hot neighbourhoods."""
    return uniform(rng, n) & np.uint64(0x0000_0FF0_0000_0FFF) | np.uint64(0xABC0_0000_1234_0000)


KINDS = {"uniform": uniform, "clustered": clustered, "crowded": crowded}


def some_queries(rng: np.random.Generator, values: np.ndarray, k: int, n: int = 8) -> list[int]:
    """Return values some bits away from stored ones, up to one more than k; and the extremes."""
    queries = [0, ALL]
    for value in values[rng.integers(0, len(values), n)].tolist():
        for bit in rng.choice(64, int(rng.integers(0, k + 2)), replace=False).tolist():
            value ^= 1 << bit
        queries.append(value)
    return queries


numbers = st.one_of(
    st.integers(0, ALL), st.integers(0, 3), st.integers(ALL - 3, ALL), st.sampled_from([1 << 63])
)


@st.composite
def neighbourhoods(draw: st.DrawFn) -> list[int]:
    """Draw values that lie a few bits from a few centres, with repetitions."""
    centres = draw(st.lists(numbers, min_size=1, max_size=4))
    values = []
    for _ in range(draw(st.integers(0, 60))):
        value = draw(st.sampled_from(centres))
        for bit in draw(st.lists(st.integers(0, 63), max_size=9)):
            value ^= 1 << bit
        values.append(value)
    return values
