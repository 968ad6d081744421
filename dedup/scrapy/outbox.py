"""The outbox: records on disk until they are acknowledged.

    add (committed, on disk) -> first (in the order of adding) -> remove

Invariant: what add() returned from is there after a kill or a power cut, until remove() took
it out; a record comes out as it went in, or StoreDamaged names the file. A process has an outbox of
its own, `<folder>/<n>` with the first free number; those that others left behind, when
they were killed or Kafka was away, are found by left_over().

Calls take a disk's time: make them in a thread where that matters. One thread at a time.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self
from zlib import crc32

import lmdb

from dedup.core.files import FolderLock
from dedup.model.errors import DedupError, StoreDamaged, StoreLocked

FILE = "records.mdb"
MAP_BYTES = 4 << 30  # of address space; records beyond it are refused
OUTBOXES = 1000  # processes at once that share a folder


class OutboxFull(DedupError):
    """The outbox has no room for more records, or its disk has none."""


class Kept(NamedTuple):
    """A record that waits, and its number. A value of None is a tombstone."""

    number: int
    key: bytes
    value: bytes | None


class Outbox:
    """The records of one process. A context manager."""

    def __init__(self, folder: Path, lock: FolderLock) -> None:
        """Private: own() and left_over() make it."""
        self.folder = folder
        self.path = folder / FILE
        self._lock: FolderLock | None = lock
        self._env = lmdb.open(str(self.path), subdir=False, map_size=MAP_BYTES, lock=False)
        with self._env.begin() as txn, txn.cursor() as cursor:
            self._next = int.from_bytes(cursor.key(), "big") + 1 if cursor.last() else 0
            self._count = txn.stat()["entries"]

    @classmethod
    def own(cls, folder: Path) -> Self:
        """Open the first outbox below a folder that no process holds; it may hold records.

        Raises OSError with the path, StoreDamaged, and StoreLocked if 1000 processes share it.
        """
        for number in range(OUTBOXES):
            place = folder / str(number)
            place.mkdir(parents=True, exist_ok=True)
            try:
                lock = FolderLock(place / "lock")
            except StoreLocked:
                continue
            return cls._opened(place, lock)
        raise StoreLocked(
            f"{OUTBOXES} processes use the outboxes in {folder}: set another DEDUP_PATH"
        )

    @classmethod
    def left_over(cls, folder: Path) -> Iterator[Self]:
        """Yield, one by one, the outboxes below a folder that hold records and are free.

        Each is closed before the next one comes. Raises OSError and StoreDamaged.
        """
        for place in sorted(folder.glob("*")):
            if not place.name.isdigit() or not (place / FILE).exists():
                continue
            try:
                lock = FolderLock(place / "lock")
            except StoreLocked:
                continue
            with cls._opened(place, lock) as outbox:
                if len(outbox):
                    yield outbox

    @classmethod
    def _opened(cls, place: Path, lock: FolderLock) -> Self:
        try:
            return cls(place, lock)
        except BaseException as error:
            lock.close()
            if isinstance(error, lmdb.Error):
                raise _damaged(place / FILE, str(error)) from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return how many records wait."""
        return self._count

    def add(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Keep records. On disk on return, all of them or, when it raises OutboxFull, none."""
        try:
            with self._env.begin(write=True) as txn:
                for number, (key, value) in zip(count(self._next), records):
                    txn.put(number.to_bytes(8, "big"), _packed(key, value), append=True)
        except (lmdb.Error, OSError) as error:
            raise OutboxFull(f"{self.path}: {error}") from error
        self._next += len(records)
        self._count += len(records)

    def first(self, most: int) -> list[Kept]:
        """Return the first records, in the order of adding. Raises StoreDamaged."""
        found: list[Kept] = []
        with self._env.begin() as txn, txn.cursor() as cursor:
            for number, packed in cursor:
                if len(found) >= most:
                    break
                found.append(self._unpacked(int.from_bytes(number, "big"), packed))
        return found

    def remove(self, records: Sequence[Kept]) -> None:
        """Take acknowledged records out. Raises OutboxFull if the disk has no room to do so."""
        try:
            with self._env.begin(write=True) as txn:
                removed = sum(txn.delete(kept.number.to_bytes(8, "big")) for kept in records)
        except (lmdb.Error, OSError) as error:
            raise OutboxFull(f"{self.path}: {error}") from error
        self._count -= removed

    def close(self) -> None:
        """Give the outbox back; what it holds stays. Closing twice does nothing."""
        if self._lock is not None:
            self._env.close()
            self._lock.close()
            self._lock = None

    def _unpacked(self, number: int, packed: bytes) -> Kept:
        body = packed[4:]
        if len(packed) < 9 or crc32(body) != int.from_bytes(packed[:4], "big"):
            raise _damaged(self.path, f"record {number} is not what was written")
        has_value, length = body[0], int.from_bytes(body[1:5], "big")
        value = body[5 + length :] if has_value else None
        return Kept(number, body[5 : 5 + length], value)


def _packed(key: bytes, value: bytes | None) -> bytes:
    body = b"%c%b%b%b" % (value is not None, len(key).to_bytes(4, "big"), key, value or b"")
    return crc32(body).to_bytes(4, "big") + body


def _damaged(path: Path, what: str) -> StoreDamaged:
    return StoreDamaged(
        f"the outbox {path} is damaged: {what}; move it away to go on without the records in it"
    )
