"""Updates that a service has not acknowledged yet: inserts, releases and forgets of one namespace.

    add -> (a batch of one kind, delivered at once) -> acknowledged; given up, with its error

Those of one page keep their order. They are repeated while the service does not answer: at most LIMIT of them, and no
longer than CLOSE_SECONDS after close(). One that fails goes to the end, so that an unavailable shard does not delay the
others.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from dedup.core.faults import Backoff
from dedup.model.errors import ServiceUnavailable
from dedup.model.page import Verdict

LIMIT = 100_000  # waiting updates; beyond it the oldest is given up
BATCH = 256  # updates sent at once
TRIED = 4096  # waiting updates that are sent before a pause if some failed
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
CLOSE_SECONDS = 5.0


class Update(NamedTuple):
    """An update; forget needs only the key."""

    kind: Literal["insert", "release", "forget"]
    key: str
    verdict: Verdict | None = None


class PendingUpdates:
    """The updates of one namespace, for the running loop."""

    def __init__(
        self,
        deliver: Callable[[list[Update]], Awaitable[list[Exception | None]]],
        give_up: Callable[[Update, Exception], object],
    ) -> None:
        """Start with none. deliver: sends a batch, and returns each one's error; give_up gets what is sent no more."""
        self._deliver, self._give_up = deliver, give_up
        self._waiting: deque[Update] = deque()
        self._sending: list[Update] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, update: Update) -> None:
        """Send an update soon."""
        if len(self._waiting) >= LIMIT:
            self._give_up(self._waiting.popleft(), ServiceUnavailable("too many pages wait for it"))
        self._waiting.append(update)
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
            errors = await self._deliver(self._sending)
            again = []
            for update, error in zip(self._sending, errors, strict=True):
                if isinstance(error, ServiceUnavailable):
                    again.append(update)
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

    def _requeue(self, updates: list[Update]) -> None:
        """Put failed updates at the end, followed by later updates of the same pages."""
        keys = {update.key for update in updates}
        after = [update for update in self._waiting if update.key in keys] if keys else []
        if after:
            self._waiting = deque(each for each in self._waiting if each.key not in keys)
        self._waiting.extend((*updates, *after))

    def _next_batch(self) -> list[Update]:
        """Take out the first updates that are of one kind."""
        batch = [self._waiting.popleft()]
        while self._waiting and self._waiting[0].kind == batch[0].kind and len(batch) < BATCH:
            batch.append(self._waiting.popleft())
        return batch
