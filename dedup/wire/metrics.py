"""The metrics of a process, as Prometheus reads them.

Invariant: a figure is a plain counter until it is scraped.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


class Durations:
    """Durations in seconds, counted by bucket; the last count is of all beyond the last bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def note(self, seconds: float, count: int = 1) -> None:
        """Count what took this long, several things together."""
        self.counts[bisect_left(self._bounds, seconds)] += count
        self.sum += seconds

    def family(self, name: str, text: str) -> Metric:
        """Return them as a histogram."""
        buckets, total = [], 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        made = HistogramMetricFamily(name, text)
        made.add_metric((), buckets, self.sum)
        return made


class Metrics(Collector):
    """The metrics of a process, and what Prometheus' client knows of every one: a subclass has collect()."""

    media_type = "text/plain; version=0.0.4; charset=utf-8"  # what generate_latest() writes

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return the metrics as they are now."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the names are not checked beforehand."""
        return []


def counters(name: str, text: str, labels: Sequence[str], counts: Mapping[Any, int]) -> Metric:
    """Return a counter with labels; a key of counts is the value of one, or has a value of each."""
    family = CounterMetricFamily(name, text, labels=labels)
    for key, count in sorted(Counter(counts).items()):  # a copy: another thread may count on
        family.add_metric((key,) if isinstance(key, str) else key, float(count))
    return family
