"""Run a service on a log: its stores follow the log, and its inserts go there first.

prepare (identify the log) -> the stores are opened -> catch up -> ready -> stop
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dedup.service.core.namespaces import Namespaces
from dedup.service.replica.inserts import LogInserts
from dedup.service.replica.replica import SERVING, Replica
from dedup.wire.kafka import KafkaConfig, Writer


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
