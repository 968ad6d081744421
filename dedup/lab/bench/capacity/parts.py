"""What is measured of a store, in the process that holds it: filling it, opening it, judging pages.

    fill    documents in batches -> an Interval for each part of them, until the process is killed
    judge   a store on disk -> how long it takes to open, its memory and disk, RESERVE and INSERT

The rules kept here: a store is filled as the replica of a log fills it, and what makes the documents
is counted neither in CPU time nor in wall time. Memory is that of the whole process.
"""

import random
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import dedup
from dedup.core.bulk.segments import Segment
from dedup.core.bulk.segments.segment import Segments
from dedup.lab.bench.measured_pages import sketch_of
from dedup.model.recipes import NEWEST
from dedup.model.values import Document, PageFingerprint
from dedup.store import Store

__all__ = ["Call", "Interval", "Judged", "fill", "judge", "keys_of", "memory_of"]

NAMESPACE = "bench"
BATCH = 1000  # documents of one transaction
SAMPLED = 10  # batches between two looks at the memory
TURN = 100  # calls of one kind in a row
QUERIES = 10_000  # probes in batches
NEW = 10**12  # the number of the first page that is judged: no store is filled so far
QUANTILES = (0.5, 0.99)


class Interval(msgspec.Struct, frozen=True):
    """Some documents that were stored in a row: CPU time of all threads, times by the clock.

    documents        held at the end; count of them were stored in this interval
    written_bytes    to the disk
    anonymous_bytes  of the process, at most
    *_most           the longest of each: a probe and a change of one document, while the index is
                     written and merged behind them, and a change of 999
    """

    documents: int
    count: int
    seconds: float
    cpu_seconds: float
    written_bytes: int
    anonymous_bytes: int
    probe_most: float
    change_most: float
    batch_most: float


class Call(msgspec.Struct, frozen=True):
    """How long calls of one kind took, in microseconds by the clock: half of them, and 99 of 100."""

    what: str
    documents: int
    p50_us: float
    p99_us: float


class Judged(msgspec.Struct, frozen=True):
    """A store that was opened. Bytes.

    open_seconds     from dedup.open() to the first answer, by the clock
    started_bytes    memory of the process before that, and after: anonymous_bytes, and mapped_bytes
                     of files that are in memory
    segments         the documents of each of them
    probe_us         of CPU: their search for one value; batch_us: for each of a thousand
    calls            of this store and of a small one, in turns
    """

    documents: int
    open_seconds: float
    open_cpu_seconds: float
    started_bytes: int
    anonymous_bytes: int
    mapped_bytes: int
    documents_file_bytes: int
    index_file_bytes: int
    segments: list[int]
    probe_us: float
    batch_us: float
    calls: list[Call]


def keys_of(first: int, count: int) -> list[str]:
    """Return document keys as a crawl has them: 67 bytes on the average."""
    return [
        f"https://www.example{i % 977}.com/articles/2026/{i:010d}/page-title.html"
        for i in range(first, first + count)
    ]


def _pages(first: int, count: int) -> list[tuple[str, Document | None]]:
    """Return documents as changes; their values are spread evenly, and the same each time."""
    words = np.random.default_rng(first).integers(0, 2**64, (count, 2), np.uint64).tolist()
    return [
        (key, Document(key, _page(value, identity), "example.com", 1.7e9))
        for key, (value, identity) in zip(keys_of(first, count), words, strict=True)
    ]


def _page(value: int, identity: int) -> PageFingerprint:
    return PageFingerprint(value, sketch_of(value), identity, 300, NEWEST)


# -------------------------------------------------------------------------------------- filling


def fill(folder: Path, k: int, every: int) -> Generator[Interval, None, None]:
    """Store documents without end, in a store that may hold some; yield after `every` of them."""
    chance = random.Random(k)  # noqa: S311  (values for a benchmark)
    with Store.open(folder, NAMESPACE, k) as store:
        documents = len(store)
        while True:
            end, count, seconds = documents + every, 0, 0.0
            cpu, written, memory = time.process_time(), _written(), 0
            longest = [0.0, 0.0, 0.0]
            while documents < end:
                busy = time.thread_time()
                changes = _pages(documents, BATCH)
                value = chance.getrandbits(64)
                cpu += time.thread_time() - busy
                calls: list[Callable[[], object]] = [
                    partial(store.near, value),
                    partial(store.apply, changes[-1:], {0: documents}),
                    partial(store.apply, changes[:-1], {0: documents + BATCH}),
                ]
                for i, call in enumerate(calls):
                    took = _seconds(call)
                    longest[i] = max(longest[i], took)
                    seconds += took
                documents += BATCH
                count += BATCH
                if count // BATCH % SAMPLED == 1:
                    memory = max(memory, memory_of()[0])
            cpu = time.process_time() - cpu
            yield Interval(documents, count, seconds, cpu, _written() - written, memory, *longest)


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _written() -> int:
    """Return the bytes this process had written to the disk (Linux; else 0)."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def memory_of(process: int | str = "self") -> tuple[int, int]:
    """Return the memory of a process: that which no file stands for, and the rest (Linux; else 0)."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = dict(line.split(":", 1) for line in lines)
    anonymous, mapped = (int(sizes[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile"))
    return anonymous, mapped


# -------------------------------------------------------------------------------------- judging


def judge(folder: Path, small_folder: Path, k: int, small: int, requests: int) -> Judged:
    """Open a store, and reserve and insert pages there and in a small one, which is made."""
    dedup.open(small_folder, namespace="first").close()  # all that is imported is in memory then
    started = memory_of()[0]
    began, cpu = time.perf_counter(), time.process_time()
    detector = dedup.open(folder, namespace=NAMESPACE, distance=k)
    detector.probe(_page(0, 0))
    opened, cpu = time.perf_counter() - began, time.process_time() - cpu
    anonymous, mapped = memory_of()
    store: Any = detector._store  # type: ignore[attr-defined]  # noqa: SLF001
    store.snapshot(0)  # what was read is on disk, too, and merged
    info, documents = detector.info(), len(detector)
    with closing(fill(small_folder, k, small)) as filling:
        next(filling)
    with detector, dedup.open(small_folder, namespace=NAMESPACE, distance=k) as other:
        segments = store._index.values._segments  # noqa: SLF001
        one, many = _probe_us(segments, k, requests)
        calls = _calls([(documents, detector), (len(other), other)], requests)
    return Judged(
        documents=documents,
        open_seconds=opened,
        open_cpu_seconds=cpu,
        started_bytes=started,
        anonymous_bytes=anonymous,
        mapped_bytes=mapped,
        documents_file_bytes=info["documents_file_bytes"],
        index_file_bytes=info["index_file_bytes"],
        segments=[*map(len, segments)],
        probe_us=one,
        batch_us=many,
        calls=calls,
    )


def _probe_us(segments: Sequence[Segment], k: int, count: int) -> tuple[float, float]:
    """Return microseconds of CPU that segments take for a value: one a call, and of a thousand."""
    values = np.random.default_rng(count).integers(0, 2**64, count, np.uint64)
    cpu = time.process_time()
    for i in range(0, count, BATCH):
        for segment in segments:
            segment.find(values[i : i + BATCH], k)
    batch = time.process_time() - cpu
    ones, together = values.tolist(), Segments(segments)
    cpu = time.process_time()
    for value in ones:
        together.probe(value, k)
    return (time.process_time() - cpu) / count * 1e6, batch / count * 1e6


def _calls(detectors: Sequence[tuple[int, dedup.Detector]], requests: int) -> list[Call]:
    """Search, reserve and insert new pages in turns; what is searched is near hardly anything."""
    chance = random.Random(detectors[0][0])  # noqa: S311  (pages that were never judged before)
    times: dict[tuple[str, int], list[float]] = {}
    for first in range(0, requests, TURN):
        for documents, detector in detectors:
            store: Store = detector._store  # type: ignore[attr-defined]  # noqa: SLF001
            for key in keys_of(NEW + documents + first, TURN):
                page = _page(chance.getrandbits(64), chance.getrandbits(64))
                marks = [time.perf_counter()]
                store.near(chance.getrandbits(64))
                marks.append(time.perf_counter())
                verdict = detector.reserve(page, key)
                marks.append(time.perf_counter())
                if verdict.status == "near_duplicate":  # by chance: rare, and only at a large k
                    continue
                detector.insert(verdict)
                marks.append(time.perf_counter())
                for i, what in enumerate(("search", "RESERVE", "INSERT")):
                    times.setdefault((what, documents), []).append(marks[i + 1] - marks[i])
    return [
        Call(what, documents, *(float(us) for us in np.quantile(each, QUANTILES) * 1e6))
        for (what, documents), each in times.items()
    ]
