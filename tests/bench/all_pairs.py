"""All pairs: find_all beside the way of simhash-cpp, on the same fingerprints, results compared.

    fingerprints with planted pairs -> find_all, and 20 permuted and sorted copies -> the same pairs

Invariant: the reference is written from the paper's description, with numpy's sort and whole
arrays, so what it takes is sorting and comparing and not Python.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations, pairwise

import numpy as np
from runner import Bench, Progress, Round

from dedup.core.native import lib
from dedup.core.numbers import Array, bit_counts, pointer
from dedup.core.pairs import cores, find_all
from dedup.model.errors import DedupError

REFERENCE_MOST = 10_000_000  # more take minutes and several times the memory
WIDTH = 64
_PLANTED = 10  # one value in ten is a near-duplicate of another


@contextmanager
def open_case(
    values: int, distance: int, threads: int, progress: Progress | None = None
) -> Iterator[Bench]:
    """Find all pairs of a number of fingerprints, a tenth of them near-duplicates of others.

    Raises DedupError if the ways differ in what they find.
    """
    del progress
    threads = threads or cores()
    facts = {"values": values, "distance": distance}

    def measure() -> Round:
        made = _values(values, distance)
        rows, first = {}, None
        for number in dict.fromkeys((threads, 1)):
            found, seconds, cpu = _timed(made, distance, number)
            first = found if first is None else first
            _compare(first, found)
            rows[f"{number} threads" if number > 1 else "1 thread"] = {"s": seconds, "CPU s": cpu}
        assert first is not None
        if values <= REFERENCE_MOST:
            begin, used = time.perf_counter(), time.process_time()
            reference = permuted_pairs(made, distance)
            rows["the way of simhash-cpp"] = {
                "s": time.perf_counter() - begin,
                "CPU s": time.process_time() - used,
            }
            _compare(first, reference)
        facts["pairs"] = len(first)
        return rows

    yield Bench(facts, measure, packages=("numpy",))


def permuted_pairs(values: Array, k: int) -> Array:
    """Return what find_all() does, for values that are distinct, in the way of simhash-cpp.

    The bits are cut into k + 3 blocks, and for each choice of 3 to come first (20 of them for k = 3)
    the values are permuted and sorted; those whose chosen blocks are equal are compared.
    """
    blocks = k + 3
    found = [np.empty((0, 2), np.uint64)]
    starts = [WIDTH * i // blocks for i in range(blocks + 1)]
    masks = [(1 << high) - (1 << low) for low, high in pairwise(starts)]
    for chosen in combinations(range(blocks), blocks - k):
        order = [*chosen, *(i for i in range(blocks) if i not in chosen)]
        permuted, shift = np.zeros(len(values), np.uint64), WIDTH
        for i in order:
            shift -= starts[i + 1] - starts[i]
            permuted |= (values & np.uint64(masks[i])) >> np.uint64(starts[i]) << np.uint64(shift)
        permuted.sort()
        prefix = sum(starts[i + 1] - starts[i] for i in chosen)
        found.append(_unpermuted(_near(permuted, k, WIDTH - prefix), order, starts))
    return np.unique(np.sort(np.concatenate(found), axis=1), axis=0)


def _near(permuted: Array, k: int, rest_bits: int) -> Array:
    """Return the pairs within k of sorted values that are equal above their last rest_bits bits."""
    found, apart = [np.empty((0, 2), np.uint64)], 1
    places = np.arange(len(permuted) - 1)
    while len(places):
        difference = permuted[places] ^ permuted[places + apart]
        together = difference >> np.uint64(rest_bits) == 0
        places, difference = places[together], difference[together]
        near = places[bit_counts(difference) <= k]
        found.append(np.column_stack((permuted[near], permuted[near + apart])))
        apart += 1
        places = places[places + apart < len(permuted)]
    return np.concatenate(found)


def _unpermuted(pairs: Array, order: list[int], starts: list[int]) -> Array:
    values, shift = np.zeros_like(pairs), WIDTH
    for i in order:
        width = starts[i + 1] - starts[i]
        shift -= width
        values |= (pairs >> np.uint64(shift) & np.uint64((1 << width) - 1)) << np.uint64(starts[i])
    return values


def _values(count: int, k: int) -> Array:
    values = np.empty(count, np.uint64)
    lib.ndd_generate(3, 0, count, pointer(values))
    near = count // _PLANTED
    flips = values[near : 2 * near].copy()
    values[count - near :] = values[:near]
    for i in range(k):
        bit = flips >> np.uint64(6 * i) & np.uint64(WIDTH - 1)
        values[count - near :] ^= np.uint64(1) << bit
    return np.unique(values)


def _timed(values: Array, k: int, threads: int) -> tuple[Array, float, float]:
    begin, used = time.perf_counter(), time.process_time()
    found = find_all(values, k, threads=threads)
    return found, time.perf_counter() - begin, time.process_time() - used


def _compare(found: Array, other: Array) -> None:
    if not np.array_equal(found, other):
        raise DedupError("find_all found other pairs than the reference; please report this")
