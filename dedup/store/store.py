"""The embedded store: the documents of one namespace, and the index that finds them.

    insert -> documents.mdb (committed) -> index (in memory) -> segments (on disk, now and then)

The rule kept here: insert() and forget() return when the change is committed, and what is committed
survives kill -9. It is flushed to disk within a second and at close: a power cut may lose the last
second, and, on a file system that reorders writes, damage documents.mdb, which is then refused.
docs/store-format.md describes the files.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dedup.core.files import FolderLock
from dedup.core.numbers import Array
from dedup.model.errors import UsageError
from dedup.model.names import check_namespace
from dedup.model.recipes import same_recipe
from dedup.model.values import Document
from dedup.store.changes import Applied, GivenUp, Progress, Removed
from dedup.store.database.documents import Documents
from dedup.store.database.file import Flusher
from dedup.store.database.record_format import FORMAT, Removal, key_digest
from dedup.store.index import Index
from dedup.store.open_folder import open_folder
from dedup.store.search import Near, near, near_many

if TYPE_CHECKING:
    from dedup.store.verify import Report

__all__ = ["Store"]

TAIL_AT_CLOSE = 1000  # documents in the tail that are worth writing when the store is closed
MERGED_AT_CLOSE = 1 << 20  # documents of the largest segment that is made then: about a second

_opened: "weakref.WeakSet[Store]" = weakref.WeakSet()


class Store:
    """The documents of one namespace, exactly searchable. Safe for many threads.

    Made by Store.open(), ended by close(); a context manager. On a disk that is full or read-only
    insert() and forget() raise OSError with the path; nothing that was stored is lost.
    """

    def __init__(self, folder: Path, k: int, documents: Documents, lock: FolderLock) -> None:
        """Private: Store.open() makes stores."""
        self.path = folder
        self.namespace = documents.namespace
        self.recipe = documents.recipe
        self._documents = documents
        self._folder_lock = lock
        self._lock = threading.RLock()
        self._closed = False
        self._given_up: GivenUp | None = None  # documents that are not found any more
        self._fits = True  # whether the index has what is committed
        self._index = Index(folder, documents, k, self._lock)
        _opened.add(self)
        self._flusher = Flusher(folder, documents)

    @classmethod
    def open(
        cls,
        path: str | Path,
        namespace: str = "default",
        k: int | None = None,
        recipe_id: str | None = None,
        *,
        secret: str | None = None,
        create: bool = True,
    ) -> Self:
        """Open the store at <path>/<namespace>, or make it where create allows.

        k is the greatest Hamming distance near() looks for, in bits, 0 to 15; by default the
        recipe's. Without recipe_id an existing store keeps its recipe, a new one takes the newest.

        Raises UsageError (namespace, k), RecipeMismatch if the store has another recipe,
        StoreLocked if another process holds it, StoreDamaged if documents.mdb is not what was
        written, FileNotFoundError if there is no store and create is False, and OSError with the
        path if the folder cannot be made, read or written.
        """
        folder = Path(path) / check_namespace(namespace)
        documents, lock, recipe = open_folder(folder, namespace, recipe_id, secret, create=create)
        try:
            return cls(folder, recipe.distance if k is None else k, documents, lock)
        except BaseException:
            documents.close()
            lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of documents."""
        with self._lock:
            self._check_open()
            return len(self._documents)

    def __contains__(self, key: object) -> bool:
        """Tell whether a document with this key is stored."""
        with self._lock:
            if self._closed:
                self._check_open()
            if not isinstance(key, str):
                return False
            found = self._ready().find(key)
            return found is not None and self._is_found(found[0], key)

    @property
    def k(self) -> int:
        """The greatest distance near() finds, in bits."""
        return self._index.k

    def widen(self, k: int) -> None:
        """Find documents up to distance k from now on, if that is more than so far."""
        with self._lock:
            self._check_open()
            if k > self.k or not self._fits:
                self._index.end()
                self._check_open()
                self._index = Index(self.path, self._documents, max(k, self.k), self._lock)
                self._fits = True

    def get(self, key: str) -> Document | None:
        """Return the document with this key, or None. Raises StoreDamaged."""
        with self._lock:
            self._check_open()
            found = self._ready().find(key)
            return found[1] if found is not None and self._is_found(found[0], key) else None

    def _is_found(self, document_id: int, key: str) -> bool:
        return self._given_up is None or not self._given_up.has(document_id, key)

    def near(
        self, value: int, k: int | None = None, limit: int | None = None, without: int = 0
    ) -> Near:
        """Return the documents within distance k of a value, with their distances, nearest first.

        k is at most the store's, and that by default. At most the nearest `limit` (1000) are looked up,
        of equal distance the oldest; the answer's `cut` tells whether there are more, and the first
        `without` of them are left out of it. Raises StoreDamaged.
        """
        with self._lock:
            bound = self.k if k is None else min(k, self.k)
            return near(self._ready(), self._given_up, value, bound, limit, without)

    def near_many(
        self, values: Array, k: int | None = None, limit: int | None = None
    ) -> dict[int, Near]:
        """Return what near() returns for each of a batch of values that has any, by its index.

        Raises StoreDamaged, and TooMany if more than `limit` documents were to be read.
        """
        with self._lock:
            bound = self.k if k is None else min(k, self.k)
            return near_many(self._ready(), self._given_up, values, bound, limit)

    def _ready(self) -> Index:
        """Return the index, which has what is committed. Called with the lock held."""
        if self._closed or not self._fits:
            self.widen(self.k)
        return self._index

    def insert(self, document: Document) -> None:
        """Store a document; one with the same key is replaced. Committed on return.

        Raises RecipeMismatch, UsageError for a key that is not valid Unicode, OSError if the disk
        does not take it, and StoreDamaged.
        """
        same_recipe(self.recipe, document.page.recipe)
        self._change([document], (), {})

    def insert_many(self, documents: Sequence[Document]) -> int:
        """Store documents in their order, all or none; return how many replaced another.

        They are one transaction, committed on return. Raises as insert() does.
        """
        return self.apply([(document.key, document) for document in documents], {}).replaced

    def apply(
        self, changes: Sequence[tuple[str, Document | None]], offsets: Mapping[int, int]
    ) -> Applied:
        """Apply changes in their order: (key, its document), or (key, None) to forget it.

        They and the next offset of each partition of a log are one transaction, committed on
        return. Counts are those of applying one by one. Raises as insert() does.
        """
        last = dict(changes)
        documents = [document for document in last.values() if document is not None]
        forgotten = [key for key, document in last.items() if document is None]
        for recipe in {document.page.recipe for _, document in changes if document is not None}:
            same_recipe(self.recipe, recipe)
        return Applied.of(changes, self._change(documents, forgotten, offsets))

    def _change(
        self, documents: Sequence[Document], forgotten: Sequence[str], offsets: Mapping[int, int]
    ) -> set[str]:
        """Store documents, no key twice, and remove others; return the keys that were there before."""
        with self._lock:
            self._check_writable()
            known = self._ready().find_many([*(document.key for document in documents), *forgotten])
            self._commit(documents, known, offsets)
        return {document.key for _, document in known}

    def _commit(
        self,
        documents: Sequence[Document],
        known: Sequence[tuple[int, Document]],
        offsets: Mapping[int, int],
    ) -> None:
        """Store documents and remove known ones; the index follows, or is made again before its next use."""
        removed: list[Removal] = [(i, d.page.value, key_digest(d.key)) for i, d in known]
        first = self._documents.change(documents, removed, offsets)
        self._flusher.wake()
        try:
            if removed:
                self._index.remove(removed)
            self._index.append(first, documents)
        except BaseException:
            self._fits = False
            raise

    def offsets(self) -> dict[int, int]:
        """Return the next offset of each partition of the log that was applied; {}: none was."""
        with self._lock:
            self._check_open()
            return self._documents.offsets()

    @property
    def given_up(self) -> GivenUp | None:
        """The documents that were given up and are not all removed yet; None: there are none."""
        with self._lock:
            self._check_open()
            return self._given_up

    def give_up(self, partitions: Collection[int], partition_of: Callable[[str], int]) -> GivenUp:
        """Find no documents of these partitions of the log any more; their next offsets become 0."""
        with self._lock:
            self._check_open()
            noted = self._documents.offsets()
            self._documents.note_offsets(noted | dict.fromkeys(partitions, 0))
            self._given_up = GivenUp(partitions, partition_of, self._documents.next_id)
            return self._given_up

    def given_up_removed(self) -> None:
        """Note that all that was given up is removed: its partitions have no offsets any more."""
        with self._lock:
            self._check_open()
            assert self._given_up is not None
            noted, gone = self._documents.offsets(), self._given_up.partitions
            self._documents.note_offsets({p: n for p, n in noted.items() if p not in gone})
            self._given_up = None

    def remove_next(
        self, first: int, most: int, of: Callable[[int, Document], bool]
    ) -> Removed | None:
        """Remove those of a kind among the next `most` documents with id >= first; None at the end.

        One transaction, committed on return. Raises as insert() does.
        """
        with self._lock:
            self._check_writable()
            batch = self._documents.batch(first, most)
            if not batch:
                return None
            going = [each for each in batch if of(*each)]
            if going:
                self._commit([], going, {})
            return Removed(batch[-1][0], len(batch), len(going))

    def documents_from(self, first: int, most: int) -> list[tuple[int, Document]]:
        """Return the next `most` (id, document) with id >= first, by id; below 0 it is from the end."""
        with self._lock:
            self._check_open()
            first = first if first >= 0 else max(0, self._documents.next_id + first)
            return self._documents.batch(first, most)

    def forget(self, key: str) -> bool:
        """Remove the document with this key; False if there is none. Committed on return.

        Raises as insert() does.
        """
        with self._lock:
            self._check_writable()
            return bool(self._change([], [key], {}))

    def sync(self) -> None:
        """Flush to disk what was committed. Raises OSError."""
        with self._lock:
            self._check_open()
            self._flusher.sync()

    def info(self) -> dict[str, Any]:
        """Return what the store is and holds; sizes in bytes."""
        with self._lock:
            self._check_open()
            return {
                "path": str(self.path),
                "namespace": self.namespace,
                "recipe": self.recipe,
                "format": FORMAT,
                "distance": self.k,
                "documents": len(self._documents),
                "table_bytes": self._index.memory_bytes,
                "index_file_bytes": self._index.file_bytes,
                "documents_file_bytes": self._documents.file_bytes,
                "tail_documents": self._documents.unindexed,
            }

    def verify(self, progress: Progress | None = None) -> "Report":
        """Verify this open store; other threads wait meanwhile. See verify_store()."""
        with self._lock:
            from dedup.store.verify import verify_documents

            self._check_open()
            return verify_documents(self._documents, self._ready(), self.path, progress)

    def snapshot(self, least: int = TAIL_AT_CLOSE) -> None:
        """Write the index if `least` documents or more changed since the last time, as close() does.

        The store stays in use while files are written.
        """
        with self._lock:
            self._check_open()
            due, index = self._fits and self._documents.unindexed >= least, self._index
        if due:
            index.write()

    def close(self) -> None:
        """Flush, write the index if 1000 documents or more changed since the last time, and close.

        Raises OSError if the flush fails; the store is closed all the same. An index that cannot
        be written is a warning in the log. Closing twice does nothing.
        """
        with self._lock:
            if self._closed:
                return
        self._flusher.end()
        with self._lock, contextlib.ExitStack() as stack:
            if self._closed:
                return
            self._closed = True
            stack.callback(self._folder_lock.close)
            stack.callback(self._documents.close)
            if self._fits and self._documents.unindexed >= TAIL_AT_CLOSE:
                self._index.write(MERGED_AT_CLOSE)
            self._index.end()
            self._documents.sync()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(f"the store {self.path} is closed")

    def _check_writable(self) -> None:
        if self._closed or self._flusher.error is not None:
            self._check_open()
            self._flusher.raise_error()

    def close_after_fork(self) -> None:
        """Be closed in a forked process: the store is its parent's, as are the locks held there."""
        self._lock = threading.RLock()
        self._closed = True
        self._folder_lock.close()  # the parent has it still


def _close_after_fork() -> None:
    for store in _opened:
        store.close_after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_close_after_fork)
