"""Bytes of a RESP connection on their way to commands: bounded before they are parsed.

    bytes -> (array lengths) -> hiredis parser -> commands -> (bytes that are no whole command yet)

The rule kept here: nothing is parsed or kept without a bound: the elements of an array, and the bytes
of a command that is not whole. What is not RESP, or beyond a bound, raises NotResp.
"""

import re

import hiredis

from dedup.service.core.limits import Limits

__all__ = ["MISSING", "Incoming", "NotResp"]

MISSING = object()  # what next() returns where no whole command is left

# hiredis makes room for an array when it has read its length, so that is checked before. A line
# that begins with the sign of an array and a long number is refused wherever it stands, in a bulk
# string too.
_LONG_ARRAY = re.compile(rb"\n[*>~%|][0-9]{6}")
_LONG_GREETING = re.compile(rb"\n[*>~%|][0-9]{3}")
_MAY_BE_LONG = re.compile(rb"\*[0-9]{6}")  # found several times as fast, where there is none
_TAIL = 8  # bytes that such a start can have in the read before, and more


class NotResp(Exception):
    """What came is not RESP, or beyond the bounds."""


class Incoming:
    """The bytes of one connection.

    next            returns the next whole command, or MISSING; raises hiredis.HiredisError
    has_rest        whether bytes are left that are no whole command
    unparsed_bytes  since the last whole command, at most
    whole           to be set by who took a whole command
    partial_since   since when a command is not whole; None: there is none
    """

    __slots__ = (
        "_feed", "_limits", "_read_bytes", "_tail", "has_rest", "next", "partial_since",
        "unparsed_bytes", "whole",
    )  # fmt: skip

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        reader = hiredis.Reader(notEnoughData=MISSING)
        self._feed = reader.feed
        self.next = reader.gets
        self.has_rest = reader.has_data
        self.unparsed_bytes = 0
        self.whole = False
        self.partial_since: float | None = None
        self._tail = b"\n"
        self._read_bytes = 0  # of the last read

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
        self._feed(data)
        before = self.unparsed_bytes
        self.unparsed_bytes = before + length
        return not before

    def check_rest(self, now: float, *, trusted: bool) -> None:
        """Note how much of the next command is there, and since when. Raises NotResp."""
        if not self.has_rest():
            self.unparsed_bytes, self.partial_since = 0, None
        else:
            if self.whole:
                self.unparsed_bytes = min(self.unparsed_bytes, self._read_bytes)
                self.partial_since = now
            elif self.partial_since is None:
                self.partial_since = now
            limits = self._limits
            if self.unparsed_bytes > (limits.command_bytes if trusted else limits.greeting_bytes):
                raise NotResp("a command of this many bytes is not allowed")
        self.whole = False
