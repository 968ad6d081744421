"""Bytes of a RESP connection on their way to commands: bounded before they are parsed.

    bytes -> (array lengths) -> hiredis parser -> commands -> (bytes that are no whole command yet)
                                     | what it refuses
                                rereading.py

The rule kept here: nothing is parsed or kept without a bound: the elements of an array, and the bytes
of a command that is not whole. What is not RESP, or beyond a bound, raises NotResp.

hiredis does not tell how far it has read. So each read is cut before its last line that may begin a
command: if the parser has nothing left there once it gave a command, the next one does begin there, and
what came before need not be kept for rereading.
"""

import re
from typing import Any

import hiredis

from dedup.service.core.command_table import INSERT, PAGES
from dedup.service.core.limits import Limits
from dedup.service.resp.rereading import NotResp, reread, too_long_bulk

__all__ = ["MISSING", "Incoming", "NotResp"]

MISSING = object()  # what next() returns where no whole command is left

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
