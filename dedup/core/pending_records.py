"""What is not done yet, in files: a later process finds there what a killed one left.

    add(name, content) -> pending/N.log -> take(): the records that are still pending

A record is the length of its msgpack [name, content] (4 bytes), the checksum of it (8 bytes), and itself. The files are not
flushed to the disk: they survive a killed process; a power cut may take the newest records.

Invariants: a record is in a file from add() until it is not pending any more. For each file that is filled with new
records the two oldest are rewritten without what is done, so that all files together hold about twice what is pending.
"""

import logging
import os
import struct
from collections import deque
from collections.abc import Callable, Iterator
from errno import ENOSPC
from pathlib import Path
from typing import IO

import msgspec

from dedup.core.files import CHECKSUM_BYTES, PRIVATE, PRIVATE_FOLDER, checksum

PART_BYTES = 1 << 18  # of a file; rewriting two takes some milliseconds
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
logger = logging.getLogger("dedup")
_HEAD = struct.Struct(f"<I{CHECKSUM_BYTES}s")

Record = tuple[bytes, bytes]


class PendingRecords:
    """The files of a folder, which belong to one process. One thread at a time."""

    def __init__(self, folder: Path, is_pending: Callable[[bytes], bool]) -> None:
        """Open a folder, whose files may be those of an earlier process. Raises OSError."""
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        self._folder, self._is_pending = folder, is_pending
        self._parts = deque(sorted(int(path.stem) for path in folder.glob("*.log")))
        self._last = self._parts[-1] if self._parts else 0
        self._file: IO[bytes] | None = None
        self._size = 0  # bytes in the file
        self._added = 0  # bytes of new records since two files were rewritten

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.log"

    def add(self, name: bytes, content: bytes) -> None:
        """Append a record. Raises OSError."""
        self._added += self._append((name, content))
        if self._added >= PART_BYTES:
            self._added = 0
            for _ in range(min(2, len(self._parts) - 1)):
                number = self._parts.popleft()
                for record in self._read(number):
                    self._append(record)
                self._path(number).unlink()

    def _append(self, record: Record) -> int:
        if self._file is None or self._size >= PART_BYTES:
            self.close()
            self._last += 1
            fd = os.open(self._path(self._last), _NEW_FILE, PRIVATE)
            self._file = os.fdopen(fd, "wb", 0)
            self._size = 0
            self._parts.append(self._last)
        packed = msgspec.msgpack.encode(record)
        size = self._file.write(made := _HEAD.pack(len(packed), checksum(packed)) + packed)
        if size != len(made):
            raise OSError(ENOSPC, os.strerror(ENOSPC), str(self._path(self._last)))
        self._size += size
        return size

    def _read(self, number: int) -> Iterator[Record]:
        """Yield the pending records of a file. One that is damaged, or cut short by a kill, ends it."""
        content, at = self._path(number).read_bytes(), 0
        while at < len(content):
            begins = at + _HEAD.size
            size, check = _HEAD.unpack(content[at:begins].ljust(_HEAD.size, b"\0"))
            packed = content[begins : begins + size]
            if not packed or checksum(packed) != check:
                text = "[dedup] %s: the last %d bytes are damaged or cut short, and not read"
                logger.warning(text, self._path(number), len(content) - at)
                return
            record = msgspec.msgpack.decode(packed, type=Record)
            if self._is_pending(record[0]):
                yield record
            at = begins + size

    def take(self) -> Iterator[Record]:
        """Yield the pending records of an earlier process; a file is removed when its last one has been dealt with."""
        earlier, self._parts = self._parts, deque()
        for number in earlier:
            yield from self._read(number)
            self._path(number).unlink()

    def clear(self) -> None:
        """Remove all records."""
        self.close()
        while self._parts:
            self._path(self._parts.popleft()).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; the records stay."""
        if self._file is not None:
            self._file.close()
            self._file = None
