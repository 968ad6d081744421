"""Pruning while others are answered (`dedup serve --keep`): documents older than an age are removed.

    ready -> a round: every namespace, some documents at a time -> a pause -> a round -> stop()

The rules kept here: a document whose time lies more than a day in the future was dated by a wrong clock,
would never grow old, and is removed, too. A command waits for one small batch at most, which takes milliseconds; between two
batches the others have several times as long. What fails is said, and tried again in the next round.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from dedup.detector import EmbeddedDetector
from dedup.service.core.namespaces import Namespaces

__all__ = ["Pruning", "pause_seconds"]

LONGEST_PAUSE_SECONDS = 3600.0  # between two rounds
PAUSE_SHARE = 0.1  # of the age: that a document may be older than asked for
FUTURE_SECONDS = 86_400.0  # by which a clock that dates documents may be ahead
PAUSE_FACTOR = 4.0  # the pause after a batch, as a multiple of the time it took

log = logging.getLogger(__name__)


def pause_seconds(keep_seconds: float) -> float:
    """Return how long to wait from one round to the next."""
    return min(LONGEST_PAUSE_SECONDS, PAUSE_SHARE * keep_seconds)


class Pruning:
    """Removes what is older than keep_seconds from the namespaces, until stop()."""

    def __init__(
        self,
        namespaces: Namespaces,
        keep_seconds: float,
        counts: Counter[str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Count what is removed as "pruned" in counts. clock gives Unix time."""
        self._namespaces = namespaces
        self._keep_seconds = keep_seconds
        self._counts = counts
        self._clock = clock
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Prune until stop(); it ends after the batch under way, so that stores can be closed."""
        while not self._stop.is_set():
            await self.round()
            await self._pause(pause_seconds(self._keep_seconds))

    def stop(self) -> None:
        """Have run() end."""
        self._stop.set()

    async def round(self) -> None:
        """Look at every document once."""
        now = self._clock()
        before, latest = now - self._keep_seconds, now + FUTURE_SECONDS
        for name, detector in self._namespaces:
            try:
                pruned = await self._prune(detector, before, latest)
            except Exception as error:
                log.error("%s is not pruned, until the next round: %s", name, error)
                continue
            if pruned:
                log.info("%s: old documents pruned: %s", name, f"{pruned:,}")

    async def _prune(self, detector: EmbeddedDetector, before: float, latest: float) -> int:
        first = pruned = 0
        while not self._stop.is_set():
            began = time.monotonic()
            batch = await asyncio.to_thread(detector.prune_more, before, first, latest)
            if batch is None:
                break
            first = batch.last + 1
            pruned += batch.removed
            self._counts["pruned"] += batch.removed
            await self._pause(PAUSE_FACTOR * (time.monotonic() - began))
        return pruned

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
