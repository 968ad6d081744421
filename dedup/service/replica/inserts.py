"""Insert through the log: to Kafka first, and from there into every replica's stores.

Invariants: OK means that Kafka acknowledged the event. The reservation is kept until the event is
applied, so that no client gets `unique` for the same content in between; without Kafka's
acknowledgement it is kept too, and the client's retry inserts the same page again. Nothing is written
to a log before its identity was checked, nor while Kafka is known to be away: that is refused at once.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from dedup.detector import EmbeddedDetector
from dedup.model.errors import UsageError
from dedup.model.events import encode, record_key
from dedup.model.page import Verdict, accepted_document
from dedup.wire.kafka import KafkaUnavailable, Writer


class LogInserts:
    """Inserts of a service that follows a log."""

    commits = False

    def __init__(self, writer: Writer, unwritable: Callable[[], str] = lambda: "") -> None:
        """unwritable() returns why nothing may be written to the log now, or ""."""
        self._writer = writer
        self._unwritable = unwritable
        self._tasks: set[asyncio.Task[Any]] = set()

    def insert(
        self, namespace: str, detector: EmbeddedDetector, verdict: Verdict
    ) -> "asyncio.Future[None] | None":
        """Produce the event; the future is done when Kafka has it.

        Raises EventInvalid, and KafkaUnavailable where the log must not or cannot be written to.
        """
        if verdict.token is not None and detector.ending(verdict.token) == "inserted":
            return None
        self._check(verdict)
        self._check_log()
        key, value = encode(namespace, accepted_document(verdict, time.time()))
        return self._task(self._insert(detector, verdict, key, value))

    def pin(self, namespace: str, detector: EmbeddedDetector, verdict: Verdict) -> None:  # noqa: ARG002
        """Keep the reservation until the client's own event is applied."""
        self._check(verdict)
        assert verdict.token is not None
        detector.pin(verdict.token)

    def forget(
        self, namespace: str, detector: EmbeddedDetector, key: str
    ) -> "asyncio.Future[bool] | bool":
        """Produce a tombstone; return whether this view has the document.

        Raises KafkaUnavailable where the log must not or cannot be written to.
        """
        self._check_log()
        known = detector.get(key) is not None
        return self._task(self._forget(record_key(namespace, key), known=known))

    @property
    def unacknowledged(self) -> int:
        """Number of records that wait for Kafka."""
        return self._writer.unacknowledged

    async def drain(self, seconds: float) -> bool:
        """Wait for unacknowledged records, this many seconds at most; return whether all are done."""
        if not self._tasks:
            return True
        return not (await asyncio.wait(set(self._tasks), timeout=seconds))[1]

    def _check(self, verdict: Verdict) -> None:
        if verdict.token is None:
            raise UsageError(f"{verdict.key!r} has no token: it cannot be inserted")

    def _check_log(self) -> None:
        if why := self._unwritable():
            raise KafkaUnavailable(why)

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
