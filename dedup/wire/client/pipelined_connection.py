"""One connection to a table service, shared by everything that an asyncio loop asks of it.

    send -> (written together, once a turn of the loop) -> replies, in the order of the commands
    send_later -> (written with what is sent next, or soon by itself)

The rule kept here: a caller waits at most timeout_seconds, and gets the reply, ReplyError, or
ServiceUnavailable. The reply to what is sent later does not matter; commands of that kind without a
reply when the connection ends may not have come through, and are known. A connection on which nothing
at all was heard for timeout_seconds is aborted, with all that was asked on it. There is no coroutine
and no timer for each command: redis.asyncio takes 15 times the CPU time with 16 commands under way.
"""

import asyncio
from collections import deque
from contextlib import AbstractContextManager
from typing import Any, cast

import hiredis

from dedup.model.errors import ServiceUnavailable

__all__ = ["Connection", "ReplyError"]

LATER_SECONDS = 0.02  # for other commands: one alone costs the service twice as much
WAITING_LIMIT = 10_000  # commands without a reply; beyond it a command is refused


class ReplyError(Exception):
    """The service's answer is an error: "-CODE message"."""


class Connection(asyncio.Protocol):
    """Bytes out, replies in. `lost` is done, with the reason, when the connection ended."""

    def __init__(self, timeout_seconds: float, meter: AbstractContextManager[Any]) -> None:
        """Be the protocol of loop.create_connection(); meter is entered around the work done."""
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout_seconds
        self._meter = meter
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader(replyError=ReplyError)
        self._out: list[bytes] = []
        self._due = False  # whether that is written in this turn of the loop
        self._later: asyncio.TimerHandle | None = None  # when it is written otherwise
        # Each command without a reply: its caller's future, or the command itself if it has none.
        self._waiting: deque[asyncio.Future[Any] | bytes] = deque()
        self._deadlines: deque[float] = deque()  # of those written, in their order
        self._expired = 0  # of the first ones: their callers have given up
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0.0
        self.lost: asyncio.Future[str] = self._loop.create_future()
        self.undelivered: list[bytes] = []  # of send_later(), once the connection ended

    def send(self, data: bytes) -> asyncio.Future[Any]:
        """Send a command; the future gets its reply. Never waits. Raises ServiceUnavailable."""
        self._queue(data)
        if not self._due:
            self._due = True
            self._loop.call_soon(self._flush)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(future)
        return future

    def send_later(self, data: bytes) -> None:
        """Send a command whose reply does not matter, within LATER_SECONDS.

        Raises ServiceUnavailable.
        """
        self._queue(data)
        if self._later is None:
            self._later = self._loop.call_later(LATER_SECONDS, self._flush)
        self._waiting.append(data)

    def _queue(self, data: bytes) -> None:
        if self.lost.done() or self._transport is None:
            raise ServiceUnavailable("the connection is closed")
        if len(self._waiting) >= WAITING_LIMIT:
            raise ServiceUnavailable(f"{WAITING_LIMIT} commands wait for an answer")
        self._out.append(data)

    def close(self) -> None:
        """Close the connection; what is queued is sent, replies are not waited for."""
        if self._transport is not None:
            self._flush()
            self._transport.close()
        self._end("it was closed")

    # ------------------------------------------------------------------ called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin (asyncio's interface)."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Hand out replies (asyncio's interface)."""
        with self._meter:
            self._heard = self._loop.time()
            try:
                self._reader.feed(data)
                while (reply := self._reader.gets()) is not False:
                    self._hand_out(reply)
            except (hiredis.ProtocolError, IndexError) as error:
                self._abort(f"its answer is not RESP ({error})")

    def connection_lost(self, exc: Exception | None) -> None:
        """End (asyncio's interface)."""
        self._end(f"the connection broke ({exc})" if exc else "it closed the connection")

    def _hand_out(self, reply: Any) -> None:
        caller = self._waiting.popleft()
        self._deadlines.popleft()
        if self._expired:
            self._expired -= 1
        if isinstance(caller, bytes) or caller.done():  # expired, or cancelled
            return
        if isinstance(reply, ReplyError):
            caller.set_exception(reply)
        else:
            caller.set_result(reply)

    def _flush(self) -> None:
        self._due = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if not self._out or self._transport is None:
            return
        with self._meter:
            now = self._loop.time()
            if len(self._deadlines) == self._expired:
                self._heard = now  # no reply was due until now
            self._deadlines.extend([now + self._timeout] * len(self._out))
            self._transport.write(b"".join(self._out))
            self._out.clear()
            if self._timer is None:
                self._timer = self._loop.call_at(now + self._timeout, self._expire)

    def _expire(self) -> None:
        """End what is past its deadline; and the connection, if nothing was heard."""
        self._timer = None
        now = self._loop.time()
        while self._expired < len(self._deadlines) and self._deadlines[self._expired] <= now:
            caller = self._waiting[self._expired]
            self._expired += 1
            if not isinstance(caller, bytes) and not caller.done():
                caller.set_exception(self._late())
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
        self.undelivered = [caller for caller in waiting if isinstance(caller, bytes)]
        self.lost.set_result(reason)
        for timer in (self._timer, self._later):
            if timer is not None:
                timer.cancel()
        self._out.clear()
        self._deadlines.clear()
        self._expired = 0
        for caller in waiting:
            if not isinstance(caller, bytes) and not caller.done():
                caller.set_exception(ServiceUnavailable(reason))
