"""A connection to the RESP port: bytes become commands, and the answers go back in their order.

    bytes -> port.py, if they are nothing but probes of the form of the last one
          -> Incoming -> batches of equal commands | single ones -> Answers -> bytes

Invariants:
  - Nothing is taken from a connection without a bound: the length of a command, its elements, the time it takes, the
    commands without an answer, and the answers that the client has not read.
  - Probes of one read that differ only in their values go into one native call; inserts into one commit, where they
    are committed here. An answer is written only after all answers before it.
  - After a few milliseconds of work other connections have their turn.
  - What is not RESP closes the connection, with an error that says so. So does an inline command that is unknown: no
    web page can make a browser send one that begins with a command.
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import Any, Protocol

import hiredis

from dedup.model.errors import DedupError
from dedup.service.core.connections import address_of, file_of, subject_of
from dedup.service.core.error_codes import code, log_now_and_then, message
from dedup.service.core.limits import Limits
from dedup.service.core.roles import INSERT, PAGES, PROBE
from dedup.service.resp import protocol
from dedup.service.resp.port import Form, Port
from dedup.service.resp.resp_commands import Later, Session, is_known, run, run_together

__all__ = [
    "MISSING",
    "Answers",
    "Connection",
    "Incoming",
    "Inline",
    "NotResp",
    "reread",
    "too_long_bulk",
]


INLINE_BYTES = 4096

_PRINTABLE = re.compile(rb"[\t\r\n\x20-\x7e]*")
_NUMBER = re.compile(rb"-?[0-9]{1,9}")
_BULK = re.compile(rb"\n\$([0-9]{7,})\r")


class NotResp(Exception):
    """What came is not RESP, or beyond the bounds; commands are those before it."""

    def __init__(self, message: str, commands: Sequence[list[bytes]] = ()) -> None:
        super().__init__(message)
        self.commands = list(commands)


class Inline(list[bytes]):
    """A command that was sent as a line of text."""


def reread(data: bytes) -> tuple[list[list[bytes]], int]:
    """Return the whole commands at the begin of some bytes, and where the next one begins.

    Raises NotResp for what can be none; then the commands before it are in its `commands`.
    """
    commands: list[list[bytes]] = []
    at = 0
    try:
        while at < len(data):
            read = _array if data[at] == ord("*") else _inline
            command, end = read(data, at)
            if end < 0:
                break
            if command:
                commands.append(command)
            at = end
    except NotResp as fault:
        raise NotResp(str(fault), commands) from None
    return commands, at


def too_long_bulk(data: bytes, most: int) -> bool:
    """Whether a bulk string in a command that is not whole is announced with more bytes than allowed."""
    return any(int(found[1][:10]) > most for found in _BULK.finditer(data))


def _inline(data: bytes, at: int) -> tuple[list[bytes], int]:
    end = data.find(b"\n", at)
    line = data[at : end if end >= 0 else len(data)]
    if len(line) > INLINE_BYTES or not _PRINTABLE.fullmatch(line):
        raise NotResp("a command is an array of bulk strings, or a line of text")
    return Inline(line.split()), end + 1 if end >= 0 else -1


def _array(data: bytes, at: int) -> tuple[list[bytes], int]:
    count, at = _length(data, at)
    if at < 0:
        return [], -1
    arguments = []
    for _ in range(count):  # an empty array, and one of -1 elements, is no command
        if at >= len(data):
            return [], -1
        if data[at] != ord("$"):
            raise NotResp("a command is an array of bulk strings")
        length, at = _length(data, at)
        if at < 0:
            return [], -1
        if length < 0:
            raise NotResp("invalid bulk length")
        if len(data) < at + length + 2:
            return [], -1
        arguments.append(data[at : at + length])
        at += length + 2  # as hiredis does, without a look at these two
    return arguments, at


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of a line, and where the next line begins; -1: it is not whole."""
    end = data.find(b"\n", at)
    digits = data[at + 1 : end if end >= 0 else len(data)].removesuffix(b"\r")
    if end < 0 and digits in {b"", b"-"}:
        return 0, -1
    if not _NUMBER.fullmatch(digits) or (end >= 0 and data[end - 1] != ord("\r")):
        raise NotResp("invalid length")
    return (int(digits), end + 1) if end >= 0 else (0, -1)


MISSING = object()  # what next() returns where no whole command is left
UNREAD = object()  # in place of a command: it is to be read

# hiredis makes room for an array when it has read its length, so that is checked before. A line
# that begins with the sign of an array and a long number is refused wherever it stands, in a bulk
# string too.
_LONG_ARRAY = re.compile(rb"\n[*>~%|][0-9]{6}")
_LONG_GREETING = re.compile(rb"\n[*>~%|][0-9]{3}")
_MAY_BE_LONG = re.compile(rb"\*[0-9]{6}")  # found several times as fast, where there is none
BATCH = 512  # probes in one native call, inserts in one commit
PAGES_BATCH = 32  # pages that are judged in one turn, unless they take long
_TAIL = 8  # bytes that such a start can have in the read before, and more


class Incoming:
    """The bytes of one connection.

    next            returns the next whole command, or MISSING; raises hiredis.HiredisError
    has_more        whether bytes are left behind the command that next() gave
    is_at_end       to be set by who took a command: whether none were
    taken           commands that next() gave since the begin of what is kept; to be counted, too
    unparsed_bytes  since the last whole command, at most
    whole           to be set by who took a whole command
    partial_since   since when a command is not whole; None: there is none
    """

    __slots__ = (
        "_behind", "_kept", "_limits", "_read_bytes", "_reader", "_tail", "has_more", "is_at_end",
        "next", "partial_since", "taken", "unparsed_bytes", "whole",
    )  # fmt: skip

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._begin_again()
        self.unparsed_bytes = 0
        self.whole = False
        self.partial_since: float | None = None
        self._tail = b"\n"
        self._read_bytes = 0  # of the last read

    def _begin_again(self) -> None:
        self._reader: Any = hiredis.Reader(notEnoughData=MISSING)
        self.next, self.has_more = self._reader.gets, self._reader.has_data
        self.is_at_end = True
        self._kept: list[bytes] = []  # from a begin of a command on
        self._behind: bytes | None = None  # what comes behind, and is not given to the parser yet
        self.taken = 0

    def feed(self, data: bytes, trusted: bool) -> bool:
        """Take some bytes; return whether they begin a command. Raises NotResp."""
        seen = self._tail + data
        if not trusted:
            is_long = _LONG_GREETING.search(seen)
        elif (
            _MAY_BE_LONG.search(seen)
            or b">" in seen
            or b"~" in seen
            or b"%" in seen
            or b"|" in seen
        ):
            is_long = _LONG_ARRAY.search(seen)
        else:
            is_long = None
        if is_long:
            raise NotResp("an array of this many elements is not allowed")
        self._tail = seen[-_TAIL:]
        length = self._read_bytes = len(data)
        before = self.unparsed_bytes
        self.unparsed_bytes = before + length
        if self._behind is not None:
            self._behind += data
        elif data.endswith(b"\r\n") or not (cut := data.rfind(b"\n*") + 1):
            self._give(data)  # most likely a whole command
        else:
            self._behind = data[cut:]
            self._give(data[:cut])
        return not before

    def _give(self, data: bytes) -> None:
        self._kept.append(data)
        self._reader.feed(data)
        self.is_at_end = False

    def take_alike(self, command: Any, batch: list[list[bytes]]) -> Any:
        """Add a command to a batch, and those behind it that go with it; return the next one, or MISSING.

        They have the same options, or are INSERTs of one namespace, or all are PAGES. Raises
        hiredis.HiredisError; the batch stays right.
        """
        length, options, name, namespace = len(command), command[4:], command[0], command[1]
        next_command, has_more, are_pages = self.next, self.has_more, name in PAGES
        are_inserts = name == INSERT
        while True:
            batch.append(command)
            if not has_more():
                self.is_at_end = True
                return MISSING
            command = next_command()
            if type(command) is not list or not command:
                return command
            if are_pages:
                if command[0] not in PAGES or len(batch) == PAGES_BATCH:
                    return command
            elif (
                (len(command) < 4 if are_inserts else len(command) != length)
                or (command[4:] != options and not are_inserts)
                or command[1] != namespace
                or command[0] != name
                or len(batch) == BATCH
            ):
                return command

    def was_all(self) -> bool:
        """Whether the command that next() gave is all there is."""
        return self._behind is None and not self.has_more()

    def forget(self) -> None:
        """Keep nothing: what came is carried out."""
        self._kept.clear()
        self.taken = self.unparsed_bytes = 0
        self.is_at_end = True

    def more(self) -> bool:
        """Once next() has no more: give the parser what is left; False if nothing was."""
        behind = self._behind
        if self.is_at_end:
            self._kept.clear()
            self.taken = 0
        if behind is None:
            return False
        self._behind = None
        self._give(behind)
        return True

    def reread(self) -> list[list[bytes]]:
        """Return the whole commands behind those taken, after the parser has refused them.

        Raises NotResp; then the commands before it are in its `commands`.
        """
        data, taken = b"".join(self._kept) + (self._behind or b""), self.taken
        try:
            commands, end = reread(data)
        except NotResp as fault:
            raise NotResp(str(fault), fault.commands[taken:]) from None
        self._begin_again()
        if end < len(data):
            self._give(data[end:])
        return commands[taken:]

    def check_rest(self, now: float, *, trusted: bool) -> None:
        """Note how much of the next command is there, and since when. Raises NotResp."""
        if not self._kept:
            self.unparsed_bytes, self.partial_since = 0, None
        else:
            if self.whole:
                self.unparsed_bytes = min(self.unparsed_bytes, self._read_bytes)
                self.partial_since = now
            elif self.partial_since is None:
                self.partial_since = now
            limits = self._limits
            most = limits.command_bytes if trusted else limits.greeting_bytes
            if self.unparsed_bytes > most or too_long_bulk(self._newest(), most):
                raise NotResp("a command of this many bytes is not allowed")
        self.whole = False

    def _newest(self) -> bytes:
        """Return what was read last, and the end of what came before."""
        before = self._kept[-2][-16:] if len(self._kept) > 1 else b"\n"
        return before + self._kept[-1]


WRITE_BYTES = 1 << 17  # of answers that are collected before they are written


class Owner(Protocol):
    """The connection, as its answers see it."""

    def encoded_fault(self, fault: BaseException) -> bytes:
        """Return the answer for an error."""

    def answers_arrived(self) -> None:
        """Go on: answers that were waited for have been written."""


class Answers:
    """The answers of one connection that are not written yet.

    waiting    those behind one that is still to come, it included
    transport  where they are written to; None: the connection is closed
    """

    def __init__(self, owner: Owner) -> None:
        self.waiting: deque[bytes | Later] = deque()
        self.transport: Any = None
        self._owner: Owner | None = owner
        self._ready: list[bytes] = []
        self._ready_bytes = 0

    def add(self, answer: bytes) -> None:
        """Add an answer; flush() writes it."""
        if self.waiting:
            self.waiting.append(answer)
            return
        self._ready.append(answer)
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
        if self._ready and self.transport is not None:
            data = b"".join(self._ready)
            self._ready.clear()
            self._ready_bytes = 0
            self.transport.write(data)

    def close(self) -> None:
        """Write nothing any more, and free everything: no cycle keeps a closed connection's memory."""
        self.transport = self._owner = None
        self.waiting.clear()
        self._ready.clear()

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
                except BaseException as fault:  # a cancelled future, too
                    first = owner.encoded_fault(fault)
            waiting.popleft()
            self._ready.append(first)
        self.flush()
        owner.answers_arrived()


log = logging.getLogger(__name__)

SLICE_SECONDS = 0.005  # of work before it is other connections' turn
SMALL_BYTES = 1 << 14  # of a command that is not whole; less is not counted


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._limits = port.limits
        port.accepted += 1
        self._session = Session(port.commands, port.plans, port.tokens, port.accepted)
        self._incoming = Incoming(port.limits)
        self._answers = Answers(self)
        self._transport: Any = None
        self._singly: deque[Any] = deque()  # commands that are not to be batched
        self._scheduled: asyncio.Handle | None = None  # the next slice of work
        self._paused = False  # reading
        self._finishing = False  # to be closed once everything is answered
        self._began = self._read = self._heard = monotonic()  # connected, last bytes, last command
        self._has_partial = False  # much of a command that is not whole, or a MULTI's queue
        self._is_silent = True  # has said nothing that counts
        self._unread_since: float | None = None  # the client reads its answers too slowly
        self._closed_since: float | None = None  # only the last answers are on their way
        self._form: Form | None = None  # of the last probe
        self._in_turn = False  # a read was given to the port's turn, and is not answered yet

    # ------------------------------------------------------------------------ asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection, unless there are too many."""
        self._transport = self._answers.transport = transport
        port, session = self._port, self._session
        session.address, session.subject = address_of(transport), subject_of(transport)
        refused = port.admit(self, session.address, file_of(transport))
        if refused is not None:
            port.ended[refused] += 1
            self._answers.add(protocol.error("ERR", "max number of clients reached"))
            self.finish()
            return
        self._transport.set_write_buffer_limits(high=self._limits.unread_share)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (asyncio's)
        """Drop the connection. Its reservations stay until they are ended or expire."""
        self._port.gone(self, self._session.address)
        self._closed_since = monotonic()
        self._answers.close()
        self._singly.clear()
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None

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
        if self._in_turn:  # what came before is carried out before
            self._port.turn.run()
        if self._closed_since is not None or self._finishing:
            return
        began = self._read = monotonic()
        form = self._form
        if form is not None and self._is_free() and self._port.turn.take(self, form, data, began):
            self._in_turn = True
            return
        self._receive(data, began)

    def _is_free(self) -> bool:
        """Whether nothing is left of what came before, and probes may be carried out as they come."""
        return not (
            self._incoming.unparsed_bytes
            or self._singly
            or self._paused
            or self._answers.waiting
            or self._scheduled
            or self._session.closing
            or self._unread_since is not None
            or not self._session.is_plain
        )

    def probed(self, answer: bytes, now: float) -> None:
        """Write the answers of a read that was given to the turn."""
        self._in_turn = False
        if self._closed_since is None:
            self._transport.write(answer)
            self._heard = now
            if self._is_silent:
                self._speaks()

    def take_back(self, data: bytes) -> None:
        """Carry out a read that was given to the turn."""
        self._in_turn = False
        if self._closed_since is None:
            self._receive(data, monotonic())

    def _receive(self, data: bytes, began: float) -> None:
        """Carry out the commands of some bytes, one by one or in batches of this connection."""
        try:
            is_first = self._incoming.feed(data, self._session.trusted)
        except NotResp as fault:
            self._refuse(str(fault))
            return
        if self._scheduled is not None or self._paused:
            return
        if not is_first or self._answers.waiting or self._has_partial:
            self._work()
            return
        command = self._next_command()
        if type(command) is not list or not command or not self._incoming.was_all():
            self._work(command)
            return
        self._incoming.forget()  # one command is all there is, as in most reads
        try:
            self._run_one(command, began)
        except NotResp as fault:
            self._refuse(str(fault))
        else:
            self._answers.flush()
            if self._session.queued is not None:
                self._all_taken()

    def _next_command(self) -> Any:
        """Return the next whole command, MISSING, or what the parser refused as something else."""
        try:
            return self._incoming.next()
        except hiredis.HiredisError:
            return None

    def _take(self, command: list[bytes]) -> None:
        """Have a command carried out by itself."""
        incoming = self._incoming
        incoming.taken += 1
        incoming.whole = True
        incoming.is_at_end = not incoming.has_more()
        self._singly.append(command)

    # ------------------------------------------------------------------------------------ the work

    def _work(self, first: Any = UNREAD) -> None:
        """Carry out commands until there is none, or it is the turn of other connections.

        first is what _next_command() has returned already.
        """
        self._scheduled = None
        deadline = monotonic() + SLICE_SECONDS
        try:
            while self._may_work():
                if self._singly:
                    self._run_one(self._singly.popleft())
                elif not self._next(first):
                    break
                first = UNREAD
                if monotonic() > deadline:
                    self._schedule()
                    break
        except NotResp as fault:
            self._refuse(str(fault))
            return
        self._answers.flush()
        if self._session.closing:
            self._close_if_answered()

    def _may_work(self) -> bool:
        if (
            self._closed_since is not None
            or self._session.closing
            or self._unread_since is not None
        ):
            return False
        waiting = self._answers.waiting
        if not waiting:
            return True
        last = waiting[-1]
        if len(waiting) < self._limits.unanswered and not (isinstance(last, Later) and last.alone):
            return True
        self._pause()
        return False

    def _next(self, command: Any) -> bool:
        """Carry out the next commands that are whole; False if there is none."""
        incoming = self._incoming
        equal: list[list[bytes]] = []
        if command is UNREAD:
            command = self._next_command()
        try:
            if self._session.is_plain and self._session.can_batch(command):
                command = incoming.take_alike(command, equal)
        except hiredis.HiredisError:
            command = None
        if equal:
            incoming.whole = True
            incoming.taken += len(equal)
            self._run_together(equal)
        if command is not MISSING:
            if type(command) is list and command:
                self._take(command)
            else:
                self._reread()
        if self._singly or (command is MISSING and incoming.more()):
            return True
        self._all_taken()
        return False

    def _reread(self) -> None:
        """Take the commands that the parser has refused, or at least the one that it did not expect."""
        incoming = self._incoming
        try:
            self._singly.extend(incoming.reread())
        except NotResp as fault:
            self._singly.extend((*fault.commands, fault))
        incoming.whole |= bool(self._singly)

    def _all_taken(self) -> None:
        """Read on, or close where that is all that is left to do."""
        incoming = self._incoming
        incoming.check_rest(self._read, trusted=self._session.trusted)
        partial = incoming.unparsed_bytes if incoming.unparsed_bytes > SMALL_BYTES else 0
        partial += self._session.queued_memory
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
        if equal[0][0] in PAGES:
            count = self._run_pages(equal, began + SLICE_SECONDS)
        else:
            try:
                self._answers.add(run_together(self._session, equal))
            except Exception:  # one of them at fault, or too much at once: one by one
                self._singly.extend(equal)
                return
            port.asked[equal[0][0]] += count
            if equal[0][0] == PROBE:
                self._form = port.turn.form_of(equal[0])
        if self._is_silent:
            self._speaks()
        self._heard = now = monotonic()
        port.durations.note(now - began, count)

    def _run_pages(self, pages: list[list[bytes]], deadline: float) -> int:
        """Carry out RESERVE and RELEASE in their order; return how many: the rest waits for its turn."""
        for done, command in enumerate(pages, 1):
            try:
                name, answer = run(self._session, command)
            except Exception as fault:
                name, answer = b"refused", self._refusal(command, fault)
            self._port.asked[name] += 1
            assert isinstance(answer, bytes)  # neither of them waits for anything
            self._answers.add(answer)
            if monotonic() > deadline:  # a page near thousands of others takes milliseconds
                self._singly.extend(pages[done:])
                return done
        return len(pages)

    def _run_one(self, command: Any, began: float | None = None) -> None:
        if type(command) is not list:
            if not isinstance(command, Inline):
                raise command
            if not is_known(command[0]):
                raise NotResp("an unknown inline command")
        if began is None:
            began = monotonic()
        port, session = self._port, self._session
        try:
            name, answer = run(session, command)
            if name == PROBE and session.queued is None:
                self._form = port.turn.form_of(command)
        except Exception as fault:
            name, answer = b"refused", self._refusal(command, fault)
        port.asked[name] += 1
        self._heard = now = monotonic()
        port.durations.note(now - began, 1)
        if isinstance(answer, bytes):
            self._answers.add(answer)
        else:
            self._answers.add_later(answer)
        if self._is_silent and session.trusted:
            self._speaks()
        if session.closing:
            self._answers.flush()
            self.finish()

    def _speaks(self) -> None:
        """Note that this client is one: it has said something that counts."""
        self._is_silent = False
        self._port.heard(self, self._session.address)

    def _refusal(self, command: list[bytes], fault: Exception) -> bytes:
        """Return the answer to a command that failed."""
        if any(type(each) is not bytes for each in command):
            raise NotResp("a command is an array of bulk strings") from fault
        self._session.spoilt = True
        return self.encoded_fault(fault)

    def encoded_fault(self, fault: BaseException) -> bytes:
        """Return the answer for an error."""
        error = fault if isinstance(fault, Exception) else TimeoutError("stopped")
        word = code(error)
        self._port.errors[word] += 1
        if not isinstance(error, DedupError | OSError):
            log_now_and_then(log, "internal", "a command failed: internal error", error)
        elif word == "STORE":
            log_now_and_then(log, word, message(error))
        return protocol.error(word, message(error))

    # ------------------------------------------------------------------------- pausing and closing

    def answers_arrived(self) -> None:
        """Go on after answers that were waited for."""
        if self._unread_since is not None:
            self._note_unread()
        if self._paused or self._finishing:
            self._schedule()

    def _schedule(self) -> None:
        """Go on in the next turn of the event loop."""
        if self._scheduled is None and self._closed_since is None:
            self._pause()
            self._scheduled = asyncio.get_running_loop().call_soon(self._work)

    def _pause(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _refuse(self, reason: str) -> None:
        """Close a connection that does not speak RESP, or is beyond the bounds."""
        self._port.ended["protocol"] += 1
        self._answers.add(protocol.error("ERR", f"Protocol error: {reason}"))
        self._session.closing = True
        self._singly.clear()
        self.finish()

    def finish(self) -> None:
        """Take no more bytes; answer what was taken, then close."""
        if self._in_turn:
            self._port.turn.run()
        self._finishing = True
        self._pause()
        self._close_if_answered()

    def _close_if_answered(self) -> None:
        if self._closed_since is None and not (
            self._answers.waiting or self._singly or self._scheduled
        ):
            self._answers.flush()
            self._closed_since = monotonic()
            self._transport.close()

    def overdue(self, now: float) -> str | None:
        """Return why this connection should end now, or None."""
        limits = self._limits
        greeting = None if self._session.look_again() else self._began
        for reason, since, seconds in (
            ("unread", self._closed_since, limits.unread_seconds),
            ("unread", self._unread_since, limits.unread_seconds),
            ("slow", self._incoming.partial_since, limits.command_seconds),
            ("greeting", greeting, limits.greeting_seconds),
            ("idle", None if self._answers.waiting else self._heard, limits.idle_seconds),
        ):
            if since is not None and now - since > seconds:
                return reason
        return None

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        self._port.ended[reason] += 1
        self._port.gone(self, self._session.address)
        self._closed_since = monotonic()
        self._answers.close()
        self._transport.abort()
