"""`python tests/bench store`: a store that is filled by a process that is killed, then opened by another one.

    fill (an Interval for each part of the documents) -> kill -9 -> open, search -> rows

A folder that holds documents is filled further; what was measured of them then is in its fill.jsonl, and counts. A store
is filled as the replica of a log fills it; what makes the documents is not counted. Memory is that of the whole process:
to bound it, run this in a cgroup (systemd-run --scope -p MemoryMax=8G).

    python tests/bench/store_costs.py PART JSON      a part in a process of its own: a JSON object a line
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import click
import msgspec
import numpy as np
from runner import DISTANCE, Bench, case, number

import dedup
from dedup.cli import terminal
from dedup.model.page import SKETCH_BYTES, Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.store import Store

NAMESPACE = "bench"
BATCH = 1000  # documents of one transaction
SAMPLED = 10  # batches between two looks at the memory
NEW = 10**12  # the number of the first page that is judged: no store is filled so far
MILLION = 1_000_000
MORE_SECONDS = 0.5  # before the process is killed, amid the next documents
EVERY = 100_000  # documents of an interval at most
PACED = 20_000  # documents of the store that a slow crawl fills further


class Interval(msgspec.Struct, frozen=True):
    """Some documents that were stored in a row: `documents` are held at the end, `count` of them were stored in it."""

    documents: int
    count: int
    seconds: float
    cpu_seconds: float
    written_bytes: int
    anonymous_bytes: int


def sketch_of(value):
    """Return a sketch for a made-up value: those of near values are alike, those of others not."""
    places = b"\xff" + value.to_bytes(8, "little") * 4  # of a long text: all places taken
    return places + value.to_bytes(8, "little")[: SKETCH_BYTES - len(places)]


def keys_of(first, count):
    """Return document keys as a crawl has them: 67 bytes on the average."""
    return [
        f"https://www.example{i % 977}.com/articles/2026/{i:010d}/page-title.html"
        for i in range(first, first + count)
    ]


def page_of(value, identity=0):
    """Return a made-up page."""
    return PageFingerprint(value, sketch_of(value), identity, 300, NEWEST)


def documents_of(first, count):
    """Return documents; their values are spread evenly, and the same each time."""
    words = np.random.default_rng(first).integers(0, 2**64, (count, 2), np.uint64).tolist()
    return [
        Document(key, page_of(*each), "example.com", 1.7e9)
        for key, each in zip(keys_of(first, count), words, strict=True)
    ]


# --------------------------------------------------------------------- parts, each in a process of its own


def fill(folder, k, every):
    """Store documents without end, in a store that may hold some; yield after `every` of them."""
    with Store.open(folder, NAMESPACE, k) as store:
        documents = len(store)
        while True:
            end, count, seconds = documents + every, 0, 0.0
            cpu, written, memory = time.process_time(), _written(), 0
            while documents < end:
                busy = time.thread_time()
                changes = [(each.key, each) for each in documents_of(documents, BATCH)]
                cpu += time.thread_time() - busy
                documents += BATCH
                count += BATCH
                seconds += _seconds(partial(store.apply, changes, {0: documents}))
                if count // BATCH % SAMPLED == 1:
                    memory = max(memory, memory_of()[0])
            cpu = time.process_time() - cpu
            yield Interval(documents, count, seconds, cpu, _written() - written, memory)


def judge(folder, k, requests):
    """Open a store; search it, and reserve and insert pages; yield the figures."""
    with tempfile.TemporaryDirectory() as small:
        dedup.open(small, namespace="first").close()  # all that is imported is in memory then
    began, cpu = time.perf_counter(), time.process_time()
    detector = dedup.open(folder, namespace=NAMESPACE, distance=k)
    detector.probe(page_of(0))
    figures = {"s to open after kill -9": time.perf_counter() - began}
    figures["s to open after kill -9, of CPU"] = time.process_time() - cpu
    anonymous, mapped = memory_of()
    store = detector._store
    store._index.write()  # what was read is on disk, too, and merged
    info, n = detector.info(), len(detector)
    lines = (folder / "fill.jsonl").read_bytes().splitlines()
    filled = [msgspec.json.decode(line, type=Interval) for line in lines]
    last = [each for each in filled if each.documents > filled[-1].documents - MILLION]

    def an_event(intervals, what):
        return sum(getattr(each, what) for each in intervals) / sum(
            each.count for each in intervals
        )

    figures |= {
        "events/s": 1 / an_event(filled, "seconds"),
        "events/s, last million": 1 / an_event(last, "seconds"),
        "us of CPU an event": an_event(filled, "cpu_seconds") * 1e6,
        "B written an event": an_event(filled, "written_bytes"),
        "B written an event, last million": an_event(last, "written_bytes"),
        "MB of memory while filled, at most": max(each.anonymous_bytes for each in filled) / 1e6,
        "B of disk a document: documents": info["documents_file_bytes"] / n,
        "B of disk a document: index": info["index_file_bytes"] / n,
        "MB of memory when opened": (anonymous + mapped) / 1e6,
        "B of it a document: anonymous": anonymous / n,
        "B of it a document: mapped": mapped / n,
        "segments by value": len(store._index.values._segments),
    }
    chance, times = random.Random(n), {"RESERVE": [], "INSERT": []}
    with detector:
        cpu = time.process_time()
        for _ in range(requests):
            store.near(chance.getrandbits(64))
        figures["us of CPU a search"] = (time.process_time() - cpu) / requests * 1e6
        for key in keys_of(NEW + n, requests):
            page, found = page_of(chance.getrandbits(64)), []
            times["RESERVE"].append(_seconds(lambda: found.append(detector.reserve(page, key))))  # noqa: B023
            if found[0].token is not None:  # no near-duplicate by chance
                times["INSERT"].append(_seconds(partial(detector.insert, found[0])))
    for what, each in times.items():
        figures |= {f"us, {what}, p{p}": float(np.percentile(each, p)) * 1e6 for p in (50, 99)}
    yield {"documents": n, "figures": figures}


def paced(folder, rate, seconds):
    """Insert documents one by one, so many a second, in a store of PACED that is then closed."""
    with Store.open(folder, NAMESPACE) as store:
        for first in range(0, PACED, BATCH):
            store.apply([(each.key, each) for each in documents_of(first, BATCH)], {})
        store._index.write()
        store.sync()
        changes, took = documents_of(PACED, rate * seconds), 0.0
        written, cpu, began = _written(), time.process_time(), time.monotonic()
        for i, document in enumerate(changes):
            time.sleep(max(0.0, began + i / rate - time.monotonic()))
            took += _seconds(partial(store.insert, document))
        cpu = time.process_time() - cpu
    yield {
        "B written an event": (_written() - written) / len(changes),
        "us of CPU an event, sleeping too": cpu / len(changes) * 1e6,
        "us, insert, mean": took / len(changes) * 1e6,
    }


def _seconds(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _written():
    """Return the bytes this process had written to the disk (Linux; else 0).

    At most: of a file in large folios (ext4 on Linux 6.18) a write counts as a whole folio, up to 2 MiB.
    """
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def memory_of():
    """Return the memory of this process: that which no file stands for, and the rest (Linux; else 0)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = dict(line.split(":", 1) for line in lines)
    return tuple(int(sizes[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile"))


# -------------------------------------------------------------------------------------- the case


def lines_of(part, **arguments):
    """Yield the figures of a part. The process is killed, as by kill -9, when they are not read to the end."""
    command = [sys.executable, __file__, part, json.dumps(arguments, default=str)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            for line in process.stdout:
                yield json.loads(line)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise OSError(f"measuring {part} failed ({process.returncode}); its error stands above")


def filled_to(size, k, folder):
    """Fill a store until it holds so many documents, and kill the process that goes on filling it."""
    report, folder = terminal.progress("filling"), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    every = min(EVERY, -(-size // 10))
    with closing(lines_of("fill", folder=folder, k=k, every=every)) as lines:
        for line in lines:
            with (folder / "fill.jsonl").open("ab") as file:
                file.write(msgspec.json.encode(line) + b"\n")
            if report:
                report(min(size, line["documents"]), size)
            if line["documents"] >= size:
                time.sleep(MORE_SECONDS)
                break


@case(
    "store",
    number("size", MILLION, "Number of documents; one takes 210 bytes of disk.", 1, 2**31 - 2),
    DISTANCE,
    click.Option(
        ["--path"],
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder to keep the store in; one that holds documents is filled further.",
    ),
    number("requests", 10_000, "Pages that are reserved and inserted.", 100),
    number(
        "rate",
        0,
        "So many inserts a second: measure only what is written then, in a store of 20,000.",
        0,
    ),
    number("seconds", 600, "How long inserts come at that rate."),
    size=200_000,
    requests=2_000,
    seconds=60,
)
def command(size, distance, path, requests, rate, seconds):
    """Fill a store, kill the process that does, open it, reserve and insert pages."""

    def measure():
        with tempfile.TemporaryDirectory() as made:
            if rate:
                (figures,) = lines_of("paced", folder=made, rate=rate, seconds=seconds)
                return {name: {f"{rate:,} a second": each} for name, each in figures.items()}
            folder = path or made
            filled_to(size, distance, folder)
            (one,) = lines_of("judge", folder=folder, k=distance, requests=requests)
            return {name: {f"{one['documents']:,}": each} for name, each in one["figures"].items()}

    yield Bench({"distance": distance}, measure, ("lmdb", "numpy"))


def main(part, arguments):
    """Measure a part with arguments in JSON, and print its figures, a JSON object a line."""
    given = json.loads(arguments)
    for figures in {"fill": fill, "judge": judge, "paced": paced}[part](
        **given | {"folder": Path(given["folder"])}
    ):
        sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
