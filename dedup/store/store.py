"""Store: the documents of one namespace, and the index that finds them, changed together.

    insert -> documents.mdb (committed) -> index (in memory) -> segments (on disk, in the background)
    near   -> index (ids within k) -> documents

Invariants:
  - insert() and forget() return when the change is committed, and a committed change survives kill -9. It
    is flushed to disk within ten seconds and at close: a power cut loses the last ten seconds at most, in
    whatever order writes reached the disk (documents.py).
  - What the index finds and the documents say must agree; else the answer is StoreDamaged.
  - Changes of a log are counted as if they were applied one by one.
  - Documents are removed in bulk batch by batch, each a transaction, and the store answers in between.
    Interrupted at any point, that leaves a sound store without some of them.

docs/reference/store-format.md describes the files.
"""

import contextlib
import errno
import math
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from dedup.core.files import PRIVATE_FOLDER, FolderLock
from dedup.core.numbers import Numbers, packed
from dedup.core.table import Match, Matches, Nearest
from dedup.model.errors import RecipeMismatch, StoreDamaged, UsageError
from dedup.model.names import check_namespace
from dedup.model.page import Document
from dedup.model.recipes import Recipe, recipe_of, same_recipe
from dedup.store.documents import (
    FORMAT,
    Documents,
    Flusher,
    Removal,
    is_half_made,
    key_digest,
    make,
)
from dedup.store.index import KEYS, VALUES, Index
from dedup.store.journal import ASIDE, JOURNAL

DOCUMENTS = "documents.mdb"
FOR_ONE_CRAWL = "crawl"  # the mark of a store that the next crawl may empty
NEAR_LIMIT = 1000  # documents that one value is answered with, at most
TAIL_AT_CLOSE = 1000  # documents in the tail that are worth writing when the store is closed
MERGED_AT_CLOSE = 1 << 20  # documents of the largest segment merged then: about a second
LOOKED_UP = 4096  # keys whose document, or absence, is kept for the change that follows a look-up
BATCH = 4096  # documents looked at, and removed, in one transaction
SLICE = 128  # values that are probed together, so that what they find is bounded
SMALL_BATCH = 128  # the same where other threads wait for it

Near = Nearest[Document]
"""Documents and their distances, nearest first, of equal distance the oldest."""

Progress = Callable[[int, int], None]  # documents done, documents in all

_opened: "weakref.WeakSet[Store]" = weakref.WeakSet()


# ---------------------------------------------------------------- the folder: locked, verified, named


def agreed_recipe(
    folder: Path, held: str, recipe_id: str | None = None, secret: str | None = None
) -> Recipe:
    """Return the recipe of a store that holds a recipe ("": none yet), if it is the one wanted.

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


def empty(folder: Path) -> None:
    """Remove the documents of a store, and its index, under its lock. Raises OSError."""
    # in this order: index and journal are refused without the documents that they stand for
    for name in (VALUES, KEYS):
        if (folder / name).exists():
            shutil.rmtree(folder / name)
    for name in (ASIDE, JOURNAL, DOCUMENTS):
        (folder / name).unlink(missing_ok=True)


@contextmanager
def locked_documents(folder: Path) -> Iterator[Documents]:
    """Open the documents of the store in a folder for reading only, under the store's lock.

    Raises StoreLocked, StoreDamaged and OSError.
    """
    lock = FolderLock(folder / "lock", read_only=True)
    try:
        documents = Documents(folder / DOCUMENTS, read_only=True)
        try:
            yield documents
        finally:
            documents.close()
    finally:
        lock.close()


# ------------------------------------------------------------------------------------- the store


class TooMany(UsageError):
    """More documents lie near the values of a batch than one answer may hold."""

    code = "LIMIT"


class Applied(NamedTuple):
    """Counts of applied changes: new documents, replaced ones, and forgotten ones."""

    inserted: int
    replaced: int
    forgotten: int

    @classmethod
    def of(cls, changes: Sequence[tuple[str, Document | None]], known: set[str]) -> Self:
        """Count changes as if they were applied one by one; known are the keys stored before."""
        inserted = replaced = forgotten = 0
        if not known and len({key for key, document in changes if document is not None}) == len(
            changes
        ):
            return cls(len(changes), 0, 0)  # all new, each once: as a log mostly is
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
        return cls(inserted, replaced, forgotten)


class Removed(NamedTuple):
    """Result of a removal from one batch: the batch's last id, its size, and the number removed."""

    last: int
    looked_at: int
    removed: int


class Store:
    """The documents of one namespace, exactly searchable. Safe for many threads.

    Made by Store.open(), ended by close(); a context manager. On a disk that is full or read-only
    insert() and forget() raise OSError with the path; nothing that was stored is lost.
    """

    def __init__(self, folder: Path, k: int, documents: Documents, lock: FolderLock) -> None:
        """Private: Store.open() makes stores."""
        self.path = folder
        self.namespace = documents.state.namespace
        self.recipe = documents.state.recipe
        self._documents = documents
        self._folder_lock = lock
        self._lock = threading.RLock()
        self._closed = False
        self._fits = True  # whether the index covers every committed change
        # Each key that __contains__() or held() looked up: its document, or the key's digest if there was
        # none; until the key changes. So the insert that follows a reservation does not look it up again.
        self._looked_up: dict[str, tuple[int, Document] | int] = {}
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
        """Open the store at <path>/<namespace>; create it if there is none and create is True.

        k is the greatest Hamming distance near() looks for, in bits, 0 to 15; by default the
        recipe's. Without recipe_id an existing store keeps its recipe, a new one takes the newest.

        Raises UsageError (namespace, k), RecipeMismatch if the store has another recipe,
        StoreLocked if another process holds it, StoreDamaged if documents.mdb is not what was
        written, FileNotFoundError if there is no store and create is False, and OSError with the
        path if the folder cannot be made, read or written.
        """
        folder = Path(path) / check_namespace(namespace)
        file = folder / DOCUMENTS
        if create:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
        elif not file.exists():
            raise FileNotFoundError(errno.ENOENT, "there is no store here", str(folder))
        with contextlib.ExitStack() as opened:
            lock = opened.enter_context(contextlib.closing(FolderLock(folder / "lock")))
            if not file.exists() or is_half_made(file):
                for name in (VALUES, JOURNAL, ASIDE):
                    if (folder / name).exists():
                        raise StoreDamaged(
                            f"{file} is missing or empty, but {folder / name} is there: restore it from a copy, "
                            "or move the folder away to start with an empty store"
                        )
                make(file, namespace, agreed_recipe(folder, "", recipe_id, secret).id)
            documents = opened.enter_context(contextlib.closing(Documents(file)))
            if create:  # who opens it to fill it wants it kept; a crawl marks its own store again
                (folder / FOR_ONE_CRAWL).unlink(missing_ok=True)
            recipe = agreed_recipe(folder, documents.state.recipe, recipe_id, secret)
            if documents.state.namespace != namespace:
                raise UsageError(
                    f"the store {folder} belongs to the namespace {documents.state.namespace!r}, not to "
                    f"{namespace!r}"
                )
            store = cls(folder, recipe.distance if k is None else k, documents, lock)
            opened.pop_all()
        return store

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
        """Return whether a document with this key is stored. Raises StoreDamaged."""
        if not isinstance(key, str):
            return False
        with self._lock:
            if self._closed or not self._fits:
                self._ready()
            digest = key_digest(key)
            found = self._index.find(key, digest)
            looked_up = self._looked_up
            if len(looked_up) >= LOOKED_UP:
                del looked_up[next(iter(looked_up))]
            looked_up[key] = digest if found is None else found
            return found is not None

    def held(self, keys: Sequence[str]) -> set[str]:
        """Return those of some keys that documents have. Raises StoreDamaged."""
        with self._lock:
            digests = {key: key_digest(key) for key in keys}
            found = {each[1].key: each for each in self._ready().find_many(digests)}
            looked_up = self._looked_up
            if len(looked_up) + len(keys) > LOOKED_UP:
                looked_up.clear()
            if len(keys) <= LOOKED_UP:
                looked_up.update(digests)
                looked_up.update(found)
            return set(found)

    @property
    def k(self) -> int:
        """The greatest distance near() finds, in bits."""
        return self._index.k

    def widen(self, k: int) -> None:
        """Find documents up to distance k from now on, if that is more than so far."""
        with self._lock:
            self._check_open()
            while k > self.k or not self._fits:
                index = self._index
                index.end()
                self._check_open()
                if index is self._index:  # no other thread was faster
                    self._index = Index(self.path, self._documents, max(k, self.k), self._lock)
                    self._fits = True

    def get(self, key: str) -> Document | None:
        """Return the document with this key, or None. Raises StoreDamaged."""
        with self._lock:
            self._check_open()
            found = self._ready().find(key)
            return None if found is None else found[1]

    def near(
        self, value: int, k: int | None = None, limit: int | None = None, skip: int = 0
    ) -> Near:
        """Return the documents within distance k of a value, with their distances, nearest first.

        k is at most the store's, and that by default. Only the nearest `limit` (1000) are read, of
        equal distance the oldest, and the first `skip` of them are left out. The answer's `cut` is
        True if the limit left others out. Raises StoreDamaged.
        """
        with self._lock:
            if self._closed or not self._fits:
                self._ready()
            index = self._index
            bound = index.k if k is None else min(k, index.k)
            probed = index.values.probe(value, NEAR_LIMIT if limit is None else limit)
            if not probed:
                return Nearest()
            matches: Sequence[Match] = probed[skip:] if skip else probed
            if bound < index.k:
                matches = [m for m in matches if m.distance <= bound]
            found = self._documents.read([m.document for m in matches])
            return self._answer(probed, bound, matches, found)

    def near_many(
        self,
        values: Numbers,
        k: int | None = None,
        limit: int | None = None,
        *,
        nearest: int = NEAR_LIMIT,
    ) -> dict[int, Near]:
        """Return the answer of near() for each of a batch of values that has any, by its index.

        nearest is the limit of each answer. Raises StoreDamaged, and TooMany if more than `limit` documents were to be read.
        """
        queries = packed(values, "values")
        answers: dict[int, Near] = {}
        count = 0
        with self._lock:
            index = self._ready()
            bound = index.k if k is None else min(k, index.k)
            for begin in range(0, len(queries), SLICE):
                part = index.values.probe_each(queries[begin : begin + SLICE], nearest)
                count += sum(map(len, part.values()))
                if limit is not None and count > limit:
                    raise TooMany(
                        f"more than {limit:,} documents are near these {len(queries):,} values, and an "
                        "answer holds no more: probe fewer at once"
                    )
                kept = {
                    i: [m for m in matches if m.distance <= bound] for i, matches in part.items()
                }
                ids = [match.document for matches in kept.values() for match in matches]
                documents = iter(self._documents.read(ids))
                for i, matches in kept.items():
                    if answer := self._answer(part[i], bound, matches, documents):
                        answers[begin + i] = answer
            return answers

    def _answer(
        self, found: Matches, bound: int, kept: Sequence[Match], documents: Iterable[Document]
    ) -> Near:
        """Return the answer of what was found, of which some are kept: those of the first documents."""
        answer: Near = Nearest()
        answer.cut = found.cut and found[-1].distance <= bound
        for match, document in zip(kept, documents, strict=False):
            if document.page.value != match.value:
                raise self._documents.damaged("its documents do not match the index")
            answer.append((document, match.distance))
        return answer

    def _ready(self) -> Index:
        """Return the index, which covers every committed change. The lock is held."""
        if self._closed or not self._fits:
            self.widen(self.k)
        return self._index

    def insert(self, document: Document) -> None:
        """Store a document; one with the same key is replaced. Committed on return.

        Raises RecipeMismatch, UsageError for a key that is not valid Unicode, OSError if the disk
        does not take it, and StoreDamaged.
        """
        if document.page.recipe != self.recipe:
            same_recipe(self.recipe, document.page.recipe)
        self._change((document,), (), {})

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
        recipes = {document.page.recipe for _, document in changes if document is not None}
        for recipe in recipes - {self.recipe}:
            same_recipe(self.recipe, recipe)
        return Applied.of(changes, self._change(documents, forgotten, offsets))

    def _change(
        self,
        documents: Sequence[Document],
        forgotten: Sequence[str],
        offsets: Mapping[int, int],
        known: list[tuple[int, Document]] | None = None,
    ) -> set[str]:
        """Store documents, no key twice, and remove others; return the keys that were there before.

        known  the stored documents with these keys, if they were read already. The index follows, or is rebuilt before
               its next use.
        """
        with self._lock:
            if self._closed or not self._fits or self._flusher.error is not None:
                self._check_writable()
                self._ready()
            index, looked_up = self._index, self._looked_up
            there: list[tuple[int, Document]] = []
            digests: dict[str, int] = {}
            new: dict[str, int] = {}  # the digests of keys that were not looked up
            for key in (*[document.key for document in documents], *forgotten):
                found = looked_up.pop(key, None)
                if found is None:
                    digests[key] = new[key] = key_digest(key)
                elif isinstance(found, int):
                    digests[key] = found
                else:
                    digests[key] = key_digest(key)
                    there.append(found)
            if known is None:
                known = there + index.find_many(new) if new else there
            removed: list[Removal] = [(i, d.page.value, digests[d.key]) for i, d in known]
            first = self._documents.change(documents, removed, offsets)
            try:
                if removed:
                    index.remove(removed)
                index.append(first, documents, [digests[document.key] for document in documents])
            except BaseException:
                self._fits = False
                raise
        return {document.key for _, document in known}

    def offsets(self) -> dict[int, int]:
        """Return the next offset of each applied partition of the log; {} if none was applied."""
        with self._lock:
            self._check_open()
            return self._documents.offsets()

    def documents_from(self, first: int, most: int) -> list[tuple[int, Document]]:
        """Return the next `most` (id, document) with id >= first, by id; below 0 it is from the end."""
        with self._lock:
            self._check_open()
            first = first if first >= 0 else max(0, self._documents.state.next + first)
            return self._documents.batch(first, most)

    def latest(self, most: int) -> list[Document]:
        """Return the last documents, at most so many, the newest last."""
        return [document for _, document in self.documents_from(-most, most)]

    def forget(self, key: str) -> bool:
        """Remove the document with this key; False if there is none. Committed on return.

        Raises as insert() does.
        """
        return bool(self._change((), (key,), {}))

    # ------------------------------------------------------------------------------ removal in bulk

    def forget_before(self, seconds: float, progress: Progress | None = None) -> int:
        """Remove every document inserted before a Unix time; return how many.

        After an error or a kill, some of them are removed. progress is called with the documents looked
        at and the documents in all. Raises as insert() does.
        """
        first = looked_at = removed = 0
        while (batch := self.forget_more_before(seconds, first, most=BATCH)) is not None:
            first = batch.last + 1
            looked_at += batch.looked_at
            removed += batch.removed
            if progress:
                progress(looked_at, len(self) + removed)
        return removed

    def forget_more_before(
        self, seconds: float, first: int, latest: float = math.inf, most: int = SMALL_BATCH
    ) -> Removed | None:
        """Remove those inserted before a Unix time among the next `most` documents with id >= first; None at the end.

        Those inserted after `latest`, too. It is one transaction, and takes milliseconds, during which other threads wait.
        Raises as insert() does.
        """
        with self._lock:
            self._check_writable()
            self._ready()  # before they are read: it may wait without the lock
            batch = self._documents.batch(first, most)
            if not batch:
                return None
            going = [each for each in batch if not seconds <= each[1].inserted_seconds <= latest]
            if going:
                self._change((), [document.key for _, document in going], {}, going)
            return Removed(batch[-1][0], len(batch), len(going))

    # ------------------------------------------------------------------------------------- upkeep

    def sync(self) -> None:
        """Flush to disk what was committed. Raises OSError."""
        with self._lock:
            self._check_open()
            self._flusher.sync()

    def info(self) -> dict[str, Any]:
        """Return the store's path, recipe, counts and sizes, in bytes."""
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
            self._documents.settle()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(f"the store {self.path} is closed")

    def _check_writable(self) -> None:
        if self._closed or self._flusher.error is not None:
            self._check_open()
            self._flusher.raise_error()

    def close_after_fork(self) -> None:
        """Mark the store closed in a forked process: it belongs to the parent, as do the locks held there."""
        self._lock = threading.RLock()
        self._closed = True
        self._folder_lock.close()  # the parent still holds it


def _close_after_fork() -> None:
    for store in _opened:
        store.close_after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_close_after_fork)
