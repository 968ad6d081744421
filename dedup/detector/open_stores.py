"""The open stores of this process, each with its pages in flight, and inserts into them.

    take -> a detector's store, reservations and lock -> give_back: the last one closes the store
    verdicts -> due? -> late? -> documents, in one transaction -> reservations ended
    changes of the log -> documents, in one transaction -> their reservations ended -> late?

The rules kept here:
  - LMDB forbids a process to open a file twice, and two spiders of one process must see each other's
    pages in flight. So each store is opened once, under its real path. A forked process does not use
    the stores of its parent.
  - A reservation ends after its document is in the store, never before. A page is late when it was
    unique, but a near-duplicate of it was inserted since: both stay, and the caller is told.
    The functions that insert are called with the store's lock held.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol, Self, cast

from dedup.core.matches import Nearest
from dedup.detector.reservations import Reservations
from dedup.detector.rules import near_duplicates, not_other
from dedup.model.errors import UsageError
from dedup.model.forms import storable
from dedup.model.page import SKETCH_BYTES, Document, Status, Verdict, accepted_document
from dedup.model.policy import Policy
from dedup.model.recipes import Recipe, same_recipe
from dedup.store import Applied, Store

__all__ = [
    "CROWD",
    "Accepted",
    "OpenStore",
    "Seen",
    "apply_changes",
    "count_late",
    "give_back",
    "insert_verdicts",
    "is_open",
    "take",
]

CROWD = 128  # candidates that are compared first: a directory may have 100,000
_is_storable = storable()

RECENT = 64  # last inserted values, which are compared one by one


class Accepted(Protocol):
    """The part of a store that judging needs."""

    @property
    def k(self) -> int:
        """The greatest distance near() finds, in bits."""

    def __contains__(self, key: object) -> bool:
        """Tell whether a document with this key is held."""

    def near(
        self, value: int, k: int | None = None, limit: int | None = None, without: int = 0
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


class Seen(NamedTuple):
    """The state at the reservation of a page: its verdict, the policy, and the number of inserts."""

    status: Status
    reason: str
    policy: Policy
    inserts: int


def insert_verdicts(
    shared: OpenStore, verdicts: Sequence[Verdict], recipe: Recipe, policy: Policy
) -> list[bool]:
    """Insert pages in their order; return for each whether it is late.

    In one transaction, unless some of them are near each other: those must find each other in the
    store. Raises as Detector.insert() does; then the first ones may be inserted.
    """
    late: list[bool] = []
    batch: list[Verdict] = []
    for verdict in verdicts:
        if batch and _are_near(verdict, batch, policy.distance):
            _insert_batch(shared, batch)
            batch = []
        due = _is_due(shared, verdict, recipe)
        late.append(due and verdict.status == "unique" and _is_late(shared, verdict, policy))
        if due:
            batch.append(verdict)
    _insert_batch(shared, batch)
    return late


def apply_changes(
    shared: OpenStore,
    changes: Sequence[tuple[str, Document | None]],
    offsets: Mapping[int, int],
) -> tuple[Applied, list[Document]]:
    """Apply changes of the log, and end the reservations whose inserts they are.

    Returns the store's counts, and the documents that are in the store now, the last of each key.
    """
    counts = shared.store.apply(changes, offsets)
    if len(shared.reservations):
        for key, document in changes:
            if document is not None:
                shared.reservations.end_same(key, document.page, "inserted")
    last = [document for document in dict(changes).values() if document is not None]
    shared.note_inserted([document.page.value for document in last])
    return counts, last


def count_late(shared: OpenStore, documents: Sequence[Document], policy: Policy) -> int:
    """Return how many documents have a near-duplicate with another key and no other identity."""
    if not documents:
        return 0
    values = [document.page.value for document in documents]
    late = 0
    for i, found in shared.store.near_many(values, policy.distance).items():
        d = documents[i]
        alike = near_duplicates(d, found, policy)
        late += any(n.document.paid for n in not_other(alike))
    return late


def _is_due(shared: OpenStore, verdict: Verdict, recipe: Recipe) -> bool:
    """Whether there is something to insert. Raises what insert() raises before it begins."""
    token, key, page = verdict.token, verdict.document.key, verdict.document.page
    if token is None:
        raise UsageError(
            f"the verdict on {key!r} ({verdict.status}) has no token: it cannot be inserted"
        )
    if page.recipe != recipe.id:
        same_recipe(recipe.id, page.recipe)
    if not _is_storable(page):
        raise UsageError(
            f"{page} is not allowed: value and identity are 0 to 2**64 - 1, a sketch has "
            f"{SKETCH_BYTES} bytes, and an unread page is not stored"
        )
    held = shared.reservations.get(token)
    if held is not None and (held.document.key, held.document.page) != (key, page):
        raise UsageError(
            f"token {token!r} belongs to {held.document.key!r}, not to this page of {key!r}"
        )
    ending = shared.reservations.ending(token)
    if ending == "released":
        raise UsageError(f"{key!r} was released: reserve it again to insert it")
    return ending != "inserted"


def _are_near(verdict: Verdict, batch: list[Verdict], k: int) -> bool:
    """Whether a page must see those of a batch in the store before it can be judged."""
    value = verdict.document.page.value
    return any(
        (value ^ other.document.page.value).bit_count() <= k or verdict.token == other.token
        for other in batch
    )


def _is_late(shared: OpenStore, verdict: Verdict, policy: Policy) -> bool:
    """Whether a near-duplicate of a page that was unique has been inserted since."""
    document = verdict.document
    value = document.page.value
    held = shared.reservations.get(verdict.token or "")
    seen = None if held is None else held.judged
    if (
        isinstance(seen, Seen)
        and seen.status == "unique"
        and seen.policy is policy
        # nothing was near when the page was reserved: only later inserts can be
        and not shared.near_since(seen.inserts, value, policy.distance)
    ):
        return False
    found = shared.store.near(value, policy.distance)
    alike = near_duplicates(document, found, policy)
    return any(n.document.paid for n in not_other(alike))


def _insert_batch(shared: OpenStore, batch: list[Verdict]) -> None:
    if not batch:
        return
    now = time.time()
    documents = [accepted_document(verdict, now) for verdict in batch]
    if len(documents) == 1:
        shared.store.insert(documents[0])
    else:
        shared.store.insert_many(documents)
    shared.note_inserted([document.page.value for document in documents])
    for verdict in batch:
        assert verdict.token is not None
        shared.reservations.end(verdict.token, "inserted")


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
