"""Sends a crawl's insert events to Kafka, through an outbox on disk.

    add -> outbox (on disk) -> kept() -> Kafka's acknowledgement -> out of the outbox

Invariants:
  - What Outbox.add() returned from is there after a kill or a power cut, until remove() took it out; a record comes out
    as it went in, or StoreDamaged names the file. So after kept() a record survives any failure of the process or of
    Kafka.
  - Records are sent in the order in which they came, those that an earlier crawl left first. A process has an outbox of
    its own, `<folder>/<n>` with the first free number; left_over() finds those that others left behind, when they were
    killed or Kafka was away.
  - Only the sending task waits for Kafka. Calls of an outbox take a disk's time, one thread at a time: they are made in
    a thread.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self
from zlib import crc32

import lmdb

from dedup.core.faults import Backoff, SayOnce
from dedup.core.files import FolderLock
from dedup.model.errors import DedupError, StoreDamaged, StoreLocked
from dedup.wire.kafka import KafkaConfig, Writer, ensure_topic
from dedup.wire.kafka.login import LoginRefused, refusal
from dedup.wire.kafka.writer import Outgoing

logger = logging.getLogger("dedup")

Record = tuple[bytes, bytes | None]

FOLDER = ".outbox"  # below DEDUP_PATH; no namespace begins with a dot
SENT_AT_ONCE = 1000
KEPT_AT_ONCE = 1000
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
DRAIN_SECONDS = 10.0  # how long the first page waits for the records of an earlier crawl
STOP_SECONDS = 2.0  # for closing the producer, which has nothing left to send
CLOSE_SECONDS = 10.0  # how long the end of a crawl waits for Kafka


# ---------------------------------------------------------------------------- the outbox on disk

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


# ------------------------------------------------------------------------------- and out of it to Kafka


class _Added(NamedTuple):
    records: Sequence[Record]
    kept: Callable[[], None]
    failed: Callable[[Exception], None]


class Publisher:
    """The outbox of a crawl, and the tasks that fill and empty it. Made in a running loop."""

    def __init__(self, path: Path, config: KafkaConfig) -> None:
        """Open an outbox below DEDUP_PATH and begin to send what was left in it and in other outboxes.

        Raises OSError with the path, and StoreDamaged.
        """
        self._folder = path / FOLDER
        self._config = config
        self._outbox = Outbox.own(self._folder)
        self._loop = asyncio.get_running_loop()
        self._disk = ThreadPoolExecutor(
            1, "dedup-outbox"
        )  # one, since an outbox belongs to one thread
        self._added: deque[_Added] = deque()
        self._keeping: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._ready = asyncio.Event()
        self._bound = self._loop.call_later(DRAIN_SECONDS, self._give_up_waiting)
        self._writer: Writer | None = None
        self._once = SayOnce()
        self._sending = self._loop.create_task(self._send())

    async def ready(self) -> None:
        """Wait until the records of an earlier crawl are sent, at most DRAIN_SECONDS."""
        if not self._ready.is_set():
            await self._ready.wait()

    def add(
        self,
        records: Sequence[Record],
        kept: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Write records to disk soon, and send them; kept() is called once they are on disk, else failed()."""
        self._added.append(_Added(records, kept, failed))
        if self._keeping is None or self._keeping.done():
            self._keeping = self._loop.create_task(self._keep())

    async def close(self) -> None:
        """Send the rest, within CLOSE_SECONDS; what Kafka did not acknowledge stays on disk."""
        if self._keeping is not None:
            await asyncio.wait((self._keeping,))
        if not self._sending.done():
            self._empty.clear()  # the last records may not have been seen
            self._wake.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), CLOSE_SECONDS)
        self._bound.cancel()
        self._ready.set()
        self._sending.cancel()
        with suppress(asyncio.CancelledError):
            await self._sending
        if self._writer is not None:
            await self._writer.stop(STOP_SECONDS)
        left = len(self._outbox)
        await self._do(self._outbox.close)
        self._disk.shutdown(wait=False)
        if left:
            logger.warning(
                "%d insert events wait for Kafka in %s; the next crawl with this DEDUP_PATH and "
                "DEDUP_KAFKA sends them",
                left,
                self._outbox.path,
            )

    async def _do(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await self._loop.run_in_executor(self._disk, work, *arguments)

    # ------------------------------------------------------------------------ into the outbox

    async def _keep(self) -> None:
        while self._added:
            batch = [self._added.popleft()]
            while self._added and sum(len(added.records) for added in batch) < KEPT_AT_ONCE:
                batch.append(self._added.popleft())
            try:
                records = [record for added in batch for record in added.records]
                self._empty.clear()
                await self._do(self._outbox.add, records)
            except Exception as error:  # noqa: BLE001 - told to those who wait; the records stay in the outbox
                for added in batch:
                    added.failed(error)
            else:
                for added in batch:
                    added.kept()
            self._wake.set()

    # ------------------------------------------------------------------------ and out of it

    async def _send(self) -> None:
        try:
            left_over = Outbox.left_over(self._folder)
            while (outbox := await self._do(next, left_over, None)) is not None:
                await self._drain(outbox)
        except LoginRefused as error:
            self._give_up(error)
            return
        except (DedupError, OSError) as error:
            logger.error("insert events of an earlier crawl cannot be sent: %s", error)
        try:
            while True:
                self._wake.clear()
                await self._drain(self._outbox)
                if not self._added and not len(self._outbox):
                    self._empty.set()
                self._ready.set()
                await self._wake.wait()
        except LoginRefused as error:
            self._give_up(error)

    def _give_up(self, error: LoginRefused) -> None:
        logger.error("stopped sending insert events, they are kept in %s: %s", self._folder, error)
        self._ready.set()

    async def _drain(self, outbox: Outbox) -> None:
        """Send all records of an outbox, however long it takes. Raises LoginRefused."""
        began = time.monotonic()
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            try:
                records = await self._do(outbox.first, SENT_AT_ONCE)
                if not records:
                    return
                writer = await self._connected()
                await writer.send_many([Outgoing(kept.key, kept.value) for kept in records])
                await self._do(outbox.remove, records)
            except Exception as error:  # noqa: BLE001 - told to those who wait; the records stay in the outbox
                self._say_away(error)
                if self._writer is None:
                    await refusal(self._config, time.monotonic() - began)
                await asyncio.sleep(backoff.next())
            else:
                began = time.monotonic()
                self._say_back()
                backoff.reset()

    async def _connected(self) -> Writer:
        if self._writer is None:
            await ensure_topic(self._config)
            writer = Writer(self._config)
            await writer.start(within_seconds=1.0)
            self._writer = writer
        return self._writer

    def _give_up_waiting(self) -> None:
        if not self._ready.is_set():
            logger.warning(
                "insert events of an earlier crawl still wait for Kafka after %g s; the crawl goes on",
                DRAIN_SECONDS,
            )
            self._ready.set()

    def _say_away(self, error: Exception) -> None:
        text = "insert events wait in %s: %s"
        self._once.log(logger, "away", text, self._outbox.path, error, level=logging.WARNING)

    def _say_back(self) -> None:
        if self._once.ended("away"):
            logger.info("insert events are sent to Kafka again")
