"""Fingerprints close around some, and the bits of many at once."""

import numpy as np


def around(rng, centres, count, most):
    """Return values that differ from some centre in up to `most` bits."""
    values = rng.choice(centres, count)
    for _ in range(most):
        flip = rng.random(count) < 0.7
        values = values ^ np.where(flip, np.uint64(1) << rng.integers(0, 64, count, np.uint64), 0)
    return values


def bit_counts(numbers):
    """Return how many bits of each number are 1; numbers is a uint64 array of any shape."""
    if hasattr(np, "bitwise_count"):  # from numpy 2 on
        return np.bitwise_count(numbers)
    counts = np.array([i.bit_count() for i in range(256)], np.uint8)
    return counts[np.ascontiguousarray(numbers)[..., None].view(np.uint8)].sum(-1, dtype=np.uint8)
