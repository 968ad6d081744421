"""The topics a worker writes to, through one producer.

    ensure -> (outputs exist) ; send -> acknowledged, refused, or to be tried again

The rule kept here: an output counts as written when all in-sync replicas have it. What the broker
will never take (too large, a timestamp out of its range) is told apart from what may pass, each
record for itself: one bad record does not condemn those that were sent with it.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    InvalidTimestampError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
)

from dedup.model.errors import UsageError
from dedup.wire.kafka import KafkaConfig, describe_topic, ensure_topic
from dedup.wire.kafka.supervision import ended
from dedup.worker.options import Topics
from dedup.worker.pipeline import Refused
from dedup.worker.records import Output

__all__ = ["OutputTopics", "ensure_topics"]

TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
FINAL = (*TOO_LARGE, InvalidTimestampError, PolicyViolationError)

LINGER_MS = 5
BATCH_BYTES = 256 << 10
REQUEST_BYTES = 1 << 30  # how large a record may be is for the broker to say
SEND_SECONDS = 30.0
STOP_SECONDS = 10.0
START_SECONDS = 30.0


class OutputTopics:
    """Writes outputs. Kafka's producer is made at the first send, and again after a failure."""

    def __init__(self, config: KafkaConfig, topics: Topics) -> None:
        """Write to the topics of a cluster."""
        self._config = config
        self._names = {
            "unique": topics.unique,
            "duplicates": topics.duplicates,
            "dead": topics.dead,
        }
        self._producer: AIOKafkaProducer | None = None

    async def send(self, outputs: Sequence[Output]) -> list[Exception | None]:
        """Write each and wait for its acknowledgement; see pipeline.Outputs."""
        try:
            producer = await self._started()
        except (KafkaError, OSError) as error:
            return [error] * len(outputs)
        results = await self._send(producer, outputs)
        refused = [i for i, result in enumerate(results) if isinstance(result, FINAL)]
        for i in refused:  # the broker refuses whole batches
            (result,) = (
                await self._send(producer, [outputs[i]]) if len(outputs) > 1 else (results[i],)
            )
            if isinstance(result, FINAL):
                result = Refused(
                    f"topic {self._names[outputs[i].way]} does not take it: {result}",
                    too_large=isinstance(result, TOO_LARGE),
                )
            results[i] = result
        if any(r is not None and not isinstance(r, Refused) for r in results):
            await self.stop()  # its sequence may be broken: the next attempt has another
        return results

    async def _send(
        self, producer: AIOKafkaProducer, outputs: Sequence[Output]
    ) -> list[Exception | None]:
        waiting: list[asyncio.Future[Any] | Exception] = []
        for output in outputs:
            try:
                future = await producer.send(
                    self._names[output.way],
                    output.value,
                    output.key,
                    timestamp_ms=output.timestamp_ms,
                    headers=list(output.headers),
                )
            except (KafkaError, OSError) as error:
                waiting.append(error)
            else:
                waiting.append(future)
        futures = [each for each in waiting if not isinstance(each, Exception)]
        if futures:
            await asyncio.wait(futures, timeout=SEND_SECONDS)
        return [_outcome(each) for each in waiting]

    async def _started(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = AIOKafkaProducer(
                **self._config.options(),
                acks="all",
                enable_idempotence=True,
                linger_ms=LINGER_MS,
                max_batch_size=BATCH_BYTES,
                max_request_size=REQUEST_BYTES,
                compression_type="zstd",  # aiokafka has lz4 at its slowest level only
            )
            try:
                async with asyncio.timeout(START_SECONDS):
                    await producer.start()
            except BaseException:
                await ended(producer.stop(), "closing a producer that did not start", 1.0)
                raise
            self._producer = producer
        return self._producer

    async def stop(self) -> None:
        """Close the producer, within a bound; a later send() makes another."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await ended(producer.stop(), "closing the producer", STOP_SECONDS)


def _outcome(sent: "asyncio.Future[Any] | Exception") -> Exception | None:
    error: BaseException | None
    if isinstance(sent, Exception):
        error = sent
    elif not sent.done() or sent.cancelled():
        error = KafkaTimeoutError(f"not acknowledged within {SEND_SECONDS:g} s")
    else:
        error = sent.exception()
    return error if isinstance(error, Exception) else None


async def ensure_topics(config: KafkaConfig, topics: Topics) -> None:
    """Make the outputs that are missing, with as many partitions as the input has.

    Raises UsageError if there is no input, TopicUnfit if an output may not be made, and
    KafkaUnavailable.
    """
    found = await describe_topic(config, topics.input)
    if found is None:
        raise UsageError(
            f"the input topic {topics.input!r} does not exist at {','.join(config.bootstrap)}; "
            "create it, or check --input"
        )
    for name in (topics.unique, topics.duplicates, topics.dead):
        await ensure_topic(config, name, partitions=found.partitions, compact=False)
