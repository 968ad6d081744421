"""Writes records to Kafka; every in-sync replica acknowledges a record, or its sender gets an error.

The one producer of the project: the service writes inserts and dead letters by it, the worker its
outputs.

Invariants: KafkaUnavailable means "not known to be written": the record may be in the log all the
same, so repeating it must be idempotent (insert events are: the last record of a key counts). A
producer that failed is replaced before the next record, because an idempotent one that lost its
sequence never works again.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

from dedup.wire.kafka.login import (
    STOP_SECONDS,
    KafkaConfig,
    KafkaUnavailable,
    RecordRefused,
    described,
    ended,
    started,
)
from dedup.wire.shards import partition_of

BATCH_BYTES = 262_144
LINGER_MS = 5
REQUEST_BYTES = 1 << 30  # the topic limits the size of a record, not the producer
UNACKNOWLEDGED = 20_000  # records of this writer that wait for Kafka at once

Headers = tuple[tuple[str, bytes], ...]
Sent = tuple[int, int]  # the partition and offset of a written record


class Outgoing(NamedTuple):
    """A record to be written; the partition follows from the key unless it is given."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()
    topic: str | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


class Writer:
    """A producer: idempotent, acks=all, batches of 256 KB, zstd.

    An async context manager: start() on entry, stop() on exit. Without start() the first record connects.
    """

    def __init__(self, config: KafkaConfig, *, compression: str | None = "zstd") -> None:
        self._config = config
        self._compression = compression
        self._producer: Any = None
        self._failed: Any = None  # the producer that failed last
        self._lock = asyncio.Lock()
        self._slots = asyncio.Semaphore(UNACKNOWLEDGED)
        self._waiting = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def unacknowledged(self) -> int:
        """Number of records that wait for Kafka."""
        return self._waiting

    async def start(self, *, within_seconds: float | None = None) -> None:
        """Connect, with retries. Raises KafkaUnavailable after within_seconds."""
        async with self._lock:
            if self._producer is None:
                self._producer = await started(
                    self._connect,
                    "connecting the producer",
                    within_seconds=within_seconds,
                    config=self._config,
                )

    async def send(self, key: bytes | None, value: bytes | None) -> Sent:
        """Write a record to the log and wait for Kafka's acknowledgement.

        Raises KafkaUnavailable, and RecordRefused for a record that Kafka will never take.
        """
        return (await self.send_many([Outgoing(key, value)]))[0]

    async def send_many(self, records: Sequence[Outgoing]) -> list[Sent]:
        """Write records, in their order within a partition; wait for all acknowledgements.

        Raises as send() does if one was not acknowledged; which of the others are written is unknown then.
        """
        results = await self._write(await self._working_producer(), records)
        written = [result for result in results if not isinstance(result, KafkaUnavailable)]
        if len(written) < len(results):
            raise next(result for result in results if isinstance(result, KafkaUnavailable))
        return written

    async def send_each(self, records: Sequence[Outgoing]) -> list[Sent | KafkaUnavailable]:
        """Write records that do not depend on each other; return the result of each. Never raises those.

        Brokers refuse whole batches: each refused record is sent again by itself, so that only the bad
        ones stay refused. Their order within a partition may change by that.
        """
        try:
            producer = await self._working_producer()
        except KafkaUnavailable as error:
            return [error] * len(records)
        results = await self._write(producer, records)
        if len(records) > 1:
            for number, result in enumerate(results):
                if isinstance(result, RecordRefused):
                    results[number] = (await self._write(producer, [records[number]]))[0]
        return results

    async def stop(self, seconds: float = STOP_SECONDS) -> bool:
        """Send what is left and close, within this many seconds; return whether all was sent."""
        async with self._lock:
            producer, self._producer = self._producer, None
            return producer is None or await _stop(producer, "closing the producer", seconds)

    async def _write(
        self, producer: Any, records: Sequence[Outgoing]
    ) -> list[Sent | KafkaUnavailable]:
        """Hand records to a producer and wait for their results, within a bound."""
        waiting: list[asyncio.Future[Any] | Exception] = []
        failed: Exception | None = None
        for record in records:
            await self._slots.acquire()
            self._waiting += 1
            try:
                future = await producer.send(
                    record.topic or self._config.topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=list(record.headers),
                )
            except BaseException as error:
                self._release(None)
                if not isinstance(error, Exception):
                    raise
                waiting.append(error)
                if not _is_refusal(error):  # the others would wait as long for the same
                    failed = error
                    break
            else:
                future.add_done_callback(self._release)
                waiting.append(future)
        futures = [each for each in waiting if isinstance(each, asyncio.Future)]
        with suppress(Exception):
            async with asyncio.timeout(self._config.request_timeout_seconds * 2):
                # most records are sent one by one, and waiting for a set costs more than all else here
                await (futures[0] if len(futures) == 1 else asyncio.wait(futures))
        results = [self._result(each) for each in waiting]
        if failed is not None:
            results += [self._result(failed)] * (len(records) - len(results))
        if any(
            isinstance(each, KafkaUnavailable) and type(each) is not RecordRefused
            for each in results
        ):
            self._failed = producer
        return results

    def _result(self, sent: "asyncio.Future[Any] | Exception") -> Sent | KafkaUnavailable:
        error: BaseException | None
        if isinstance(sent, Exception):
            error = sent
        elif not sent.done() or sent.cancelled():
            sent.cancel()
            error = TimeoutError(f"after {self._config.request_timeout_seconds * 2:g} s")
        elif (error := sent.exception()) is None:
            place = sent.result()
            return place.partition, place.offset
        said = described(error)
        if _is_refusal(error):
            made: KafkaUnavailable = RecordRefused(
                f"Kafka does not take the record: {said}", too_large=_is_refusal(error, size=True)
            )
        else:
            made = KafkaUnavailable(f"Kafka did not acknowledge a record: {said}")
        made.__cause__ = error
        return made

    def _release(self, _future: object) -> None:
        self._waiting -= 1
        self._slots.release()

    async def _working_producer(self) -> Any:
        """Return a producer, a new one if the last one failed. Raises KafkaUnavailable."""
        if self._producer is not None and self._producer is not self._failed:
            return self._producer
        async with self._lock:
            if self._producer is not None and self._producer is self._failed:
                failed, self._producer, self._failed = self._producer, None, None
                await _stop(failed, "closing a producer that failed", 1.0)
            if self._producer is None:
                try:
                    self._producer = await self._connect()
                except Exception as error:
                    raise KafkaUnavailable(f"Kafka does not answer: {described(error)}") from error
            return self._producer

    async def _connect(self) -> Any:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            **self._config.options(),
            acks="all",
            enable_idempotence=True,
            compression_type=self._compression,  # aiokafka has lz4 at its slowest level only
            max_batch_size=BATCH_BYTES,
            max_request_size=REQUEST_BYTES,
            linger_ms=LINGER_MS,
            partitioner=partition,
        )
        try:
            await asyncio.wait_for(producer.start(), self._config.request_timeout_seconds * 2)
        except BaseException:
            await _stop(producer, "closing a producer that did not start", 1.0)
            raise
        return producer


def partition(key: bytes | None, everyone: Sequence[int], available: Sequence[int]) -> int:
    """Return the partition of a record, as Kafka's own producer does; aiokafka's is in Python."""
    if key is None:
        return random.choice(available or everyone)  # noqa: S311  (any will do)
    return everyone[partition_of(key, len(everyone))]


async def _stop(producer: Any, what: str, seconds: float) -> bool:
    """Stop a producer; if that does not end in time, close its task and its connections."""
    if await ended(producer.stop(), what, seconds):
        return True
    await ended(producer._sender.close(), what, 1.0)  # noqa: SLF001 - stop() was cut short before it
    await ended(producer.client.close(), what, 1.0)
    return False


def _is_refusal(error: BaseException, *, size: bool = False) -> bool:
    """Whether an error is due to the record, so that it would fail again; size: due to its size."""
    from aiokafka import errors

    too_large = (
        errors.MessageSizeTooLargeError,
        errors.RecordTooLargeError,
        errors.RecordListTooLargeError,
    )
    if size or isinstance(error, OSError):
        return isinstance(error, too_large)
    others = (errors.InvalidTimestampError, errors.PolicyViolationError)
    # What the producer asserts: a record without key and value, for one.
    return isinstance(error, (*too_large, *others, AssertionError, TypeError, ValueError))


# ----------------------------------------------------------------------------------- dead letters


MESSAGE_BYTES = 1000  # of the error's message


def dead_letter(
    record: Any,
    place: tuple[str, int, int],
    stage: str,
    error: Exception,
    left_out: int = 0,
) -> tuple[bytes | None, bytes | None, Headers]:
    """Return key, value and headers of the dead letter of a record that was read at (topic, partition, offset).

    They are the record's own, and added to the headers:
    dedup.error.topic, dedup.error.partition, dedup.error.offset   where it was read
    dedup.error.stage                                              decode, read or produce
    dedup.error.class, dedup.error.message                         why it failed
    dedup.error.value_bytes                                        size of a value that was left out
    left_out  what it is made smaller by; 1: the value, 2: key and headers, too
    """
    topic, partition, offset = place
    added = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "stage": stage,
        "class": type(error).__name__,
        "message": str(error),
    }
    if left_out:
        added["value_bytes"] = len(record.value or b"")
    ours = tuple(
        (f"dedup.error.{name}", str(value).encode(errors="replace")[:MESSAGE_BYTES])
        for name, value in added.items()
    )
    if left_out == 2:  # Kafka takes no record without key and value
        return None, b"", ours
    value = None if left_out else record.value
    if record.key is None and value is None:
        value = b""
    return record.key, value, (*(record.headers or ()), *ours)
