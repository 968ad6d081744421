"""Partitions that a service does not hold any more: their documents are given up and removed.

Invariant: a document of a partition that was given up is never an answer. Wherever a kill
interrupted its removal, it is gone before the partition is read again, so that a document whose
tombstone came meanwhile does not come back.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from dedup.detector import EmbeddedDetector
from dedup.model.events import record_key
from dedup.wire.shards import Share, partition_of

PAUSE_FACTOR = 4.0  # the pause after removing some documents, as a multiple of the time it took
RETRY_SECONDS = 10.0  # after a store took no changes

log = logging.getLogger(__name__)


def give_up(
    namespace: str,
    detector: EmbeddedDetector,
    share: Share,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Have a store give up the partitions outside a share; return how many documents were removed.

    Mostly none yet: they are marked, and clear() removes them. See dedup.store.give_up().
    """
    return detector.give_up(
        share.partitions,
        lambda key: partition_of(record_key(namespace, key), share.count),
        progress,
    )


def give_up_all(
    views: Iterable[tuple[str, EmbeddedDetector]],
    path: Path,
    share: Share,
    say: Callable[[str], None],
) -> int:
    """Do give_up() for every namespace of a folder; say() is told the progress."""
    removed = 0
    for name, detector in views:

        def progress(done: int, count: int, name: str = name) -> None:
            say(
                f"documents of other shards are being removed from {name}: {done:,} of {count:,} "
                "were looked at"
            )

        gone = give_up(name, detector, share, progress)
        if gone:
            _say_removed(path / name, gone, share)
        removed += gone
    return removed


async def clear(
    views: Iterable[tuple[str, EmbeddedDetector]],
    path: Path,
    share: Share,
    removed: Callable[[str, int], None],
) -> None:
    """Remove what was given up, a little at a time, while the service answers for the rest.

    removed is told the namespace and how many documents were removed. Raises StoreDamaged; a store that
    takes no changes is tried again. May be cancelled: the next start goes on.
    """
    for name, detector in views:
        gone = 0
        while True:
            began = time.monotonic()
            try:
                count = await asyncio.to_thread(detector.give_up_more)
            except OSError as error:
                log.error("%s: documents of other shards wait for the disk: %s", path / name, error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if count is None:
                break
            gone += count
            removed(name, count)
            await asyncio.sleep(PAUSE_FACTOR * (time.monotonic() - began))
        if gone:
            _say_removed(path / name, gone, share)


def _say_removed(store: Path, count: int, share: Share) -> None:
    log.warning(
        "%s: %s documents of partitions other than %s were removed", store, f"{count:,}", share
    )
