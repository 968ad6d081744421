"""Documents that go by the thousand: those of before a time, and those of partitions given up.

The rule kept here: they go batch by batch, each of them a transaction, and the store answers in
between. Whatever ends that in the middle leaves a store without some of them, and sound.
"""

from collections.abc import Callable, Collection

from dedup.store.store import Store
from dedup.store.verify import Progress
from dedup.values import Document

__all__ = ["forget_before", "give_up"]

BATCH = 4096  # documents looked at, and removed, in one transaction


def forget_before(store: Store, seconds: float, progress: Progress | None = None) -> int:
    """Remove every document inserted before a time (Unix time); return how many.

    After an error or a kill, some are removed and the others are not. progress is called with the
    documents looked at and the documents in all. Raises as Store.insert() does.
    """
    return _remove(store, lambda document: document.inserted_seconds < seconds, progress)


def give_up(
    store: Store,
    held: Collection[int],
    partition_of: Callable[[str], int],
    progress: Progress | None = None,
) -> int:
    """Remove the documents of every partition of the log but those held; return how many.

    partition_of gives the partition of a document's key. First the partitions' offsets become 0,
    then the documents go, batch by batch, then the offsets: whatever ends that, the next call goes
    on with it, and it does so also for a partition that is held again by then, whose documents are
    to be read from the log's beginning. progress is called with the documents looked at and the
    documents in all. Raises as Store.insert() does.
    """
    given_up = {p for p, offset in store.offsets().items() if p not in held or not offset}
    if not given_up:
        return 0
    store.note_offsets(dict.fromkeys(given_up, 0))
    removed = _remove(store, lambda document: partition_of(document.key) in given_up, progress)
    store.note_offsets(dict.fromkeys(given_up))
    return removed


def _remove(store: Store, of: Callable[[Document], bool], progress: Progress | None) -> int:
    """Remove every document of a kind; return how many."""
    first = looked_at = removed = 0
    while (batch := store.remove_next(first, BATCH, of)) is not None:
        first = batch.last + 1
        looked_at += batch.looked_at
        removed += batch.removed
        if progress:
            progress(looked_at, len(store) + removed)
    return removed
