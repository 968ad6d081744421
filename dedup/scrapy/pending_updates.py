"""Updates that a table service has not acknowledged yet.

    add -> (a batch of inserts, or of releases, sent at once) -> acknowledged, and counted

Invariant: updates of one page keep their order. They are repeated while the service does not
answer: at most LIMIT of them, and no longer than CLOSE_SECONDS after the crawl's end. An update that
fails goes to the end, so that an unavailable shard does not delay the others. An update that is given
up is counted as a fault.

    insert, release, forget   as the service's commands
    pin                       hold a reservation for an insert event that is on its way to Kafka; one
                              that fails costs nothing, and is not repeated
"""

import asyncio
from collections import deque
from typing import Literal, NamedTuple

from dedup.core.backoff import Backoff
from dedup.detector.remote import RemoteDetector
from dedup.model.errors import ServiceUnavailable
from dedup.model.page import Verdict
from dedup.scrapy.counts import Counts
from dedup.wire.client.command_codec import NoToken

__all__ = ["CLOSE_SECONDS", "PendingUpdates"]

Kind = Literal["insert", "pin", "release", "forget"]

LIMIT = 100_000  # waiting updates; beyond it the oldest is given up
BATCH = 256  # updates sent at once
TRIED = 4096  # waiting updates that are sent before a pause if some failed
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
CLOSE_SECONDS = 5.0

_GIVEN_UP = {
    "insert": "{} was parsed, but is not remembered",
    "release": "{} stays in flight until its reservation expires",
    "forget": "{} stays remembered although its item failed",
}
_COUNTED = {"insert": "inserted", "release": "released"}


class _Update(NamedTuple):
    kind: Kind
    key: str
    verdict: Verdict | None


class PendingUpdates:
    """The updates of one namespace."""

    def __init__(self, detector: RemoteDetector, counts: Counts) -> None:
        """Start with none."""
        self._detector = detector
        self._counts = counts
        self._waiting: deque[_Update] = deque()
        self._sending: list[_Update] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, kind: Kind, key: str, verdict: Verdict | None = None) -> None:
        """Send an update soon; forget needs only the key."""
        if len(self._waiting) >= LIMIT:
            self._give_up(self._waiting.popleft(), ServiceUnavailable("too many pages wait for it"))
        self._waiting.append(_Update(kind, key, verdict))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def close(self) -> None:
        """Send the rest, within CLOSE_SECONDS."""
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=CLOSE_SECONDS)
            self._task.cancel()
        error = ServiceUnavailable(f"no answer within {CLOSE_SECONDS:g} s of the crawl's end")
        for update in (*self._sending, *self._waiting):
            self._give_up(update, error)

    async def _send(self) -> None:
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        tried = failed = 0
        while self._waiting:
            self._sending = self._next_batch()
            with self._counts.meter:
                errors = await self._counts.meter.pausing(self._deliver(self._sending))
            again = []
            for update, error in zip(self._sending, errors, strict=True):
                if isinstance(error, ServiceUnavailable) and update.kind != "pin":
                    again.append(update)
                elif update.kind == "pin":
                    self._check_pin(error)
                elif error is not None:
                    self._give_up(update, error)
            tried += len(self._sending)
            failed += len(again)
            self._sending = []
            self._requeue(again)
            if tried < min(len(self._waiting), TRIED):
                continue
            if failed:
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()
            tried = failed = 0

    def _requeue(self, updates: list[_Update]) -> None:
        """Put failed updates at the end, followed by later updates of the same pages."""
        keys = {update.key for update in updates}
        after = [update for update in self._waiting if update.key in keys] if keys else []
        if after:
            self._waiting = deque(each for each in self._waiting if each.key not in keys)
        self._waiting.extend((*updates, *after))

    def _next_batch(self) -> list[_Update]:
        """Take out the first updates that are of one kind."""
        batch = [self._waiting.popleft()]
        while self._waiting and self._waiting[0].kind == batch[0].kind and len(batch) < BATCH:
            batch.append(self._waiting.popleft())
        return batch

    async def _deliver(self, batch: list[_Update]) -> list[Exception | None]:
        """Send a batch, count what is acknowledged, and return each one's error."""
        kind = batch[0].kind
        verdicts = [update.verdict for update in batch if update.verdict is not None]
        if kind == "forget":
            errors = [await self._forget(update.key) for update in batch]
        else:
            answers = await self._detector.end_many(kind, verdicts)
            errors = [each if isinstance(each, Exception) else None for each in answers]
        acknowledged = errors.count(None)
        if acknowledged and kind in _COUNTED:
            self._counts.add(_COUNTED[kind], acknowledged)
        return errors

    async def _forget(self, key: str) -> Exception | None:
        try:
            if await self._detector.forget(key):
                self._counts.add("released")
        except Exception as error:
            return error
        return None

    def _check_pin(self, error: Exception | None) -> None:
        """Count a pin that the service will never accept, since it does not read the events."""
        if error is not None and not isinstance(error, ServiceUnavailable | NoToken):
            self._counts.fault(error, "the service does not learn of the pages of this crawl")

    def _give_up(self, update: _Update, error: Exception) -> None:
        if update.kind == "pin":
            return
        self._counts.fault(error, _GIVEN_UP[update.kind].format(update.key))
        if update.verdict is not None:
            self._detector.release_later(update.verdict)
