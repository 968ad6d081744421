"""What the capacity model is checked against: tables, stores and their trees, grown and measured.

    documents, k -> a table | a store | a tree of keys -> bytes, CPU time, how long it holds others up

The rule kept here: the structures are grown as a table service grows them, by batches of what a log
brings, and every figure is of the process that holds them: bytes it has, CPU time it took. Times of
a wall clock are given where somebody would wait (a stall, an opening).
"""

import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dedup.core.numbers import Array
from dedup.core.table import Table
from dedup.lab.bench.measured_pages import sketch_of
from dedup.model.recipes import NEWEST
from dedup.model.values import Document, PageFingerprint
from dedup.store import Store

__all__ = [
    "StoreFigures",
    "TableFigures",
    "TreeFigures",
    "keys_of",
    "measure_store",
    "measure_table",
    "measure_tree",
    "resident",
]

TABLE_BATCH = 20_000  # pairs a call, as a service takes them from a log that it catches up with
STORE_BATCH = 20_000
QUERIES = 20_000  # probes in a batch; of these
SINGLE = 2_000  # one at a time
BUSY_SECONDS = 20.0  # of probes at most


class TableFigures(msgspec.Struct, frozen=True):
    """A dedup.Table of evenly spread values, grown batch by batch. Bytes; seconds of CPU.

    bytes            held at the end, ids included
    peak_bytes       the most it held since it had half as many values
    made_bytes       held by the same table loaded from its file, which is made for its size
    stall_seconds    wall time of the longest insert of one batch: the index is rebuilt
    reload_stall     wall time of the first insert after loading, and its CPU time: the index again
    probe_us         one probe a call, and one of a batch
    """

    documents: int
    k: int
    bytes: int
    peak_bytes: int
    made_bytes: int
    keys: int
    insert_us: float
    stall_seconds: float
    reload_stall_seconds: float
    probe_us: float
    batch_us: float
    made_probe_us: float
    made_batch_us: float
    saved_bytes: int
    save_seconds: float
    load_seconds: float
    reload_stall_cpu_seconds: float | None = None


class StoreFigures(msgspec.Struct, frozen=True):
    """A store filled as the replica of a log fills it. Bytes a document; microseconds of CPU.

    file_bytes       of documents.mdb: records, the tree of keys, and what is free
    keys_bytes       pages of the tree of keys: read and written at random places
    apply_us         Store.apply of an event: the first million, and the last (CPU, all threads)
    apply_wall_us    the same by the clock, of the whole fill
    written_bytes    to the disk, an event, of the last million; read_bytes from it
    snapshot_seconds how long a snapshot takes; stall_seconds: the longest that a change and a probe
                     wait meanwhile
    open_seconds     wall time from Store.open to a store that answers
    first_insert_seconds  the first insert after that
    """

    documents: int
    k: int
    key_bytes: float
    file_bytes: float
    keys_bytes: float
    records_bytes: float
    snapshot_bytes: float
    table_bytes: float
    apply_first_us: float
    apply_last_us: float
    apply_wall_us: float
    written_bytes: float
    read_bytes: float
    snapshot_seconds: float
    open_seconds: float
    open_cpu_seconds: float
    first_insert_seconds: float
    resident_bytes: float
    stall_seconds: float | None = None


class TreeFigures(msgspec.Struct, frozen=True):
    """The tree of keys alone; bytes a key, microseconds of CPU each."""

    keys: int
    tree_bytes: float
    depth: int
    put_us: float


def keys_of(first: int, count: int) -> list[str]:
    """Return document keys as a crawl has them: 60 bytes on the average."""
    return [
        f"https://www.example{i % 977}.com/articles/2026/{i:010d}/page-title.html"
        for i in range(first, first + count)
    ]


def measure_table(documents: int, k: int, folder: Path) -> TableFigures:
    """Grow a table, probe it, save it, load it. The folder takes 16 bytes a document."""
    rng = np.random.default_rng(documents ^ k)
    table = Table(k)
    stall, peak = 0.0, 0
    cpu = time.process_time()
    for first in range(0, documents, TABLE_BATCH):
        count = min(TABLE_BATCH, documents - first)
        values = rng.integers(0, 2**64, count, dtype=np.uint64)
        ids = np.arange(first, first + count, dtype=np.uint64)
        began = time.perf_counter()
        table.insert_many(values, ids)
        stall = max(stall, time.perf_counter() - began)
        if 2 * first >= documents or first + count == documents:
            peak = max(peak, table.stats().bytes)
    cpu = time.process_time() - cpu
    stats = table.stats()
    queries = rng.integers(0, 2**64, QUERIES, dtype=np.uint64)
    single, batch = _probes(table, queries)
    path = folder / "table.ndd"
    began = time.perf_counter()
    table.save(path)
    save = time.perf_counter() - began
    del table
    began = time.perf_counter()
    made = Table.load(path, k)
    load = time.perf_counter() - began
    made_stats = made.stats()
    made_single, made_batch = _probes(made, queries)
    began, busy = time.perf_counter(), time.process_time()
    made.insert(1, 2**63)
    reload_stall, busy = time.perf_counter() - began, time.process_time() - busy
    saved = path.stat().st_size
    path.unlink()
    return TableFigures(
        documents,
        k,
        stats.bytes,
        peak,
        made_stats.bytes,
        stats.keys,
        cpu / documents * 1e6,
        stall,
        reload_stall,
        single,
        batch,
        made_single,
        made_batch,
        saved,
        save,
        load,
        busy,
    )


def _probes(table: Table, queries: Array) -> tuple[float, float]:
    """Return microseconds of CPU a probe: one a call, and in a batch."""
    table.probe_many(queries[:100])
    began = time.process_time()
    done = 0
    while done < len(queries) and time.process_time() - began < BUSY_SECONDS:
        table.probe_many(queries[done : done + 1000])
        done += 1000
    batch = (time.process_time() - began) / done * 1e6
    ones = [int(value) for value in queries[:SINGLE]]
    began = time.process_time()
    for value in ones:
        table.probe(value)
    return (time.process_time() - began) / len(ones) * 1e6, batch


def _documents(rng: random.Random, first: int, count: int) -> Iterator[tuple[str, Document]]:
    words = iter(
        np.random.default_rng(rng.getrandbits(64))
        .integers(0, 2**64, (count, 2), np.uint64)
        .tolist()
    )
    for key in keys_of(first, count):
        value, identity = next(words)
        page = PageFingerprint(value, sketch_of(value), identity, 300, NEWEST)
        yield key, Document(key, page, "example.com", 1.7e9)


def measure_store(
    documents: int, k: int, folder: Path, seconds: float = float("inf")
) -> StoreFigures:
    """Fill a store in the folder, take a snapshot, open it again; leave it there.

    With seconds it stops filling after them, and says how many documents it came to.
    """
    rng = random.Random(documents)  # noqa: S311  (values for a benchmark)
    store = Store.open(folder, "bench", k)
    began, marks, done = time.perf_counter(), [(0, time.process_time(), *_disk())], 0
    while done < documents and time.perf_counter() - began < seconds:
        count = min(STORE_BATCH, documents - done)
        changes = list(_documents(rng, done, count))
        made = time.process_time()
        store.apply(changes, {0: done + count})
        done += count
        marks.append((done, marks[-1][1] + time.process_time() - made, *_disk()))
        if done % 1_000_000 == 0:
            wall = time.perf_counter() - began
            sys.stderr.write(f"{done:,} {wall:.0f} s, {marks[-1][1] - marks[0][1]:.0f} s CPU\n")
            sys.stderr.flush()
    fill = time.perf_counter() - began
    some = min(len(marks) - 1, 1_000_000 // STORE_BATCH)

    def between(a: int, b: int, what: int = 1) -> float:
        return (marks[b][what] - marks[a][what]) / (marks[b][0] - marks[a][0])

    snapshot, stall = _snapshot(store, rng, done)
    table_bytes = store.info()["table_bytes"]
    trees = _trees(store)
    store.close()
    del store
    began, cpu = time.perf_counter(), time.process_time()
    store = Store.open(folder, "bench", k)
    opened, cpu = time.perf_counter() - began, time.process_time() - cpu
    held = resident()
    began = time.perf_counter()
    store.apply(list(_documents(rng, done, 1)), {0: done + 1})
    first_insert = time.perf_counter() - began
    store.close()
    files = folder / "bench"
    return StoreFigures(
        done,
        k,
        sum(map(len, keys_of(0, 1000))) / 1000,
        (files / "documents.mdb").stat().st_size / done,
        trees["keys"] / done,
        trees["documents"] / done,
        (files / "table.ndd").stat().st_size / done,
        table_bytes / done,
        between(0, some) * 1e6,
        between(-1 - some, -1) * 1e6,
        fill / done * 1e6,
        between(-1 - some, -1, 2),
        between(-1 - some, -1, 3),
        snapshot,
        opened,
        cpu,
        first_insert,
        held,
        stall,
    )


def _snapshot(store: Store, rng: random.Random, done: int) -> tuple[float, float]:
    """Take a snapshot; return how long it took, and the longest wait of a change and a probe."""
    stall = 0.0
    (page,) = _documents(rng, done, 1)  # applied again and again: it replaces itself
    thread = threading.Thread(target=store.snapshot)
    began = time.perf_counter()
    thread.start()
    while thread.is_alive():
        asked = time.perf_counter()
        store.apply([page], {0: done})
        store.near(rng.getrandbits(64))
        stall = max(stall, time.perf_counter() - asked)
        time.sleep(0.001)
    thread.join()
    return time.perf_counter() - began, stall


def measure_tree(keys: int, folder: Path) -> TreeFigures:
    """Grow the tree of keys of documents.mdb alone: digests in no order, as apply() files them.

    A fifth of the room of a store, so that sizes can be measured that no disk at hand could take.
    """
    import lmdb

    rng = np.random.default_rng(keys)
    with lmdb.open(
        str(folder / "tree.mdb"), subdir=False, map_size=1 << 40, max_dbs=1, lock=False, sync=False
    ) as env:
        tree = env.open_db(b"keys")
        cpu = time.process_time()
        for first in range(0, keys, STORE_BATCH):
            count = min(STORE_BATCH, keys - first)
            digests = np.sort(rng.integers(0, 2**64, count, np.uint64)).astype(">u8")
            packed, ids = digests.tobytes(), np.arange(first, first + count, dtype=">u8").tobytes()
            pairs = [
                (packed[i : i + 8] + ids[i : i + 8], ids[i : i + 8]) for i in range(0, 8 * count, 8)
            ]
            with env.begin(tree, write=True) as txn:
                txn.cursor().putmulti(pairs)
        cpu = time.process_time() - cpu
        with env.begin() as txn:
            stat = txn.stat(tree)
    pages = stat["branch_pages"] + stat["leaf_pages"]
    return TreeFigures(keys, pages * stat["psize"] / keys, stat["depth"], cpu / keys * 1e6)


def _trees(store: Store) -> dict[str, int]:
    """Return the bytes of the pages of each tree of the store's file."""
    documents: Any = store._documents  # noqa: SLF001  (no user asks for this)
    with documents._env.begin() as txn:  # noqa: SLF001
        found = {}
        for name, tree in (("keys", documents._keys), ("documents", documents._documents)):  # noqa: SLF001
            stat = txn.stat(tree)
            pages = sum(stat[each] for each in ("branch_pages", "leaf_pages", "overflow_pages"))
            found[name] = pages * stat["psize"]
    return found


def _disk() -> tuple[int, int]:
    """Return the bytes this process had written to the disk and read from it (Linux; else 0)."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0, 0
    fields = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    return fields["write_bytes"], fields["read_bytes"]


def resident(process: int | str = "self") -> float:
    """Return the memory of a process that no file stands for (Linux; elsewhere 0)."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))
