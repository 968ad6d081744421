"""Fingerprints by the thousand: spread over all values, or close around some."""

import numpy as np

from dedup.core.native import lib
from dedup.core.numbers import pointer


def generate(seed, count, first=0):
    values = np.empty(count, dtype=np.uint64)
    lib.ndd_generate(seed, first, count, pointer(values))
    return values


def around(rng, centres, count, most):
    """Return values that differ from some centre in up to `most` bits."""
    values = rng.choice(centres, count)
    for _ in range(most):
        flip = rng.random(count) < 0.7
        values = values ^ np.where(flip, np.uint64(1) << rng.integers(0, 64, count, np.uint64), 0)
    return values
