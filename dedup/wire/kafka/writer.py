"""Writes records. Each is acknowledged by all in-sync replicas, or its sender gets an error.

The rule kept here: send() returns only after Kafka's acknowledgement. An error means "not known to
be written": the record may be in the log all the same, so a sender that repeats it must be idempotent
(insert events are: the last record of a key counts). A producer that failed is replaced before the
next record, because an idempotent one that lost its sequence never works again.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from dedup.wire.kafka.login import KafkaConfig
from dedup.wire.kafka.supervision import STOP_SECONDS, KafkaUnavailable, ended, started
from dedup.wire.shards import partition_of

__all__ = ["Outgoing", "TooLarge", "Writer", "partition"]

BATCH_BYTES = 262_144
LINGER_MS = 5
REQUEST_BYTES = 1_048_576
UNACKNOWLEDGED = 20_000  # records of this writer that wait for Kafka at once

log = logging.getLogger(__name__)


class TooLarge(KafkaUnavailable):
    """A record is larger than its topic, or this writer, takes."""


class Outgoing(NamedTuple):
    """A record to be written; the partition follows from the key unless it is given."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()
    topic: str | None = None
    partition: int | None = None


class Writer:
    """A producer: idempotent, acks=all, batches of 256 KB, zstd.

    An async context manager: start() on the way in, stop() on the way out.
    """

    def __init__(
        self, config: KafkaConfig, *, linger_ms: int = LINGER_MS, compression: str | None = "zstd"
    ) -> None:
        self._config = config
        self._linger_ms = linger_ms
        self._compression = compression
        self._producer: Any = None
        self._failed: Any = None  # the producer that failed last
        self._lock = asyncio.Lock()
        self._room = asyncio.Semaphore(UNACKNOWLEDGED)
        self._waiting = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def unacknowledged(self) -> int:
        """How many records wait for Kafka."""
        return self._waiting

    async def start(self, *, within_seconds: float | None = None) -> None:
        """Connect, with retries. Raises KafkaUnavailable when the time is over."""
        async with self._lock:
            if self._producer is None:
                self._producer = await started(
                    self._made,
                    "connecting the producer",
                    within_seconds=within_seconds,
                    config=self._config,
                )

    async def send(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]] = (),
        *,
        topic: str | None = None,
        partition: int | None = None,
    ) -> tuple[int, int]:
        """Write a record and wait for Kafka's acknowledgement; return (partition, offset).

        Raises KafkaUnavailable: not known to be written.
        """
        return (await self.send_many([Outgoing(key, value, headers, topic, partition)]))[0]

    async def send_many(self, records: Sequence[Outgoing]) -> list[tuple[int, int]]:
        """Write records, in their order within a partition; wait for all acknowledgements.

        Raises KafkaUnavailable if one was not acknowledged (TooLarge if that is for its size); which of
        the others are written is not known then.
        """
        producer = await self._working_producer()
        futures: list[asyncio.Future[Any]] = []
        try:
            for record in records:
                await self._room.acquire()
                self._waiting += 1
                try:
                    future = await producer.send(
                        record.topic or self._config.topic,
                        record.value,
                        record.key,
                        partition=record.partition,
                        headers=list(record.headers),
                    )
                except BaseException:
                    self._release(None)
                    raise
                future.add_done_callback(self._release)
                futures.append(future)
            async with asyncio.timeout(self._config.request_timeout_seconds * 2):
                # most are sent one by one, and gather() takes longer than all else here
                one = len(futures) == 1
                done = [await futures[0]] if one else await asyncio.gather(*futures)
        except Exception as error:
            for future in futures:
                if future.done() and not future.cancelled():
                    future.exception()  # reported with the first
            if not _is_due_to_the_record(error):
                self._failed = producer
            kind = TooLarge if _is_due_to_the_record(error) else KafkaUnavailable
            raise kind(
                f"Kafka did not acknowledge a record: {type(error).__name__}: {error}"
            ) from error
        return [(each.partition, each.offset) for each in done]

    async def stop(self, seconds: float = STOP_SECONDS) -> bool:
        """Send what is left and close, within this many seconds; return whether all was sent."""
        async with self._lock:
            producer, self._producer = self._producer, None
            return producer is None or await _stopped(producer, "closing the producer", seconds)

    def _release(self, _future: object) -> None:
        self._waiting -= 1
        self._room.release()

    async def _working_producer(self) -> Any:
        """Return a producer that may work: a new one if the last one failed."""
        if self._producer is not None and self._producer is not self._failed:
            return self._producer
        async with self._lock:
            if self._producer is not None and self._producer is self._failed:
                failed, self._producer, self._failed = self._producer, None, None
                await _stopped(failed, "closing a producer that failed", 1.0)
            if self._producer is None:
                try:
                    self._producer = await self._made()
                except Exception as error:
                    raise KafkaUnavailable(
                        f"Kafka does not answer: {type(error).__name__}: {error}"
                    ) from error
            return self._producer

    async def _made(self) -> Any:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            **self._config.options(),
            acks="all",
            enable_idempotence=True,
            compression_type=self._compression,
            max_batch_size=BATCH_BYTES,
            max_request_size=REQUEST_BYTES,
            linger_ms=self._linger_ms,
            partitioner=partition,
        )
        try:
            await asyncio.wait_for(producer.start(), self._config.request_timeout_seconds * 2)
        except BaseException:
            await _stopped(producer, "closing a producer that did not start", 1.0)
            raise
        return producer


def partition(key: bytes | None, everyone: Sequence[int], available: Sequence[int]) -> int:
    """Return the partition of a record, as Kafka's own producer does; aiokafka's is in Python."""
    if key is None:
        return random.choice(available or everyone)  # noqa: S311  (any will do)
    return everyone[partition_of(key, len(everyone))]


async def _stopped(producer: Any, what: str, seconds: float) -> bool:
    """Stop a producer; if that does not end in time, close its task and its connections."""
    if await ended(producer.stop(), what, seconds):
        return True
    await ended(producer._sender.close(), what, 1.0)  # noqa: SLF001 - stop() was cut short before it
    await ended(producer.client.close(), what, 1.0)
    return False


def _is_due_to_the_record(error: Exception) -> bool:
    from aiokafka.errors import MessageSizeTooLargeError, RecordTooLargeError

    return isinstance(error, MessageSizeTooLargeError | RecordTooLargeError)
