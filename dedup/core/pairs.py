"""All pairs of fingerprints within Hamming distance k, and the clusters that they connect.

    values -> sorted, each once -> block by block, a thread each -> pairs -> merged

This is the batch problem of Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling"
(WWW 2007), section 3.3, with one set on both sides; native/src/bulk/join.h tells how it is done here.
Everything is held in memory: `dedup scan --engine spark` is for more than that.

Invariant: a pair belongs to the first block in which it is equal, so blocks may be joined
in any order, at the same time or one at a time, and each pair is found once.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from dedup.core.native import check, cores, ffi, lib
from dedup.core.numbers import Array, Numbers, many, max_distance, number, pointer
from dedup.model.errors import UsageError

FEW = 100_000  # fewer are joined sooner than threads start
MASKS_MOST = 4096

_DOING = "finding all pairs"


def find_all(values: Numbers, k: int, *, threads: int | None = None) -> Array:
    """Return all pairs of values within Hamming distance k, as uint64 of shape (n, 2).

    Each row is a pair (a, b) with a < b, once, and the rows are sorted; a value that occurs more
    than once gives one row (x, x). values is a batch of fingerprints, k in 0 .. 15, threads how many
    to use (the cores of this process if not given); each takes 16 bytes a value while it works.
    Raises UsageError for what is no such batch, k or number, MemoryError.
    """
    numbers, k = many(values, "values"), max_distance(k)
    workers = cores() if threads is None else number(threads, "threads")
    if not workers:
        raise UsageError("threads is 0; it must be an int from 1 up, or None for every core")
    if workers == 1 or len(numbers) <= FEW:
        pairs = _open()
        check(lib.ndd_find_all(pointer(numbers), len(numbers), k, pairs), _DOING)
        return _taken(pairs)
    distinct, repeated = _distinct(numbers)
    masks = _masks(len(distinct), k)
    with ThreadPoolExecutor(workers, "dedup-pairs") as pool:
        parts = pool.map(lambda block: _part(distinct, k, masks, block), range(len(masks)))
        return _merge([repeated, *parts])


def find_clusters(values: Numbers, k: int) -> Array:
    """Return for each of n values the label of its cluster, as uint64 of shape (n,).

    The clusters are what the pairs of find_all() connect, so two members of one may lie further
    apart than k: a chain of near-duplicates is one cluster, however long. A label is the smallest
    index of a member: labels[i] == i exactly for the first of each cluster.
    """
    numbers, k = many(values, "values"), max_distance(k)
    labels = np.empty(len(numbers), dtype=np.uint64)
    status = lib.ndd_find_clusters(pointer(numbers), len(numbers), k, pointer(labels))
    check(status, "finding clusters")
    return labels


def memory_needed(values: int, *, clusters: bool = False) -> int:
    """Return about how many bytes it takes to find all pairs of so many values, or their clusters.

    Those of the values included, those of the pairs (32 each) left out. As measured, and a tenth more.
    """
    if clusters:
        return 50 * values
    return (20 + 17 * (1 if values <= FEW else cores())) * values


# --------------------------------------------------------------------------------------- in parts


def _part(distinct: Array, k: int, masks: Array, block: int) -> Array:
    """Return the pairs of distinct values that meet under masks[block] and under no mask before it.

    masks must be such that every pair within k is equal under one of them; none has all 64 bits.
    """
    pairs = _open()
    status = lib.ndd_find_part(
        pointer(distinct), len(distinct), k, pointer(masks), len(masks), block, pairs
    )
    check(status, _DOING)
    return _taken(pairs)


def _merge(runs: Sequence[Array]) -> Array:
    """Return the rows of sorted arrays of shape (n, 2) as one that is sorted too."""
    full = [np.ascontiguousarray(run) for run in runs if len(run)]
    if len(full) < 2:
        return full[0] if full else np.empty((0, 2), np.uint64)
    merged = np.empty((sum(map(len, full)), 2), np.uint64)
    buffers = [ffi.from_buffer("uint64_t[]", run) for run in full]
    counts = np.array([len(run) for run in full], np.uint64)
    target = ffi.from_buffer("uint64_t[]", merged, require_writable=True)
    run_list = ffi.new("uint64_t *[]", buffers)
    check(lib.ndd_merge_pairs(run_list, pointer(counts), len(full), target), _DOING)
    return merged


def _distinct(numbers: Array) -> tuple[Array, Array]:
    """Return the distinct values in order, and a pair (x, x) for each that is repeated."""
    values = numbers.copy()
    pairs, count = _open(), ffi.new("size_t *")
    buffer = ffi.from_buffer("uint64_t[]", values, require_writable=True)
    check(lib.ndd_distinct(buffer, len(values), pairs, count), _DOING)
    return values[: count[0]], _taken(pairs)


def _masks(values: int, k: int) -> Array:
    """Return the masks of the blocks in which this number of values is best joined, at least one."""
    masks = np.zeros(MASKS_MOST, np.uint64)
    count = ffi.new("uint32_t *")
    buffer = ffi.from_buffer("uint64_t[]", masks, require_writable=True)
    check(lib.ndd_pair_blocks(values, k, buffer, len(masks), count), _DOING)
    return masks[: max(1, count[0])]


def _open() -> Any:
    handle = ffi.new("ndd_pairs **")
    check(lib.ndd_pairs_open(handle), _DOING)
    return ffi.gc(handle[0], lib.ndd_pairs_close)


def _taken(pairs: Any) -> Array:
    found, count = ffi.new("uint64_t **"), ffi.new("uint64_t *")
    lib.ndd_pairs_get(pairs, found, count)
    taken = np.empty((count[0], 2), np.uint64)
    if len(taken):
        ffi.memmove(ffi.from_buffer(taken), found[0], taken.nbytes)
    return taken
