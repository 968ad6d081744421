"""A worker's figures and health over HTTP: Prometheus metrics, /livez and /readyz.

Invariants: counting never fails a page, and requests are answered in a thread. Names and labels hold no
page's URL.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

BATCH_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The figures of one worker."""

    def __init__(self) -> None:
        """Start at zero."""
        self.registry = registry = CollectorRegistry()
        self.pages = Counter(
            "dedup_worker_pages",
            "Records done, by status and reason; dead: dead letters",
            ["status", "reason"],
            registry=registry,
        )
        self.events = Counter(
            "dedup_worker_events",
            "inserted, late_duplicate, released, commits, abandoned batches, rebuilt readers, dead_lost: "
            "dead letters that could not be written",
            ["event"],
            registry=registry,
        )
        self.faults = Counter(
            "dedup_worker_faults", "Faults, by step and kind", ["step", "kind"], registry=registry
        )
        self.batch_seconds = Histogram(
            "dedup_worker_batch_seconds",
            "From the first verdict of a batch to its commit",
            buckets=BATCH_SECONDS,
            registry=registry,
        )
        labels = ["topic", "partition"]
        self.lag_records = Gauge(
            "dedup_worker_lag_records",
            "Records of the partition that are not done",
            labels,
            registry=registry,
        )
        self.lag_seconds = Gauge(
            "dedup_worker_lag_seconds",
            "Age of the last record that is done, while others wait",
            labels,
            registry=registry,
        )
        self.expired = Counter(
            "dedup_worker_expired_records",
            "Records that the topic dropped before they were read",
            registry=registry,
        )

    def batch(self, counts: dict[str, int]) -> None:
        """Add what a batch counted: {"status/reason": number}."""
        for name, number in counts.items():
            status, _, reason = name.partition("/")
            self.pages.labels(status, reason).inc(number)

    def lag(self, places: Iterable[tuple[str, int, int, float]]) -> None:
        """Show the lag of each (topic, partition, records, seconds), and of no other."""
        self.lag_records.clear()
        self.lag_seconds.clear()
        for topic, partition, records, seconds in places:
            self.lag_records.labels(topic, str(partition)).set(records)
            self.lag_seconds.labels(topic, str(partition)).set(seconds)


class Health:
    """The faults that hinder a worker, by kind; it is ready once it joined its group, without faults."""

    def __init__(self) -> None:
        """Start as not ready, and alive."""
        self.joined = False
        self.hindered: dict[str, str] = {}
        self.alive: Callable[[], bool] = lambda: True

    @property
    def ready(self) -> bool:
        """Whether records come in and go out."""
        return self.joined and not self.hindered

    def text(self) -> str:
        """Return why it is not ready, or "ok"."""
        if self.hindered:
            return "; ".join(f"{kind}: {said}" for kind, said in sorted(self.hindered.items()))
        return "ok" if self.joined else "has not joined its group yet"


class MetricsServer:
    """Answers on HTTP in a thread. A context manager; `address` holds the real port."""

    def __init__(self, address: tuple[str, int], metrics: Metrics, health: Health) -> None:
        """Listen. Raises OSError if the address cannot be had."""
        exposed = make_wsgi_app(metrics.registry)

        def answer(environ: dict[str, Any], start: Any) -> Any:
            path = environ["PATH_INFO"]
            if path == "/metrics":
                return exposed(environ, start)
            if path == "/livez":
                good, text = health.alive(), "the event loop is blocked"
            elif path == "/readyz":
                good, text = health.ready, health.text()
            else:
                start("404 Not Found", [("Content-Type", "text/plain")])
                return [b"not found; paths: /metrics, /livez, /readyz\n"]
            status = "200 OK" if good else "503 Service Unavailable"
            start(status, [("Content-Type", "text/plain; charset=utf-8")])
            return [("ok\n" if good else text + "\n").encode()]

        host, port = address
        self._server = make_server(host, port, answer, _Server, _Quiet)
        self.address = (address[0], self._server.server_port)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingWSGIServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went away."""


class _Quiet(WSGIRequestHandler):
    timeout = 10.0  # of an idle client

    def log_message(self, *_: object) -> None:
        """Keep the log for pages."""
