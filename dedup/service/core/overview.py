"""What the dashboard shows: counts by verdict, distance, host and document, and their last minutes.

    verdicts -> tally -> (a sample every SAMPLE_SECONDS) -> overview -> JSON
             -> the last SEEN near-duplicates -> by key, by original, by fingerprint

Invariants: counting costs a verdict a microsecond or two, and memory is bounded, in pages and in characters. Of hosts,
documents and reasons the less frequent half is dropped whenever there are too many: the frequent ones stay, and the
count of one that was dropped before is too low.
"""

import re
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from dedup.model.page import Verdict, hex_fingerprint
from dedup.model.reasons import label_of

__all__ = ["NearDuplicateView", "NearDuplicatesSeen", "Overview", "Tally", "overview"]


SEEN = 10_000  # near-duplicates remembered
SEEN_CHARACTERS = 4 << 20  # of their keys, and of their documents'
ANSWERED = 50  # of one question


class NearDuplicateView(msgspec.Struct, frozen=True, gc=False):
    """A page that was judged to be a near-duplicate: of which document, how far, when (Unix time)."""

    key: str
    value: str
    of: str
    distance: int
    similarity: float
    judged_seconds: float


class NearDuplicatesSeen:
    """The last near-duplicates. For one thread, the event loop's."""

    def __init__(self) -> None:
        self._pages: OrderedDict[tuple[str, str], tuple[float, Verdict]] = OrderedDict()
        self._characters = 0

    def judged(self, namespace: str, verdict: Verdict) -> None:
        """Note a verdict."""
        pages, place = self._pages, (namespace, verdict.document.key)
        if place in pages:
            self._characters -= _size(pages.pop(place)[1])
        if verdict.status != "near_duplicate":
            return
        pages[place] = time.time(), verdict
        self._characters += _size(verdict)
        while len(pages) > SEEN or self._characters > SEEN_CHARACTERS:
            self._characters -= _size(pages.popitem(last=False)[1][1])

    def about(self, namespace: str, text: str) -> list[NearDuplicateView]:
        """Return the last near-duplicates with this key or fingerprint, or of this document."""
        value = int(text, 16) if re.fullmatch("[0-9a-f]{16}", text) else None
        found = (
            NearDuplicateView(
                seen.key,
                hex_fingerprint(seen.page.value),
                seen.of or "",
                seen.distance or 0,
                seen.similarity or 0.0,
                seconds,
            )
            for (of, key), (seconds, seen) in reversed(self._pages.items())
            if of == namespace and (text in (key, seen.of) or seen.page.value == value)
        )
        return list(islice(found, ANSWERED))


def _size(seen: Verdict) -> int:
    return len(seen.key) + len(seen.of or "")


SAMPLE_SECONDS = 2.0
SAMPLES = 450  # fifteen minutes
HOSTS = 2000  # hosts that are counted
HOT = 2000  # documents whose near-duplicates are counted
REASONS = 100  # reasons that are counted
SHOWN = 12  # of each, on the page

Series = Annotated[list[int], Meta(description="One number for each sample, the oldest first.")]
Times = Annotated[
    list[float | None],
    Meta(description="Seconds for each sample, the oldest first; null where nothing was asked."),
]


class NamespaceView(msgspec.Struct, frozen=True):
    """A namespace: what it holds and what was judged in it since the start. Sizes in bytes.

    snapshot_age_seconds  since the index was last written to disk; None: never
    tail_documents        changed since then: they are read one by one at the next start
    """

    name: str
    recipe: str
    documents: int
    in_flight: int
    table_bytes: int
    file_bytes: int
    tail_documents: int
    snapshot_age_seconds: float | None
    judged: int
    near_duplicates: int


class HostView(msgspec.Struct, frozen=True):
    """A host's registrable domain: pages judged and near-duplicates since the start; rules that hold."""

    domain: str
    judged: int
    near_duplicates: int
    rules: int


class HotView(msgspec.Struct, frozen=True):
    """A document that many pages resembled since the start."""

    namespace: str
    key: str
    near_duplicates: int


class History(msgspec.Struct, frozen=True):
    """What happened between one sample and the next; seconds is Unix time of each sample.

    median_seconds, slow_seconds  a RESP command took at most so long in half of the cases, and in 99 of
                                  100: the bounds of /metrics' buckets; beyond the last one, that one
    """

    seconds: list[float]
    probes: Series
    unique: Series
    near_duplicates: Series
    refetches: Series
    exempt: Series
    errors: Series
    median_seconds: Times
    slow_seconds: Times


class Overview(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that the dashboard shows; counts are since the start.

    partitions are those of the log that are held here: "0-3,6", say, or "*"; partition_count is how
    many the log has, 0 without a log.
    distances  near-duplicates by Hamming distance of value; [d] for d bits
    exempt     pages that were kept all the same, by reason; the most frequent ones
    labels     the label of each of these reasons, for people
    log        of Kafka, where there is one: lag, age of the snapshot, and the like
    """

    version: str
    state: str
    uptime_seconds: float
    memory_bytes: int
    verdicts: dict[str, int]
    distances: list[int]
    exempt: dict[str, int]
    labels: dict[str, str]
    namespaces: list[NamespaceView]
    hosts: list[HostView]
    hot: list[HotView]
    history: History
    partitions: str
    partition_count: int
    reason: str = ""
    log: dict[str, Any] | None = None


class _Frequent:
    """Names and how often each occurred, in bounded memory (see the module)."""

    def __init__(self, most: int) -> None:
        self.counts: dict[Any, list[int]] = {}  # of each name, as many counts as it needs
        self._most = most

    def of(self, name: Any) -> list[int]:
        """Return the two counts of a name, for the caller to add to."""
        counts = self.counts.get(name)
        if counts is None:
            if len(self.counts) >= self._most:
                kept = sorted(self.counts.items(), key=lambda item: -item[1][0])[: self._most // 2]
                self.counts = dict(kept)
            counts = self.counts[name] = [0, 0]
        return counts

    def top(self) -> list[tuple[Any, list[int]]]:
        """Return the most frequent names and their counts."""
        return sorted(self.counts.items(), key=lambda item: (-item[1][0], item[0]))[:SHOWN]


class Tally:
    """What has been judged since the start. For one thread, the event loop's."""

    def __init__(self) -> None:
        self.started = time.time()
        self.distances = [0] * 65
        self.namespaces: dict[str, list[int]] = {}  # judged, near-duplicates
        self.seen = NearDuplicatesSeen()
        self._hosts = _Frequent(HOSTS)
        self._hot = _Frequent(HOT)
        self._exempt = _Frequent(REASONS)
        self._samples: deque[tuple[float, tuple[int, ...], list[float | None]]] = deque(
            maxlen=SAMPLES + 1
        )
        self._durations: Sequence[int] = ()
        self._due = 0.0

    def judged(self, namespace: str, verdict: Verdict) -> None:
        """Count a verdict."""
        if verdict.status == "pending":
            return  # it is asked for again
        counts = self.namespaces.get(namespace)
        if counts is None:
            counts = self.namespaces[namespace] = [0, 0]
        host = self._hosts.of(verdict.document.domain)
        counts[0] += 1
        host[0] += 1
        if verdict.status == "near_duplicate":
            counts[1] += 1
            host[1] += 1
            self.distances[verdict.distance or 0] += 1
            self._hot.of((namespace, verdict.of))[0] += 1
        elif verdict.status == "exempt":
            self._exempt.of(verdict.reason)[0] += 1
        self.seen.judged(namespace, verdict)

    def sample(
        self, now: float, counts: tuple[int, ...], durations: Sequence[int], bounds: Sequence[float]
    ) -> None:
        """Note the counts (probes, unique, near-duplicates, refetches, exempt, errors), when due.

        now is in seconds of a clock that never goes back; durations are commands by how long they
        took, up to each of the bounds in seconds, and beyond the last.
        """
        if now >= self._due:
            self._due = now + SAMPLE_SECONDS
            before = self._durations or [0] * len(durations)
            self._durations = list(durations)
            taken = [n - b for n, b in zip(durations, before, strict=True)]
            times = [_within(share, taken, bounds) for share in (0.5, 0.99)]
            self._samples.append((time.time(), counts, times))

    def history(self) -> History:
        """Return the last minutes."""
        samples = list(self._samples)
        steps = [
            [b - a for a, b in zip(before, after, strict=True)]
            for (_, before, _), (_, after, _) in pairwise(samples)
        ]
        columns = [list(column) for column in zip(*steps, strict=True)] or [[] for _ in range(6)]
        times = [[sample[2][i] for sample in samples[1:]] for i in range(2)]
        return History([sample[0] for sample in samples[1:]], *columns, *times)

    def hosts(self, rules: Mapping[str, Mapping[str, int]]) -> list[HostView]:
        """Return the busiest hosts; rules are how many hold, by namespace and host."""
        return [
            HostView(name, judged, copies, sum(each.get(name, 0) for each in rules.values()))
            for name, (judged, copies) in self._hosts.top()
        ]

    def hot(self) -> list[HotView]:
        """Return the documents that most pages resembled."""
        return [HotView(ns, key, counts[0]) for (ns, key), counts in self._hot.top()]

    def exempt(self) -> dict[str, int]:
        """Return the most frequent reasons for which pages were kept, and how many."""
        return {reason: counts[0] for reason, counts in self._exempt.top()}


def overview(
    tally: Tally,
    verdicts: dict[str, int],
    namespaces: list[tuple[str, dict[str, Any]]],
    rules: Mapping[str, Mapping[str, int]],
    partitions: tuple[str, int],
    version: str,
    state: str,
    reason: str,
    log: dict[str, Any] | None,
) -> Overview:
    """Return all of it; namespaces are their names and what Detector.info() says.

    rules are how many hold about URLs, by namespace and host. partitions are what Commands.held() says.
    """
    most = max((d for d, n in enumerate(tally.distances) if n), default=0)
    views = [
        NamespaceView(
            name,
            info["recipe"],
            info["documents"],
            info["in_flight"],
            info["table_bytes"],
            info["documents_file_bytes"],
            info["tail_documents"],
            _snapshot_age_seconds(info["path"]),
            *tally.namespaces.get(name, (0, 0)),
        )
        for name, info in namespaces
    ]
    views.sort(key=lambda view: (-view.judged, view.name))
    return Overview(
        version,
        state,
        time.time() - tally.started,
        _memory_bytes(),
        verdicts,
        tally.distances[: max(most, 8) + 1],
        exempt := tally.exempt(),
        {reason: label_of(reason, "a reason of the client's") for reason in exempt},
        views,
        tally.hosts(rules),
        tally.hot(),
        tally.history(),
        *partitions,
        reason,
        log,
    )


def _within(share: float, taken: Sequence[int], bounds: Sequence[float]) -> float | None:
    """Return the least bound within which a share of the commands ended; None without commands."""
    wanted, total = share * sum(taken), 0
    for count, bound in zip(taken, [*bounds, bounds[-1]], strict=True):
        total += count
        if count and total >= wanted:
            return bound
    return None


def _snapshot_age_seconds(folder: str) -> float | None:
    try:
        return max(0.0, time.time() - (Path(folder) / "values" / "manifest.json").stat().st_mtime)
    except OSError:
        return None


def _memory_bytes() -> int:
    """Return the resident memory of this process in bytes; its peak, off Linux."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    try:
        with Path("/proc/self/statm").open(encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
