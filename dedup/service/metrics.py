"""The metrics of a service: docs/reference/metrics.md lists them."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dedup.service.connections import Buffers
from dedup.service.core.operations import Operations
from dedup.service.http.guard import HttpConnections
from dedup.wire.metrics import Durations, Metrics, counters


class RespPort(Protocol):
    """What is counted of the RESP port."""

    open: set[object]
    ended: Counter[str]
    unread: Buffers
    partial: Buffers
    asked: Counter[bytes]
    errors: Counter[str]
    durations: Durations


class ServiceMetrics(Metrics):
    """The metrics of one service."""

    def __init__(
        self,
        commands: Operations,
        port: RespPort,
        http: HttpConnections,
        log: Callable[[], Iterable[Metric]] = list,
    ) -> None:
        """log() returns the metrics of the log."""
        self._commands, self._port, self._http, self._log = commands, port, http, log
        super().__init__()

    def collect(self) -> Iterable[Metric]:
        """Yield every metric."""
        commands, port = self._commands, self._port
        gauge = GaugeMetricFamily
        yield gauge("dedup_ready", "1 if probes are answered", float(commands.not_ready is None))
        yield gauge("dedup_connections", "Connections on the RESP port", len(port.open))
        yield gauge(
            "dedup_unread_bytes",
            "Answers that clients have not read",
            port.unread.total + self._http.unread,
        )
        yield gauge(
            "dedup_partial_bytes",
            "Incomplete commands, and requests in progress",
            port.partial.total + self._http.room.total,
        )
        yield counters(
            "dedup_connections_ended", "Connections closed by the service", ["reason"], port.ended
        )
        asked = {name.decode(): count for name, count in port.asked.items()}
        yield counters("dedup_commands", "RESP commands", ["command"], asked)
        yield counters("dedup_errors", "Error answers", ["code"], port.errors)
        yield counters("dedup_results", "Verdicts and changes", ["result"], commands.counts)
        text = "Time a RESP command took, or the native call it was part of"
        yield port.durations.family("dedup_command_seconds", text)
        yield from self._namespaces()
        http = self._http
        yield gauge("dedup_http_connections", "Connections on the HTTP port", len(http.open))
        text = "HTTP connections closed by the service"
        yield counters("dedup_http_connections_ended", text, ["reason"], http.ended)
        yield from self._log()

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
            "dedup_cut", "Answers and verdicts that omitted near documents", labels=("namespace",)
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
