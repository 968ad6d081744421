"""Table: every stored fingerprint within Hamming distance k of a probed one, exactly.

    values, documents -> Table -> probe -> the documents of all values within k

The method is that of Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling"
(WWW 2007), section 3, with the block designs of native/src/design/design.h. A fingerprint is a Python int
in 0 .. 2**64 - 1, and so is a document; the caller knows what a document is.

Invariants:
  - Batches go to the native core as they are and come back as numpy arrays; single probes and changes
    need no numpy. The GIL is released.
  - The native thread rule (native/include/ndd.h): many threads may probe a table at once, one may
    change it. Every method follows it, so a Table may be shared between threads: probes run in
    parallel, and a large insert admits waiting threads after every INSERT_STEP pairs.
  - A saved table is whole or absent: the file is replaced atomically. The pairs are copied under the
    lock and sorted after it is released.
  - A native answer is used by one thread at a time; that of a single probe is kept for the next one unless it is
    large. numpy is imported for a batch.
"""

import os
import threading
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

import msgspec

from dedup.core.files import replace_file
from dedup.core.native import check, ffi, lib
from dedup.core.numbers import (
    Array,
    Flags,
    Numbers,
    Packed,
    many,
    max_distance,
    number,
    packed,
    pointer,
    zeros,
)
from dedup.model.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    _Probed = tuple[Array, Array, npt.NDArray[np.uint8]]
else:
    _Probed = tuple

PRESETS = {"auto": lib.NDD_AUTO, "compact": lib.NDD_COMPACT}
INSERT_STEP = 1 << 14  # pairs, some milliseconds, after which a large insert admits other threads
_MATCH = Struct("=QQI4x")  # a native match
KEPT = 100_000  # matches of an answer whose memory is kept for the next probe

T = TypeVar("T")


# ------------------------------------------------------------------------------------------- answers


class Match(msgspec.Struct, frozen=True):
    """A stored document whose value lies within k of a probed one; the distance is in bits."""

    document: int
    value: int
    distance: int


class Nearest(list[tuple[T, int]]):
    """The neighbours of a value with distances, nearest first; cut is True when a limit left some out."""

    cut: bool = False


class Matches(list[Match]):
    """The matches of a probe; cut is True when a limit left others out."""

    cut: bool = False


class ProbedMany(_Probed):
    """The arrays (offsets, documents, distances) of a batch of probes (Table.probe_many).

    cut is a bool array with one entry for each probed value: True where a limit left matches out.
    """

    cut: Flags


class Answer:
    """A native answer, the addresses of its contents, and space for a single value to probe."""

    def __init__(self) -> None:
        handle = ffi.new("ndd_answer **")
        check(lib.ndd_answer_open(handle), "probing a table")
        self.handle = ffi.gc(handle[0], lib.ndd_answer_close)
        self.offsets, self.matches = ffi.new("uint64_t **"), ffi.new("ndd_match **")
        self.query = ffi.new("uint64_t[1]")

    def single(self, places: int = 1) -> Matches:
        """Return the matches of a single probe, in one place after the other; cut if a limit left others out of any."""
        lib.ndd_answer_get(self.handle, self.offsets, self.matches)
        count = self.offsets[0][places]
        if not count:
            return Matches()
        found = self.matches[0]
        matches = Matches(
            [Match(found[i].document, found[i].value, found[i].distance) for i in range(count)]
        )
        matches.cut = any(lib.ndd_answer_cut(self.handle)[0:places])
        return matches

    def each(self, count: int, places: int = 1) -> dict[int, Matches]:
        """Return the matches of each of `count` probes that has any, by its index, in one place after the other.

        The answer holds those of all probes in the first place, then in the next. cut is True of one that a
        limit left others out of, in any place.
        """
        lib.ndd_answer_get(self.handle, self.offsets, self.matches)
        held = self.offsets[0][count * places]
        found: dict[int, Matches] = {}
        if not held:
            return found
        queries = zeros(held)
        lib.ndd_answer_queries(self.handle, count * places, pointer(queries))
        matches = _MATCH.iter_unpack(ffi.buffer(self.matches[0], held * _MATCH.size))
        for query, (document, value, distance) in zip(queries, matches, strict=True):
            i = query % count
            if i not in found:
                found[i] = Matches()
            found[i].append(Match(document, value, distance))
        cut = bytes(ffi.buffer(lib.ndd_answer_cut(self.handle), count * places))
        query = cut.find(1)
        while query >= 0:
            found[query % count].cut = True
            query = cut.find(1, query + 1)
        return found

    def arrays(self, count: int) -> ProbedMany:
        """Return the matches of a batch of `count` probes."""
        lib.ndd_answer_get(self.handle, self.offsets, self.matches)
        offsets = as_array(self.offsets[0], count + 1, "u8").copy()
        matches = as_array(self.matches[0], int(offsets[-1]), match_dtype())
        documents, distances = matches["document"].copy(), matches["distance"].astype("u1")
        probed = ProbedMany((offsets, documents, distances))
        probed.cut = as_array(lib.ndd_answer_cut(self.handle), count, "?").copy()
        return probed


@cache
def match_dtype() -> "np.dtype[Any]":
    """Return the numpy dtype of a native match."""
    import numpy as np

    return np.dtype([("document", "u8"), ("value", "u8"), ("distance", "u4"), ("reserved", "u4")])


def as_array(memory: Any, count: int, dtype: "npt.DTypeLike") -> "npt.NDArray[Any]":
    """Return native memory as an array, without a copy."""
    import numpy as np

    kind = np.dtype(dtype)
    if count == 0:
        return np.empty(0, kind)
    return np.frombuffer(ffi.buffer(memory, count * kind.itemsize), kind)


# ------------------------------------------------------------------------------------------ the lock


class ReadWriteLock:
    """`with lock.reading:` for many threads at once, `with lock.writing:` for one alone.

    Whoever waits holds the gate, so that nobody who comes later goes in first.
    """

    def __init__(self) -> None:
        gate, inside = threading.Lock(), threading.Lock()
        self.reading, self.writing = _Reading(gate, inside), _Writing(gate, inside)


class _Reading:
    def __init__(self, gate: threading.Lock, inside: threading.Lock) -> None:
        self._gate, self._inside = gate, inside
        self._counting, self._readers = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._gate, self._counting:
            if not self._readers:
                self._inside.acquire()  # held by all readers together
            self._readers += 1

    def __exit__(self, *_: object) -> None:
        with self._counting:
            self._readers -= 1
            if not self._readers:
                self._inside.release()


class _Writing:
    def __init__(self, gate: threading.Lock, inside: threading.Lock) -> None:
        self._gate, self._inside = gate, inside

    def __enter__(self) -> None:
        with self._gate:
            self._inside.acquire()

    def __exit__(self, *_: object) -> None:
        self._inside.release()


class _Unlocked:
    """The lock of a table that its owner protects."""

    reading = writing = nullcontext()


# ----------------------------------------------------------------------------------------- the table


class TableStats(msgspec.Struct, frozen=True):
    """Contents and design of a table.

    values     distinct fingerprints
    documents  pairs of a fingerprint and a document
    bytes      memory held
    k          greatest distance found, in bits
    blocks     block tables searched by a probe; 0: a probe compares with every value
    keys       buckets visited by a probe
    """

    values: int
    documents: int
    bytes: int
    k: int
    blocks: int
    keys: int


class Table:
    """A set of pairs (value, document), and the search for values within Hamming distance k.

    Each distinct value is stored once, with all its documents. Methods may be called from several
    threads; probes run at the same time, changes one at a time.

    Raises UsageError, from any method, for an argument that is not what is stated.
    """

    _lock: "ReadWriteLock | _Unlocked"

    def __init__(self, k: int = 3, preset: str = "auto", *, locked: bool = True) -> None:
        """Make an empty table that finds values up to k bits away, k in 0 .. 15.

        preset is "compact" (less memory) or "auto": fast while the table is small, more and more
        compact as it grows. It never changes what is found. locked is False
        where a lock of the caller's protects the table: a probe takes less time.
        """
        handle = ffi.new("ndd_table **")
        check(lib.ndd_table_open(max_distance(k), _preset(preset), handle), f"k = {k}")
        self.handle = self._handle = ffi.gc(handle[0], lib.ndd_table_close)  # the native table
        self._k, self._preset, self._note = int(k), preset, 0
        self._lock = ReadWriteLock() if locked else _Unlocked()
        self._idle: list[Answer] = []  # that no thread uses at the moment
        self._pair = ffi.new("uint64_t[3]")  # one to be inserted, and how many were

    @property
    def k(self) -> int:
        """The greatest distance found, in bits."""
        return self._k

    @property
    def preset(self) -> str:
        """The preset: "auto" or "compact"."""
        return self._preset

    @property
    def note(self) -> int:
        """The number that save() was given when the table was saved; 0 for a new one."""
        return self._note

    def __len__(self) -> int:
        """Return the number of documents: pairs (value, document)."""
        return self.stats().documents

    def insert(self, value: int, document: int) -> bool:
        """Store a pair; return whether it is new. Raises MemoryError, then nothing has changed."""
        if type(value) is not int or type(document) is not int:
            value, document = number(value, "value"), number(document, "document")
        pair = self._pair
        with self._lock.writing:
            try:
                pair[0], pair[1] = value, document
            except OverflowError:  # raise the error that names it
                number(value, "value")
                number(document, "document")
                raise
            status = lib.ndd_table_insert(self._handle, pair, pair + 1, 1, pair + 2)
            inserted = bool(pair[2])
        if status != lib.NDD_OK:
            check(status, "inserting into a table")
        return inserted

    def insert_many(self, values: Numbers, documents: Numbers) -> int:
        """Store the pairs (values[i], documents[i]) and return how many of them are new.

        Both are batches of the same length, best uint64 arrays. Other threads' probes, and their
        changes, may come in between the pairs of a large batch. Raises MemoryError; then the first
        of the new pairs are stored, and the others are not.
        """
        value_words, document_words = packed(values, "values"), packed(documents, "documents")
        count = len(value_words)
        if count != len(document_words):
            raise UsageError(
                f"{count} values and {len(document_words)} documents were given; "
                "there must be one document for each value"
            )
        insert = self._insert if count <= INSERT_STEP else self._insert_in_steps
        return insert(pointer(value_words), pointer(document_words), count)

    def reserve(self, values: int) -> None:
        """Allocate for `values` distinct values now: until then the table does not grow."""
        with self._lock.writing:
            check(lib.ndd_table_reserve(self._handle, number(values, "values")), "reserving room")

    def _insert_in_steps(self, values: Any, documents: Any, count: int) -> int:
        with self._lock.writing:
            lib.ndd_table_expect(self._handle, values, count)
        steps = range(0, count, INSERT_STEP)
        return sum(
            self._insert(values + start, documents + start, min(INSERT_STEP, count - start))
            for start in steps
        )

    def _insert(self, values: Any, documents: Any, count: int) -> int:
        inserted = ffi.new("uint64_t *")
        with self._lock.writing:
            status = lib.ndd_table_insert(self._handle, values, documents, count, inserted)
        if status != lib.NDD_OK:
            check(status, "inserting into a table")
        return int(inserted[0])

    def remove(self, value: int, document: int) -> bool:
        """Remove a pair; return whether it was there. Raises MemoryError, then nothing has changed."""
        value, document = number(value, "value"), number(document, "document")
        removed = ffi.new("int *")
        with self._lock.writing:
            status = lib.ndd_table_remove(self._handle, value, document, removed)
        check(status, "removing from a table")
        return bool(removed[0])

    def remove_many(self, values: Numbers, documents: Numbers) -> int:
        """Remove the pairs (values[i], documents[i]) that are there; return how many were.

        Raises MemoryError; then the first ones are removed.
        """
        removed, count = ffi.new("int *"), 0
        with self._lock.writing:
            for value, document in zip(
                packed(values, "values").tolist(),
                packed(documents, "documents").tolist(),
                strict=True,
            ):
                check(lib.ndd_table_remove(self._handle, value, document, removed), "removing")
                count += removed[0]
        return count

    def probe(self, value: int, limit: int | None = None) -> Matches:
        """Return the documents of all values within k of a value, nearest first, then by document.

        At most `limit` of them (>= 1), the first ones; the list's `cut` is True when it left others
        out.
        """
        most = 0 if limit is None else limit_number(limit)
        if type(value) is not int or not 0 <= value < 1 << 64:
            value = number(value, "value")
        try:
            answer = self._idle.pop()
        except IndexError:  # another thread may have taken the last one
            answer = Answer()
        query = answer.query
        query[0] = value
        with self._lock.reading:
            status = lib.ndd_table_probe(self._handle, query, 1, most, answer.handle)
        if status != lib.NDD_OK:
            check(status, "probing a table")
        matches = answer.single()
        if len(matches) <= KEPT:
            self._idle.append(answer)
        return matches

    def probe_many(self, values: Numbers, limit: int | None = None) -> ProbedMany:
        """Probe a batch of n values at once and return (offsets, documents, distances).

        offsets is uint64 of shape (n + 1,); documents (uint64) and distances (uint8) have one
        entry for each match. The matches of values[i] are those from offsets[i] up to
        offsets[i + 1], in the order of probe(), at most `limit` for each value. The tuple's `cut`,
        a bool array of shape (n,), is True where a limit left others out.
        """
        queries, most = many(values, "values"), limit_number(limit)
        return self._probed(queries, most).arrays(len(queries))

    def probe_each(self, values: Packed, limit: int = 0) -> dict[int, Matches]:
        """Return what probe() does for each of some values that has matches, by its index; a limit of 0 is none."""
        return self._probed(values, limit).each(len(values))

    def _probed(self, values: Packed, limit: int) -> Answer:
        """Return a native answer that holds the matches of some values; a limit of 0 is none."""
        answer, handle = Answer(), self._handle
        with self._lock.reading:
            status = lib.ndd_table_probe(handle, pointer(values), len(values), limit, answer.handle)
        check(status, "probing a table")
        return answer

    def has(self, values: Packed, documents: Packed) -> bytearray:
        """Return for each pair (values[i], documents[i]) 1 if it is there, else 0."""
        found = bytearray(len(values))
        with self._lock.reading:
            lib.ndd_table_has(
                self._handle,
                pointer(values),
                pointer(documents),
                len(values),
                ffi.from_buffer("uint8_t[]", found, require_writable=True),
            )
        return found

    def pairs(self) -> tuple[Packed, Packed]:
        """Return all pairs, in no order: the values, and the document of each."""
        with self._lock.reading:
            count = self._stats().documents
            values, documents = zeros(count), zeros(count)
            lib.ndd_table_list(self._handle, pointer(values), pointer(documents))
        return values, documents

    def _stats(self) -> Any:
        stats = ffi.new("ndd_table_stats *")
        lib.ndd_table_stats_get(self._handle, stats)
        return stats

    def stats(self) -> TableStats:
        """Return the table's contents and design."""
        with self._lock.reading:
            stats = self._stats()
        return TableStats(
            stats.values, stats.documents, stats.bytes, stats.k, stats.blocks, stats.keys
        )

    def save(self, path: str | os.PathLike[str], note: int = 0) -> None:
        """Write the table to a file atomically; on return it is on disk.

        The file is a segment for k = 0 (native/src/segment/segment_format.h has the format).
        note is a number of the caller's, in 0 .. 2**64 - 1, that a loaded table has as its note.
        Raises OSError if the file cannot be written; then the former file is still there.
        """
        replace_file(Path(path), self.saved(note))

    def saved(self, note: int = 0) -> bytearray:
        """Return the bytes that save() writes. Changes wait while the pairs are copied: 20 ns each."""
        note = number(note, "note")
        values, documents = self.pairs()
        pairs = pointer(values), pointer(documents)
        count, size = ffi.new("size_t *"), ffi.new("uint64_t *")
        check(lib.ndd_sort_pairs(*pairs, len(values), ffi.NULL, count), "saving a table")
        given = (*pairs, count[0], 0)
        check(lib.ndd_segment_size(*given, size), "saving a table")
        content = bytearray(size[0])
        buffer = ffi.from_buffer("uint8_t[]", content, require_writable=True)
        status = lib.ndd_segment_write(*given, note, ffi.NULL, buffer, len(content))
        check(status, "saving a table")
        return content

    @classmethod
    def load(cls, path: str | os.PathLike[str], k: int = 3, preset: str = "auto") -> "Table":
        """Return the table saved in a file, for any k in 0 .. 15 and any preset.

        Raises StoreDamaged for a file that is cut, altered, of another format or a newer version;
        OSError (FileNotFoundError and the like) for one that cannot be read.
        """
        table = cls(k, preset)
        content = bytearray(Path(path).read_bytes())  # which begins where the native core wants it
        handle, reason = ffi.new("ndd_segment **"), ffi.new("char **")
        buffer = ffi.from_buffer("uint8_t[]", content)
        status = lib.ndd_segment_open(buffer, len(content), handle, reason)
        if status != lib.NDD_OK:
            check(status, f"{os.fspath(path)}: {ffi.string(reason[0]).decode()}")
        segment, stats = ffi.gc(handle[0], lib.ndd_segment_close), ffi.new("ndd_segment_stats *")
        lib.ndd_segment_stats_get(segment, stats)
        values, documents = zeros(stats.documents), zeros(stats.documents)
        lib.ndd_segment_list(segment, pointer(values), pointer(documents))
        table.insert_many(values, documents)
        table._note = int(stats.note)
        return table


# ------------------------------------------------------------------------------------ arguments


def _preset(preset: str) -> Any:
    """Return a preset as the native core takes it."""
    try:
        return PRESETS[preset]
    except (KeyError, TypeError):
        names = ", ".join(PRESETS)
        raise UsageError(f"preset is {preset!r}; it must be one of {names}") from None


def limit_number(limit: SupportsIndex | None) -> int:
    """Return a limit as the native core takes it, where 0 is none."""
    if type(limit) is int and 0 < limit < 1 << 64:
        return limit
    if limit is None:
        return 0
    if not (integer := number(limit, "limit")):
        raise UsageError("limit is 0; it must be an int from 1 up, or None for every match")
    return integer
