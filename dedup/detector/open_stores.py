"""The open stores of this process, each with its pages in flight.

    take -> a detector's store, reservations and lock -> give_back: the last one closes the store

Invariant: LMDB forbids a process to open a file twice, and two spiders of one process must see each other's
pages in flight. So each store is opened once, under its real path. A forked process does not use the stores
of its parent.
"""

import os
import threading
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol, Self, cast

from dedup.core.matches import Nearest
from dedup.detector.reservations import Reservations
from dedup.model.errors import UsageError
from dedup.model.page import Document
from dedup.store import Store

RECENT = 64  # last inserted values, which are compared one by one


class Accepted(Protocol):
    """The part of a store that judging needs."""

    @property
    def k(self) -> int:
        """The greatest distance near() finds, in bits."""

    def __contains__(self, key: object) -> bool:
        """Return whether a document with this key is held."""

    def near(
        self, value: int, k: int | None = None, limit: int | None = None, skip: int = 0
    ) -> Nearest[Document]:
        """Return the documents within distance k of a value, with their distances, as Store.near()."""

    def insert(self, document: Document) -> object:
        """Insert a document; one with the same key is replaced."""

    def insert_many(self, documents: Sequence[Document]) -> object:
        """Insert documents in their order."""


class OpenStore:
    """A store, its pages in flight, its lock, and the number of its users."""

    def __init__(self, place: str, store: Store) -> None:
        self.place = place
        self.store = store
        self.reservations = Reservations(store.k)
        self.cut = 0  # answers and verdicts that left out nearby pages, since there were too many
        self.lock = threading.RLock()
        self.users = 0
        self.left = False  # in a process forked since then: the store is the parent's
        self.inserts = 0  # since the store was opened
        self._recent: deque[int] = deque(maxlen=RECENT)  # the values of the last of them

    @classmethod
    def over(cls, documents: Accepted) -> Self:
        """Return such an object over documents that the caller made, and closes."""
        return cls("", cast("Store", documents))

    def note_inserted(self, values: list[int]) -> None:
        """Count inserts, and remember the last ones."""
        self.inserts += len(values)
        self._recent.extend(values)

    def near_since(self, inserts: int, value: int, k: int) -> bool:
        """Whether a value inserted since a given number of inserts may be within distance k."""
        count = self.inserts - inserts
        if count > len(self._recent):
            return True
        newest_first = islice(reversed(self._recent), count)
        return any((value ^ other).bit_count() <= k for other in newest_first)


# ------------------------------------------------------------------ each store once in a process

_stores: dict[str, OpenStore] = {}
_stores_lock = threading.Lock()


def take(
    path: Path, namespace: str, k: int | None, recipe_id: str | None, secret: str | None
) -> OpenStore:
    """Return the store of a namespace, opened if necessary. Raises what Store.open() raises."""
    place = _place(path / namespace)
    with _stores_lock:
        shared = _stores.get(place)
        if shared is None:
            store = Store.open(path, namespace, k, recipe_id, secret=secret)
            shared = _stores[place] = OpenStore(place, store)
        elif shared.store.namespace != namespace:  # a file system without case, or a link
            raise UsageError(
                f"{path / namespace} is the folder of the namespace {shared.store.namespace!r} on this "
                "file system: take a name that differs in more than case"
            )
        shared.users += 1
        return shared


def is_open(folder: Path) -> bool:
    """Whether the store in a folder is open in this process."""
    with _stores_lock:
        return _place(folder) in _stores


def last_documents(folder: Path, most: int) -> list[Document]:
    """Return the last documents of an open store, at most `most`. Raises StoreDamaged."""
    with _stores_lock:
        shared = _stores[_place(folder)]
    return [document for _, document in shared.store.documents_from(-most, most)]


def _place(folder: Path) -> str:
    return os.path.normcase(os.path.realpath(folder))


def give_back(shared: OpenStore) -> None:
    """Close a store that no other detector uses. Raises OSError if the last flush fails."""
    with _stores_lock:
        shared.users -= 1
        if not shared.users:
            if not shared.left:
                del _stores[shared.place]
            shared.store.close()


def _leave() -> None:
    """In a forked process: leave the stores to the parent, whose threads may hold their locks."""
    global _stores_lock  # noqa: PLW0603
    _stores_lock = threading.Lock()
    for shared in _stores.values():
        shared.left = True
        shared.lock = threading.RLock()
    _stores.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_leave)
