"""A service's part in the log: its replica, its inserts, and their figures.

Invariants: OK means that Kafka acknowledged the event. The reservation is kept until the event is applied, so that no
client gets `unique` for the same content in between; without Kafka's acknowledgement it is kept too, and the client's
retry inserts the same page again. Nothing is written to a log before its identity was checked, nor while Kafka is known
to be away: that is refused at once.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dedup.detector import EmbeddedDetector
from dedup.model.events import encode, record_key
from dedup.model.page import Verdict
from dedup.service.core.namespaces import Namespaces
from dedup.service.core.operations import Given, check_same_key
from dedup.service.replica.replica import SERVING, Replica
from dedup.wire.kafka import KafkaConfig, KafkaUnavailable, Writer


class LogInserts:
    """Inserts of a service that follows a log."""

    commits = False

    def __init__(self, writer: Writer, unwritable: Callable[[], str] = lambda: "") -> None:
        """unwritable() returns why nothing may be written to the log now, or ""."""
        self._writer = writer
        self._unwritable = unwritable
        self._tasks: set[asyncio.Task[Any]] = set()

    def insert(
        self, namespace: str, detector: EmbeddedDetector, key: str, token: str, given: Given
    ) -> "asyncio.Future[None] | bool":
        """Produce the event; the future is done when Kafka has it. False: the reservation is not held.

        Raises EventInvalid, and KafkaUnavailable where the log must not or cannot be written to.
        """
        verdict = detector.held(token)
        if verdict is None:
            return False
        check_same_key(verdict, key)
        self._check_log()
        document = replace(verdict.document, inserted_seconds=time.time(), **given)
        return self._task(self._insert(detector, token, *encode(namespace, document)))

    def pin(self, namespace: str, detector: EmbeddedDetector, verdict: Verdict) -> None:  # noqa: ARG002
        """Keep the reservation until the client's own event is applied."""
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

    def _check_log(self) -> None:
        if why := self._unwritable():
            raise KafkaUnavailable(why)

    async def _insert(
        self, detector: EmbeddedDetector, token: str, key: bytes, value: bytes
    ) -> None:
        await self._writer.send(key, value)
        detector.pin(token)  # the event will come: until now the reservation could expire

    async def _forget(self, key: bytes, *, known: bool) -> bool:
        await self._writer.send(key, None)
        return known

    def _task(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class Follower:
    """The log of one service: its replica and its writer."""

    def __init__(
        self,
        config: KafkaConfig,
        namespaces: Namespaces,
        path: Path,
        *,
        partitions: str | None = None,
        rebuild: bool = False,
        skip: Mapping[int, int] | None = None,
    ) -> None:
        """Hold these partitions of the log ("0-3,6", for example; None: all).

        skip is {partition: offset} of the last records to skip.
        """
        self._namespaces = namespaces
        self.writer = Writer(config)
        self.replica = Replica(
            config, namespaces, path, share=partitions, rebuild=rebuild, skip=skip
        )
        self.inserts = LogInserts(self.writer, lambda: self.replica.unwritable)
        self._task: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Identify the log. Raises as Replica.prepare() does."""
        await self.replica.prepare()
        self._namespaces.share = self.replica.share

    async def catch_up(self) -> None:
        """Follow the log; return once the stores may be served. Raises what ends Replica.run() before."""
        self._task = asyncio.create_task(self.replica.run())
        if await self.replica.reached(*SERVING) not in SERVING:
            await asyncio.wait({self._task})
            self._task.result()

    @property
    def not_ready(self) -> str | None:
        """Why pages may not be answered for, or None if they may."""
        state = self.replica.state()
        return None if state.ready else f"{state.status}: {state.reason}"

    @property
    def stale(self) -> str:
        """Why answers may be behind the log, or ""."""
        state = self.replica.state()
        return state.reason if state.ready and state.status != "current" else ""

    async def stop(self, seconds: float) -> None:
        """Wait for Kafka's acknowledgements, this long at most; stop applying; disconnect."""
        await self.inserts.drain(seconds)
        self.replica.stop()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=seconds)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task})
            if not self._task.cancelled():
                self._task.exception()  # which the replica has logged
        await self.writer.stop()

    def info(self) -> dict[str, object]:
        """Return the replica's state in flat fields, for DEDUP.INFO."""
        state = self.replica.state()
        return {
            "log_status": state.status,
            "log_lag_records": state.lag_records,
            "log_behind_seconds": round(state.behind_seconds, 1),
            "log_manifest_age_seconds": round(state.manifest_seconds, 1),
        }

    def metrics(self) -> Iterable[Metric]:
        """Yield the metrics of the log."""
        state, share = self.replica.state(), self.replica.share
        for name, text, value in (
            ("dedup_log_stale", "1 if ready, but not up to date", bool(self.stale)),
            ("dedup_log_lag_records", "Records of the log not applied yet", state.lag_records),
            (
                "dedup_log_uncommitted_records",
                "Records that wait for the end of a transaction",
                self.replica.uncommitted,
            ),
            ("dedup_log_behind_seconds", "Since it was up to date", state.behind_seconds),
            ("dedup_log_away_seconds", "Since Kafka last answered", state.away_seconds),
            ("dedup_log_manifest_age_seconds", "Since the last manifest", state.manifest_seconds),
            (
                "dedup_log_unacknowledged",
                "Inserts that wait for Kafka",
                self.inserts.unacknowledged,
            ),
            ("dedup_log_partitions", "Partitions of the log", 0 if share is None else share.count),
            (
                "dedup_log_partitions_held",
                "Partitions of the log that are held here",
                0 if share is None else len(share.partitions),
            ),
        ):
            yield GaugeMetricFamily(name, text, float(value))
        for name, text, offsets in (
            ("dedup_log_applied_offset", "Next offset to be applied", state.offsets),
            ("dedup_log_end_offset", "End of the log, as last heard", state.ends),
        ):
            gauge = GaugeMetricFamily(name, text, labels=("partition",))
            for partition, offset in sorted(offsets.items()):
                gauge.add_metric((str(partition),), float(offset))
            yield gauge
        events = CounterMetricFamily("dedup_log_events", "Events by result", labels=("result",))
        for result, count in sorted(state.counts.items()):
            events.add_metric((result,), float(count))
        yield events
