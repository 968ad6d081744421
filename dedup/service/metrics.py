"""The figures of a service: durations as they are counted, and all of them as Prometheus reads them.

Invariant: a figure is a plain counter until it is scraped.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from dedup.service.connections import Buffers, Connections
from dedup.service.core.operations import Operations

BOUNDS = (
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 1.0,
)  # fmt: skip  # seconds


class Durations:
    """Durations in seconds, counted by bucket; the last count is of all beyond the last bound."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0

    def note(self, seconds: float, commands: int) -> None:
        """Count commands that took this long, several of them together."""
        self.counts[bisect_left(BOUNDS, seconds)] += commands
        self.sum += seconds


class RespPort(Protocol):
    """What is counted of the RESP port."""

    open: set[object]
    ended: Counter[str]
    unread: Buffers
    partial: Buffers
    asked: Counter[bytes]
    errors: Counter[str]
    durations: Durations


class ServiceMetrics(Collector):
    """The metrics of one service, read from plain counters when they are scraped: docs/reference/metrics.md lists them."""

    media_type = "text/plain; version=0.0.4; charset=utf-8"  # what generate_latest() writes

    def __init__(
        self,
        commands: Operations,
        port: RespPort,
        http: Callable[[], Connections],
        log: Callable[[], Iterable[Metric]] = list,
    ) -> None:
        """http() returns the connections of the HTTP port, log() the metrics of the log."""
        self._commands, self._port, self._http, self._log = commands, port, http, log
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return the metrics as they are now."""
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Return nothing: the names are not checked beforehand."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Yield every metric."""
        commands, port = self._commands, self._port
        gauge = GaugeMetricFamily
        yield gauge("dedup_ready", "1 if probes are answered", float(commands.not_ready is None))
        yield gauge("dedup_connections", "Connections on the RESP port", len(port.open))
        yield gauge("dedup_unread_bytes", "Answers that clients have not read", port.unread.total)
        yield gauge("dedup_partial_bytes", "Commands that are not whole", port.partial.total)
        yield counters("dedup_connections_ended", "Connections ended by us", "reason", port.ended)
        asked = {name.decode(): count for name, count in port.asked.items()}
        yield counters("dedup_commands", "RESP commands", "command", asked)
        yield counters("dedup_errors", "Error answers", "code", port.errors)
        yield counters("dedup_results", "Verdicts and changes", "result", commands.counts)
        yield self._durations()
        yield from self._namespaces()
        http = self._http()
        yield gauge("dedup_http_connections", "Connections on the HTTP port", len(http.open))
        text = "HTTP connections ended by us"
        yield counters("dedup_http_connections_ended", text, "reason", http.ended)
        yield from self._log()

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
            field: GaugeMetricFamily(f"dedup_{field}", text, labels=("namespace",))
            for field, text in (
                ("documents", "Documents stored"),
                ("in_flight", "Pages reserved"),
                ("in_flight_bytes", "Memory of the pages reserved"),
                ("table_bytes", "Memory of the table"),
                ("documents_file_bytes", "Size of documents.mdb"),
            )
        }
        cut = CounterMetricFamily(
            "dedup_cut", "Answers and verdicts that left pages out", labels=("namespace",)
        )
        unserved = GaugeMetricFamily(
            "dedup_unserved", "1 for a namespace that is refused", labels=("namespace",)
        )
        for name in self._commands.namespaces.unserved:
            unserved.add_metric((name,), 1.0)
        yield unserved
        for name, detector in self._commands.namespaces:
            info = detector.info()
            cut.add_metric((name,), float(info["cut"]))
            for field, family in families.items():
                family.add_metric((name,), float(info[field]))
        yield from families.values()
        yield cut


def counters(name: str, text: str, label: str, counts: dict[str, int]) -> Metric:
    """Return a counter with a label."""
    family = CounterMetricFamily(name, text, labels=(label,))
    for value, count in sorted(counts.items()):
        family.add_metric((value,), float(count))
    return family
