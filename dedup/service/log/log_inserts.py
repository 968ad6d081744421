"""Inserts of a service with a log: to Kafka first, and from there into every replica's stores.

The rule kept here: OK means that Kafka acknowledged the event. The reservation stays until the event
is applied, so that no client is told `unique` of the same content in between; without Kafka's
acknowledgement it stays too, and the client's retry inserts the same page again. Nothing is written
to a log before its identity was checked.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from dedup.detector import EmbeddedDetector
from dedup.model.errors import UsageError
from dedup.model.events import encode, record_key
from dedup.model.values import Verdict, accepted_document
from dedup.wire.kafka import KafkaUnavailable, Writer

__all__ = ["LogInserts"]


class LogInserts:
    """Inserts of a service that follows a log."""

    commits = False

    def __init__(self, writer: Writer, is_identified: Callable[[], bool] = lambda: True) -> None:
        """is_identified() says whether the log was found to be the stores' own since this start."""
        self._writer = writer
        self._is_identified = is_identified
        self._tasks: set[asyncio.Task[Any]] = set()

    def insert(
        self, namespace: str, detector: EmbeddedDetector, verdict: Verdict
    ) -> "asyncio.Future[None] | None":
        """Produce the event; the future is done when Kafka has it.

        Raises EventInvalid, and KafkaUnavailable before the log is identified.
        """
        if verdict.token is not None and detector.ending(verdict.token) == "inserted":
            return None
        self._check(verdict)
        self._check_log()
        key, value = encode(namespace, accepted_document(verdict, time.time()))
        return self._task(self._insert(detector, verdict, key, value))

    def pin(self, namespace: str, detector: EmbeddedDetector, verdict: Verdict) -> None:  # noqa: ARG002
        """Keep the reservation until the event comes, which the client produces itself."""
        self._check(verdict)
        assert verdict.token is not None
        detector.pin(verdict.token)

    def forget(
        self, namespace: str, detector: EmbeddedDetector, key: str
    ) -> "asyncio.Future[bool] | bool":
        """Produce a tombstone; tell whether the document is there as far as this view knows.

        Raises KafkaUnavailable before the log is identified.
        """
        self._check_log()
        known = detector.get(key) is not None
        return self._task(self._forget(record_key(namespace, key), known=known))

    @property
    def unacknowledged(self) -> int:
        """How many records wait for Kafka."""
        return self._writer.unacknowledged

    async def drain(self, seconds: float) -> bool:
        """Wait for the records under way, this many seconds at most; return whether all are done."""
        if not self._tasks:
            return True
        return not (await asyncio.wait(set(self._tasks), timeout=seconds))[1]

    def _check(self, verdict: Verdict) -> None:
        if verdict.token is None:
            raise UsageError(f"{verdict.key!r} has no token: it cannot be inserted")

    def _check_log(self) -> None:
        if not self._is_identified():
            raise KafkaUnavailable(
                "Kafka has not answered since this service started, so that its log may be another "
                "than that of the stores: nothing is written until that is checked"
            )

    async def _insert(
        self, detector: EmbeddedDetector, verdict: Verdict, key: bytes, value: bytes
    ) -> None:
        await self._writer.send(key, value)
        assert verdict.token is not None
        detector.pin(verdict.token)  # the event will come: until now the reservation could expire

    async def _forget(self, key: bytes, *, known: bool) -> bool:
        await self._writer.send(key, None)
        return known

    def _task(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
