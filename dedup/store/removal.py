"""Removal in bulk: the documents from before a time, and those of partitions that were given up.

The rule kept here: they are removed batch by batch, each a transaction, and the store answers in
between. Interrupted at any point, it leaves a sound store without some of them.
"""

from collections.abc import Callable, Collection

from dedup.model.values import Document
from dedup.store.store import Store
from dedup.store.verify import Progress

__all__ = ["forget_before", "give_up", "give_up_more"]

BATCH = 4096  # documents looked at, and removed, in one transaction
SMALL_BATCH = 128  # the same while others are answered, which wait for it


def forget_before(store: Store, seconds: float, progress: Progress | None = None) -> int:
    """Remove every document inserted before a time (Unix time); return how many.

    After an error or a kill, some are removed and the others are not. progress is called with the
    documents looked at and the documents in all. Raises as Store.insert() does.
    """
    return _remove(store, lambda _, document: document.inserted_seconds < seconds, progress)


def give_up(
    store: Store,
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


def give_up_more(store: Store) -> int | None:
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


def _remove(store: Store, of: Callable[[int, Document], bool], progress: Progress | None) -> int:
    """Remove every document of a kind; return how many."""
    first = looked_at = removed = 0
    while (batch := store.remove_next(first, BATCH, of)) is not None:
        first = batch.last + 1
        looked_at += batch.looked_at
        removed += batch.removed
        if progress:
            progress(looked_at, len(store) + removed)
    return removed
