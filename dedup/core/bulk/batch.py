"""Batch search: many queries at once against a stream of fingerprints that never fits in memory.

    queries -> Queries (indexed once)
    array | file | arrays one after the other | function of a position -> pieces of a stream
    stream -> pieces -> a thread each -> the matches of each piece, in the order of the stream

This is the batch problem of Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling"
(WWW 2007), section 3.3; native/src/bulk/batch.h tells how it is done here.

Invariants:
  - The result equals that of comparing every query with every fingerprint.
  - Memory is that of the queries and of a few pieces, however long the stream; pieces are read only
    as fast as their matches are taken.
  - A piece is read by the thread that calls its function, and not before; only arrays one after the other are
    read as pieces are requested.
  - A checkpoint counts only fingerprints whose matches were taken. It is replaced atomically.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.core.files import checksum, read_checked, write_checked
from dedup.core.native import check, cores, ffi, lib
from dedup.core.numbers import Array, Numbers, many, max_distance, number, pointer
from dedup.model.errors import StoreDamaged, UsageError

Source = (
    npt.NDArray[Any]
    | str
    | os.PathLike[str]
    | Iterable[npt.NDArray[Any]]
    | Callable[[int], Iterable[npt.NDArray[Any]]]
)
"""A stream: an array; the path of a file of little-endian uint64; arrays one after the other; or a
function that returns those from a position on."""

Piece = tuple[int, Callable[[], Array]]
"""A number of fingerprints, and the function that returns them."""

HIT = np.dtype([("query", "u8"), ("position", "u8"), ("distance", "u4"), ("reserved", "u4")])
"""A match: the index of the query, the position in the stream, and the distance in bits."""

FILTER_BYTES = 1 << 30
PIECE = 1 << 20  # fingerprints that a thread probes at once
REMEMBER_SECONDS = 1.0  # between two checkpoints
CHECKPOINT = 2  # the version of a checkpoint: a checked file of dedup.core.files; 1 had no checksum

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


class QueriesStats(msgspec.Struct, frozen=True):
    """How queries are searched.

    queries      how many there are
    bytes        memory held
    passing      share of a uniform stream that passes the filter by chance; 1: there is no filter
    k            greatest distance found, in bits
    filter_bits  bits of a key of the filter; 0: there is no filter
    """

    queries: int
    bytes: int
    passing: float
    k: int
    filter_bits: int


def records(matches: StreamMatches) -> bytes:
    """Return the hits of a piece as little-endian records of dtype HIT."""
    return matches.hits.astype(HIT.newbyteorder("<"), copy=False).tobytes()


class _Checkpoint(msgspec.Struct, frozen=True):
    """How far a stream is done, and for which queries; written is what record() has written."""

    format: int
    queries: int
    k: int
    checksum: str
    done: Annotated[int, msgspec.Meta(ge=0)]
    written: Annotated[int, msgspec.Meta(ge=0)]


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
        self._identity: dict[str, Any] = {
            "queries": len(queries),
            "k": k,
            "checksum": checksum(queries.astype("<u8", copy=False).tobytes()).hex(),
        }
        self._hits: list[Any] = []  # handles that no thread uses at the moment

    def stats(self) -> QueriesStats:
        """Return how the queries are searched."""
        stats = ffi.new("ndd_queries_stats *")
        lib.ndd_queries_stats_get(self._handle, stats)
        return QueriesStats(stats.queries, stats.bytes, stats.passing, stats.k, stats.filter_bits)

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
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Iterator[StreamMatches]:
        """Yield the matches of a stream of fingerprints, piece by piece, in its order.

        source     an array of integers; the path of a file of little-endian uint64; an iterable of
                   arrays; or a function that takes a position and returns such an iterable of the
                   fingerprints from there on
        threads    how many to use; the cores of this process if not given
        progress   called with (done, total) fingerprints after each piece; total is 0 if unknown
        checkpoint a file that remembers how far the stream is done, written every second and at the
                   end. Given again the stream resumes there: what was yielded in the last second
                   before a kill is yielded again. record() makes a file with every match once.

        Arrays are read while later ones are asked for, so they must not be changed.

        Raises UsageError for a checkpoint of other queries or a longer stream, StoreDamaged for one
        that is none, or for a file that ends within a fingerprint, and OSError.
        """
        path = None if checkpoint is None else Path(checkpoint)
        return self._stream(source, threads, progress, path, None)

    def record(
        self,
        source: Source,
        output: str | os.PathLike[str],
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
        form: Callable[[StreamMatches], bytes] = records,
    ) -> int:
        """Write the matches of a stream to a file; return how many bytes it has.

        form says what is written for the matches of a piece. As it stands that is a record for each,
        little-endian, 24 bytes, and np.fromfile(output, dtype=HIT) reads them. With a checkpoint a run that was ended in any way goes on where it was, and the file then
        holds every match once; without one it starts over. See probe_stream() for the rest.
        """
        path = None if checkpoint is None else Path(checkpoint)
        resumed = path is not None and path.exists()
        fd = os.open(output, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        with open(fd, "r+b") as file:  # noqa: PTH123 - a descriptor
            if not resumed:
                file.truncate(0)
            file.writelines(
                form(matches) for matches in self._stream(source, threads, progress, path, file)
            )
            return file.tell()

    def _matches(self, first: int, load: Callable[[], Array]) -> StreamMatches:
        values = load()
        hits = self._probe(values, first)
        return StreamMatches(first, len(values), hits, values[hits["position"] - np.uint64(first)])

    def _stream(
        self,
        source: Source,
        threads: int | None,
        progress: Progress | None,
        path: Path | None,
        output: IO[bytes] | None,
    ) -> Iterator[StreamMatches]:
        workers = cores() if threads is None else number(threads, "threads")
        if not workers:
            raise UsageError("threads is 0; it must be an int from 1 up, or None for every core")
        done = self._resume(path, output)
        pieces, total = pieces_of(source, PIECE, done)
        first = done
        pool = ThreadPoolExecutor(workers, "dedup-batch")
        waiting: deque[Future[StreamMatches]] = deque()
        remembered = time.monotonic()
        try:
            for piece in chain(pieces, (None,)):
                if piece is not None:
                    waiting.append(pool.submit(self._matches, first, piece[1]))
                    first += piece[0]
                while waiting and (piece is None or len(waiting) > workers):
                    matches = waiting.popleft().result()
                    yield matches
                    done = matches.first + matches.count
                    if path is not None and time.monotonic() - remembered >= REMEMBER_SECONDS:
                        self._remember(path, output, done)
                        remembered = time.monotonic()
                    if progress:
                        progress(done, total)
            if path is not None:
                self._remember(path, output, done)
        finally:
            for future in waiting:
                future.cancel()
            pool.shutdown()

    def _resume(self, path: Path | None, output: IO[bytes] | None) -> int:
        """Return how many fingerprints are done, and cut an output to what belongs to them."""
        found = None if path is None else read_checked(path, _Checkpoint, "remove it to start over")
        if found is None:
            return 0
        wanted = _Checkpoint(CHECKPOINT, **self._identity, done=found.done, written=found.written)
        if found != wanted:
            raise UsageError(
                f"{path}: a checkpoint of other queries or another version; remove it to start over"
            )
        if output is not None:
            if output.seek(0, os.SEEK_END) < found.written:
                raise UsageError(
                    f"{path}: the output is shorter than this checkpoint has it; remove both"
                )
            output.truncate(found.written)
            output.seek(found.written)
        return found.done

    def _remember(self, path: Path, output: IO[bytes] | None, done: int) -> None:
        written = 0
        if output is not None:
            output.flush()
            os.fsync(output.fileno())
            written = output.tell()
        checkpoint = _Checkpoint(CHECKPOINT, **self._identity, done=done, written=written)
        write_checked(path, checkpoint, 0o666)


# ------------------------------------------------------------------------------ streams in pieces


def pieces_of(source: Source, most: int, done: int = 0) -> tuple[Iterator[Piece], int]:
    """Return the pieces of a stream after its first `done` fingerprints, and its length or 0.

    Each has up to `most`. Raises UsageError for a stream that has less than `done` and for a file of
    compressed fingerprints, StoreDamaged for a file that ends within a fingerprint, OSError.
    """
    if isinstance(source, (str, os.PathLike)):
        return _of_file(Path(source), most, done)
    if isinstance(source, np.ndarray):
        values = many(source, "source")
        _check(done, len(values))
        return _of_arrays([values[done:]], most), len(values)
    if callable(source):
        return _of_arrays(source(done), most), 0
    return _of_arrays(_after(source, done), most), 0


def _check(done: int, total: int) -> None:
    if done > total:
        raise UsageError(
            f"the checkpoint has {done:,} fingerprints done and the stream has only {total:,}; "
            "it is another stream, or was truncated"
        )


def _after(arrays: Iterable[npt.NDArray[Any]], done: int) -> Iterator[npt.NDArray[Any]]:
    left = done
    for array in arrays:
        if left < len(array):
            yield array[left:]
        left = max(0, left - len(array))
    _check(done, done - left)


def _of_arrays(arrays: Iterable[npt.NDArray[Any]], most: int) -> Iterator[Piece]:
    for array in arrays:
        values = many(array, "source")
        for begin in range(0, len(values), most):
            part = values[begin : begin + most]
            yield len(part), partial(_same, part)


def _same(values: Array) -> Array:
    return values


def _of_file(path: Path, most: int, done: int) -> tuple[Iterator[Piece], int]:
    total, odd = divmod(path.stat().st_size, 8)
    if odd:
        raise StoreDamaged(
            f"{path}: size {path.stat().st_size} is not a multiple of 8: truncated, or not fingerprints"
        )
    _check(done, total)
    counts = ((first, min(most, total - first)) for first in range(done, total, most))
    return ((count, partial(_read, path, first, count)) for first, count in counts), total


def _read(path: Path, first: int, count: int) -> Array:
    values = np.fromfile(path, dtype="<u8", count=count, offset=8 * first)
    if len(values) != count:
        raise StoreDamaged(f"{path}: truncated while it was read")
    return values.astype(np.uint64, copy=False)
