"""What the dashboard shows: counts by verdict, distance, host and document, and their last minutes.

    verdicts -> tally -> (a sample every SAMPLE_SECONDS) -> overview -> JSON
             -> the last SEEN near-duplicates -> by key, by original, by fingerprint

Invariants: counting costs a verdict a microsecond or two, and memory is bounded, in pages and in characters. Of
namespaces, hosts, documents and reasons the less frequent half is dropped whenever there are too many: the frequent ones
stay, and the count of one that was dropped before is too low.
"""

import re
import sys
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from dedup.model.page import Verdict, differing, hex_fingerprint, label_of

if TYPE_CHECKING:
    from dedup.service.core.operations import Operations


SEEN = 10_000  # near-duplicates remembered
SEEN_CHARACTERS = 4 << 20  # of their keys, and of their documents'
ANSWERED = 50  # of one question


class NearDuplicateView(msgspec.Struct, frozen=True, gc=False):
    """A page that was judged to be a near-duplicate: of which document, how far, when (Unix time).

    differs  in what the two pages differ, as far as their fingerprints tell: a service has no texts
    """

    key: str
    value: str
    of: str
    distance: int
    similarity: float
    judged_seconds: float
    namespace: str
    differs: list[str]


class NearDuplicatesSeen:
    """The last near-duplicates. For one thread, the event loop's."""

    def __init__(self) -> None:
        self._pages: OrderedDict[tuple[str, str], tuple[float, Verdict]] = OrderedDict()
        self._characters = 0

    def judged(self, namespace: str, verdict: Verdict) -> bool:
        """Note a verdict; return whether its page had been a near-duplicate."""
        pages, place = self._pages, (namespace, verdict.document.key)
        was_one = place in pages
        if was_one:
            self._characters -= _size(pages.pop(place)[1])
        if verdict.status != "near_duplicate":
            return was_one
        pages[place] = time.time(), verdict
        self._characters += _size(verdict)
        while len(pages) > SEEN or self._characters > SEEN_CHARACTERS:
            self._characters -= _size(pages.popitem(last=False)[1][1])
        return was_one

    def about(self, namespace: str, text: str) -> list[NearDuplicateView]:
        """Return the last near-duplicates with this key or fingerprint, or of this document."""
        value = int(text, 16) if re.fullmatch("[0-9a-f]{16}", text) else None
        return self._last(
            ((of, key), (seconds, seen))
            for (of, key), (seconds, seen) in reversed(self._pages.items())
            if of == namespace and (text in (key, seen.of) or seen.page.value == value)
        )

    def last(self, namespace: str | None, most: int) -> list[NearDuplicateView]:
        """Return the last near-duplicates, of all namespaces or of one."""
        return self._last(
            (
                (place, page)
                for place, page in reversed(self._pages.items())
                if namespace in (None, place[0])
            ),
            most,
        )

    def _last(
        self, pages: Iterable[tuple[tuple[str, str], tuple[float, Verdict]]], most: int = ANSWERED
    ) -> list[NearDuplicateView]:
        return [
            NearDuplicateView(
                seen.key,
                hex_fingerprint(seen.page.value),
                seen.of or "",
                seen.distance or 0,
                seen.similarity or 0.0,
                seconds,
                namespace,
                [] if seen.match is None else differing(seen.page, seen.match.document.page),
            )
            for (namespace, _), (seconds, seen) in islice(pages, most)
        ]


def _size(seen: Verdict) -> int:
    return len(seen.key) + len(seen.of or "")


SAMPLE_SECONDS = 2.0
SAMPLES = 450  # fifteen minutes
HOSTS = 2000  # hosts that are counted
HOT = 2000  # documents whose near-duplicates are counted
REASONS = 100  # reasons that are counted, of a namespace
NAMESPACES = 512  # namespaces that are counted
SAMPLED = 32  # namespaces of one sample, the busiest
CLIENTS = 50  # connections that are shown, the busiest
SHOWN = 12  # of each, on the page

Series = Annotated[list[int], Meta(description="One number for each sample, the oldest first.")]
Times = Annotated[
    list[float | None],
    Meta(description="Seconds for each sample, the oldest first; null where nothing was asked."),
]


class NamespaceView(msgspec.Struct, frozen=True):
    """A namespace: what it holds and what was judged in it since the start. Sizes in bytes.

    dropped               near-duplicates that no spider kept after all: what `drop` does not parse, or would not
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
    dropped: int


class ClientView(msgspec.Struct, frozen=True):
    """An open RESP connection: who (the name it gave itself), since when (Unix time), what it had judged.

    namespace  the last one that it reserved a page in, "" before the first
    """

    name: str
    address: str
    namespace: str
    connected_seconds: float
    judged: int
    near_duplicates: int


class HostView(msgspec.Struct, frozen=True):
    """A host's registrable domain: pages judged and near-duplicates since the start."""

    domain: str
    judged: int
    near_duplicates: int


class HotView(msgspec.Struct, frozen=True):
    """A document that many pages resembled since the start."""

    namespace: str
    key: str
    near_duplicates: int


class History(msgspec.Struct, frozen=True):
    """What happened between one sample and the next; seconds is Unix time of each sample.

    Where one namespace was asked for, probes, errors and times are still those of all.
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

    distances, exempt, hosts, hot, history's verdicts, drops and clients are those of one namespace where one was asked for.
    partitions are those of the log that are held here: "0-3,6", say, or "*"; partition_count is how
    many the log has, 0 without a log.
    distances  near-duplicates by Hamming distance of value; [d] for d bits
    exempt     pages that were kept, by reason; the most frequent ones
    labels     the label of each of these reasons, for people
    drops      the last near-duplicates that no spider kept after all, the newest first
    clients    the connections with the most pages judged
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
    drops: list[NearDuplicateView]
    clients: list[ClientView]
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


def _top(counts: Iterable[tuple[Any, list[int]]]) -> list[tuple[Any, list[int]]]:
    """Return the most frequent names and their counts."""
    return sorted(counts, key=lambda item: (-item[1][0], item[0]))[:SHOWN]


VERDICTS = ("unique", "near_duplicate", "refetch", "exempt")
Counts = Counter[str]  # of verdicts


class _Judgements:
    """What was judged in one namespace; kept are near-duplicates that were kept after all."""

    def __init__(self) -> None:
        self.verdicts: Counts = Counter(dict.fromkeys(VERDICTS, 0))
        self.distances: Counter[int] = Counter()
        self.exempt = _Frequent(REASONS)
        self.kept = 0


class _Sample(NamedTuple):
    """What happened since the sample before: the counts, the verdicts of the busiest namespaces, times of commands."""

    seconds: float
    counts: list[int]
    namespaces: dict[str, Counts]
    times: list[float | None]


class Tally:
    """What has been judged since the start. For one thread, the event loop's."""

    def __init__(self) -> None:
        self.started = time.time()
        self.seen = NearDuplicatesSeen()
        self._namespaces: dict[str, _Judgements] = {}
        self._hosts = _Frequent(HOSTS)  # by namespace and domain: judged, near-duplicates
        self._hot = _Frequent(HOT)  # by namespace and key
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)
        self._before: tuple[int, ...] | None = None  # the counts of the last sample,
        self._verdicts: dict[str, Counts] = {}  # its namespaces',
        self._durations: Sequence[int] = ()  # and its commands'
        self._due = 0.0

    def judged(self, namespace: str, verdict: Verdict) -> None:
        """Count a verdict."""
        status = verdict.status
        if status == "pending":
            return  # it is asked for again
        counts = self._namespaces.get(namespace)
        if counts is None:
            if len(self._namespaces) >= NAMESPACES:
                busiest = nlargest(
                    NAMESPACES // 2, self._namespaces.items(), lambda item: item[1].verdicts.total()
                )
                self._namespaces = dict(busiest)
            counts = self._namespaces[namespace] = _Judgements()
        host = self._hosts.of((namespace, verdict.document.domain))
        counts.verdicts[status] += 1
        host[0] += 1
        if status == "near_duplicate":
            host[1] += 1
            counts.distances[verdict.distance or 0] += 1
            self._hot.of((namespace, verdict.of))[0] += 1
        elif status == "exempt":
            counts.exempt.of(verdict.reason)[0] += 1
        if self.seen.judged(namespace, verdict) and status == "exempt":
            counts.kept += 1

    def sample(
        self, now: float, counts: tuple[int, ...], durations: Sequence[int], bounds: Sequence[float]
    ) -> None:
        """Note the counts (probes, unique, near-duplicates, refetches, exempt, errors), when due.

        now is in seconds of a clock that never goes back; durations are commands by how long they
        took, up to each of the bounds in seconds, and beyond the last.
        """
        if now < self._due:
            return
        self._due = now + SAMPLE_SECONDS
        before, self._before = self._before, counts
        durations, last = list(durations), self._durations or [0] * len(durations)
        self._durations = durations
        verdicts = self._verdicts
        self._verdicts = {name: each.verdicts.copy() for name, each in self._namespaces.items()}
        if before is None:
            return
        taken = [n - b for n, b in zip(durations, last, strict=True)]
        times = [_within(share, taken, bounds) for share in (0.5, 0.99)]
        new = {name: each - verdicts.get(name, Counter()) for name, each in self._verdicts.items()}
        busiest = nlargest(SAMPLED, new.items(), lambda item: item[1].total())
        steps = [n - b for n, b in zip(counts, before, strict=True)]
        self._samples.append(_Sample(time.time(), steps, {n: c for n, c in busiest if c}, times))

    def history(self, only: str | None = None) -> History:
        """Return the last minutes; the verdicts of one namespace if it is given."""
        rows = []
        for each in self._samples:
            probes, *judged, errors = each.counts
            if only is not None:
                found = each.namespaces.get(only, Counter())
                judged = [found[status] for status in VERDICTS]
            rows.append((probes, *judged, errors))
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(6)]
        times = [[each.times[i] for each in self._samples] for i in range(2)]
        return History([each.seconds for each in self._samples], *columns, *times)

    def namespace(self, name: str) -> tuple[int, int, int]:
        """Return how many pages of a namespace were judged, were near-duplicates, and were not kept after all."""
        if name not in self._namespaces:
            return 0, 0, 0
        counts = self._namespaces[name]
        near = counts.verdicts["near_duplicate"]
        return counts.verdicts.total(), near, max(0, near - counts.kept)

    def distances(self, only: str | None = None) -> list[int]:
        """Return near-duplicates by distance, 0 to 8 bits and more where there are any."""
        found: Counter[int] = Counter()
        for counts in self._of(only):
            found += counts.distances
        return [found[bits] for bits in range(max([8, *found]) + 1)]

    def hosts(self, only: str | None = None) -> list[HostView]:
        """Return the busiest hosts."""
        found: dict[str, list[int]] = {}
        for (namespace, domain), (judged, copies) in self._hosts.counts.items():
            if only in (None, namespace):
                sums = found.setdefault(domain, [0, 0])
                sums[0] += judged
                sums[1] += copies
        return [HostView(name, judged, copies) for name, (judged, copies) in _top(found.items())]

    def hot(self, only: str | None = None) -> list[HotView]:
        """Return the documents that most pages resembled."""
        found = (item for item in self._hot.counts.items() if only in (None, item[0][0]))
        return [HotView(ns, key, counts[0]) for (ns, key), counts in _top(found)]

    def exempt(self, only: str | None = None) -> dict[str, int]:
        """Return the most frequent reasons for which pages were kept, and how many."""
        found: dict[str, list[int]] = {}
        for counts in self._of(only):
            for reason, (pages, _) in counts.exempt.counts.items():
                found.setdefault(reason, [0])[0] += pages
        return {reason: pages for reason, (pages,) in _top(found.items())}

    def _of(self, only: str | None) -> list[_Judgements]:
        if only is None:
            return list(self._namespaces.values())
        return [self._namespaces[only]] if only in self._namespaces else []


def overview(
    commands: "Operations",
    clients: Iterable[ClientView],
    state: str,
    reason: str,
    log: dict[str, Any] | None,
    only: str | None = None,
) -> Overview:
    """Return all of it, or what is of one namespace only."""
    tally = commands.tally
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
            *tally.namespace(name),
        )
        for name, info in ((name, detector.info()) for name, detector in commands.namespaces)
    ]
    views.sort(key=lambda view: (-view.judged, view.name))
    shown = (client for client in clients if only in (None, client.namespace))
    return Overview(
        commands.version,
        state,
        time.time() - tally.started,
        _memory_bytes(),
        dict(commands.counts),
        tally.distances(only),
        exempt := tally.exempt(only),
        {reason: label_of(reason, "a reason of the client's") for reason in exempt},
        views,
        tally.hosts(only),
        tally.hot(only),
        tally.history(only),
        tally.seen.last(only, SHOWN),
        nlargest(CLIENTS, shown, lambda client: (client.judged, client.connected_seconds)),
        *commands.partitions_held(),
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
