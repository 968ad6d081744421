"""The topics a worker writes to, through one producer.

    ensure -> (outputs exist) ; send -> acknowledged, refused, or to be tried again

The rule kept here: an output counts as written when all in-sync replicas have it. What the broker
will never take (too large, a timestamp out of its range) is told apart from what may pass, each
record for itself: one bad record does not condemn those that were sent with it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    InvalidTimestampError,
    KafkaError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    TopicAlreadyExistsError,
)

from dedup.errors import UsageError
from dedup.worker.config import Topics
from dedup.worker.pipeline import Refused
from dedup.worker.records import Output

__all__ = ["OutputTopics", "ensure_topics"]

log = logging.getLogger("dedup.worker")

TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
FINAL = (*TOO_LARGE, InvalidTimestampError, PolicyViolationError)

LINGER_MS = 5
BATCH_BYTES = 256 << 10
REQUEST_BYTES = 1 << 30  # how large a record may be is for the broker to say
REQUEST_MS = 20_000
STOP_SECONDS = 10.0
START_SECONDS = 30.0


class OutputTopics:
    """Writes outputs. Kafka's producer is made at the first send, and anew after a failure."""

    def __init__(self, connection: Mapping[str, Any], topics: Topics) -> None:
        """Write to the topics of a cluster."""
        self._connection = connection
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
            await asyncio.wait(futures)
        return [_outcome(each) for each in waiting]

    async def _started(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = AIOKafkaProducer(
                **self._connection,
                acks="all",
                enable_idempotence=True,
                linger_ms=LINGER_MS,
                max_batch_size=BATCH_BYTES,
                max_request_size=REQUEST_BYTES,
                request_timeout_ms=REQUEST_MS,
                compression_type="zstd",  # aiokafka has lz4 at its slowest level only
            )
            try:
                await asyncio.wait_for(producer.start(), START_SECONDS)
            except BaseException:
                await _stopped(producer)
                raise
            self._producer = producer
        return self._producer

    async def stop(self) -> None:
        """Close the producer, within a bound; a later send() makes another."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await _stopped(producer)


def _outcome(sent: "asyncio.Future[Any] | Exception") -> Exception | None:
    error: BaseException | None
    if isinstance(sent, Exception):
        error = sent
    elif sent.cancelled():
        error = KafkaError("the producer was closed")
    else:
        error = sent.exception()
    return error if isinstance(error, Exception) else None


async def _stopped(producer: AIOKafkaProducer) -> None:
    with contextlib.suppress(KafkaError, TimeoutError, OSError):
        await asyncio.wait_for(producer.stop(), STOP_SECONDS)


async def ensure_topics(connection: Mapping[str, Any], topics: Topics) -> None:
    """Make the outputs that are missing, with the input's number of partitions and replicas.

    Raises UsageError if the input does not exist or an output may not be made, KafkaError if no
    broker answers.
    """
    admin = AIOKafkaAdminClient(**connection)
    await admin.start()
    try:
        outputs = (topics.unique, topics.duplicates, topics.dead)
        known = set(await admin.list_topics())
        if topics.input not in known:
            raise UsageError(
                f"the input topic {topics.input!r} does not exist at "
                f"{connection['bootstrap_servers']}; create it, or check --input"
            )
        (described,) = await admin.describe_topics([topics.input])
        partitions = described["partitions"]
        replicas = len(partitions[0]["replicas"])
        missing = [
            NewTopic(name, len(partitions), replicas) for name in outputs if name not in known
        ]
        if not missing:
            return
        answer = await admin.create_topics(missing)
        for name, code, *said in answer.topic_errors:
            if code not in (0, TopicAlreadyExistsError.errno):
                raise UsageError(
                    f"the topic {name!r} does not exist and could not be made (error {code}"
                    f"{': ' + said[0] if said and said[0] else ''}); create it, or allow it"
                )
        log.info("made topics: %s", ", ".join(topic.name for topic in missing))
    finally:
        with contextlib.suppress(KafkaError, TimeoutError):
            await asyncio.wait_for(admin.close(), STOP_SECONDS)
