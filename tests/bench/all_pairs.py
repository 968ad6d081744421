"""All pairs: find_all on one thread and on several, the same pairs each time (tests/core/test_pairs.py has the oracle)."""

import time

import numpy as np
from runner import DISTANCE, THREADS, Bench, case, number

from dedup.core.native import lib
from dedup.core.numbers import pointer
from dedup.core.pairs import cores, find_all

PLANTED = 10  # one value in ten is a near-duplicate of another


@case(
    "pairs",
    number("values", 10_000_000, "Number of fingerprints."),
    DISTANCE,
    THREADS,
    values=200_000,
)
def command(values, distance, threads):
    """Time all pairs of fingerprints, a tenth of them near-duplicates of others."""
    facts = {"values": values, "distance": distance}

    def measure():
        made = _values(values, distance)
        rows, first = {}, None
        for number_ in dict.fromkeys((threads or cores(), 1)):
            begin, used = time.perf_counter(), time.process_time()
            found = find_all(made, distance, threads=number_)
            taken = {"s": time.perf_counter() - begin, "CPU s": time.process_time() - used}
            rows[f"threads: {number_}"] = taken
            first = found if first is None else first
            assert np.array_equal(first, found)
        facts["pairs"] = len(first)
        return rows

    yield Bench(facts, measure, ("numpy",))


def _values(count, k):
    values = np.empty(count, np.uint64)
    lib.ndd_generate(3, 0, count, pointer(values))
    near = count // PLANTED
    flips = values[near : 2 * near].copy()
    values[count - near :] = values[:near]
    for i in range(k):
        bit = flips >> np.uint64(6 * i) & np.uint64(63)
        values[count - near :] ^= np.uint64(1) << bit
    return np.unique(values)
