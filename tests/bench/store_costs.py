"""`python tests/bench store`: a store that is filled by a process that is killed, then opened by another one.

    fill (an Interval for each part of the documents) -> kill -9 -> open, judge -> rows

A store is filled as the replica of a log fills it; what makes the documents is counted neither in CPU time
nor in wall time. Memory is that of the whole process.

    python tests/bench/store_costs.py PART JSON      a part in a process of its own: a JSON object a line
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from runner import Bench, Progress, Round

import dedup
from dedup.model.page import SKETCH_BYTES, Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.store import Store

NAMESPACE = "bench"
BATCH = 1000  # documents of one transaction
NEW = 10**12  # the number of the first page that is judged: no store is filled so far
PERCENTS = (50, 99)
PARTS = 10  # a store is filled in so many, and in more where one would have more than:
EVERY = 100_000
MORE_SECONDS = 0.5  # before the process is killed, amid the next documents


class Interval(msgspec.Struct, frozen=True):
    """Some documents that were stored in a row: CPU time of all threads, times by the clock.

    documents        held at the end; count of them were stored in this interval
    written_bytes    to the disk
    anonymous_bytes  of the process
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


def sketch_of(value: int) -> bytes:
    """Return a sketch for a made-up value: those of near values are alike, those of others not."""
    places = b"\xff" + value.to_bytes(8, "little") * 4  # of a long text: all places taken
    return places + value.to_bytes(8, "little")[: SKETCH_BYTES - len(places)]


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
    """Store documents without end; yield after `every` of them."""
    chance = random.Random(k)
    with Store.open(folder, NAMESPACE, k) as store:
        documents = 0
        while True:
            end, count, seconds = documents + every, 0, 0.0
            cpu, written = time.process_time(), _written()
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
            cpu = time.process_time() - cpu
            memory, _ = memory_of()
            yield Interval(documents, count, seconds, cpu, _written() - written, memory, *longest)


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _written() -> int:
    """Return the bytes this process had written to the disk (Linux; else 0).

    At most: of a file in large folios (ext4 on Linux 6.18) a write counts as a whole folio, up to 2 MiB.
    """
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def memory_of() -> tuple[int, int]:
    """Return the memory of this process: that which no file stands for, and the rest (Linux; else 0)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = dict(line.split(":", 1) for line in lines)
    anonymous, mapped = (int(sizes[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile"))
    return anonymous, mapped


# -------------------------------------------------------------------------------------- judging


def judge(folder: Path, k: int, requests: int) -> dict[str, float]:
    """Open a store, and reserve and insert pages; return figures by name, which says the unit."""
    started = memory_of()[0]
    began, cpu = time.perf_counter(), time.process_time()
    detector = dedup.open(folder, namespace=NAMESPACE, distance=k)
    detector.probe(_page(0, 0))
    opened, cpu = time.perf_counter() - began, time.process_time() - cpu
    anonymous, mapped = memory_of()
    with detector:
        detector._store.write_index()  # type: ignore[attr-defined]  # what was read is on disk, too, and merged
        info, n = detector.info(), len(detector)
        calls = _calls(detector, requests)
    return {
        "B of disk a document: documents": info["documents_file_bytes"] / n,
        "B of disk a document: index": info["index_file_bytes"] / n,
        "s to open after kill -9": opened,
        "s to open after kill -9, of CPU": cpu,
        "MB of memory before it is opened": started / 1e6,
        "MB of memory when opened": (anonymous + mapped) / 1e6,
        "B of it a document: anonymous": anonymous / n,
        "B of it a document: mapped": mapped / n,
        **calls,
    }


def _calls(detector: dedup.Detector, requests: int) -> dict[str, float]:
    """Search, reserve and insert new pages; what is searched is near hardly anything."""
    chance, store = random.Random(requests), detector._store  # type: ignore[attr-defined]
    times: dict[str, list[float]] = {}
    for key in keys_of(NEW, requests):
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
            times.setdefault(what, []).append(marks[i + 1] - marks[i])
    return {
        f"us, {what}, p{percent}": float(np.percentile(each, percent)) * 1e6
        for what, each in times.items()
        for percent in PERCENTS
    }


# ------------------------------------------------------------------------------- the processes


def lines_of(part: str, **arguments: Any) -> Generator[dict[str, Any], None, None]:
    """Yield the figures of a part of this module. Raises OSError when it fails; its error is on stderr.

    The process is killed, as by kill -9, when its figures are not read to the end.
    """
    command = [sys.executable, __file__, part, json.dumps(arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                yield json.loads(line)
        except BaseException:
            process.kill()
            raise
        if process.wait():
            raise OSError(f"measuring {part} failed ({process.returncode}); its error stands above")


def _filled(folder: str, size: int, k: int, progress: Progress | None) -> dict[str, float]:
    """Fill a store until it holds so many documents, and kill the process that goes on filling it."""
    found: list[Interval] = []
    with closing(
        lines_of("fill", folder=folder, k=k, every=min(EVERY, -(-size // PARTS)))
    ) as lines:
        for line in lines:
            found.append(msgspec.convert(line, Interval))
            if progress is not None:
                progress(min(size, found[-1].documents), size)
            if found[-1].documents >= size:
                time.sleep(MORE_SECONDS)
                break
    count = sum(each.count for each in found)
    return {
        "events/s": count / sum(each.seconds for each in found),
        "events/s, of the last part": found[-1].count / found[-1].seconds,
        "us of CPU an event": sum(each.cpu_seconds for each in found) / count * 1e6,
        "B written an event": sum(each.written_bytes for each in found) / count,
        "MB of memory while filled, at most": max(each.anonymous_bytes for each in found) / 1e6,
        "ms, longest probe while filled": max(each.probe_most for each in found) * 1e3,
        "ms, longest change of one document": max(each.change_most for each in found) * 1e3,
        "ms, longest change of 999": max(each.batch_most for each in found) * 1e3,
    }


@contextmanager
def open_case(
    size: int, distance: int, requests: int, progress: Progress | None = None
) -> Iterator[Bench]:
    """Fill a store in a temporary folder, and measure it. Raises OSError."""
    with tempfile.TemporaryDirectory() as folder:

        def measure() -> Round:
            figures = _filled(folder, size, distance, progress)
            (judged,) = lines_of("judge", folder=folder, k=distance, requests=requests)
            return {name: {"": figure} for name, figure in (figures | judged).items()}

        yield Bench({"documents": size, "distance": distance}, measure, packages=("lmdb", "numpy"))


def main(part: str, arguments: str) -> None:
    """Measure a part with arguments in JSON, and print its figures, a JSON object a line."""
    given = json.loads(arguments)
    given["folder"] = Path(given["folder"])
    for figures in fill(**given) if part == "fill" else [judge(**given)]:
        sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
