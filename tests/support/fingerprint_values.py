"""Fingerprints by the thousand: spread over all values, or close around some."""

import numpy as np


def generate(seed, count, first=0):
    """Return numbers of the stream of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): spread evenly, all different."""
    z = np.arange(first + 1, first + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(seed)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def around(rng, centres, count, most):
    """Return values that differ from some centre in up to `most` bits."""
    values = rng.choice(centres, count)
    for _ in range(most):
        flip = rng.random(count) < 0.7
        values = values ^ np.where(flip, np.uint64(1) << rng.integers(0, 64, count, np.uint64), 0)
    return values
