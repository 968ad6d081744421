"""What a shard holds of the log: nothing of partitions that are others', and records in their places.

The rule kept here: a document of a partition that was given up, in whatever state a kill left that, is
removed before the partition is read again, so that what was forgotten meanwhile does not come back.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dedup.detector import Detector
from dedup.events import record_key
from dedup.shards import Share, partition_of

__all__ = ["give_up", "give_up_all", "misplaced"]

log = logging.getLogger(__name__)


def give_up(
    namespace: str,
    detector: Detector,
    share: Share,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Remove the documents of partitions that a share does not hold; return how many.

    Cut short, the next call goes on with it, whatever is held by then. See dedup.store.give_up().
    """
    return detector.give_up(
        share.partitions,
        lambda key: partition_of(record_key(namespace, key), share.count),
        progress,
    )


def give_up_all(
    views: Iterable[tuple[str, Detector]],
    path: Path,
    share: Share,
    say: Callable[[str], None],
) -> int:
    """Have every namespace of a folder give up what a share does not hold; return how many went."""
    removed = 0
    for name, detector in views:

        def progress(done: int, count: int, name: str = name) -> None:
            say(
                f"documents of other shards are being removed from {name}: {done:,} of {count:,} "
                "were looked at"
            )

        gone = give_up(name, detector, share, progress)
        if gone:
            log.warning(
                "%s: %s documents of partitions other than %s were removed",
                path / name,
                f"{gone:,}",
                share,
            )
        removed += gone
    return removed


def misplaced(batch: Mapping[int, list[Any]], count: int) -> Iterator[tuple[int, Any, int]]:
    """Yield (partition, record, its key's partition) of records that lie in another one.

    Whoever wrote them spreads keys in another way than Kafka's own producer.
    """
    for partition, records in batch.items():
        for record in records:
            if record.key is not None and (home := partition_of(record.key, count)) != partition:
                yield partition, record, home
