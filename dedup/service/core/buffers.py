"""Bytes that clients make the service hold: answers they do not read, commands they do not end.

The rule kept here: where the bytes of all are too many, the client that has the most is ended, and
told so where it can be; the others go on.
"""

from typing import Protocol

__all__ = ["Buffers"]


class Holder(Protocol):
    """A connection, as its bytes see it."""

    def abort(self, reason: str) -> None:
        """Close the connection at once."""


class Buffers:
    """The bytes of one kind, by connection."""

    def __init__(self, most: int) -> None:
        self.total = 0
        self._most = most
        self._sizes: dict[Holder, int] = {}

    def note(self, holder: Holder, size: int) -> None:
        """Note how many bytes a connection has; the greatest may be ended, this one too."""
        before = self._sizes.pop(holder, 0)
        self.total += size - before
        if size:
            self._sizes[holder] = size
        while self.total > self._most:
            greatest = max(self._sizes, key=self._sizes.__getitem__)
            self.total -= self._sizes.pop(greatest)
            greatest.abort("memory")
