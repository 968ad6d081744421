"""Batch search: many queries at once against a stream of fingerprints that never fits in memory.

    queries -> Queries (indexed once)
    array | file | arrays one after the other -> pieces of a stream
    stream -> pieces -> a thread each -> the matches of each piece, in the order of the stream

This is the batch problem of Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling"
(WWW 2007), section 3.3; native/src/bulk/batch.h tells how it is done here.

Invariants:
  - The result equals that of comparing every query with every fingerprint.
  - Memory is that of the queries and of a few pieces, however long the stream; pieces are read only
    as fast as their matches are taken.
  - A piece is read by the thread that calls its function, and not before; only arrays one after the other are
    read as pieces are requested.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.core.native import check, cores, ffi, lib
from dedup.core.numbers import Array, Numbers, many, max_distance, number, pointer
from dedup.model.errors import StoreDamaged, UsageError

Source = npt.NDArray[Any] | str | os.PathLike[str] | Iterable[npt.NDArray[Any]]
"""A stream: an array; the path of a file of little-endian uint64; or arrays one after the other."""

Piece = tuple[int, Callable[[], Array]]
"""A number of fingerprints, and the function that returns them."""

HIT = np.dtype([("query", "u8"), ("position", "u8"), ("distance", "u4"), ("reserved", "u4")])
"""A match: the index of the query, the position in the stream, and the distance in bits."""

FILTER_BYTES = 1 << 30
PIECE = 1 << 20  # fingerprints that a thread probes at once

Progress = Callable[[int, int], None]


class StreamMatches(msgspec.Struct, frozen=True):
    """The matches of one piece of a stream: positions first .. first + count - 1.

    hits is an array of dtype HIT, sorted by position, then distance, then query; stored are the
    fingerprints of the stream that they are of, uint64, one a hit.
    """

    first: int
    count: int
    hits: npt.NDArray[Any]
    stored: Array


class Queries:
    """Queries, indexed for streams of fingerprints. Any number of threads may use them at once."""

    def __init__(self, values: Numbers, k: int = 3, filter_bytes: int = FILTER_BYTES) -> None:
        """Index a batch of up to 2**31 - 1 fingerprints for distances up to k bits, k in 0 .. 15.

        Repeated queries are found each. filter_bytes is what the filter's bitmaps may take in memory
        (coarse copies of them, an eighth at most, come on top): 1 GiB is best for a million queries
        at k = 3. The table of the queries takes some 100 bytes each besides. Raises UsageError for
        what is no such batch, MemoryError.
        """
        queries = many(values, "values")
        k, filter_bytes = max_distance(k), number(filter_bytes, "filter_bytes")
        handle = ffi.new("ndd_queries **")
        status = lib.ndd_queries_open(pointer(queries), len(queries), k, filter_bytes, handle)
        check(status, "indexing queries")
        self._handle = ffi.gc(handle[0], lib.ndd_queries_close)
        self._hits: list[Any] = []  # handles that no thread uses at the moment

    def probe(self, values: Numbers, first: int = 0) -> npt.NDArray[Any]:
        """Return the matches of a batch of fingerprints, which stand at position `first` and on.

        The matches are an array of dtype HIT, sorted by position, then distance, then query.
        """
        return self._probe(many(values, "values"), number(first, "first"))

    def _probe(self, values: Array, first: int) -> npt.NDArray[Any]:
        try:
            hits = self._hits.pop()
        except IndexError:
            handle = ffi.new("ndd_hits **")
            check(lib.ndd_hits_open(handle), "probing a stream")
            hits = ffi.gc(handle[0], lib.ndd_hits_close)
        status = lib.ndd_queries_probe(self._handle, pointer(values), len(values), first, hits)
        check(status, "probing a stream")
        items, count = ffi.new("ndd_hit **"), ffi.new("uint64_t *")
        lib.ndd_hits_get(hits, items, count)
        found = np.empty(count[0], dtype=HIT)
        if len(found):
            ffi.memmove(ffi.from_buffer(found), items[0], found.nbytes)
        if len(found) <= PIECE:  # a longer one would keep its memory
            self._hits.append(hits)
        return found

    def probe_stream(
        self,
        source: Source,
        *,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[StreamMatches]:
        """Yield the matches of a stream of fingerprints, piece by piece, in its order.

        source     an array of integers; the path of a file of little-endian uint64; or an iterable of arrays
        threads    how many to use; the cores of this process if not given
        progress   called with (done, total) fingerprints after each piece; total is 0 if unknown

        Arrays are read while later ones are asked for, so they must not be changed.

        Raises UsageError for what is no stream, StoreDamaged for a file that ends within a fingerprint, and OSError.
        """
        workers = cores() if threads is None else number(threads, "threads")
        if not workers:
            raise UsageError("threads is 0; it must be an int from 1 up, or None for every core")
        pieces, total = pieces_of(source, PIECE)
        first = 0
        pool = ThreadPoolExecutor(workers, "dedup-batch")
        waiting: deque[Future[StreamMatches]] = deque()
        try:
            for piece in chain(pieces, (None,)):
                if piece is not None:
                    waiting.append(pool.submit(self._matches, first, piece[1]))
                    first += piece[0]
                while waiting and (piece is None or len(waiting) > workers):
                    matches = waiting.popleft().result()
                    yield matches
                    if progress:
                        progress(matches.first + matches.count, total)
        finally:
            for future in waiting:
                future.cancel()
            pool.shutdown()

    def _matches(self, first: int, load: Callable[[], Array]) -> StreamMatches:
        values = load()
        hits = self._probe(values, first)
        return StreamMatches(first, len(values), hits, values[hits["position"] - np.uint64(first)])


# ------------------------------------------------------------------------------ streams in pieces


def pieces_of(source: Source, most: int) -> tuple[Iterator[Piece], int]:
    """Return the pieces of a stream, each of up to `most` fingerprints, and its length or 0.

    Raises UsageError for what is no stream, StoreDamaged for a file that ends within a fingerprint, OSError.
    """
    if isinstance(source, (str, os.PathLike)):
        return _of_file(Path(source), most)
    if isinstance(source, np.ndarray):
        values = many(source, "source")
        return _of_arrays([values], most), len(values)
    return _of_arrays(source, most), 0


def _of_arrays(arrays: Iterable[npt.NDArray[Any]], most: int) -> Iterator[Piece]:
    for array in arrays:
        values = many(array, "source")
        for begin in range(0, len(values), most):
            part = values[begin : begin + most]
            yield len(part), partial(_same, part)


def _same(values: Array) -> Array:
    return values


def _of_file(path: Path, most: int) -> tuple[Iterator[Piece], int]:
    total, odd = divmod(path.stat().st_size, 8)
    if odd:
        raise StoreDamaged(
            f"{path}: size {path.stat().st_size} is not a multiple of 8: truncated, or not fingerprints"
        )
    counts = ((first, min(most, total - first)) for first in range(0, total, most))
    return ((count, partial(_read, path, first, count)) for first, count in counts), total


def _read(path: Path, first: int, count: int) -> Array:
    values = np.fromfile(path, dtype="<u8", count=count, offset=8 * first)
    if len(values) != count:
        raise StoreDamaged(f"{path}: truncated while it was read")
    return values.astype(np.uint64, copy=False)
