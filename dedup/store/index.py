"""The index of a store: finds documents by fingerprint (within k) and by key.

    documents.mdb -> values/ (value, id) and keys/ (key digest, id): in memory, and as segments on disk

Invariants: the documents are the truth. The index on disk covers the documents with id < note; those
behind it, the tail, are read at opening, and removals since then are applied once more. An index that is
missing, damaged, of another version or older than the documents say is named in the log and rebuilt from
the documents.

A kill between two steps of writing leaves tables with different notes, all of which are right: each reads
its own tail. Removals are forgotten only when both tables that know them are on disk.
"""

import errno
import logging
import shutil
import threading
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import and_
from pathlib import Path
from typing import Any

from dedup.core.table import Table
from dedup.model.errors import StoreDamaged
from dedup.model.page import Document
from dedup.store.documents import Documents, Removal, key_digest
from dedup.store.segmented_table import MERGED_MOST, SegmentedTable

VALUES, KEYS = "values", "keys"

BATCH = 65_536  # documents read at once
MEMORY_FIRST = (
    50_000  # documents in memory that start a write: a table this small grows without a pause
)
MEMORY_FULL = 100_000  # the same once a table was allocated for them, so that it never grows
MEMORY_REBUILD = 2_000_000  # the same while an index is rebuilt: few files, which all are open
SINGLE_LOOKUPS = 8  # keys that are looked up one by one
MERGED_AT_ONCE = 1 << 18  # documents of a segment that is merged while it is written
REMOVALS_BATCH = 1000  # removals that are forgotten in one transaction, while the store waits
SAMPLE = 64  # documents looked up at opening: an index of another store has none of them
TAIL_AT_OPEN = 10_000  # documents read at opening that are worth writing

# Of an index file: missing, in place of a folder or the other way round, on a bad sector.
_DAMAGE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO))

RLock = Any  # threading.RLock(), which is no type

log = logging.getLogger(__name__)


class Index:
    """The index of an open store. Every method but write() is called with the store's lock held.

    k          the greatest distance that documents are found at, in bits
    documents  of the store
    values     value -> document ids
    keys       key digest -> document ids
    """

    def __init__(
        self,
        folder: Path,
        documents: Documents,
        k: int,
        lock: RLock,
        *,
        read_only: bool = False,
    ) -> None:
        """Open the index of a store for distances up to k, and apply the changes since it was written.

        lock is the store's. read_only changes nothing on disk, and raises IndexUnusable where the index
        would be rebuilt. Raises StoreDamaged if a document is not readable.
        """
        self._folder, self._lock = folder, lock
        self.documents = documents
        self._read_only = read_only
        self._idle = threading.Condition(lock)  # waiting for it lets others use the store
        self._busy = self._ended = False
        self._due = MEMORY_FIRST
        self._covered = 0  # the id up to which the tables were frozen last
        self._frozen = array("Q")  # removed documents whose removals those tables know
        self._removals = array("Q")  # documents removed since
        self.k = k
        try:
            self._open()
        except IndexUnusable as error:
            if read_only:
                raise
            log.warning("%s; rebuilding the index from the documents", error)
            for name in (VALUES, KEYS):
                shutil.rmtree(folder / name, ignore_errors=True)
            documents.index_written(0, [])
            self._removals = array("Q")
            self._open()
        if not read_only and self.values.unwritten >= TAIL_AT_OPEN:
            self._freeze(documents.state.next)
            self._start()

    def _open(self) -> None:
        """Open both tables, and read the tail. Raises IndexUnusable, and StoreDamaged."""
        for name in (VALUES, KEYS):
            if self.documents.state.indexed and not (self._folder / name).exists():
                raise IndexUnusable(f"{self._folder / name} is missing")
        self.values = self._table(VALUES, self.k)
        self.keys = self._table(KEYS, 0)
        removed = self.documents.removed()
        if removed:
            self.remove(removed)
        first, fits = min(self.values.note, self.keys.note), True
        while tail := self.documents.tail(first, BATCH):
            first = tail[-1][0] + 1
            ids, values, digests = _columns(tail)
            for table, numbers in ((self.values, values), (self.keys, digests)):
                begin = bisect_left(ids, table.note)
                table.append(numbers[begin:], ids[begin:])
            if fits and self.values.unwritten >= MEMORY_REBUILD and not self._read_only:
                self._freeze(first)
                fits = self._work(merged_most=0)
        for table, name in ((self.values, VALUES), (self.keys, KEYS)):
            if len(table) != len(self.documents):
                raise IndexUnusable(
                    f"{self._folder / name} holds {len(table)} documents, expected "
                    f"{len(self.documents)}"
                )
        some = self.documents.sample(SAMPLE)
        if some and (lost := self.missing(some)):
            raise IndexUnusable(
                f"{self._folder / VALUES} or {self._folder / KEYS} is another store's: it lacks document "
                f"{lost[0]}"
            )

    def _table(self, name: str, k: int) -> SegmentedTable:
        path = self._folder / name
        try:
            table = SegmentedTable(path, k, self._lock, read_only=self._read_only)
        except (StoreDamaged, OSError) as error:
            # Out of descriptors or memory, or without permission: the files may be sound.
            if isinstance(error, OSError) and error.errno not in _DAMAGE:
                raise
            raise IndexUnusable(f"{path} is not readable ({error})") from error
        if not self.documents.state.indexed <= table.note <= self.documents.state.next:
            raise IndexUnusable(
                f"{path} does not match documents.mdb (restored from another copy?)"
            )
        return table

    # ------------------------------------------------------------------------------------ contents

    @property
    def memory_bytes(self) -> int:
        """The memory held, without mapped files."""
        return self.values.stats().memory_bytes + self.keys.stats().memory_bytes

    @property
    def file_bytes(self) -> int:
        """The size of its files."""
        return self.values.stats().file_bytes + self.keys.stats().file_bytes

    @property
    def covered(self) -> int:
        """How many documents its files cover."""
        return self.values.written

    def append(self, first: int, documents: Sequence[Document], digests: Sequence[int]) -> None:
        """Add documents, whose ids are first, first + 1, and so on, and the digests of their keys."""
        if self.values.unwritten >= self._due or len(self._removals) >= MEMORY_FULL:
            self._freeze(first)
            self._start()
        if len(documents) == 1:
            self.values.append_one(documents[0].page.value, first)
            self.keys.append_one(digests[0], first)
        elif documents:
            ids = array("Q", range(first, first + len(documents)))
            self.values.append(array("Q", [document.page.value for document in documents]), ids)
            self.keys.append(array("Q", digests), ids)

    def remove(self, removed: Sequence[Removal]) -> None:
        """Remove documents that were removed from documents.mdb."""
        ids, values, digests = _columns(removed)
        self.values.remove(values, ids)
        self.keys.remove(digests, ids)
        self._removals += ids

    def missing(self, documents: Sequence[Removal]) -> list[int]:
        """Return the ids of those documents that one of the tables does not have."""
        ids, values, digests = _columns(documents)
        there = map(and_, self.values.has(values, ids), self.keys.has(digests, ids))
        return [document_id for document_id, found in zip(ids, there, strict=True) if not found]

    def find(self, key: str, digest: int | None = None) -> tuple[int, Document] | None:
        """Return the document with a key, whose digest may be known, and its id. Raises StoreDamaged."""
        for match in self.keys.probe(key_digest(key) if digest is None else digest):
            (document,) = self.documents.read([match.document])
            if document.key == key:
                return match.document, document
        return None

    def find_many(self, digests: Mapping[str, int]) -> list[tuple[int, Document]]:
        """Return those documents, with their ids, that have one of some keys, by key. Raises StoreDamaged."""
        if len(digests) <= SINGLE_LOOKUPS:
            return [one for each in digests.items() if (one := self.find(*each)) is not None]
        found = self.keys.probe_each(array("Q", {*digests.values()}))
        ids = [match.document for matches in found.values() for match in matches]
        documents = zip(ids, self.documents.read(ids), strict=True)
        return [(i, document) for i, document in documents if document.key in digests]

    # --------------------------------------------------------------------------------------- on disk

    def write(self, merged_most: int = MERGED_MOST) -> None:
        """Write the index to disk, and merge segments up to `merged_most` documents where it is worth it.

        The lock need not be held, and the store stays in use. An error is a warning in the log: nothing
        is lost.
        """
        with self._idle:
            self._idle.wait_for(lambda: not self._busy)
            if self._ended:
                return
            self._busy = True
        self._work(merged_most, freeze=True)

    def _start(self) -> None:
        """Write the frozen tables in the background, unless that is running."""
        if not self._busy and not self._ended:
            self._busy = True
            threading.Thread(target=self._work, name="dedup-index", daemon=True).start()

    def _freeze(self, covered: int) -> None:
        """Freeze the tables, which hold the documents with id < covered, for the next write."""
        many = self.values.unwritten >= MEMORY_FIRST
        self._due = MEMORY_FULL if many else MEMORY_FIRST
        for table in (self.values, self.keys):
            fresh = Table(table.k, locked=False)
            if many:  # and as many will follow
                fresh.reserve(MEMORY_FULL)
            table.freeze(covered, fresh)
        self._covered = covered
        self._frozen += self._removals
        self._removals = array("Q")

    def _work(self, merged_most: int = MERGED_MOST, *, freeze: bool = False) -> bool:
        """Write the frozen tables, and merge; return False after an error. Only one thread is in here."""
        try:
            if freeze:
                with self._lock:
                    self._freeze(self.documents.state.next)
            self._write()
            while not self._ended and (self._frozen or self._merge(merged_most)):
                self._write()
            return True
        except Exception as error:  # noqa: BLE001 - the documents are on disk, and the index is written later
            log.warning("%s: the index was not written (%s); nothing is lost", self._folder, error)
            return False
        finally:
            with self._idle:
                self._busy = False
                self._idle.notify_all()

    def _merge(self, most: int) -> bool:
        return any(table.merge(most) for table in (self.values, self.keys))

    def _write(self) -> None:
        """Write the frozen tables, and forget the removals that they know."""
        with self._lock:
            covered, known, self._frozen = self._covered, self._frozen, array("Q")
        try:
            self.documents.sync()  # never an index on disk of documents that are not there
            for table in (self.values, self.keys):
                table.write(covered, MERGED_AT_ONCE)
            if covered == self.documents.state.indexed and not known:
                return  # as behind a merge: a commit would note nothing, and waits for the disk twice
            for begin in range(0, max(1, len(known)), REMOVALS_BATCH):
                with self._lock:
                    self.documents.index_written(covered, known[begin : begin + REMOVALS_BATCH])
        except BaseException:
            with self._lock:
                self._frozen = known + self._frozen
            raise

    def end(self) -> None:
        """Stop writing, and wait for a write that is running, without the lock."""
        self._ended = True
        self._idle.wait_for(lambda: not self._busy)


class IndexUnusable(StoreDamaged):
    """The index cannot be used; the documents can."""


def _columns(removals: Sequence[Removal]) -> "tuple[array[int], array[int], array[int]]":
    """Return the ids, the values and the key digests, as batches."""
    ids, values, digests = (array("Q", each) for each in zip(*removals, strict=True))
    return ids, values, digests
