"""What is not done yet, kept in files: records are appended, and forgotten once they are done.

    add(name, content) -> pending-N.log -> left(): those that are still pending, after a kill

A record is the lengths of its content and its name (4 bytes and 1), the name and the content. The files are not flushed to the disk: they survive
a killed process, and a power cut may take the newest records. Each process begins a new file, as a kill may have cut
the last record of the one before.

Invariants: a record is in a file from add() until it is done, or discard(). The files hold at most about
twice what is pending: while they hold more, the oldest ones are rewritten, two for each new file.
"""

import contextlib
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from dedup.core.files import PRIVATE_FOLDER

_RECORD = struct.Struct("<IB")  # bytes of the content, and of the name
PART_BYTES = 1 << 20
SLACK = 1000  # records beyond twice the pending ones before files are rewritten
OLD_PARTS = 2  # rewritten at once

Record = tuple[bytes, bytes]


class PendingRecords:
    """The records of a folder. One thread at a time; one process."""

    def __init__(self, folder: Path, is_pending: Callable[[bytes], bool]) -> None:
        """Open a folder, whose files may be those of an earlier process; make nothing yet."""
        self._folder = folder
        self._is_pending = is_pending
        self._numbers = sorted(int(path.stem[8:]) for path in folder.glob("pending-*.log"))
        self._left = list(self._numbers)  # parts of an earlier process
        self._at = 0  # in the first of them
        self._file: Any = None
        self._size = 0  # of what was added to it
        self._last = self._numbers[-1] if self._numbers else 0
        self._records: dict[int, int] = {}  # by part, of this process
        self._total = self._pending = 0

    def add(self, records: Iterable[Record]) -> None:
        """Append records, in one write. Raises OSError; then none counts."""
        if self._file is None or self._size >= PART_BYTES:
            self._begin_part()
        self._size += self._append(records)

    def _append(self, records: Iterable[Record]) -> int:
        packed = [_RECORD.pack(len(made), len(name)) + name + made for name, made in records]
        joined = b"".join(packed)
        if joined:
            written = self._file.write(joined)
            if written != len(joined):  # a full disk: what follows a torn record is not read
                self._file.close()
                self._file = None
                raise OSError(28, "No space left on device")
        self._total += len(packed)
        self._pending += len(packed)
        self._records[self._last] += len(packed)
        return len(joined)

    def done(self, count: int = 1) -> None:
        """Note that some records are not pending any more."""
        self._pending = max(0, self._pending - count)

    def _begin_part(self) -> None:
        self._folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        if self._file is not None:
            self._file.close()
            self._file = None
        number = self._last + 1
        self._file = self._path(number).open("wb", buffering=0)
        self._last = number
        self._numbers.append(number)
        self._records[number] = 0
        self._size = 0
        for _ in range(OLD_PARTS):
            oldest = self._numbers[0]
            if oldest not in self._records or oldest == number:
                return  # still to be drained by left(), or this one
            if self._total <= 2 * self._pending + SLACK:
                return
            count = self._records[oldest]
            kept = [record for record, _ in self._read(oldest, 0) if self._is_pending(record[0])]
            self._append(kept)
            self._pending -= len(kept)  # they were counted before
            self._remove(oldest)
            self._total -= count

    def _path(self, number: int) -> Path:
        return self._folder / f"pending-{number}.log"

    def _read(self, number: int, at: int) -> Iterator[tuple[Record, int]]:
        """Yield the records of a part from a place on, each with the place behind it.

        A record that a kill cut short ends it.
        """
        with contextlib.suppress(FileNotFoundError), self._path(number).open("rb") as file:
            file.seek(at)
            while len(head := file.read(_RECORD.size)) == _RECORD.size:
                size, name_size = _RECORD.unpack(head)
                content = file.read(name_size + size)
                if len(content) < name_size + size:
                    return
                at += _RECORD.size + name_size + size
                yield (content[:name_size], content[name_size:]), at

    def _remove(self, number: int) -> None:
        self._path(number).unlink(missing_ok=True)
        self._numbers.remove(number)
        self._records.pop(number, None)

    def look_again(self) -> None:
        """Have left() begin with what this process added, too."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._left = list(self._numbers)
        self._at = self._total = self._pending = 0
        self._records.clear()

    def left(self, most: int, most_bytes: int, seen: int) -> tuple[list[Record], bool]:
        """Take out pending records of an earlier process; return them, and whether there may be more.

        At most `most` of them, `most_bytes` of content (or one record), out of `seen` records. They are to be
        added again before the next call, which removes what was read.
        """
        found: list[Record] = []
        size = count = 0
        while self._left:
            for record, behind in self._read(self._left[0], self._at):
                if found and (len(found) >= most or size + len(record[1]) > most_bytes):
                    return found, True
                if count >= seen:
                    return found, True
                count += 1
                self._at = behind
                if self._is_pending(record[0]):
                    found.append(record)
                    size += len(record[1])
            if found:  # its file stays until they are added again
                return found, True
            self._drained()
        return found, False

    def _drained(self) -> None:
        self._remove(self._left.pop(0))
        self._at = 0

    def discard(self) -> None:
        """Remove all files."""
        if self._file is not None:
            self._file.close()
            self._file = None
        for number in list(self._numbers):
            self._remove(number)
        self._left, self._at, self._total, self._pending = [], 0, 0, 0

    def close(self) -> None:
        """Close the file; the records stay."""
        if self._file is not None:
            self._file.close()
            self._file = None
