"""Figures for Prometheus, read off plain counters when they are asked for.

docs/operations.md lists them. Counting costs a command a few tens of nanoseconds this way.
"""

import os
import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from dedup.service.core.durations import BOUNDS
from dedup.service.core.operations import Commands
from dedup.service.resp.port import Port

__all__ = ["Metrics"]


class Metrics(Collector):
    """The figures of one service."""

    media_type = "text/plain; version=0.0.4; charset=utf-8"  # what generate_latest() writes

    def __init__(self, commands: Commands, port: Port) -> None:
        self._commands = commands
        self._port = port
        self.more: list[Callable[[], Iterable[Metric]]] = []  # of other parts
        self._started = time.time()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return the figures as they are now."""
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Nothing: what is collected says what it is."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Yield every figure."""
        commands, port = self._commands, self._port
        ready = GaugeMetricFamily("dedup_ready", "1 if probes are answered")
        ready.add_metric((), float(commands.not_ready is None))
        yield ready
        started = GaugeMetricFamily("dedup_start_time_seconds", "Unix time of the start")
        started.add_metric((), self._started)
        yield started
        usage = os.times()
        cpu = CounterMetricFamily("dedup_cpu_seconds", "CPU time of the process")
        cpu.add_metric((), usage.user + usage.system)
        yield cpu
        open_now = GaugeMetricFamily("dedup_connections", "Connections on the RESP port")
        open_now.add_metric((), len(port.open))
        yield open_now
        yield _counters("dedup_connections_ended", "Connections ended by us", "reason", port.ended)
        asked = {name.decode(): count for name, count in port.asked.items()}
        yield _counters("dedup_commands", "RESP commands", "command", asked)
        yield _counters("dedup_errors", "Error answers", "code", port.errors)
        yield _counters("dedup_results", "Verdicts and changes", "result", commands.counts)
        yield self._durations()
        yield from self._namespaces()
        for part in self.more:
            yield from part()

    def _durations(self) -> Metric:
        durations = self._port.durations
        buckets, total = [], 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), durations.counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        family = HistogramMetricFamily(
            "dedup_command_seconds", "Time a RESP command took, or the native call it was part of"
        )
        family.add_metric((), buckets, durations.sum)
        return family

    def _namespaces(self) -> Iterable[Metric]:
        families = {
            "documents": GaugeMetricFamily(
                "dedup_documents", "Documents stored", labels=("namespace",)
            ),
            "in_flight": GaugeMetricFamily(
                "dedup_in_flight", "Pages reserved", labels=("namespace",)
            ),
            "table_bytes": GaugeMetricFamily(
                "dedup_table_bytes", "Memory of the table", labels=("namespace",)
            ),
            "documents_file_bytes": GaugeMetricFamily(
                "dedup_documents_file_bytes", "Size of documents.mdb", labels=("namespace",)
            ),
        }
        for name, detector in self._commands.namespaces:
            info = detector.info()
            for field, family in families.items():
                family.add_metric((name,), float(info[field]))
        yield from families.values()


def _counters(name: str, text: str, label: str, counts: dict[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=(label,))
    for value, count in sorted(counts.items()):
        family.add_metric((value,), float(count))
    return family
