"""One connection to a table service, shared by everything that an asyncio loop asks of it.

    ask -> (written together, once a turn of the loop) -> answers, in the order of the commands
    tell -> (written with what is asked next, or soon by itself)

The rule kept here: an asker waits at most timeout_seconds, and gets the answer, ReplyError, or
ServiceUnavailable. Nobody waits for what is told; of what has no answer when the connection is over
it is known that it may not have come through. A connection on which nothing at all was heard for
timeout_seconds is given up, with all that was asked on it. No coroutine and no timer for each
command: redis.asyncio takes 15 times the CPU time with 16 commands under way.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import hiredis

from dedup.model.errors import ServiceUnavailable

__all__ = ["Link", "ReplyError"]

TOLD_SECONDS = 0.02  # what is told waits for company: alone it costs the service twice as much
WAITING_LIMIT = 10_000  # commands without an answer; beyond it a command is refused


class ReplyError(Exception):
    """The service's answer is an error: "-CODE message"."""


class Link(asyncio.Protocol):
    """A connection's two ends: bytes out, answers in. `lost` is done when it is over."""

    def __init__(self, timeout_seconds: float, meter: AbstractContextManager[Any]) -> None:
        """Be the protocol of loop.create_connection(); meter is entered around the work done."""
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout_seconds
        self._meter = meter
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader(replyError=ReplyError)
        self._out: list[bytes] = []
        self._asked = False  # whether something of that is written in this turn of the loop
        self._later: asyncio.TimerHandle | None = None  # when else it is
        # Each command that was not answered: who waits for it, or what nobody waits for; the deadline.
        self._waiting: deque[asyncio.Future[Any] | bytes] = deque()
        self._deadlines: deque[float] = deque()  # of those written, in their order
        self._expired = 0  # so many of the first ones are nobody's any more
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0.0
        self.lost: asyncio.Future[str] = self._loop.create_future()
        self.untold: list[bytes] = []  # once it is over: what may not have come through

    def ask(self, data: bytes) -> asyncio.Future[Any]:
        """Send a command; the future gets its answer. Raises ServiceUnavailable, and waits never."""
        self._send(data)
        if not self._asked:
            self._asked = True
            self._loop.call_soon(self._flush)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(future)
        return future

    def ask_all(self, commands: Sequence[bytes]) -> list[asyncio.Future[Any]]:
        """Send all of some commands, or none; as ask() does."""
        if len(self._waiting) + len(commands) > WAITING_LIMIT:
            raise ServiceUnavailable(f"{WAITING_LIMIT} commands wait for an answer")
        self._check_open()
        return [self.ask(data) for data in commands]

    def tell(self, data: bytes) -> None:
        """Send a command whose answer nobody needs, within TOLD_SECONDS. Raises ServiceUnavailable."""
        self._send(data)
        if self._later is None:
            self._later = self._loop.call_later(TOLD_SECONDS, self._flush)
        self._waiting.append(data)

    def _check_open(self) -> None:
        if self.lost.done() or self._transport is None:
            raise ServiceUnavailable("the connection is closed")

    def _send(self, data: bytes) -> None:
        self._check_open()
        if len(self._waiting) >= WAITING_LIMIT:
            raise ServiceUnavailable(f"{WAITING_LIMIT} commands wait for an answer")
        self._out.append(data)

    def close(self) -> None:
        """Close the connection; what is written is sent, what was asked is not waited for."""
        if self._transport is not None:
            self._flush()
            self._transport.close()
        self._end("it was closed")

    # ------------------------------------------------------------------ called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin (asyncio's interface)."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Hand out answers (asyncio's interface)."""
        with self._meter:
            self._heard = self._loop.time()
            try:
                self._reader.feed(data)
                while (reply := self._reader.gets()) is not False:
                    self._answer(reply)
            except (hiredis.ProtocolError, IndexError) as error:
                self._abort(f"its answer is not RESP ({error})")

    def connection_lost(self, exc: Exception | None) -> None:
        """End (asyncio's interface)."""
        self._end(f"the connection broke ({exc})" if exc else "it closed the connection")

    def _answer(self, reply: Any) -> None:
        whose = self._waiting.popleft()
        self._deadlines.popleft()
        if self._expired:
            self._expired -= 1
        if isinstance(whose, bytes) or whose.done():  # given up, by its time or by its asker
            return
        if isinstance(reply, ReplyError):
            whose.set_exception(reply)
        else:
            whose.set_result(reply)

    def _flush(self) -> None:
        self._asked = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if not self._out or self._transport is None:
            return
        with self._meter:
            now = self._loop.time()
            if len(self._deadlines) == self._expired:
                self._heard = now  # nothing was to be heard until now
            self._deadlines.extend([now + self._timeout] * len(self._out))
            self._transport.write(b"".join(self._out))
            self._out.clear()
            if self._timer is None:
                self._timer = self._loop.call_at(now + self._timeout, self._expire)

    def _expire(self) -> None:
        """Give up what is past its deadline; and the connection, if nothing was heard."""
        self._timer = None
        now = self._loop.time()
        while self._expired < len(self._deadlines) and self._deadlines[self._expired] <= now:
            whose = self._waiting[self._expired]
            self._expired += 1
            if not isinstance(whose, bytes) and not whose.done():
                whose.set_exception(self._late())
        if self._expired and now - self._heard >= self._timeout:
            self._abort(str(self._late()))
        elif self._expired < len(self._deadlines):
            self._timer = self._loop.call_at(self._deadlines[self._expired], self._expire)

    def _late(self) -> ServiceUnavailable:
        return ServiceUnavailable(f"no answer within {self._timeout:g} s")

    def _abort(self, reason: str) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._end(reason)

    def _end(self, reason: str) -> None:
        if self.lost.done():
            return
        waiting, self._waiting = self._waiting, deque()
        self.untold = [whose for whose in waiting if isinstance(whose, bytes)]
        self.lost.set_result(reason)
        for timer in (self._timer, self._later):
            if timer is not None:
                timer.cancel()
        self._out.clear()
        self._deadlines.clear()
        self._expired = 0
        for whose in waiting:
            if not isinstance(whose, bytes) and not whose.done():
                whose.set_exception(ServiceUnavailable(reason))
