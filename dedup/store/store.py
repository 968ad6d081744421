"""The embedded store: the documents of one namespace, and the table that finds them.

    insert -> documents.mdb (committed) -> table (in memory) -> table.ndd (a snapshot, now and then)

The rule kept here: insert() and forget() return when the change is committed, and what is
committed survives the end of the process, kill -9 included. It is flushed to disk within a second
and at close: a power cut or a crash of the operating system may lose the last second, and, on a
file system that reorders writes, may damage documents.mdb, which is then named and refused.
docs/store-format.md describes the files.
"""

import contextlib
import errno
import logging
import os
import threading
import weakref
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dedup.errors import RecipeMismatch, StoreDamaged, UsageError
from dedup.names import check_namespace
from dedup.numbers import Array
from dedup.recipes import Recipe, recipe_of, same_recipe
from dedup.store.documents import Documents
from dedup.store.lock import FolderLock
from dedup.store.records import FORMAT
from dedup.store.snapshot import load_table, save_table
from dedup.store.verify import Progress, Report, verify_documents
from dedup.table import Match
from dedup.values import Document

__all__ = ["NEAR_LIMIT", "Applied", "Store", "TooMany", "agreed_recipe"]

NEAR_LIMIT = 1000  # documents that near() answers at most
FLUSH_SECONDS = 1.0
PRUNE_BATCH = 4096  # documents removed in one transaction
TAIL_AT_CLOSE = 1000  # documents in the tail that are worth a snapshot when the store is closed

log = logging.getLogger(__name__)

_opened: "weakref.WeakSet[Store]" = weakref.WeakSet()


class TooMany(UsageError):
    """More documents lie near the values of a batch than one answer may hold."""


class Applied(NamedTuple):
    """What applying changes came to: how many were new, known, and forgotten."""

    inserted: int
    replaced: int
    forgotten: int


def agreed_recipe(
    folder: Path, held: str, recipe_id: str | None = None, secret: str | None = None
) -> Recipe:
    """Return the recipe of a store that holds a recipe (or none yet: ""), if it is the one asked.

    Raises RecipeMismatch naming both if it is another.
    """
    recipe = recipe_of(recipe_id or held or None, secret)
    if held and recipe.id != held:
        raise RecipeMismatch(
            f"the store {folder} holds fingerprints of recipe {held!r}, which cannot be compared "
            f"with those of {recipe.id!r}: open it with its own recipe and secret, or take "
            "another namespace"
        )
    return recipe


def _within(
    k: int, offsets: Array, ids: Array, distances: npt.NDArray[np.uint8]
) -> tuple[Array, Array, npt.NDArray[np.uint8]]:
    """Leave the matches beyond distance k out of what a batch of probes found."""
    kept = distances <= k
    before = np.concatenate(([0], np.cumsum(kept)))
    return before[offsets].astype(np.uint64), ids[kept], distances[kept]


class Store:
    """The documents of one namespace, exactly searchable. Safe for many threads.

    Made by Store.open(), ended by close(); a context manager. A folder that does not take writes
    any more (full, read-only) makes insert() and forget() raise OSError with the path; nothing
    that was stored is lost by that.
    """

    def __init__(self, folder: Path, k: int, documents: Documents, lock: FolderLock) -> None:
        """Private: Store.open() makes stores."""
        self.path = folder
        self.namespace = documents.namespace
        self.recipe = documents.recipe
        self._k = k
        self._documents = documents
        self._folder_lock = lock
        self._lock = threading.RLock()
        self._saving = threading.Lock()  # taken before the other one: one snapshot at a time
        self._closed = False
        self._table_fits = True
        self._snapshot = folder / "table.ndd"
        self._table, due = load_table(self._snapshot, documents, k)
        if due:
            self._save()
        _opened.add(self)
        self._dirty = threading.Event()
        self._end = threading.Event()
        self._flush_error: Exception | None = None
        self._flusher = threading.Thread(target=self._flush, name="dedup-flush", daemon=True)
        self._flusher.start()

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
        recipe's. recipe_id and secret ask for a recipe: an existing store keeps its own when none
        is asked for, a new one takes the newest.

        Raises UsageError (namespace, k), RecipeMismatch if the store has another recipe,
        StoreLocked if another process holds it, StoreDamaged if documents.mdb is not what was
        written, FileNotFoundError if there is no store and create is False, and OSError with the
        path if the folder cannot be made, read or written.
        """
        folder = Path(path) / check_namespace(namespace)
        file, snapshot = folder / "documents.mdb", folder / "table.ndd"
        if create:
            folder.mkdir(parents=True, exist_ok=True)
        elif not file.exists():
            raise FileNotFoundError(errno.ENOENT, "there is no store here", str(folder))
        lock = FolderLock(folder / "lock")
        documents: Documents | None = None
        try:
            for left in folder.glob(f".{snapshot.name}.*.tmp"):  # a snapshot that a kill cut short
                left.unlink(missing_ok=True)
            if snapshot.exists() and not (file.exists() and file.stat().st_size):
                raise StoreDamaged(
                    f"{file} is missing or empty, but {snapshot} is there: restore it from a "
                    "copy, or move the folder away to begin anew"
                )
            documents = Documents(file)
            recipe = agreed_recipe(folder, documents.recipe, recipe_id, secret)
            if not documents.recipe:
                documents.name(namespace, recipe.id)
            elif documents.namespace != namespace:
                raise UsageError(
                    f"the store {folder} belongs to the namespace {documents.namespace!r}, not "
                    f"to {namespace!r}"
                )
            return cls(folder, recipe.distance if k is None else k, documents, lock)
        except BaseException:
            if documents is not None:
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
            self._check_open()
            return isinstance(key, str) and self._documents.id_of(key) is not None

    @property
    def k(self) -> int:
        """The greatest distance near() finds, in bits."""
        return self._k

    def widen(self, k: int) -> None:
        """Find documents up to distance k from now on, if that is more than so far."""
        with self._lock:
            self._check_open()
            if k > self._k or not self._table_fits:
                k = max(k, self._k)
                self._table, _ = load_table(self._snapshot, self._documents, k)
                self._k, self._table_fits = k, True

    def get(self, key: str) -> Document | None:
        """Return the document with this key, or None. Raises StoreDamaged."""
        with self._lock:
            self._check_open()
            return self._documents.get(key)

    def near(self, value: int, k: int | None = None) -> list[tuple[Document, int]]:
        """Return the documents within distance k of a value, with their distances, nearest first.

        k is at most the store's, and that by default. At most the nearest 1000 are returned, of
        equal distance the oldest; leaving more out errs on the side of keeping a page.
        Raises StoreDamaged.
        """
        with self._lock:
            self._check_open()
            if not self._table_fits:
                self.widen(self._k)
            matches: list[Match] = self._table.probe(value, limit=NEAR_LIMIT)
            if k is not None and k < self._k:
                matches = [m for m in matches if m.distance <= k]
            if not matches:
                return []
            found = self._documents.read([m.document for m in matches])
        for match, document in zip(matches, found, strict=True):
            if document.page.value != match.value:
                raise self._unfit()
        return [(document, m.distance) for m, document in zip(matches, found, strict=True)]

    def near_many(
        self, values: Array, k: int | None = None, limit: int | None = None
    ) -> dict[int, list[tuple[Document, int]]]:
        """Return what near() returns for each of a batch of values that has any, by its index.

        Raises StoreDamaged, and TooMany if more than `limit` documents were to be read.
        """
        with self._lock:
            self._check_open()
            if not self._table_fits:
                self.widen(self._k)
            offsets, ids, distances = self._table.probe_many(values, limit=NEAR_LIMIT)
            if not len(ids):
                return {}
            if limit is not None and len(ids) > limit:
                raise TooMany(
                    f"{len(ids):,} documents lie near these {len(values):,} values, more than the "
                    f"{limit:,} that one answer may hold: probe fewer at once"
                )
            if k is not None and k < self._k:
                offsets, ids, distances = _within(k, offsets, ids, distances)
            found = self._documents.read(ids.tolist())
            ends, near = offsets.tolist(), distances.tolist()
            answers: dict[int, list[tuple[Document, int]]] = {}
            for i in np.flatnonzero(np.diff(offsets)).tolist():
                span = slice(ends[i], ends[i + 1])
                value = int(values[i])
                for document, distance in zip(found[span], near[span], strict=True):
                    if (document.page.value ^ value).bit_count() != distance:
                        raise self._unfit()
                answers[i] = list(zip(found[span], near[span], strict=True))
        return answers

    def _unfit(self) -> StoreDamaged:
        return StoreDamaged(
            f"{self._snapshot} does not fit the documents: close the store and remove "
            "this file, it is made anew from them"
        )

    def insert(self, document: Document) -> None:
        """Store a document; one with the same key is replaced. Committed on return.

        Raises RecipeMismatch, UsageError for a key that is not valid Unicode, OSError if the disk
        does not take it, and StoreDamaged.
        """
        same_recipe(self.recipe, document.page.recipe)
        with self._lock:
            self._check_open()
            self._raise_flush_error()
            document_id, replaced = self._documents.insert(document)
            with self._committed():
                if replaced is not None:
                    self._table.remove(replaced[1], replaced[0])
                self._table.insert(document.page.value, document_id)

    def insert_many(self, documents: Sequence[Document]) -> int:
        """Store documents in their order, all or none; return how many replaced another.

        They are one transaction, committed on return. Raises as insert() does.
        """
        for document in documents:
            same_recipe(self.recipe, document.page.recipe)
        with self._lock:
            self._check_open()
            self._raise_flush_error()
            results = self._documents.insert_many(documents)
            added = {i: d.page.value for (i, _), d in zip(results, documents, strict=True)}
            replaced = [pair for _, pair in results if pair is not None]
            with self._committed():
                for document_id, value in replaced:
                    if added.pop(document_id, None) is None:  # else of these, not in the table yet
                        self._table.remove(value, document_id)
                self._table.insert_many(
                    np.array([*added.values()], np.uint64), np.array([*added], np.uint64)
                )
            return len(replaced)

    def apply(
        self, changes: Sequence[tuple[str, Document | None]], offsets: Mapping[int, int]
    ) -> Applied:
        """Apply changes of a log in their order: (key, its document), or (key, None) to forget it.

        They and the next offset of each partition are one transaction, committed on return: after
        a kill either all of it is there or nothing is. Counts are those of applying one by one.
        Raises as insert() does.
        """
        last = dict(changes)
        documents = [document for document in last.values() if document is not None]
        forgotten = [key for key, document in last.items() if document is None]
        for recipe in {document.page.recipe for _, document in changes if document is not None}:
            same_recipe(self.recipe, recipe)
        with self._lock:
            self._check_open()
            self._raise_flush_error()
            first, known, removed = self._documents.apply(documents, forgotten, offsets)
            with self._committed():
                for document_id, value in removed:
                    self._table.remove(value, document_id)
                ids = np.arange(first, first + len(documents), dtype=np.uint64)
                values = [document.page.value for document in documents]
                self._table.insert_many(np.array(values, np.uint64), ids)
        return _counted(changes, known)

    def offsets(self) -> dict[int, int]:
        """Return the next offset of each partition of the log that was applied; {}: none was."""
        with self._lock:
            self._check_open()
            return self._documents.offsets()

    def give_up(
        self,
        held: Collection[int],
        partition_of: Callable[[str], int],
        progress: Progress | None = None,
    ) -> int:
        """Remove the documents of every partition of the log but those held; return how many.

        partition_of gives the partition of a document's key. First the partitions' offsets become 0,
        then the documents go, batch by batch, then the offsets: whatever ends that, the next call
        goes on with it, and it does so also for a partition that is held again by then, whose
        documents are to be read from the log's beginning. progress is called with the documents
        looked at and the documents in all. Raises as insert() does.
        """
        with self._lock:
            self._check_open()
            noted = self._documents.offsets()
            given_up = {p for p, offset in noted.items() if p not in held or not offset}
            if not given_up:
                return 0
            self._documents.note_offsets(noted | dict.fromkeys(given_up, 0))
        removed = self._forget_all(lambda d: partition_of(d.key) in given_up, progress)
        with self._lock:
            self._check_open()
            left = {p: n for p, n in self._documents.offsets().items() if p not in given_up}
            self._documents.note_offsets(left)
        return removed

    def forget_before(self, seconds: float, progress: Progress | None = None) -> int:
        """Remove every document inserted before a time (Unix time); return how many.

        Committed batch by batch: after an error or a kill, some are removed and the others are
        not. progress is called with the documents looked at and the documents in all.
        Raises as insert() does.
        """
        return self._forget_all(lambda d: d.inserted_seconds < seconds, progress)

    def _forget_all(self, of: Callable[[Document], bool], progress: Progress | None) -> int:
        """Remove every document of a kind, batch by batch; return how many."""
        first, done, removed = 0, 0, 0
        while True:
            with self._lock:
                self._check_open()
                self._raise_flush_error()
                batch = self._documents.batch(first, PRUNE_BATCH)
                if not batch:
                    return removed
                first, done = batch[-1][0] + 1, done + len(batch)
                going = [each for each in batch if of(each[1])]
                if going:
                    pairs = self._documents.remove_many(going)
                    removed += len(pairs)
                    with self._committed():
                        for document_id, value in pairs:
                            self._table.remove(value, document_id)
                if progress:
                    progress(done, len(self._documents) + removed)

    def forget(self, key: str) -> bool:
        """Remove the document with this key; False if there is none. Committed on return.

        Raises as insert() does.
        """
        with self._lock:
            self._check_open()
            self._raise_flush_error()
            removed = self._documents.forget(key)
            if removed is None:
                return False
            with self._committed():
                self._table.remove(removed[1], removed[0])
            return True

    def sync(self) -> None:
        """Flush to disk what was committed. Raises OSError."""
        with self._lock:
            self._check_open()
            self._dirty.clear()
            self._documents.sync()

    def info(self) -> dict[str, Any]:
        """Return what the store is and holds; sizes in bytes."""
        with self._lock:
            self._check_open()
            stats = self._table.stats()
            return {
                "path": str(self.path),
                "namespace": self.namespace,
                "recipe": self.recipe,
                "format": FORMAT,
                "distance": self._k,
                "documents": len(self._documents),
                "values": stats.values,
                "table_bytes": stats.bytes,
                "documents_file_bytes": self._documents.file_bytes,
                "tail_documents": self._tail(),
            }

    def verify(self, progress: Progress | None = None) -> Report:
        """Verify this open store; other threads wait meanwhile. See verify_store()."""
        with self._lock:
            self._check_open()
            return verify_documents(self._documents, self.path, progress)

    def snapshot(self, least: int = TAIL_AT_CLOSE) -> None:
        """Write a snapshot if so many documents or more changed since the last, as close() does.

        The store answers, and takes changes, while the file is written.
        """
        with self._saving:
            with self._lock:
                self._check_open()
                due = self._table_fits and self._tail() >= least
            if due:
                self._save()

    def close(self) -> None:
        """Flush, write a snapshot if 1000 documents or more changed since the last, and close.

        A snapshot that cannot be written is a warning in the log. Raises OSError if the flush
        fails; the store is closed all the same. Closing twice does nothing.
        """
        with self._lock:
            if self._closed:
                return
            self._end.set()
            self._dirty.set()
        self._flusher.join()
        with self._saving, self._lock, contextlib.ExitStack() as stack:
            if self._closed:
                return
            self._closed = True
            stack.callback(self._folder_lock.close)
            stack.callback(self._documents.close)
            if self._table_fits and self._tail() >= TAIL_AT_CLOSE:
                self._save()
            self._documents.sync()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(f"the store {self.path} is closed")

    def leave(self) -> None:
        """In a forked process: be closed. The store is its parent's, as are the locks held there."""
        self._lock, self._saving = threading.RLock(), threading.Lock()
        self._closed = True
        self._folder_lock.close()  # the parent has it still

    def _tail(self) -> int:
        documents = self._documents
        return documents.next_id - documents.snapshot_note + documents.removed_count

    @contextlib.contextmanager
    def _committed(self) -> Generator[None, None, None]:
        """Have the table follow what was committed; made anew before its next use if it fails."""
        self._dirty.set()
        try:
            yield
        except BaseException:
            self._table_fits = False
            raise

    def _save(self) -> None:
        try:
            save_table(self._table, self._snapshot, self._documents, self._lock)
        except Exception as error:  # whatever it is, the documents are there
            log.warning("%s was not written (%s); nothing is lost", self._snapshot, error)

    def _flush(self) -> None:
        while not self._end.is_set():
            self._dirty.wait()
            self._dirty.clear()
            try:
                self._documents.sync()
            except Exception as error:  # the next insert() raises it
                self._flush_error = error
                log.error("%s was not flushed to disk: %s", self.path, error)
            self._end.wait(FLUSH_SECONDS)

    def _raise_flush_error(self) -> None:
        if self._flush_error is not None:
            error, self._flush_error = self._flush_error, None
            raise error


def _counted(changes: Sequence[tuple[str, Document | None]], known: set[str]) -> Applied:
    """Count what changes do, one by one, where some keys are known."""
    inserted = replaced = forgotten = 0
    if not known and len({key for key, document in changes if document is not None}) == len(
        changes
    ):
        return Applied(len(changes), 0, 0)  # all new, each once: as a log mostly is
    for key, document in changes:
        if document is None:
            if key in known:
                known.remove(key)
                forgotten += 1
        elif key in known:
            replaced += 1
        else:
            known.add(key)
            inserted += 1
    return Applied(inserted, replaced, forgotten)


def _leave() -> None:
    for store in _opened:
        store.leave()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_leave)
