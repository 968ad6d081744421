"""The RESP port: a connection's bytes become commands, and the answers go back in their order.

    bytes -> (bounds) -> hiredis parser -> runs of commands alike | single ones -> answers -> bytes

The rules kept here:
  - Nothing is taken from a connection without a bound: the length of a command, its elements, the
    time it takes, what is not yet answered, and what is not yet read by the other side.
  - Probes of one read that are alike but for their values go into one native call; its inserts into
    one commit, where they are committed here.
  - A connection gives way to the others after a few milliseconds of work.
  - What is not RESP ends the connection, with an error that says so. There are no inline commands:
    a browser cannot be made to speak to this port.
"""

import asyncio
import logging
import re
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

import hiredis

from dedup.model.errors import DedupError
from dedup.service.core.logs import log_now_and_then
from dedup.service.core.operations import code, message
from dedup.service.resp import protocol as wire
from dedup.service.resp.commands import PROBE, probe, run, run_together
from dedup.service.resp.session import Later, Session

if TYPE_CHECKING:
    from dedup.service.resp.connections import Connections

__all__ = ["Connection"]

log = logging.getLogger(__name__)

RUN = 512  # probes in one native call, inserts in one commit
SLICE_SECONDS = 0.005  # of work before other connections have their turn
SHORT = 200  # bytes of a read that has no two probes
WRITTEN = 1 << 17  # bytes of answers that are put together before they are written

# hiredis makes room for an array when it has read its length, so that is looked at before. A line
# that begins with the sign of an array and a long number is refused wherever it stands, in a bulk
# string too.
_LONG_ARRAY = re.compile(rb"\n[*>~%|][0-9]{6}")
_LONG_GREETING = re.compile(rb"\n[*>~%|][0-9]{3}")
_MAY_BE_LONG = re.compile(rb"\*[0-9]{6}")  # found several times as fast, where there is none
_TAIL = 8  # bytes that such a start can have in the read before, and more
_MISSING = object()


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, connections: "Connections", number: int) -> None:
        self._all = connections
        self._limits = connections.limits
        self._session = Session(connections.commands, connections.plans, connections.token, number)
        self._reader = hiredis.Reader(notEnoughData=_MISSING)
        self._transport: Any = None
        self._tail = b"\n"
        self._unparsed = 0  # bytes since the last whole command, at most
        self._read = 0  # bytes of the last read
        self._whole = False  # whether a command was whole since then
        self._singly: deque[Any] = deque()  # commands that are not to be one native call
        self._answers: list[bytes] = []  # not yet written
        self._answered = 0  # their bytes
        self._waiting: deque[bytes | Later] = deque()  # answers behind one that is still to come
        self._again: asyncio.Handle | None = None  # the next slice of work
        self._paused = False  # reading
        self._finishing = False  # closed once all is answered
        self._began = self._heard = monotonic()
        self._partial: float | None = None  # since when a command is not whole
        self._unread: float | None = None  # since when the other side reads too slowly
        self._closed: float | None = None  # since when only the last answers are on their way

    # ------------------------------------------------------------------------ asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection, unless there are too many."""
        self._transport = transport
        everyone = self._all
        everyone.open.add(self)
        if everyone.draining or len(everyone.open) > self._limits.connections:
            everyone.ended["too_many"] += 1
            self._answer(wire.error("ERR", "max number of clients reached"))
            self.finish()
            return
        self._transport.set_write_buffer_limits(high=self._limits.output_bytes)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (asyncio's)
        """Forget the connection. Its reservations stay until they are ended or expire."""
        everyone = self._all
        everyone.open.discard(self)
        if everyone.draining and not everyone.open:
            everyone.none_open.set()
        self._closed = monotonic()
        self._waiting.clear()
        self._singly.clear()
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def pause_writing(self) -> None:
        """Stop taking commands: the other side does not read the answers."""
        self._unread = monotonic()
        self._pause()

    def resume_writing(self) -> None:
        """Go on."""
        self._unread = None
        self._work_soon()

    def eof_received(self) -> bool:
        """Answer what was asked, then close."""
        self.finish()
        return self._transport.get_extra_info("sslcontext") is None

    def data_received(self, data: bytes) -> None:
        """Take some bytes."""
        if self._closed is not None or self._finishing:
            return
        began = self._heard = monotonic()
        seen = self._tail + data
        if _has_long_array(seen) if self._session.trusted else _LONG_GREETING.search(seen):
            self._refuse("an array of so many elements is not allowed")
            return
        self._tail = seen[-_TAIL:]
        self._read = len(data)
        self._unparsed += len(data)
        reader = self._reader
        reader.feed(data)
        if self._again is not None or self._paused:
            return
        if len(data) < SHORT and not self._waiting and self._unparsed == len(data):
            # one probe and nothing else, as most reads are: the short way through _work()
            try:
                command = reader.gets()
            except hiredis.HiredisError:
                command = None
            if _is_probe(command) and self._session.trusted and not reader.has_data():
                try:
                    answer = probe(self._session.plans, command)
                except Exception:
                    self._singly.append(command)
                else:
                    self._unparsed = 0
                    self._transport.write(answer)
                    everyone = self._all
                    everyone.asked[PROBE] += 1
                    everyone.durations.note(monotonic() - began, 1)
                    return
            elif command is not _MISSING:
                self._whole = True
                self._singly.append(command)
        self._work()

    # ------------------------------------------------------------------------------------ the work

    def _work(self) -> None:
        """Carry out commands until there is none, or others should have their turn."""
        self._again = None
        deadline = monotonic() + SLICE_SECONDS
        try:
            while self._may_work():
                if self._singly:
                    self._run_one(self._singly.popleft())
                elif not self._next():
                    break
                if monotonic() > deadline:
                    self._work_soon()
                    break
        except _NotResp as fault:
            self._refuse(str(fault))
            return
        self._flush()
        if self._session.closing:
            self._end_if_answered()

    def _may_work(self) -> bool:
        if self._closed is not None or self._session.closing or self._unread is not None:
            return False
        if len(self._waiting) < self._limits.unanswered:
            return True
        self._pause()
        return False

    def _next(self) -> bool:
        """Carry out the next commands that are whole; False if there is none."""
        gets, trusted = self._reader.gets, self._session.trusted
        alike: list[list[bytes]] = []
        try:
            command = gets()
            if trusted and self._session.together(command):
                length, options = len(command), command[4:]
                name, namespace = command[0], command[1]
                while True:
                    alike.append(command)
                    command = gets()
                    if (
                        type(command) is not list
                        or len(command) != length
                        or command[4:] != options
                        or command[1] != namespace
                        or command[0] != name
                        or len(alike) == RUN
                    ):
                        break
        except hiredis.HiredisError:
            command = None
        if alike:
            self._whole = True
            self._run_alike(alike)
            if self._singly and command is not _MISSING:
                self._singly.append(command)
        if self._singly:
            return True
        if command is _MISSING:
            self._all_taken()
            return False
        self._whole = True
        self._run_one(command)
        return True

    def _all_taken(self) -> None:
        """Note how much of the next command is there, and since when."""
        if not self._reader.has_data():
            self._unparsed, self._partial = 0, None
        else:
            if self._whole:
                self._unparsed, self._partial = min(self._unparsed, self._read), self._heard
            elif self._partial is None:
                self._partial = self._heard
            limits = self._limits
            if self._unparsed > (
                limits.command_bytes if self._session.trusted else limits.greeting_bytes
            ):
                raise _NotResp("a command of so many bytes is not allowed")
        self._whole = False
        if self._finishing:
            self._end_if_answered()
        elif self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _run_alike(self, alike: list[list[bytes]]) -> None:
        """Carry out commands that are alike at once."""
        count = len(alike)
        if count == 1:
            self._run_one(alike[0])
            return
        began = monotonic()
        try:
            self._answer(run_together(self._session, alike))
        except Exception:  # one of them at fault, or too much at once: each for itself
            self._singly.extend(alike)
            return
        everyone = self._all
        everyone.asked[alike[0][0]] += count
        everyone.durations.note(monotonic() - began, count)

    def _run_one(self, command: Any) -> None:
        if type(command) is not list:
            raise _NotResp("a command is an array of bulk strings")
        if not command:
            return
        began = monotonic()
        everyone, session = self._all, self._session
        name = command[0]
        try:
            if name == PROBE and session.trusted:
                answer: bytes | Later = probe(session.plans, command)
            else:
                name, answer = run(session, command)
        except Exception as fault:
            if any(type(each) is not bytes for each in command):
                raise _NotResp("a command is an array of bulk strings") from fault
            answer = self._fault(fault)
            name = b"refused"
        everyone.asked[name] += 1
        everyone.durations.note(monotonic() - began, 1)
        if isinstance(answer, bytes):
            self._answer(answer)
        else:
            self._put_off(answer)
        if session.closing:
            self._flush()
            self.finish()

    def _fault(self, fault: BaseException) -> bytes:
        """Return the answer for an error."""
        error = fault if isinstance(fault, Exception) else TimeoutError("stopped")
        word = code(error)
        self._all.errors[word] += 1
        if not isinstance(error, DedupError | OSError):
            log.error("a command failed by a fault of ours", exc_info=error)
        elif word == "STORE":
            log_now_and_then(log, word, message(error))
        return wire.error(word, message(error))

    # --------------------------------------------------------------------------------- the answers

    def _answer(self, data: bytes) -> None:
        if self._waiting:
            self._waiting.append(data)
            return
        self._answers.append(data)
        self._answered += len(data)
        if self._answered > WRITTEN:
            self._flush()

    def _flush(self) -> None:
        if self._answers and self._closed is None:
            data = b"".join(self._answers)
            self._answers.clear()
            self._answered = 0
            self._transport.write(data)

    def _put_off(self, later: Later) -> None:
        self._flush()
        self._waiting.append(later)
        later.future.add_done_callback(self._came)

    def _came(self, _: "asyncio.Future[Any]") -> None:
        """Write the answers that have come, up to one that has not."""
        waiting = self._waiting
        while waiting:
            first = waiting[0]
            if isinstance(first, Later):
                if not first.future.done():
                    break
                try:
                    first = first.encode(first.future.result())
                except BaseException as fault:  # a cancelled future, too
                    first = self._fault(fault)
            waiting.popleft()
            self._answers.append(first)
        self._flush()
        if self._paused or self._finishing:
            self._work_soon()

    # ------------------------------------------------------------------------------ beginning, end

    def _work_soon(self) -> None:
        if self._again is None and self._closed is None:
            self._pause()
            self._again = asyncio.get_running_loop().call_soon(self._work)

    def _pause(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _refuse(self, reason: str) -> None:
        """End a connection that does not speak RESP, or beyond the bounds."""
        self._all.ended["protocol"] += 1
        self._answer(wire.error("ERR", f"Protocol error: {reason}"))
        self._session.closing = True
        self._singly.clear()
        self.finish()

    def finish(self) -> None:
        """Take no more bytes; answer what was taken, then close."""
        self._finishing = True
        self._pause()
        self._end_if_answered()

    def _end_if_answered(self) -> None:
        if self._closed is None and not (self._waiting or self._singly or self._again):
            self._flush()
            self._closed = monotonic()
            self._transport.close()

    def overdue(self, now: float) -> str | None:
        """Return why this connection should end now, or None."""
        limits = self._limits
        for reason, since, seconds in (
            ("unread", self._closed, limits.unread_seconds),
            ("unread", self._unread, limits.unread_seconds),
            ("slow", self._partial, limits.command_seconds),
            ("greeting", None if self._session.trusted else self._began, limits.greeting_seconds),
            ("idle", None if self._waiting else self._heard, limits.idle_seconds),
        ):
            if since is not None and now - since > seconds:
                return reason
        return None

    def abort(self, reason: str) -> None:
        """End the connection at once."""
        self._all.ended[reason] += 1
        self._closed = monotonic()
        self._transport.abort()


def _has_long_array(data: bytes) -> bool:
    if not _MAY_BE_LONG.search(data) and not (
        b">" in data or b"~" in data or b"%" in data or b"|" in data
    ):
        return False
    return _LONG_ARRAY.search(data) is not None


def _is_probe(command: Any) -> bool:
    return type(command) is list and len(command) > 5 and command[0] == PROBE


class _NotResp(Exception):
    """What came is not RESP, or beyond the bounds."""
