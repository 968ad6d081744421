"""The table's Python face: every stored fingerprint within Hamming distance k, exactly.

    values, documents -> Table -> probe -> the documents of all values within k

The method is that of Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling"
(WWW 2007), section 3, with the block designs of native/src/design/design.h. A fingerprint is a Python int
in 0 .. 2**64 - 1, and so is a document; what a document is, its caller knows.

The rules kept here:
  - Batches go to the native core as they are and come back as numpy arrays; the GIL is released.
  - The native thread rule (native/include/ndd.h): many threads may probe a table at once, one may
    change it. Every method keeps it by itself, so a Table may be shared between threads: probes run
    side by side, and a large insert lets those that wait in after every INSERT_STEP pairs.
  - A saved table is either whole or not there: the file is replaced in one step. What is saved is
    copied under the lock and sorted after it is released.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, SupportsIndex

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.core.files import replace_file
from dedup.core.integers import max_distance, number
from dedup.core.matches import Answer, Answers, Found, Match, Matches, ProbedMany
from dedup.core.native import check, ffi, lib
from dedup.core.numbers import Array, Numbers, many, pointer
from dedup.core.read_write_lock import ReadWriteLock
from dedup.model.errors import UsageError

__all__ = ["Match", "Matches", "ProbedMany", "Table", "TableStats"]

PRESETS = {"auto": lib.NDD_AUTO, "compact": lib.NDD_COMPACT, "fast": lib.NDD_FAST}
INSERT_STEP = 1 << 14  # pairs, some milliseconds, after which a large insert lets probes in
LIST_STEP = 1 << 15  # values, about a millisecond, listed in one turn
NUMBERS_MOST = 1 << 31  # more values than any table has


class TableStats(msgspec.Struct, frozen=True):
    """What a table holds, and how it is searched.

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

    def __init__(self, k: int = 3, preset: str = "auto") -> None:
        """Make an empty table that finds values up to k bits away, k in 0 .. 15.

        preset is "compact", "fast" or "auto": what to save, memory or time; auto saves time while
        the table is small, and more and more memory as it grows. It never changes what is found.
        """
        handle = ffi.new("ndd_table **")
        check(lib.ndd_table_open_as(max_distance(k), _preset(preset), handle), f"k = {k}")
        self._adopt(handle[0], int(k), preset, 0)

    def _adopt(self, handle: Any, k: int, preset: str, note: int) -> None:
        self._handle = ffi.gc(handle, lib.ndd_table_close)
        self._k = k
        self._preset = preset
        self._note = note
        self._lock = ReadWriteLock()
        self._answers = Answers()

    @property
    def k(self) -> int:
        """The greatest distance found, in bits."""
        return self._k

    @property
    def preset(self) -> str:
        """What the table saves: "auto", "compact" or "fast"."""
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
        value, document = number(value, "value"), number(document, "document")
        values, documents = ffi.new("uint64_t[1]", (value,)), ffi.new("uint64_t[1]", (document,))
        return self._insert(values, documents, 1) == 1

    def insert_many(self, values: Numbers, documents: Numbers) -> int:
        """Store the pairs (values[i], documents[i]) and return how many of them are new.

        Both are batches of the same length, best uint64 arrays. Other threads' probes, and their
        changes, may come in between the pairs of a large batch. Raises MemoryError; then the first
        of the new pairs are stored, and the others are not.
        """
        value_array, document_array = many(values, "values"), many(documents, "documents")
        if len(value_array) != len(document_array):
            raise UsageError(
                f"{len(value_array)} values and {len(document_array)} documents were given; "
                "there must be one document for each value"
            )
        pointers = pointer(value_array), pointer(document_array)
        insert = self._insert if len(value_array) <= INSERT_STEP else self._insert_in_steps
        return insert(*pointers, len(value_array))

    def reserve(self, values: int) -> None:
        """Make room for `values` distinct values in one step: until then it does not grow."""
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

    def remove_many(self, values: Iterable[int], documents: Iterable[int]) -> None:
        """Remove the pairs (values[i], documents[i]) that are there; each in 0 .. 2**64 - 1."""
        removed = ffi.new("int *")
        with self._lock.writing:
            for value, document in zip(values, documents, strict=True):
                check(lib.ndd_table_remove(self._handle, value, document, removed), "removing")

    def probe(self, value: int, limit: int | None = None) -> Matches:
        """Return the documents of all values within k of a value, nearest first, then by document.

        At most `limit` of them (>= 1), the first ones; the list's `cut` tells
        whether there are more.
        """
        answer = self._answers.take()
        answer.query[0] = number(value, "value")
        self._probe(answer.query, 1, limit_number(limit), answer)
        return self._answers.matches(answer)

    def probe_many(self, values: Numbers, limit: int | None = None) -> ProbedMany:
        """Probe a batch of n values at once and return (offsets, documents, distances).

        offsets is uint64 of shape (n + 1,); documents (uint64) and distances (uint8) have one
        entry for each match. The matches of values[i] are those from offsets[i] up to
        offsets[i + 1], in the order of probe(), at most `limit` for each value. The tuple's `cut`,
        a bool array of shape (n,), tells for which there are more.
        """
        return self.find(many(values, "values"), limit_number(limit)).probed()

    def find(self, queries: Array, limit: int) -> Found:
        """Return what probe_many() does with the values that match, too; a limit of 0 is none."""
        answer = self._answers.take()
        self._probe(pointer(queries), len(queries), limit, answer)
        return self._answers.found(answer, len(queries))

    def _probe(self, queries: Any, count: int, limit: int, answer: Answer) -> None:
        with self._lock.reading:
            status = lib.ndd_table_probe(self._handle, queries, count, limit, answer.handle)
        if status != lib.NDD_OK:
            check(status, "probing a table")

    def has(self, values: Array, documents: Array) -> npt.NDArray[np.bool_]:
        """Return for each pair (values[i], documents[i]) whether it is there."""
        found = np.zeros(len(values), np.bool_)
        with self._lock.reading:
            lib.ndd_table_has(
                self._handle,
                pointer(values),
                pointer(documents),
                len(values),
                ffi.from_buffer("uint8_t[]", found, require_writable=True),
            )
        return found

    def pairs(self) -> tuple[Array, Array]:
        """Return all pairs, in no order, as arrays of values and of documents."""
        with self._lock.reading:
            return self._part(0, self._places())

    def _pairs_by_parts(self) -> tuple[Array, Array]:
        """Return the pairs that are there all the time, and maybe others; each turn is a short one.

        From the last place on: a removal moves the last value into the gap, an insert goes behind it.
        """
        parts: list[tuple[Array, Array]] = []
        end = NUMBERS_MOST
        while end:
            with self._lock.reading:
                end = min(end, self._places())
                begin = max(0, end - LIST_STEP)
                parts.append(self._part(begin, end))
            end = begin
        values, documents = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return values, documents

    def _places(self) -> int:
        stats = ffi.new("ndd_table_stats *")
        lib.ndd_table_stats_get(self._handle, stats)
        return int(stats.values)

    def _part(self, begin: int, end: int) -> tuple[Array, Array]:
        count = lib.ndd_table_list_part(self._handle, begin, end, ffi.NULL, ffi.NULL)
        values, documents = np.empty(count, np.uint64), np.empty(count, np.uint64)
        lib.ndd_table_list_part(self._handle, begin, end, pointer(values), pointer(documents))
        return values, documents

    def stats(self) -> TableStats:
        """Return what the table holds, and how it is searched."""
        stats = ffi.new("ndd_table_stats *")
        with self._lock.reading:
            lib.ndd_table_stats_get(self._handle, stats)
        return TableStats(
            stats.values, stats.documents, stats.bytes, stats.k, stats.blocks, stats.keys
        )

    def save(self, path: str | os.PathLike[str], note: int = 0) -> None:
        """Write the table to a file (docs/table-format.md), in one step.

        note is a number of the caller's, in 0 .. 2**64 - 1, that a loaded table has as its note.
        Raises OSError if the file cannot be written; then the file that was there before still is,
        and nothing else. When the call returns, the file is on disk.
        """
        replace_file(Path(path), self.saved(note))

    def saved(self, note: int = 0, *, by_parts: bool = False) -> memoryview:
        """Return the bytes that save() writes: the table as it is at one moment.

        Changes wait while its pairs are copied: some 20 ns for each. By parts they wait for a
        millisecond at a time; then a pair that comes or goes meanwhile may be in it or not, and only
        the others are as at one moment.
        """
        note = number(note, "note")
        values, documents = self._pairs_by_parts() if by_parts else self.pairs()
        pairs = pointer(values), pointer(documents)
        count, size = ffi.new("size_t *"), ffi.new("uint64_t *")
        check(lib.ndd_sort_pairs(*pairs, len(values), count), "saving a table")
        check(lib.ndd_pairs_saved_size(*pairs, count[0], size), "saving a table")
        content = np.empty(size[0], np.uint8)
        buffer = ffi.from_buffer("uint8_t[]", content, require_writable=True)
        check(lib.ndd_pairs_save(*pairs, count[0], note, buffer, len(content)), "saving a table")
        return content.data

    @classmethod
    def load(cls, path: str | os.PathLike[str], k: int = 3, preset: str = "auto") -> "Table":
        """Return the table saved in a file, for any k in 0 .. 15 and any preset.

        Raises StoreDamaged for a file that is cut, altered, of another format or a newer version;
        OSError (FileNotFoundError and the like) for one that cannot be read.
        """
        k, wanted = max_distance(k), _preset(preset)
        content = np.fromfile(path, dtype=np.uint8)
        handle, note, reason = ffi.new("ndd_table **"), ffi.new("uint64_t *"), ffi.new("char **")
        buffer = ffi.from_buffer("uint8_t[]", content)
        status = lib.ndd_table_load_as(buffer, len(content), k, wanted, handle, note, reason)
        if status != lib.NDD_OK:
            check(status, f"{os.fspath(path)}: {ffi.string(reason[0]).decode()}")
        table = cls.__new__(cls)
        table._adopt(handle[0], k, preset, int(note[0]))  # noqa: SLF001 - a table of this class
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
    if limit is None:
        return 0
    if not (integer := number(limit, "limit")):
        raise UsageError("limit is 0; it must be an int from 1 up, or None for every match")
    return integer
