"""The index of a store: which documents have a value near another, and which one has a key.

    documents.mdb -> values/ (value, id) and keys/ (key digest, id): in memory, and as segments on disk

The rule kept here: the documents are the truth. The index on disk covers the documents with id < note;
those behind it, the tail, are read at opening, and what was removed since is removed once more. An
index that is missing, damaged, of another version or older than the documents say is named in the log
and made again from the documents.

A kill between two steps of writing leaves tables with different notes, all of which are right: each
reads its own tail. Removals are forgotten only when both tables are on disk, and only those from before
it was begun.
"""

import logging
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dedup.core.bulk.segments.segmented_table import MERGED_MOST, SegmentedTable
from dedup.core.numbers import Array
from dedup.core.table import Table
from dedup.model.errors import StoreDamaged
from dedup.model.values import Document
from dedup.store.database.documents import Documents
from dedup.store.database.record_format import Removal, key_digest

__all__ = ["KEYS", "VALUES", "Index", "IndexUnusable"]

VALUES, KEYS = "values", "keys"

BATCH = 65_536  # documents read at once
FIRST = 50_000  # documents in memory that are written: growing the table of so few is no pause
MOST = 100_000  # the same once there is a table with room for them, so that it never grows
AGAIN = 2_000_000  # the same while an index is made again: few files, which all are open
CLEARED = 1000  # removals that are forgotten in one transaction, while the store waits
TAIL_AT_OPEN = 10_000  # documents read at opening that are worth writing

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
        """Open the index of a store for distances up to k, and bring it up to its documents.

        lock is the store's. read_only changes nothing on disk, and raises IndexUnusable where the index
        would be made again. Raises StoreDamaged if a document is not readable.
        """
        self._folder, self._lock = folder, lock
        self.documents = documents
        self._read_only = read_only
        self._idle = threading.Condition(lock)  # waiting for it lets others use the store
        self._busy = self._ended = False
        self._due = FIRST
        self._covered = 0  # the id up to which the tables were frozen last
        self._frozen: list[int] = []  # removed documents, whose removals those tables know
        self._removals: list[int] = []  # and those removed since
        self.k = k
        try:
            self._open()
        except IndexUnusable as error:
            if read_only:
                raise
            log.warning("%s; the index is made again from the documents", error)
            for name in (VALUES, KEYS):
                shutil.rmtree(folder / name, ignore_errors=True)
            documents.index_written(0, [])
            self._removals.clear()
            self._open()
        if not read_only and self.values.unwritten >= TAIL_AT_OPEN:
            self._freeze(documents.next_id)
            self._start()

    def _open(self) -> None:
        """Open both tables, and read the tail. Raises IndexUnusable, and StoreDamaged."""
        for name in (VALUES, KEYS):
            if self.documents.indexed and not (self._folder / name).exists():
                raise IndexUnusable(f"{self._folder / name} is missing")
        self.values = self._table(VALUES, self.k)
        self.keys = self._table(KEYS, 0)
        removed = self.documents.removed()
        if removed:
            self.remove(removed)
        first, fits = min(self.values.note, self.keys.note), True
        while tail := self.documents.tail(first, BATCH):
            first = tail[-1][0] + 1
            ids, values, digests = (np.array(each, np.uint64) for each in zip(*tail, strict=True))
            for table, numbers in ((self.values, values), (self.keys, digests)):
                begin = int(np.searchsorted(ids, table.note))
                table.append(numbers[begin:], ids[begin:])
            if fits and self.values.unwritten >= AGAIN and not self._read_only:
                self._freeze(first)
                fits = self._work(merged_most=0)
        for table, name in ((self.values, VALUES), (self.keys, KEYS)):
            if len(table) != len(self.documents):
                raise IndexUnusable(
                    f"{self._folder / name} comes to {len(table)} documents where "
                    f"{len(self.documents)} belong"
                )

    def _table(self, name: str, k: int) -> SegmentedTable:
        path = self._folder / name
        try:
            table = SegmentedTable(path, k, self._lock, read_only=self._read_only)
        except (StoreDamaged, OSError) as error:
            raise IndexUnusable(f"{path} is not readable ({error})") from error
        if not self.documents.indexed <= table.note <= self.documents.next_id:
            raise IndexUnusable(f"{path} is of another time than the documents")
        return table

    # ------------------------------------------------------------------------------------ contents

    @property
    def memory_bytes(self) -> int:
        """The memory it takes; mapped files aside."""
        return self.values.stats().memory_bytes + self.keys.stats().memory_bytes

    @property
    def file_bytes(self) -> int:
        """The size of its files."""
        return self.values.stats().file_bytes + self.keys.stats().file_bytes

    @property
    def covered(self) -> int:
        """How many documents its files cover."""
        return self.values.written

    def append(self, first: int, documents: Sequence[Document]) -> None:
        """Take documents in, whose ids are first, first + 1, and so on."""
        if self.values.unwritten >= self._due or len(self._removals) >= MOST:
            self._freeze(first)
            self._start()
        if len(documents) == 1:
            (document,) = documents
            self.values.append_one(document.page.value, first)
            self.keys.append_one(key_digest(document.key), first)
        elif documents:
            ids = np.arange(first, first + len(documents), dtype=np.uint64)
            values = [document.page.value for document in documents]
            digests = [key_digest(document.key) for document in documents]
            self.values.append(np.array(values, np.uint64), ids)
            self.keys.append(np.array(digests, np.uint64), ids)

    def remove(self, removed: Sequence[Removal]) -> None:
        """Leave out what was removed from the documents."""
        ids, values, digests = (np.array(each, np.uint64) for each in zip(*removed, strict=True))
        self.values.remove(values, ids)
        self.keys.remove(digests, ids)
        self._removals += ids.tolist()

    def has(self, values: Array, digests: Array, ids: Array) -> npt.NDArray[np.bool_]:
        """Return for each document whether both tables have it."""
        return self.values.has(values, ids) & self.keys.has(digests, ids)

    def find(self, key: str) -> tuple[int, Document] | None:
        """Return the document with a key, and its id. Raises StoreDamaged."""
        for document_id in self.keys.documents(key_digest(key)):
            (document,) = self.documents.read([document_id])
            if document.key == key:
                return document_id, document
        return None

    def find_many(self, keys: Sequence[str]) -> list[tuple[int, Document]]:
        """Return those documents, with their ids, that have one of some keys. Raises StoreDamaged."""
        if len(keys) == 1:
            found = self.find(keys[0])
            return [] if found is None else [found]
        if not keys:
            return []
        wanted = set(keys)
        ids = self.keys.probe_many(np.array([*{*map(key_digest, wanted)}], np.uint64))[1].tolist()
        documents = zip(ids, self.documents.read(ids), strict=True)
        return [(i, document) for i, document in documents if document.key in wanted]

    # --------------------------------------------------------------------------------------- on disk

    def write(self, merged_most: int = MERGED_MOST) -> None:
        """Write all of it to disk, and merge what is worth it into segments of `merged_most` documents.

        The lock need not be held; the store is used meanwhile. A disk that refuses is a warning in the
        log: nothing is lost.
        """
        with self._idle:
            self._idle.wait_for(lambda: not self._busy)
            if self._ended:
                return
            self._busy = True
        self._work(merged_most, freeze=True)

    def _start(self) -> None:
        """Write what is frozen in the background, unless that is under way."""
        if not self._busy and not self._ended:
            self._busy = True
            threading.Thread(target=self._work, name="dedup-index", daemon=True).start()

    def _freeze(self, covered: int) -> None:
        """Have the tables, which hold the documents with id < covered, wait to be written."""
        many = self.values.unwritten >= FIRST
        self._due = MOST if many else FIRST
        for table in (self.values, self.keys):
            fresh = Table(table.k)
            if many:  # and so will the next ones be
                fresh.reserve(MOST)
            table.freeze(covered, fresh)
        self._covered = covered
        self._frozen += self._removals
        self._removals = []

    def _work(self, merged_most: int = MERGED_MOST, *, freeze: bool = False) -> bool:
        """Write what is frozen, and merge; return whether the disk took it. Nobody else writes meanwhile."""
        try:
            if freeze:
                with self._lock:
                    self._freeze(self.documents.next_id)
            self._write()
            while not self._ended and any(t.merge(merged_most) for t in (self.values, self.keys)):
                self._write()
            return True
        except Exception as error:  # whatever it is, the documents are there
            log.warning("%s: the index was not written (%s); nothing is lost", self._folder, error)
            return False
        finally:
            with self._idle:
                self._busy = False
                self._idle.notify_all()

    def _write(self) -> None:
        """Write what is frozen, and forget the removals that it knows."""
        with self._lock:
            covered, known, self._frozen = self._covered, self._frozen, []
        try:
            self.documents.sync()  # never an index on disk of documents that are not
            for table in (self.values, self.keys):
                table.write(covered)
            for begin in range(0, max(1, len(known)), CLEARED):
                with self._lock:
                    self.documents.index_written(covered, known[begin : begin + CLEARED])
        except BaseException:
            with self._lock:
                self._frozen = known + self._frozen
            raise

    def end(self) -> None:
        """Write nothing from now on, and wait for what is being written: others use the store meanwhile."""
        self._ended = True
        self._idle.wait_for(lambda: not self._busy)


class IndexUnusable(StoreDamaged):
    """The index cannot be used; the documents can."""
