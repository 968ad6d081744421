"""How far a worker is: what is at hand, done, and committed, in each partition that it has.

    read -> at hand -> done -> due -> committed

The rule kept here: an offset is committed once everything before it is done, never on the word of
another member; what partitions came to is forgotten when they are taken away.
"""

import asyncio
import logging
import time

from dedup.wire.kafka.group import Member
from dedup.worker.options import Config
from dedup.worker.page_batch import Batch, Offsets
from dedup.worker.worker_metrics import Metrics

__all__ = ["Progress"]

log = logging.getLogger("dedup.worker")


class Progress:
    """The state of a worker's partitions.

    at_hand  records that were read and are not done
    done     records that are, since the start, by status/reason
    """

    def __init__(self, config: Config, metrics: Metrics) -> None:
        """Start with no partition."""
        self.at_hand = 0
        self.done: dict[str, int] = {}
        self._begin = config.begin
        self._until_end = config.until_end
        self._metrics = metrics
        self._settled: Offsets = {}  # the next offsets that are not done
        self._due: Offsets = {}  # of those, to be committed
        self._committing = asyncio.Lock()
        self._last_ms: dict[tuple[str, int], int] = {}  # timestamps of the last records done
        self._targets: Offsets | None = None  # with until_end

    @property
    def total(self) -> int:
        """The number of records that are done, since the start."""
        return sum(self.done.values())

    def finished(self, batch: Batch) -> None:
        """Take note of a batch whose records are all done."""
        self._metrics.batch(batch.counts)
        for name, number in batch.counts.items():
            self.done[name] = self.done.get(name, 0) + number
        offsets = batch.offsets()
        self._settled |= offsets
        self._due |= offsets
        self._last_ms |= batch.timestamps()
        self.at_hand -= len(batch)

    async def commit(self, member: Member) -> None:
        """Commit what is done and was not committed; what fails is tried again later."""
        async with self._committing:
            due = dict(self._due)
            if due and await member.commit(due):
                self._metrics.events.labels("commits").inc()
                for place, offset in due.items():
                    if self._due.get(place) == offset:
                        del self._due[place]

    def disown(self) -> None:
        """Forget where partitions stood: they are another member's, or were assigned again."""
        self._settled.clear()
        self._last_ms.clear()
        self._due.clear()

    async def own(self, member: Member) -> None:
        """Note where new partitions stand, and what they lost before it was read."""
        for place, (committed, begin) in (await member.standing()).items():
            if place not in self._settled:
                self._settled[place] = begin if committed is None else committed
            if committed is not None and committed < begin:
                self._metrics.expired.inc(begin - committed)
                if self._begin == "latest":  # which is meant for a group without offsets
                    member.seek(place, begin)
                log.error(
                    "%d records of %s, partition %d, were dropped by the topic before they were "
                    "read; lengthen its retention, or add workers",
                    begin - committed,
                    *place,
                )

    async def look_further(self, member: Member) -> bool:
        """Note positions where nothing is at hand; say whether all of the start's end is done."""
        ends = await member.ends()  # whether or not it is needed: it shows that the broker answers
        if self._until_end and self._targets is None and ends:
            self._targets = ends
        epoch, positions = member.epoch, await member.positions()
        if self.at_hand or self._due or epoch != member.epoch or not positions:
            return False
        self._settled |= positions  # further than the last record where a transaction ended
        targets = self._targets
        return targets is not None and all(
            position >= targets.get(place, 0) for place, position in positions.items()
        )

    def show(self, member: Member) -> None:
        """Bring the lag metrics up to date. Sends no request."""
        now = time.time()
        places = []
        for place, end in member.ends_seen().items():
            behind = max(0, end - self._settled.get(place, end))
            last = self._last_ms.get(place)
            seconds = max(0.0, now - last / 1000) if behind and last is not None else 0.0
            places.append((*place, behind, seconds))
        self._metrics.lag(places)
