"""`python tests/bench store`: a store that is filled by a process that is killed, then opened by another one.

    fill (an Interval for each part of the documents) -> kill -9 -> open, judge -> rows

A folder that holds documents is filled further; what was measured of them then is in its fill.jsonl, and
counts. A store is filled as the replica of a log fills it; what makes the documents is counted neither in
CPU time nor in wall time. Memory is that of the whole process.

    python tests/bench/store_costs.py PART JSON      a part in a process of its own: a JSON object a line
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from runner import Bench, Progress, Round

import dedup
from dedup.core.memory import memory_bytes
from dedup.model.errors import UsageError
from dedup.model.page import SKETCH_BYTES, Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.store import Store
from dedup.store.segmented_table import Segment, Segments

NAMESPACE = "bench"
BATCH = 1000  # documents of one transaction
SAMPLED = 10  # batches between two looks at the memory
TURN = 100  # calls of one kind in a row
NEW = 10**12  # the number of the first page that is judged: no store is filled so far
PERCENTS = (50, 99)
WHERE = ("", " in a small store")
MILLION = 1_000_000
SMALL_SHARE = 10  # the small store has one in so many of the documents, and MILLION at most
MORE_SECONDS = 0.5  # before the process is killed, amid the next documents
EVERY = 100_000  # documents of an interval at most; of a small store as above
PACED = 20_000  # documents of the store that a slow crawl fills further
KEPT = 2000  # bytes of what a process wrote to stderr that an error repeats
MEMORY_FILES = ("memory.max", "memory.limit_in_bytes")  # of a cgroup: version 2, version 1


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


class Judged(msgspec.Struct, frozen=True):
    """A store of so many documents that was filled in transactions of 1000, killed and opened.

    segments  the documents of each of its files by value
    figures   by name, which says the unit. *First* and *last* are the first and the last million of documents; *memory*
              is that of the process, `mapped` what files stand for; the small store is asked in turns with this one
    """

    documents: int
    segments: list[int]
    figures: dict[str, float]


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
    """Store documents without end, in a store that may hold some; yield after `every` of them."""
    chance = random.Random(k)
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
    """Return the bytes this process had written to the disk (Linux; else 0).

    At most: of a file in large folios (ext4 on Linux 6.18) a write counts as a whole folio, up to 2 MiB.
    """
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
    store: Any = detector._store  # type: ignore[attr-defined]
    store.write_index()  # what was read is on disk, too, and merged
    info, n = detector.info(), len(detector)
    with closing(fill(small_folder, k, small)) as filling:
        next(filling)
    with detector, dedup.open(small_folder, namespace=NAMESPACE, distance=k) as other:
        segments = store._index.values._segments
        one, many = _probe_us(segments, k, requests)
        calls = _calls([detector, other], requests)

    lines = _log(folder).read_bytes().splitlines()
    filled = [msgspec.json.decode(line, type=Interval) for line in lines]
    first = [each for each in filled if each.documents <= MILLION]
    last = [each for each in filled if each.documents > filled[-1].documents - MILLION]

    def an_event(intervals: Sequence[Interval], what: str) -> float:
        total: float = sum(getattr(each, what) for each in intervals)
        return total / sum(each.count for each in intervals)

    def most(what: str) -> float:
        return float(max(getattr(each, what) for each in filled))

    figures = {"events/s, first million": 1 / an_event(first, "seconds")} if first else {}
    figures |= {
        "events/s, last million": 1 / an_event(last, "seconds"),
        "events/s, all": 1 / an_event(filled, "seconds"),
        "us of CPU an event": an_event(filled, "cpu_seconds") * 1e6,
        "B written an event": an_event(filled, "written_bytes"),
        "B written an event, last million": an_event(last, "written_bytes"),
        "MB of memory while filled, at most": most("anonymous_bytes") / 1e6,
        "ms, longest probe while filled": most("probe_most") * 1e3,
        "ms, longest change of one document": most("change_most") * 1e3,
        "ms, longest change of 999": most("batch_most") * 1e3,
        "B of disk a document: documents": info["documents_file_bytes"] / n,
        "B of disk a document: index": info["index_file_bytes"] / n,
        "s to open after kill -9": opened,
        "s to open after kill -9, of CPU": cpu,
        "MB of memory before it is opened": started / 1e6,
        "MB of memory when opened": (anonymous + mapped) / 1e6,
        "B of it a document: anonymous": anonymous / n,
        "B of it a document: mapped": mapped / n,
        "segments by value": len(segments),
        "us of CPU of their search, alone": one,
        "us of CPU of their search, of many": many,
    }
    return Judged(n, [*map(len, segments)], figures | calls)


def _probe_us(segments: Sequence[Segment], k: int, count: int) -> tuple[float, float]:
    """Return microseconds of CPU that segments take for a value: one a call, and of a thousand."""
    values = np.random.default_rng(count).integers(0, 2**64, count, np.uint64)
    ones, together = values.tolist(), Segments(segments)
    cpu = time.process_time()
    for i in range(0, count, BATCH):
        together.probe_each(values[i : i + BATCH], k)
    batch = time.process_time() - cpu
    cpu = time.process_time()
    for value in ones:
        together.probe(value, k)
    return (time.process_time() - cpu) / count * 1e6, batch / count * 1e6


def _calls(detectors: Sequence[dedup.Detector], requests: int) -> dict[str, float]:
    """Search, reserve and insert new pages in turns, in a store and a small one; what is searched is near hardly anything."""
    chance = random.Random(len(detectors[0]))
    times: dict[str, list[float]] = {}
    begin = {where: NEW + len(detector) for where, detector in zip(WHERE, detectors, strict=True)}
    for first in range(0, requests, TURN):
        for where, detector in zip(WHERE, detectors, strict=True):
            store: Store = detector._store  # type: ignore[attr-defined]
            for key in keys_of(begin[where] + first, TURN):
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
                    times.setdefault(what + where, []).append(marks[i + 1] - marks[i])
    return {
        f"us, {what}, p{percent}": float(np.percentile(each, percent)) * 1e6
        for what, each in times.items()
        for percent in PERCENTS
    }


# ----------------------------------------------------------------------------------- slow crawls


def insert_at(folder: Path, rate: int, seconds: float) -> Generator[dict[str, float], None, None]:
    """Insert documents one by one, so many a second, in a store of PACED that is then closed."""
    with Store.open(folder, NAMESPACE) as store:
        for first in range(0, PACED, BATCH):
            store.apply(_pages(first, BATCH), {})
        store.write_index()
        store.sync()
        count, took = int(rate * seconds), 0.0
        changes = [document for _, document in _pages(PACED, count) if document is not None]
        written, cpu = _written(), time.process_time()
        began = time.monotonic()
        for i, document in enumerate(changes):
            time.sleep(max(0.0, began + i / rate - time.monotonic()))
            took += _seconds(partial(store.insert, document))
        cpu = time.process_time() - cpu
    yield {
        "B written an event": (_written() - written) / count,
        "us of CPU an event, sleeping too": cpu / count * 1e6,
        "us, insert, mean": took / count * 1e6,
    }


def _paced(rates: Sequence[int], seconds: float) -> Round:
    """Measure insert_at() at each rate, one after the other."""
    rows: dict[str, dict[str, float]] = {}
    for rate in rates:
        with tempfile.TemporaryDirectory() as folder:
            (figures,) = lines_of("paced", {"folder": folder, "rate": rate, "seconds": seconds})
        for name, figure in figures.items():
            rows.setdefault(name, {})[f"{rate:,} a second"] = figure
    return rows


# ------------------------------------------------------------------------------- the processes


class Limit(msgspec.Struct, frozen=True):
    """How much memory the processes may have: in a cgroup that the caller made, or by RLIMIT_DATA.

    The former counts files that are in memory, too; the latter only what no file stands for.
    """

    memory: int
    cgroup: Path | None = None

    def __str__(self) -> str:
        return "RLIMIT_DATA" if self.cgroup is None else "cgroup"

    def take(self, process: int) -> None:
        """Put a process under it. Raises OSError."""
        if self.cgroup is None:
            import resource

            resource.prlimit(process, resource.RLIMIT_DATA, (self.memory, self.memory))
            return
        limits = [self.cgroup / name for name in MEMORY_FILES if (self.cgroup / name).exists()]
        if not limits:
            raise OSError(f"{self.cgroup} is no cgroup with a limit of memory")
        limits[0].write_text(f"{self.memory}\n")
        (self.cgroup / "cgroup.procs").write_text(f"{process}\n")


def lines_of(
    part: str, arguments: dict[str, Any], limit: Limit | None = None
) -> Generator[dict[str, Any], None, None]:
    """Yield the figures of a part of this module. Raises OSError with its stderr when it fails.

    The process is killed, as by kill -9, when its figures are not read to the end.
    """
    command = [sys.executable, __file__, part, json.dumps(arguments)]
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as process,
    ):
        try:
            if limit is not None:
                limit.take(process.pid)
            assert process.stdout is not None
            for line in process.stdout:
                yield json.loads(line)
        except BaseException:
            process.kill()
            raise
        if process.wait():
            said.seek(0)
            words = said.read().decode(errors="replace").strip()[-KEPT:]
            raise OSError(f"measuring {part} failed ({process.returncode}): {words}")


def measure_stores(
    sizes: Sequence[int],
    k: int,
    requests: int,
    folder: Path,
    limit: Limit | None = None,
    progress: Progress | None = None,
) -> Iterator[Judged]:
    """Fill one store in the folder to each size and measure it there. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for size in sorted(sizes):
        _fill(size, k, folder, limit, progress)
        with tempfile.TemporaryDirectory() as small_folder:
            (line,) = lines_of(
                "judge",
                {
                    "folder": str(folder),
                    "small_folder": small_folder,
                    "k": k,
                    "small": min(MILLION, -(-size // SMALL_SHARE)),
                    "requests": requests,
                },
                limit,
            )
        yield msgspec.convert(line, Judged)


def _log(folder: Path) -> Path:
    """Return the file that keeps what was measured while the store in a folder was filled."""
    return folder / "fill.jsonl"


def _fill(
    size: int,
    k: int,
    folder: Path,
    limit: Limit | None,
    progress: Progress | None,
) -> None:
    """Fill a store until it holds so many documents, and kill the process that goes on filling it."""
    arguments = {"folder": str(folder), "k": k, "every": min(EVERY, -(-size // SMALL_SHARE))}
    with closing(lines_of("fill", arguments, limit)) as lines:
        for line in lines:
            with _log(folder).open("ab") as file:
                file.write(msgspec.json.encode(line) + b"\n")
            if progress is not None:
                progress(min(size, line["documents"]), size)
            if line["documents"] >= size:
                time.sleep(MORE_SECONDS)
                break


# -------------------------------------------------------------------------------------- the case


@contextmanager
def open_case(
    sizes: tuple[int, ...],
    distance: int,
    path: Path | None,
    memory: str | None,
    cgroup: Path | None,
    requests: int,
    rate: tuple[int, ...] | None,
    seconds: int,
    progress: Progress | None = None,
) -> Iterator[Bench]:
    """Fill a store in the folder, or in a temporary one, to each size; with rates, insert at each of them."""
    if rate:
        paced = {"documents": PACED, "seconds": seconds}
        yield Bench(paced, lambda: _paced(rate, seconds), packages=("lmdb",))
        return
    if cgroup is not None and memory is None:
        raise UsageError("--cgroup needs --memory: how much the processes may have")
    limit = None if memory is None else Limit(memory_bytes(memory), cgroup)
    facts: dict[str, Any] = {"distance": distance}
    if limit is not None:
        facts["limit"] = f"{memory} of memory, by {limit}"
    with tempfile.TemporaryDirectory() as folder:

        def measure() -> Round:
            rows: dict[str, dict[str, float]] = {}
            where = path or Path(folder)
            for one in measure_stores(sizes, distance, requests, where, limit, progress):
                column = f"{one.documents:,}"
                facts[f"segments of {column}"] = one.segments
                for name, figure in one.figures.items():
                    rows.setdefault(name, {})[column] = figure
            return rows

        yield Bench(facts, measure, packages=("lmdb", "numpy"))


def main(part: str, arguments: str) -> None:
    """Measure a part with arguments in JSON, and print its figures, a JSON object a line."""
    measures: dict[str, Any] = {
        "fill": fill,
        "judge": lambda **given: [judge(**given)],
        "paced": insert_at,
    }
    given = json.loads(arguments)
    paths = {name: Path(text) for name, text in given.items() if name.endswith("folder")}
    for figures in measures[part](**given | paths):
        sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
