"""The RESP port: bytes become commands, and the answers go back in their order.

    bytes -> Incoming -> batches of equal commands | single ones -> Answers -> bytes

Invariants:
  - Nothing is taken from a connection without a bound: the length of a command, its elements, the time it takes, the
    commands without an answer, and the answers that the client has not read.
  - Probes of one read that differ only in their values go into one native call; inserts into one commit, where they
    are committed here. An answer is written only after all answers before it.
  - After a few milliseconds of work other connections have their turn.
  - What is not RESP closes the connection, with an error that says so: no web page can make a browser send a command.
"""

import asyncio
import logging
from collections import Counter, deque
from time import monotonic
from typing import Any

from dedup.model.errors import DedupError
from dedup.service.connections import Buffers, Connections, address_of, subject_of
from dedup.service.core.access import Tokens
from dedup.service.core.command_table import COMMANDS
from dedup.service.core.config import Limits
from dedup.service.core.operations import PROBES, Operations
from dedup.service.core.refusal import code, log_rate_limited, message
from dedup.service.core.turns import FIRST_SECONDS, SLICE_SECONDS, SMALL_SECONDS
from dedup.service.resp.commands import run, run_together
from dedup.service.resp.plans import Plans
from dedup.service.resp.session import Later, RespSession
from dedup.wire import resp
from dedup.wire.metrics import Durations
from dedup.wire.resp import MISSING, Incoming, NotResp

log = logging.getLogger(__name__)


BOUNDS = (
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 1.0,
)  # fmt: skip  # of the durations of commands, in seconds


class Port(Connections):
    """The state of the port.

    accepted   how many connections there were
    asked      commands by name
    errors     error answers by code
    durations  of commands
    turns      of connections whose commands take more than a slice
    """

    def __init__(self, commands: Operations, limits: Limits, tokens: Tokens) -> None:
        super().__init__(
            limits.connections,
            Buffers(limits.unread_memory),
            Buffers(limits.partial_memory),
            most_of_address=limits.connections_of_address,
        )
        self.commands = commands
        self.plans = Plans(commands)
        self.limits = limits
        self.tokens = tokens
        self.accepted = 0
        self.asked: Counter[bytes] = Counter()
        self.errors: Counter[str] = Counter()
        self.durations = Durations(BOUNDS)
        self.turns = commands.turns


# ------------------------------------------------------------------------------------ a connection

WRITE_BYTES = 1 << 17  # of answers that are collected before they are written


class Answers:
    """The answers of one connection that are not written yet.

    ready      those that wait for no other
    waiting    those behind one that is still to come, it included
    transport  where they are written to; None: the connection is closed
    """

    def __init__(self, owner: "Connection") -> None:
        self.waiting: deque[bytes | Later] = deque()
        self.transport: Any = None
        self._owner: Connection | None = owner
        self.ready: list[bytes] = []
        self._ready_bytes = 0

    def add(self, answer: bytes) -> None:
        """Add an answer; flush() writes it."""
        if self.waiting:
            self.waiting.append(answer)
            return
        self.ready.append(answer)
        self._ready_bytes += len(answer)
        if self._ready_bytes > WRITE_BYTES:
            self.flush()

    def add_later(self, later: Later) -> None:
        """Add an answer that is still to come; it is written as soon as it has come."""
        self.flush()
        self.waiting.append(later)
        later.future.add_done_callback(self._write_arrived)

    def flush(self) -> None:
        """Write the answers that wait for no other."""
        if self.ready and self.transport is not None:
            data = b"".join(self.ready)
            self.ready.clear()
            self._ready_bytes = 0
            self.transport.write(data)

    def close(self) -> None:
        """Write nothing any more, and free everything: no cycle keeps a closed connection's memory."""
        self.transport = self._owner = None
        self.waiting.clear()
        self.ready.clear()

    def _write_arrived(self, _: "asyncio.Future[Any]") -> None:
        """Write the answers that have come, up to one that has not."""
        waiting, owner = self.waiting, self._owner
        if owner is None:
            return
        while waiting:
            first = waiting[0]
            if isinstance(first, Later):
                if not first.future.done():
                    break
                try:
                    first = first.encode(first.future.result())
                except BaseException as fault:  # noqa: BLE001 - becomes the answer of the command at fault
                    first = owner.encoded_fault(fault)
            waiting.popleft()
            self.ready.append(first)
        self.flush()
        owner.answers_arrived()


SMALL_BYTES = 1 << 14  # of a command that is not whole; less is not counted


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, port: Port) -> None:
        self.address = ""
        self._port = port
        self._limits = port.limits
        port.accepted += 1
        self.session = RespSession(port.commands, port.plans, port.tokens, port.accepted)
        self._incoming = Incoming(port.limits.command_bytes, port.limits.greeting_bytes)
        self._answers = Answers(self)
        self._transport: Any = None
        self._unbatched: deque[list[bytes]] = deque()  # commands that are not to be batched
        self._scheduled = False  # the next slice of work waits in the port's queue
        self._paused = False  # reading
        self._finishing = False  # to be closed once everything is answered
        self._began = self._last_command_at = monotonic()  # connected, last command
        self._has_partial = False  # much of a command that is not whole, or a MULTI's queue
        self._never_spoke = True  # has sent no valid command
        self._unread_since: float | None = None  # the client reads its answers too slowly
        self._closed_since: float | None = None  # only the last answers are on their way

    # ------------------------------------------------------------------------ asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection, unless there are too many."""
        self._transport = self._answers.transport = transport
        port, session = self._port, self.session
        self.address = session.address = address_of(transport)
        session.subject = subject_of(transport)
        refused = port.admit(self)
        if refused is not None:
            port.ended[refused] += 1
            self._answers.add(resp.error("ERR", "max number of clients reached"))
            self.finish()
            return
        self._transport.set_write_buffer_limits(high=self._limits.unread_share)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (asyncio's)
        """Drop the connection. Its reservations stay until they are ended or expire."""
        self._port.gone(self)
        self._closed_since = monotonic()
        self._answers.close()
        self._unbatched.clear()

    def pause_writing(self) -> None:
        """Stop taking commands: the client does not read its answers."""
        self._unread_since = monotonic()
        self._pause()
        self._note_unread()

    def resume_writing(self) -> None:
        """Take commands again."""
        self._unread_since = None
        self._port.unread.note(self, 0)
        self._schedule()

    def _note_unread(self) -> None:
        size = self._transport.get_write_buffer_size() + self._incoming.unparsed_bytes
        self._port.unread.note(self, size)

    def eof_received(self) -> bool:
        """Answer what was asked, then close."""
        self.finish()
        return self._transport.get_extra_info("sslcontext") is None

    def data_received(self, data: bytes) -> None:
        """Take some bytes."""
        if self._closed_since is not None or self._finishing:
            return
        now = monotonic()
        self._incoming.feed(data, now)
        if self._scheduled or self._paused:
            return
        turns = self._port.turns
        lane = turns.newcomers if self._never_spoke else turns.others
        if lane.left > 0 and not lane.waiting:
            self._work(now)
            if (spent := self._last_command_at - now) > SMALL_SECONDS:
                turns.spend(lane, spent)
        else:
            self._schedule()

    # ------------------------------------------------------------------------------------ the work

    def resume(self) -> None:
        """Carry out the next slice of work."""
        self._scheduled = False
        if self._closed_since is None:
            self._work()
            if self.session.closing:
                self._close_if_answered()

    def _work(self, now: float | None = None) -> None:
        """Carry out commands until there is none, or it is the turn of other connections."""
        until = (now or monotonic()) + (FIRST_SECONDS if self._never_spoke else SLICE_SECONDS)
        incoming, session, unbatched = self._incoming, self.session, self._unbatched
        try:
            while self._may_work():
                if unbatched:
                    self._run_one(unbatched.popleft())
                elif (command := incoming.next(session.trusted)) is MISSING:
                    self._all_taken()
                    break
                elif incoming.unparsed_bytes and session.is_plain and session.can_batch(command):
                    self._run_together(self._alike(command))
                else:
                    self._run_one(command)
                if not incoming.unparsed_bytes and not unbatched:
                    if (
                        self._paused
                        or self._finishing
                        or self._has_partial
                        or session.queued_memory
                    ):
                        self._all_taken()
                    break
                if monotonic() > until:
                    self._schedule()
                    break
        except NotResp as fault:
            self._refuse(str(fault))
            return
        if self._answers.ready:
            self._answers.flush()

    def _may_work(self) -> bool:
        if self._closed_since is not None or self.session.closing or self._unread_since is not None:
            return False
        waiting = self._answers.waiting
        if not waiting:
            return True
        last = waiting[-1]
        if len(waiting) < self._limits.unanswered and not (isinstance(last, Later) and last.alone):
            return True
        self._pause()
        return False

    def _alike(self, command: list[bytes]) -> list[list[bytes]]:
        """Return a command and those behind it that go with it (Command.together); the next one is to be run by itself."""
        take, batch = self._incoming.next, [command]
        name, namespace, options, length = command[0], command[1], command[3:], len(command)
        are_inserts = COMMANDS[name].together == "inserts"
        while len(batch) < PROBES:
            try:
                command = take(True)
            except NotResp:  # which next() raises again, once the batch was carried out
                break
            if command is MISSING:
                break
            is_alike = command[0] == name and command[1:2] == [namespace] and (
                len(command) >= 4
                if are_inserts
                else len(command) == length and command[3:] == options
            )  # fmt: skip
            if not is_alike:
                self._unbatched.append(command)
                break
            batch.append(command)
        return batch

    def _all_taken(self) -> None:
        """Read on, or close where that is all that is left to do."""
        partial = self._incoming.unparsed_bytes
        partial = (partial if partial > SMALL_BYTES else 0) + self.session.queued_memory
        if partial or self._has_partial:
            self._has_partial = bool(partial)
            self._port.partial.note(self, partial)
        if self._finishing:
            self._close_if_answered()
        elif self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _run_together(self, equal: list[list[bytes]]) -> None:
        """Carry out commands that can be batched, at once."""
        count = len(equal)
        if count == 1:
            self._run_one(equal[0])
            return
        began, port = monotonic(), self._port
        try:
            self._answers.add(run_together(self.session, equal))
        except Exception:  # noqa: BLE001 - becomes the answer of the command at fault
            self._unbatched.extendleft(reversed(equal))
            return
        port.asked[equal[0][0]] += count
        if self._never_spoke:
            self._spoke()
        self._last_command_at = now = monotonic()
        port.durations.note(now - began, count)

    def _run_one(self, command: list[bytes]) -> None:
        began, port, session = monotonic(), self._port, self.session
        try:
            name, answer = run(session, command)
        except Exception as fault:  # noqa: BLE001 - becomes the answer of the command at fault
            name, answer = b"refused", self._refusal(fault)
        port.asked[name] += 1
        self._last_command_at = now = monotonic()
        port.durations.note(now - began, 1)
        answers = self._answers
        if not isinstance(answer, bytes):
            answers.add_later(answer)
        elif answers.ready or answers.waiting or self._incoming.unparsed_bytes:
            answers.add(answer)
        else:  # the only one of its read
            self._transport.write(answer)
        if self._never_spoke and session.trusted:
            self._spoke()
        if session.closing:
            self._answers.flush()
            self.finish()

    def _spoke(self) -> None:
        """Mark the client active: it sent a valid command."""
        self._never_spoke = False
        self._port.mark_active(self)

    def _refusal(self, fault: Exception) -> bytes:
        """Return the answer to a command that failed."""
        self.session.spoilt = True
        return self.encoded_fault(fault)

    def encoded_fault(self, fault: BaseException) -> bytes:
        """Return the answer for an error."""
        error = fault if isinstance(fault, Exception) else TimeoutError("stopped")
        word = code(error)
        self._port.errors[word] += 1
        if not isinstance(error, DedupError | OSError):
            log_rate_limited(log, "internal", "a command failed: internal error", error)
        elif word == "STORE":
            log_rate_limited(log, word, message(error))
        return resp.error(word, message(error))

    # ------------------------------------------------------------------------- pausing and closing

    def answers_arrived(self) -> None:
        """Go on after answers that were waited for."""
        if self._unread_since is not None:
            self._note_unread()
        if self._paused or self._finishing:
            self._schedule()

    def _schedule(self) -> None:
        """Go on when it is this connection's turn."""
        if not self._scheduled and self._closed_since is None:
            self._pause()
            self._scheduled = True
            turns = self._port.turns
            turns.add(turns.newcomers if self._never_spoke else turns.others, self.resume)

    def _pause(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _refuse(self, reason: str) -> None:
        """Close a connection that does not speak RESP, or is beyond the bounds."""
        self._port.ended["protocol"] += 1
        self._answers.add(resp.error("ERR", f"Protocol error: {reason}"))
        self.session.closing = True
        self._unbatched.clear()
        self.finish()

    def finish(self) -> None:
        """Take no more bytes; answer what was taken, then close."""
        self._finishing = True
        self._pause()
        self._close_if_answered()

    def _close_if_answered(self) -> None:
        if self._closed_since is None and not (
            self._answers.waiting or self._unbatched or self._scheduled
        ):
            self._answers.flush()
            self._closed_since = monotonic()
            self._transport.close()

    def overdue(self, now: float) -> str | None:
        """Return why this connection should end now, or None."""
        limits = self._limits
        greeting = None if self.session.look_again() else self._began
        for reason, since, seconds in (
            ("unread", self._closed_since, limits.unread_seconds),
            ("unread", self._unread_since, limits.unread_seconds),
            ("slow", self._incoming.partial_since, limits.command_seconds),
            ("greeting", greeting, limits.greeting_seconds),
            ("idle", None if self._answers.waiting else self._last_command_at, limits.idle_seconds),
        ):
            if since is not None and now - since > seconds:
                return reason
        return None

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        self._port.ended[reason] += 1
        self._port.gone(self)
        self._closed_since = monotonic()
        self._answers.close()
        self._transport.abort()
