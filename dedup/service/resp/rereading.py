"""What Redis takes and a strict RESP parser does not: inline commands, empty lines, empty arrays.

    bytes from the begin of a command on -> commands, and how far they reach

This is slow and read by few: hiredis reads what is RESP, and hands over what it refuses.

The rule kept here: what is neither RESP nor a line of printable text raises NotResp at once. A line
whose first word is no command ends its connection (resp_connection.py): no web page can make a browser
send one that begins with a command.
"""

import re
from collections.abc import Sequence

__all__ = ["Inline", "NotResp", "reread", "too_long_bulk"]

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
