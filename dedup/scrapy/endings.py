"""What a crawl has still to tell a table service: pages that ended, until it has acknowledged them.

    add -> (a run of inserts, or of releases, under way at once) -> counted

The rule kept here: those of a page in their order, again and again while the service does not answer
that they are for, at most LIMIT of them, and no longer than CLOSE_SECONDS after the crawl's end. What
fails goes behind all others, so that a shard that is away holds up no other's. What is given up is
counted as a fault.

    insert, release, forget   as the service's commands
    pin                       hold a reservation for an insert event that is under way by itself; one
                              that fails costs nothing, and is not repeated
"""

import asyncio
from collections import deque
from typing import Literal, NamedTuple

from dedup.model.errors import ServiceUnavailable
from dedup.model.values import Verdict
from dedup.scrapy.counts import Counts
from dedup.wire.client import AsyncServiceDetector
from dedup.wire.client.commands import NoToken

__all__ = ["CLOSE_SECONDS", "Endings"]

Kind = Literal["insert", "pin", "release", "forget"]

LIMIT = 100_000  # endings that wait; beyond it the oldest is given up
RUN = 256  # endings under way at once
TRIED = 4096  # of those that wait, before a pause if some failed
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
CLOSE_SECONDS = 5.0

_GIVEN_UP = {
    "insert": "{} was parsed, but is not remembered",
    "release": "{} stays in flight until its reservation expires",
    "forget": "{} stays remembered although its item failed",
}
_COUNTED = {"insert": "inserted", "release": "released"}


class _Ending(NamedTuple):
    kind: Kind
    key: str
    verdict: Verdict | None


class Endings:
    """The endings of one namespace."""

    def __init__(self, detector: AsyncServiceDetector, counts: Counts) -> None:
        """Start with none."""
        self._detector = detector
        self._counts = counts
        self._waiting: deque[_Ending] = deque()
        self._sending: list[_Ending] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, kind: Kind, key: str, verdict: Verdict | None = None) -> None:
        """Tell the service, soon, how a page ended; forget needs the key only."""
        if len(self._waiting) >= LIMIT:
            self._give_up(self._waiting.popleft(), ServiceUnavailable("too many pages wait for it"))
        self._waiting.append(_Ending(kind, key, verdict))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def close(self) -> None:
        """Send the rest, within CLOSE_SECONDS."""
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=CLOSE_SECONDS)
            self._task.cancel()
        error = ServiceUnavailable(f"no answer within {CLOSE_SECONDS:g} s of the crawl's end")
        for ending in (*self._sending, *self._waiting):
            self._give_up(ending, error)

    async def _send(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        tried = failed = 0
        while self._waiting:
            self._sending = self._run()
            with self._counts.meter:
                errors = await self._counts.meter.pausing(self._end(self._sending))
            again = []
            for ending, error in zip(self._sending, errors, strict=True):
                if isinstance(error, ServiceUnavailable) and ending.kind != "pin":
                    again.append(ending)
                elif ending.kind == "pin":
                    self._check_pin(error)
                elif error is not None:
                    self._give_up(ending, error)
            tried += len(self._sending)
            failed += len(again)
            self._sending = []
            self._put_off(again)
            if tried < min(len(self._waiting), TRIED):
                continue
            if failed:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            else:
                pause = FIRST_PAUSE_SECONDS
            tried = failed = 0

    def _put_off(self, endings: list[_Ending]) -> None:
        """Put what failed behind all others, and behind it what else is to be told of the same pages."""
        keys = {ending.key for ending in endings}
        after = [ending for ending in self._waiting if ending.key in keys] if keys else []
        if after:
            self._waiting = deque(each for each in self._waiting if each.key not in keys)
        self._waiting.extend((*endings, *after))

    def _run(self) -> list[_Ending]:
        """Take the first ones out that are of one kind; the order of kinds is kept."""
        run = [self._waiting.popleft()]
        while self._waiting and self._waiting[0].kind == run[0].kind and len(run) < RUN:
            run.append(self._waiting.popleft())
        return run

    async def _end(self, run: list[_Ending]) -> list[Exception | None]:
        """Tell the service, count what it acknowledged, and return each one's error."""
        kind = run[0].kind
        verdicts = [ending.verdict for ending in run if ending.verdict is not None]
        if kind == "forget":
            errors = [await self._forget(ending.key) for ending in run]
        else:
            errors = await self._detector.end_many(kind, verdicts)
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
        """Count a pin that the service will never take: it does not read the events."""
        if error is not None and not isinstance(error, ServiceUnavailable | NoToken):
            self._counts.fault(error, "the service does not learn of the pages of this crawl")

    def _give_up(self, ending: _Ending, error: Exception) -> None:
        if ending.kind == "pin":
            return
        self._counts.fault(error, _GIVEN_UP[ending.kind].format(ending.key))
        if ending.verdict is not None:
            self._detector.let_go(ending.verdict)
