"""Which records of the input are near-duplicates, as a file of lines: the judge's word to who copies.

The rule kept here: the lines have the order of the input, so that they are read beside it, one at a time.
"""

from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from dedup.scan.scan_values import Found, Result, Row

__all__ = ["Copy", "Drops", "drop_line"]


class Copy(NamedTuple):
    """A file to be copied.

    packing     a name that says by its end how the copy is compressed
    max_bytes   of a page, as it was scanned
    """

    source: str
    target: Path
    packing: str
    max_bytes: int


class _Drop(msgspec.Struct, frozen=True, array_like=True):
    """A record that is a near-duplicate, and the key of the page it resembles."""

    unit: int
    record: int
    of: str


_encode = msgspec.json.Encoder().encode


def drop_line(unit: int, result: Result, row: Row) -> bytes:
    """Return a near-duplicate as a line of dropped.jsonl."""
    assert isinstance(result, Found)
    assert row.of is not None
    return _encode(_Drop(unit, result.record, row.of)) + b"\n"


class Drops:
    """The records of one unit that are near-duplicates, asked for in their order."""

    def __init__(self, lines: IO[bytes], unit: int) -> None:
        """Begin where a file of drops has those of this unit, if it has any."""
        self._lines, self._unit = lines, unit
        self._decode = msgspec.json.Decoder(_Drop).decode
        self.end = lines.tell()  # of those that were found in the input
        self._next = self._read()

    def of(self, record: int) -> str | None:
        """Return the key of the page that a record resembles; None if the record is kept."""
        drop = self._next
        if drop is None or drop.record != record:
            return None
        self.end = self._lines.tell()
        self._next = self._read()
        return drop.of

    def skip(self) -> None:
        """Pass over the rest: a part of the unit cannot be read."""
        while self._next is not None:
            self.of(self._next.record)

    @property
    def left(self) -> bool:
        """Whether some were not found."""
        return self._next is not None

    def _read(self) -> _Drop | None:
        line = self._lines.readline()
        drop = self._decode(line) if line else None
        return drop if drop is not None and drop.unit == self._unit else None
