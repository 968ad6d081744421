"""RESP, the wire format of Redis, for both sides: commands and answers as bytes, and the bounded reader of commands.

    command -> pack() -> bytes -> Incoming: (where whole commands end) -> hiredis -> commands
    bulk(), integer(), array(), ... -> an answer -> hiredis.Reader of the client

An empty array is no command, nor is an empty line, which `redis-cli --pipe` sends at its end. What is not RESP raises
NotResp, once what came before it was taken: Redis' commands in lines of text (inline commands) are none.

Answers() is that of answers, for the client: what a wrong service sends takes bounded memory and time.

Invariant: nothing is parsed or kept without a bound, and no byte is looked at again and again: the native core finds
where commands end, and goes on where it stopped. hiredis is given whole commands only.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import hiredis

from dedup.core.native import ffi, lib

OK = b"+OK\r\n"
EMPTY = b"*0\r\n"
NIL = {2: b"$-1\r\n", 3: b"_\r\n"}

_BREAKS = re.compile(r"[\r\n]+")


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

ELEMENTS = 99_999  # of one command
GREETING_ELEMENTS = 99  # of one before the client is trusted
ALL = 1 << 30  # commands of one read
COPIED_BYTES = 1 << 14  # that are copied when more comes; more of them are kept in place
MISSING = object()  # what next() returns where no whole command is left

_EMPTY = b"\r\n", b"\r"  # an empty line, and what may become one
_INLINE = tuple(
    name + end for name in (b"PING", b"QUIT") for end in (b"\r\n", b"\n")
)  # load balancers say these
_FAULTS = {
    lib.NDD_MANY: "an array of this many elements is not allowed",
    lib.NDD_LONG: "a command of this many bytes is not allowed",
    lib.NDD_NO_LENGTH: "invalid length",
    lib.NDD_NO_STRING: "a command is an array of bulk strings",
    lib.NDD_OTHER: "a command is an array of bulk strings",
}


ANSWER_BYTES = 16 << 20  # of one answer; a service's own bound is 4 MiB
ANSWER_ELEMENTS = 100_000


class Answers:
    """The answers of one connection, in RESP2: hiredis is given whole ones within the bounds only."""

    __slots__ = ("_data", "_read", "_reader")

    def __init__(self, error: type[Exception]) -> None:
        """An error that is answered is one of this type."""
        self._data = bytearray()  # of an answer that is not whole
        self._read = ffi.new("ndd_answers *")
        self._reader: Any = hiredis.Reader(replyError=error)

    def of(self, data: bytes) -> Iterator[Any]:
        """Take some bytes; yield the answers that are whole. Raises NotResp."""
        read, kept = self._read, self._data
        if kept:
            kept += data
        whole: bytes | bytearray = kept or data
        lib.ndd_answers_read(
            ffi.from_buffer(whole), len(whole), ANSWER_ELEMENTS, ANSWER_BYTES, read
        )
        end = read.end
        if end:
            self._reader.feed(bytes(whole[:end]))
        if whole is kept:
            del kept[:end]
        else:
            kept += data[end:]
        while (answer := self._reader.gets()) is not False:
            yield answer
        if read.fault:
            raise NotResp(_NO_ANSWER.get(read.fault, _NO_ANSWER[lib.NDD_OTHER]))


_NO_ANSWER = {
    lib.NDD_MANY: "an array of too many elements",
    lib.NDD_LONG: "more bytes than an answer has",
    lib.NDD_NO_LENGTH: "invalid length",
    lib.NDD_OTHER: "no answer of RESP2",
}


class NotResp(Exception):
    """What came is not RESP, or beyond the bounds."""


class Incoming:
    """The bytes of one connection.

    unparsed_bytes  of what next() did not return, at most
    partial_since   since when a command is not whole; None: there is none
    """

    __slots__ = (
        "_at", "_data", "_fed", "_most", "_read", "_reader", "_whole", "partial_since", "unparsed_bytes",
    )  # fmt: skip

    def __init__(self, command_bytes: int, greeting_bytes: int) -> None:
        """A command has up to command_bytes, or greeting_bytes while the client is not trusted."""
        self._most = greeting_bytes, command_bytes
        self._reader: Any = hiredis.Reader()
        self._whole = 0  # commands that it was given, and next() did not return
        self._data: bytes | bytearray = b""
        self._at = 0  # where what it was not given begins
        self._fed = 0.0  # when some bytes came last
        self._read = ffi.new("ndd_commands *")
        self.unparsed_bytes = 0
        self.partial_since: float | None = None

    def feed(self, data: bytes, now: float) -> None:
        """Take some bytes."""
        self._fed = now
        self.unparsed_bytes += len(data)
        if not self._data:
            self._data = data
        elif len(self._data) - self._at < COPIED_BYTES:
            self._data, self._at = bytes(self._data[self._at :]) + data, 0
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(self._data)
            del self._data[: self._at]
            self._at = 0
            self._data += data

    def next(self, trusted: bool) -> Any:
        """Return the next whole command, or MISSING. Raises NotResp.

        Of a client that is not trusted yet hiredis gets one at a time: it may make itself trusted.
        """
        whole = self._whole
        while not whole:
            data, at, read = self._data, self._at, self._read
            if data:
                whole = lib.ndd_commands_read(
                    data if not at and type(data) is bytes else ffi.from_buffer(data) + at,
                    len(data) - at, ALL if trusted else 1, ELEMENTS if trusted else GREETING_ELEMENTS,
                    self._most[trusted], read,
                )  # fmt: skip
            if not whole:
                if not self._skip_empty(trusted):
                    return MISSING
                whole = self._whole
                continue
            self._at = end = at + read.end
            self._reader.feed(bytes(data[at:end]))
            if end == len(data):
                self._data, self._at = b"", 0
        self._whole = whole - 1
        if whole == 1:
            self.unparsed_bytes = len(self._data) - self._at
        self.partial_since = None
        return self._reader.gets()

    def _skip_empty(self, trusted: bool) -> bool:
        """Skip an empty array or line, if one comes where no command is whole. Raises NotResp."""
        skipped = False
        if self._data:
            behind = self._read.behind
            if behind == lib.NDD_EMPTY:
                self._at += self._read.end
                skipped = True
            elif (
                behind == lib.NDD_OTHER and (line := self._data[self._at : self._at + 2]) in _EMPTY
            ):
                skipped = len(line) == 2
                self._at += 2 * skipped
            elif behind == lib.NDD_OTHER and (inline := self._inline()) is not None:
                skipped = inline
            elif behind != lib.NDD_PART or len(self._data) - self._at > self._most[trusted]:
                raise NotResp(_FAULTS.get(behind, _FAULTS[lib.NDD_LONG]))
            if self._at == len(self._data):
                self._data, self._at = b"", 0
        self.unparsed_bytes = len(self._data) - self._at
        if skipped or not self.unparsed_bytes:
            self.partial_since = None
        elif self.partial_since is None:
            self.partial_since = self._fed
        return skipped

    def _inline(self) -> bool | None:
        """Take an inline PING or QUIT; return whether one is whole, None if it is neither."""
        line = bytes(self._data[self._at : self._at + 6]).upper()
        for each in _INLINE:
            if line.startswith(each):
                self._reader.feed(b"*1\r\n$4\r\n%b\r\n" % line[:4])
                self._at += len(each)
                self._whole = 1
                return True
        return False if any(each.startswith(line) for each in _INLINE) else None
