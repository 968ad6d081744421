"""One segment: an immutable table in a file, memory-mapped, and searched where it is.

    pairs -> write_pairs -> file -> Segment -> Segments.probe, has, pairs_of

Invariants: a file is used only after every byte of it was read and every rule verified
(native/src/segment/segment.h); it is replaced atomically, and private to its owner.
"""

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from dedup.core.files import PRIVATE, allocate, replacing
from dedup.core.native import check, ffi, lib
from dedup.core.numbers import Packed, number, pointer, zeros
from dedup.core.table import KEPT, Answer, Matches, Table

IN_MEMORY = (
    1 << 23
)  # bytes of a batch or a file that is made in memory; larger ones are mapped files


class Segment:
    """The pairs (value, document) of a file. Immutable, so threads may share it.

    path    the file, which must not change while it is open; on Unix it may be deleted
    bytes   its size
    k       the greatest distance that it was made for, in bits
    handle  the native segment

    Raises StoreDamaged, naming the file, for one that is cut, altered, or of another format or version; OSError
    for one that cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        handle, reason = ffi.new("ndd_segment **"), ffi.new("char **")
        content = _mapped(path)
        self._content = ffi.from_buffer("uint8_t[]", content)
        status = lib.ndd_segment_open(self._content, len(content), handle, reason)
        if status != lib.NDD_OK:
            check(status, f"{path}: {ffi.string(reason[0]).decode()}")
        # From now on a page that memory lacks is read without its neighbours.
        if isinstance(content, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
            content.madvise(mmap.MADV_RANDOM)
        self.handle: Any = ffi.gc(handle[0], lib.ndd_segment_close)
        stats = ffi.new("ndd_segment_stats *")
        lib.ndd_segment_stats_get(self.handle, stats)
        self.k, self.bytes, self._documents = int(stats.k), len(content), int(stats.documents)

    def __len__(self) -> int:
        """Return the number of documents: pairs (value, document)."""
        return self._documents

    def has(self, values: Packed, documents: Packed) -> bytearray:
        """Return for each pair (values[i], documents[i]) 1 if it is there, else 0."""
        found = bytearray(len(values))
        flags = ffi.from_buffer("uint8_t[]", found, require_writable=True)
        lib.ndd_segment_has(self.handle, pointer(values), pointer(documents), len(values), flags)
        return found


class Segments:
    """Several segments, searched in one native call, with a table in memory if one is given. One thread at a time."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments  # keeps the handles alive
        self._handles = ffi.new("ndd_segment *[]", [segment.handle for segment in segments])
        self._count = len(segments)
        self._answer, self._found = Answer(), ffi.new("uint64_t *")
        self._query = ffi.new("uint64_t[1]")

    def probe(self, value: int, k: int, limit: int = 0, table: Table | None = None) -> Matches:
        """Return the matches within k of each place in turn, at most `limit` each unless that is 0."""
        self._query[0] = value
        places = self._fill(self._query, 1, k, limit, table)
        return (
            self._answer.single(places) if self._found[0] else Matches()
        )  # none, as of most values

    def probe_each(
        self, values: Packed, k: int, limit: int = 0, table: Table | None = None
    ) -> dict[int, Matches]:
        """Return what probe() does for each of some values that has matches, by its index."""
        places = self._fill(pointer(values), len(values), k, limit, table)
        return self._answer.each(len(values), places) if self._found[0] else {}

    def _fill(self, values: Any, count: int, k: int, limit: int, table: Table | None) -> int:
        """Probe `count` values, and return in how many places."""
        if self._found[0] > KEPT:
            self._answer = Answer()  # in less memory
        segments, answer = self._count, self._answer.handle
        handle = ffi.NULL if table is None else table.handle
        status = lib.ndd_segments_probe(
            self._handles, segments, handle, values, count, k, limit, answer, self._found
        )
        if status != lib.NDD_OK:
            check(status, f"probing {segments} segments")
        return segments + (table is not None)


# ------------------------------------------------------------------------------------------ writing


def room(folder: Path, words: int) -> "memoryview[int]":
    """Return that many 64-bit words to work with.

    Many are in a file without a name, in that folder, and mapped into memory: so they need no memory, where it is short.
    Raises OSError if the disk is full.
    """
    if 8 * words <= IN_MEMORY:
        return memoryview(zeros(words))
    from tempfile import TemporaryFile

    with TemporaryFile(dir=folder, prefix="segment-", suffix=".tmp") as file:
        allocate(file.fileno(), 8 * words)
        return memoryview(mmap.mmap(file.fileno(), 8 * words)).cast("Q")


def pairs_of(segments: Sequence[Segment]) -> tuple[Packed, Packed]:
    """Return all pairs of some segments, at least one, in no order: the values, and the document of each."""
    counts, folder, at = list(map(len, segments)), segments[0].path.parent, 0
    values, documents = room(folder, sum(counts)), room(folder, sum(counts))
    for segment, count in zip(segments, counts, strict=True):
        some = slice(at, at + count)
        lib.ndd_segment_list(segment.handle, pointer(values[some]), pointer(documents[some]))
        at += count
    return values, documents


def _mapped(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:  # which cannot be mapped, and is refused
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def write_pairs(path: Path, values: Packed, documents: Packed, k: int, note: int = 0) -> int:
    """Write the pairs (values[i], documents[i]) as a segment for distances up to k; return how many.

    A pair that is given twice is written once. k is in 0 .. 15, note in 0 .. 2**64 - 1. The batches are sorted on
    return. Takes no more than 16 MB of memory. Raises OSError when the file cannot be written; then there is none, or
    the one that was there before.
    """
    k, note = number(k, "k"), number(note, "note")
    subject, count, size = f"writing {path}", ffi.new("size_t *"), ffi.new("uint64_t *")
    pointers, scratch = (
        (pointer(values), pointer(documents)),
        room(path.parent, 2 * len(values) + 2),
    )
    check(lib.ndd_sort_pairs(*pointers, len(values), pointer(scratch), count), subject)
    check(lib.ndd_segment_size(*pointers, count[0], min(k, 1 << 31), size), subject)
    given = (*pointers, count[0], k, note, pointer(scratch))
    with replacing(path, PRIVATE) as file, _content(file, size[0]) as content:
        check(lib.ndd_segment_write(*given, content, size[0]), subject)
    return int(count[0])


@contextmanager
def _content(file: IO[bytes], size: int) -> Iterator[Any]:
    """Yield the bytes of an empty file as the native core takes them; they are in the file at the end."""
    if size <= IN_MEMORY:
        small = bytearray(size)
        yield ffi.from_buffer("uint8_t[]", small, require_writable=True)
        file.write(small)
        return
    allocate(file.fileno(), size)
    with mmap.mmap(file.fileno(), size) as large:
        with ffi.from_buffer("uint8_t[]", large, require_writable=True) as content:
            yield content
        large.flush()
