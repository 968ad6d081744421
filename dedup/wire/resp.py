"""RESP, the wire format of Redis, for both sides: commands and answers as bytes, and the bounded reader of commands.

    command -> pack() -> bytes -> Incoming: (array lengths) -> hiredis -> commands -> (what is no whole command yet)
                                                              | what it refuses: reread()
    bulk(), integer(), array(), ... -> an answer -> hiredis.Reader of the client

Redis takes inline commands, empty lines and empty arrays, which a strict parser does not: reread() takes them, slowly.
What is neither RESP nor a line of printable text raises NotResp.

Invariants: nothing is parsed or kept without a bound: the elements of an array, and the bytes of a command that is not
whole. hiredis does not tell how far it has read. So each read is cut before its last line that may begin a command: if
the parser has nothing left there once it gave a command, the next one does begin there, and what came before need not
be kept for rereading.
"""

import re
from collections.abc import Sequence
from typing import Any

import hiredis

from dedup.core.native import lib

OK = b"+OK\r\n"
EMPTY = b"*0\r\n"
NIL = {2: b"$-1\r\n", 3: b"_\r\n"}

_BREAKS = re.compile(r"[\r\n]+")
INLINE_BYTES = 4096

_PRINTABLE = re.compile(rb"[\t\r\n\x20-\x7e]*")
_NUMBER = re.compile(rb"-?[0-9]{1,9}")
_BULK = re.compile(rb"\n\$([0-9]{7,})\r")


def pack(command: Sequence[bytes | str | int]) -> bytes:
    """Return a command as it goes over the wire."""
    made: bytes = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]
    return made


def bulk(data: bytes) -> bytes:
    """Return bytes as a bulk string."""
    return b"$%d\r\n%b\r\n" % (len(data), data)


def integer(number: int) -> bytes:
    """Return an integer."""
    return b":%d\r\n" % number


def real(number: float) -> bytes:
    """Return a number with four places behind the point, as a bulk string."""
    return bulk(b"%.4f" % number)


def array(parts: Sequence[bytes]) -> bytes:
    """Return an array of encoded parts."""
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))


def mapping(parts: Sequence[tuple[bytes, bytes]], protocol: int) -> bytes:
    """Return a map of encoded parts; in protocol 2, an array of keys and values in turn."""
    body = b"".join(key + value for key, value in parts)
    return (b"%%%d\r\n%b" if protocol == 3 else b"*%d\r\n%b") % (
        len(parts) if protocol == 3 else 2 * len(parts),
        body,
    )


def error(code: str, message: str) -> bytes:
    """Return an error, in one line."""
    return f"-{code} {_BREAKS.sub(' ', message)}\r\n".encode("utf-8", "replace")


# ------------------------------------------------------------------------------------- reading


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


ELEMENTS = 99_999  # of one command
MISSING = object()  # what next() returns where no whole command is left

# hiredis makes room for an array when it has read its length, so that is checked before. A line
# that begins with the sign of an array and a long number is refused wherever it stands, in a bulk
# string too.
_LONG_ARRAY = re.compile(rb"\n[*>~%|][0-9]{6}")
_LONG_GREETING = re.compile(rb"\n[*>~%|][0-9]{3}")
_MAY_BE_LONG = re.compile(rb"\*[0-9]{6}")  # found several times as fast, where there is none
_TAIL = 8  # bytes that such a start can have in the read before, and more


class Incoming:
    """The bytes of one connection.

    only            returns the command that some bytes are, or MISSING: then they are to be fed
    next            returns the next whole command, or MISSING; raises hiredis.HiredisError
    has_more        whether bytes are left behind the command that next() gave
    is_at_end       to be set by who took a command: whether none were
    taken           commands that next() gave since the begin of what is kept; to be counted, too
    unparsed_bytes  since the last whole command, at most
    whole           to be set by who took a whole command
    partial_since   since when a command is not whole; None: there is none
    """

    __slots__ = (
        "_behind", "_kept", "_most", "_read_bytes", "_reader", "_tail", "has_more", "is_at_end",
        "next", "partial_since", "taken", "unparsed_bytes", "whole",
    )  # fmt: skip

    def __init__(self, command_bytes: int, greeting_bytes: int) -> None:
        """A command has up to command_bytes, or greeting_bytes while the client is not trusted."""
        self._most = greeting_bytes, command_bytes
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

    def feed(self, data: bytes, trusted: bool) -> None:
        """Take some bytes. Raises NotResp."""
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
        self.unparsed_bytes += length
        if self._behind is not None:
            self._behind += data
        elif data.endswith(b"\r\n") or not (cut := data.rfind(b"\n*") + 1):
            self._give(data)  # most likely a whole command
        else:
            self._behind = data[cut:]
            self._give(data[:cut])

    def _give(self, data: bytes) -> None:
        self._kept.append(data)
        self._reader.feed(data)
        self.is_at_end = False

    def only(self, data: bytes) -> Any:
        """Return the command that bytes of a trusted client are, if they are one, and nothing was left before."""
        if self.unparsed_bytes or lib.ndd_whole_commands(data, len(data), ELEMENTS) != 1:
            return MISSING
        self._tail = b"\n"
        self._reader.feed(data)
        return self.next()

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
            most = self._most[trusted]
            if self.unparsed_bytes > most or too_long_bulk(self._newest(), most):
                raise NotResp("a command of this many bytes is not allowed")
        self.whole = False

    def _newest(self) -> bytes:
        """Return what was read last, and the end of what came before."""
        before = self._kept[-2][-16:] if len(self._kept) > 1 else b"\n"
        return before + self._kept[-1]
