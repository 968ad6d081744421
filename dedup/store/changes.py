"""Changes of many documents: those of a log, and removal in bulk.

The rules kept here: the changes of a log are counted as if they were applied one by one. Documents
that are removed go batch by batch, each a transaction, and the store answers in between. Interrupted
at any point, that leaves a sound store without some of them. A document of a partition that was given
up is not found any more from that moment on; one that is stored later under the same key is found.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from dedup.model.values import Document

if TYPE_CHECKING:
    from dedup.store.store import Store

__all__ = [
    "Applied",
    "GivenUp",
    "Progress",
    "Removed",
    "forget_before",
    "forget_more_before",
    "give_up",
    "give_up_more",
]

Progress = Callable[[int, int], None]  # documents done, documents in all

BATCH = 4096  # documents looked at, and removed, in one transaction
SMALL_BATCH = 128  # the same while others are answered, which wait for it


class Applied(NamedTuple):
    """What applying changes came to: how many were new, known, and forgotten."""

    inserted: int
    replaced: int
    forgotten: int

    @classmethod
    def of(cls, changes: Sequence[tuple[str, Document | None]], known: set[str]) -> Self:
        """Count what changes do, one by one, where some keys are known."""
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
    """What removing from a batch came to: the batch's last id, its size, and how many were removed."""

    last: int
    looked_at: int
    removed: int


class GivenUp:
    """What a store has given up, and how far its removal is.

    partitions  of the log, that were given up
    first       the id from which on documents are still to be looked at
    before      the id that the next document got when they were given up
    """

    __slots__ = ("_partition_of", "before", "first", "partitions")

    def __init__(
        self, partitions: Collection[int], partition_of: Callable[[str], int], before: int
    ) -> None:
        """partition_of gives the partition of a document's key."""
        self.partitions = frozenset(partitions)
        self.first = 0
        self.before = before
        self._partition_of = partition_of

    def has(self, document_id: int, key: str) -> bool:
        """Tell whether the document with this id and key was given up."""
        return document_id < self.before and self._partition_of(key) in self.partitions


def forget_before(store: "Store", seconds: float, progress: Progress | None = None) -> int:
    """Remove every document inserted before a time (Unix time); return how many.

    After an error or a kill, some are removed and the others are not. progress is called with the
    documents looked at and the documents in all. Raises as Store.insert() does.
    """
    return _remove(store, lambda _, document: document.inserted_seconds < seconds, progress)


def forget_more_before(store: "Store", seconds: float, first: int) -> Removed | None:
    """Remove those inserted before a time among some documents with id >= first; None: there are none.

    It takes milliseconds, during which the store answers no one else. Raises as Store.insert() does.
    """
    return store.remove_next(first, SMALL_BATCH, lambda _, each: each.inserted_seconds < seconds)


def give_up(
    store: "Store",
    held: Collection[int],
    partition_of: Callable[[str], int],
    progress: Progress | None = None,
) -> int:
    """Give up every partition of the log but those held; return how many documents were removed.

    partition_of gives the partition of a document's key. The partitions' offsets become 0, and from
    then on their documents are not found; give_up_more() removes them, and then the offsets. If
    that is interrupted, the next call resumes it. If a partition is held again by then, so that its
    documents are to be read from the log's beginning, all that was given up is removed before this
    returns; progress is then called with the documents looked at and the documents in all.
    Raises as Store.insert() does.
    """
    given_up = {p for p, offset in store.offsets().items() if p not in held or not offset}
    if not given_up:
        return 0
    removing = store.give_up(given_up, partition_of)
    if given_up.isdisjoint(held):
        return 0
    removed = _remove(store, lambda i, document: removing.has(i, document.key), progress)
    store.given_up_removed()
    return removed


def give_up_more(store: "Store") -> int | None:
    """Remove some documents of partitions that were given up; return how many, None: all are gone.

    It takes milliseconds, during which the store answers no one else. Raises as Store.insert() does.
    """
    removing = store.given_up
    if removing is None:
        return None
    batch = store.remove_next(
        removing.first, SMALL_BATCH, lambda i, document: removing.has(i, document.key)
    )
    if batch is None or batch.looked_at < SMALL_BATCH or batch.last >= removing.before:
        store.given_up_removed()
    else:
        removing.first = batch.last + 1
    return 0 if batch is None else batch.removed


def _remove(store: "Store", of: Callable[[int, Document], bool], progress: Progress | None) -> int:
    """Remove every document of a kind; return how many."""
    first = looked_at = removed = 0
    while (batch := store.remove_next(first, BATCH, of)) is not None:
        first = batch.last + 1
        looked_at += batch.looked_at
        removed += batch.removed
        if progress:
            progress(looked_at, len(store) + removed)
    return removed
