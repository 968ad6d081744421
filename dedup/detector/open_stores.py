"""Open stores of this process: each once, shared by the detectors on it, with the pages in flight.

    take -> a detector's store, reservations and lock -> give_back: the last one closes the store

The rule kept here: LMDB forbids a process to open a file twice, and two spiders of one process must see
each other's pages in flight. So each store is opened once, under its real path. A forked process has
no part in the stores of its parent.
"""

import os
import threading
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol, Self, cast

from dedup.detector.reservations import Reservations
from dedup.model.values import Document
from dedup.store import Store

__all__ = ["Accepted", "OpenStore", "give_back", "take"]

RECENT = 64  # values inserted last that are compared one by one


class Accepted(Protocol):
    """Accepted documents, as far as judging needs them; a store is one."""

    @property
    def k(self) -> int:
        """The greatest distance near() finds, in bits."""

    def __contains__(self, key: object) -> bool:
        """Tell whether a document with this key is held."""

    def near(self, value: int, k: int | None = None) -> list[tuple[Document, int]]:
        """Return the documents within distance k of a value, with their distances."""

    def insert(self, document: Document) -> object:
        """Take a document; one with the same key is replaced."""

    def insert_many(self, documents: Sequence[Document]) -> object:
        """Take documents in their order."""


class OpenStore:
    """A store, with its pages in flight, its lock, and the number of its users."""

    def __init__(self, place: str, store: Store) -> None:
        self.place = place
        self.store = store
        self.reservations = Reservations(store.k)
        self.lock = threading.RLock()
        self.users = 0
        self.left = False  # in a process forked since: the store is its parent's
        self.inserts = 0  # since the store was opened
        self._recent: deque[int] = deque(maxlen=RECENT)  # the values of the last of them

    @classmethod
    def over(cls, documents: Accepted) -> Self:
        """Return the like of an open store that others have made, and close themselves."""
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


_stores: dict[str, OpenStore] = {}
_stores_lock = threading.Lock()


def take(
    path: Path, namespace: str, k: int | None, recipe_id: str | None, secret: str | None
) -> OpenStore:
    """Return the store of a namespace, opened unless it is. Raises what Store.open() raises."""
    place = os.path.normcase(os.path.realpath(path / namespace))
    with _stores_lock:
        shared = _stores.get(place)
        if shared is None:
            store = Store.open(path, namespace, k, recipe_id, secret=secret)
            shared = _stores[place] = OpenStore(place, store)
        shared.users += 1
        return shared


def give_back(shared: OpenStore) -> None:
    """Close a store that no other detector has taken. Raises OSError if the last flush fails."""
    with _stores_lock:
        shared.users -= 1
        if not shared.users:
            if not shared.left:
                del _stores[shared.place]
            shared.store.close()


def _leave() -> None:
    """In a forked process: leave the stores to its parent, whose locks may be held by other threads."""
    global _stores_lock  # noqa: PLW0603
    _stores_lock = threading.Lock()
    for shared in _stores.values():
        shared.left = True
        shared.lock = threading.RLock()
    _stores.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_leave)
