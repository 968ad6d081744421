"""One segment: an immutable table in a file, memory-mapped, and searched where it is.

    pairs -> write_segment -> file -> Segment -> probe, has, pairs

The rule kept here: a file is believed only after every byte of it was read and every rule verified
(native/src/segment/segment.h); and a segment is either whole or not there.
"""

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dedup.core.files import PRIVATE, replace_file
from dedup.core.integers import number
from dedup.core.matches import Answers, Found, Matches
from dedup.core.native import check, ffi, lib
from dedup.core.numbers import Array, Numbers, many, pointer
from dedup.model.errors import UsageError

__all__ = ["Segment", "Segments", "write_pairs", "write_segment"]

ROOM = 8  # documents of one value that are usual


class Segment:
    """The pairs (value, document) of a file, and the search for values within k bits.

    Immutable, so threads may share it. The file must stay as it is while this lives; on Unix it may
    be deleted. Raises StoreDamaged, naming the file, for one that is cut, altered, or of another
    format or version; OSError for one that cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        handle, reason = ffi.new("ndd_segment **"), ffi.new("char **")
        content = _mapped(self._path)
        self._content = ffi.from_buffer("uint8_t[]", content)
        status = lib.ndd_segment_open(self._content, len(content), handle, reason)
        if status != lib.NDD_OK:
            check(status, f"{self._path}: {ffi.string(reason[0]).decode()}")
        # From now on a page that memory lacks is read without its neighbours.
        if isinstance(content, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
            content.madvise(mmap.MADV_RANDOM)
        self._handle = ffi.gc(handle[0], lib.ndd_segment_close)
        self._stats: Any = ffi.new("ndd_segment_stats *")
        lib.ndd_segment_stats_get(self._handle, self._stats)
        self._answers = Answers()

    @property
    def handle(self) -> Any:
        """The native segment."""
        return self._handle

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def k(self) -> int:
        """The greatest distance that it was made for, in bits."""
        return int(self._stats.k)

    @property
    def note(self) -> int:
        """The number that it was written with."""
        return int(self._stats.note)

    @property
    def values(self) -> int:
        """How many distinct fingerprints it holds."""
        return int(self._stats.values)

    @property
    def bytes(self) -> int:
        """The size of the file."""
        return int(self._stats.bytes)

    @property
    def keys(self) -> int:
        """Buckets visited by a probe for its k."""
        return int(self._stats.keys)

    def __len__(self) -> int:
        """Return the number of documents: pairs (value, document)."""
        return int(self._stats.documents)

    def find(self, values: Numbers, k: int, limit: int = 0) -> Found:
        """Return the matches within k of each value; at most `limit` each, unless that is 0.

        Raises UsageError for a k beyond that of the segment.
        """
        queries, k = many(values, "values"), number(k, "k")
        if k > self.k:
            raise UsageError(f"k is {k}; {self._path} was made for distances up to {self.k}")
        answer, count = self._answers.take(), len(queries)
        status = lib.ndd_segment_probe(
            self._handle, pointer(queries), count, k, limit, answer.handle
        )
        check(status, f"probing {self._path}")
        return self._answers.found(answer, count)

    def has(self, values: Numbers, documents: Numbers) -> npt.NDArray[np.bool_]:
        """Return for each pair (values[i], documents[i]) whether it is there."""
        value_array, document_array = many(values, "values"), many(documents, "documents")
        if len(value_array) != len(document_array):
            raise UsageError("there must be one document for each value")
        found = np.zeros(len(value_array), np.bool_)
        lib.ndd_segment_has(
            self._handle,
            pointer(value_array),
            pointer(document_array),
            len(value_array),
            ffi.from_buffer("uint8_t[]", found, require_writable=True),
        )
        return found

    def pairs(self) -> tuple[Array, Array]:
        """Return all pairs, in no order, as arrays of values and of documents."""
        values, documents = np.empty(len(self), np.uint64), np.empty(len(self), np.uint64)
        lib.ndd_segment_list(self._handle, pointer(values), pointer(documents))
        return values, documents


class Segments:
    """Several segments, all searched for one value in one native call; for one thread at a time."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments  # which the handles belong to
        self._handles = ffi.new("ndd_segment *[]", [segment.handle for segment in segments])
        self._room = ffi.new("uint64_t[]", ROOM)
        self._answers = Answers()

    def documents(self, value: int) -> list[int]:
        """Return the documents of a value."""
        count = len(self._segments)
        held = lib.ndd_segments_documents(self._handles, count, value, self._room, len(self._room))
        if held > len(self._room):
            self._room = ffi.new("uint64_t[]", held)
            return self.documents(value)
        return list(self._room[0:held]) if held else []

    def probe(self, value: int, k: int, limit: int = 0) -> Matches:
        """Return the matches within k in each of them, at most `limit` unless that is 0, side by side."""
        count, answer = len(self._segments), self._answers.take()
        status = lib.ndd_segments_probe(self._handles, count, value, k, limit, answer.handle)
        if status != lib.NDD_OK:
            check(status, f"probing {count} segments")
        return self._answers.matches(answer, count)


def _mapped(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:  # which cannot be mapped, and is refused
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def write_segment(
    path: str | os.PathLike[str], values: Numbers, documents: Numbers, k: int = 3, note: int = 0
) -> int:
    """Write the pairs (values[i], documents[i]) as a segment for distances up to k; return how many.

    A pair that is given twice is written once. k is in 0 .. 15, note in 0 .. 2**64 - 1. Takes some
    55 bytes of memory a pair for a while. Raises OSError when the file cannot be written; then there
    is none, or the one that was there before.
    """
    value_array = many(values, "values").copy()
    document_array = many(documents, "documents").copy()
    if len(value_array) != len(document_array):
        raise UsageError("there must be one document for each value")
    return write_pairs(Path(path), value_array, document_array, k, note)


def write_pairs(path: Path, values: Array, documents: Array, k: int, note: int = 0) -> int:
    """Do what write_segment() does, and leave the arrays sorted: 39 bytes of memory a pair."""
    k, note = number(k, "k"), number(note, "note")
    subject, count, size = f"writing {path}", ffi.new("size_t *"), ffi.new("uint64_t *")
    pointers = pointer(values), pointer(documents)
    check(lib.ndd_sort_pairs(*pointers, len(values), count), subject)
    check(lib.ndd_segment_size(*pointers, count[0], min(k, 1 << 31), size), subject)
    content = np.empty(size[0], np.uint8)
    buffer = ffi.from_buffer("uint8_t[]", content, require_writable=True)
    check(lib.ndd_segment_write(*pointers, count[0], k, note, buffer, len(content)), subject)
    replace_file(path, content.data, PRIVATE)
    return int(count[0])
