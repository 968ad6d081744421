"""Values for tables of segments, and a plain scan."""

import numpy as np

from dedup.core.table import Match

ALL = 2**64 - 1


def spread(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)


def numbered(values: np.ndarray, first: int = 0) -> np.ndarray:
    return np.arange(first, first + len(values), dtype=np.uint64)


def scan(pairs: set[tuple[int, int]], value: int, k: int) -> list[Match]:
    """Return what a probe must return, by comparing with every pair."""
    rows = sorted(((v ^ value).bit_count(), d, v) for v, d in pairs if (v ^ value).bit_count() <= k)
    return [Match(document, found, distance) for distance, document, found in rows]
