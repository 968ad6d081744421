"""dedup.Table, and Faiss beside it: every stored fingerprint within k.

    size, k -> each table is built, and its answers compared with a plain search -> probes, in turns

Invariants: all have the same random fingerprints and the same queries (stored ones with 0 to k + 1 bits flipped and new
ones, in turns), on one core; what is measured is CPU time; the answers to the first queries are those of a plain search.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from runner import DISTANCE, Bench, case, flag, number

from dedup.core.table import PRESETS, Table
from dedup.model.errors import DedupError, UsageError

QUERIES = 1 << 20  # more than any cache holds of what they touch in a large table
SINGLE = 50_000  # probes of a turn, one by one
CHECKED = 40
CHUNK = 1 << 17  # 1 MB of fingerprints: they stay in the cache while they are compared
TURN_SECONDS = 0.3


class Ours:
    """A dedup.Table with a preset; the documents of its values are 0, 1, 2, ..."""

    def __init__(self, k, preset):
        self.k, self.table = k, Table(k, preset)
        self.probe, self.probe_many = self.table.probe, self.table.probe_many

    def insert(self, values, first):
        self.table.insert_many(values, np.arange(first, first + len(values), dtype=np.uint64))

    def singles(self, values):
        """Return values as probe() takes them."""
        return values.tolist()

    def batch(self, values):
        """Return values as probe_many() takes them."""
        return values

    def found(self, answers):
        """Return offsets and documents of what probe_many() gave."""
        return answers[0], answers[1]

    def once(self, size):
        """Return what is measured once."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "saved"
            self.table.save(path)
            seconds = cpu_seconds(lambda: Table.load(path, self.k))
        return {"B each": self.table.stats().bytes / size, "load k/s": size / seconds / 1e3}


class Faiss:
    """A binary index of Faiss. Its radius is strict: k + 1 finds what lies within k."""

    def __init__(self, k, index):
        self.k, self._index = k, index

    def insert(self, values, first):
        self._index.add(self.batch(values))

    def singles(self, values):
        codes = self.batch(values)
        return [codes[i : i + 1] for i in range(len(codes))]

    def batch(self, values):
        return np.ascontiguousarray(values).view(np.uint8).reshape(-1, 8)

    def probe(self, query):
        return self._index.range_search(query, self.k + 1)

    probe_many = probe

    def found(self, answers):
        return answers[0], answers[2]

    def once(self, size):
        return {}


def contenders(k, peers):
    """Return ours, and the two of Faiss that are exact. Raises UsageError if it is not installed."""
    made = {f"dedup {preset}": Ours(k, preset) for preset in PRESETS}
    if peers:
        try:
            import faiss
        except ImportError as error:
            raise UsageError("--peers needs: pip install --group bench") from error
        faiss.omp_set_num_threads(1)
        multi = faiss.IndexBinaryMultiHash(64, 4, 16)  # with k // 4 flips it finds all (pigeonhole)
        multi.nflip = k // 4
        made["Faiss MultiHash(4x16)"] = Faiss(k, multi)
        made["Faiss Flat"] = Faiss(k, faiss.IndexBinaryFlat(64))
    return made


@case(
    "tables",
    number("size", 1_000_000, "Number of fingerprints stored.", 64, 2**31 - 2),
    DISTANCE,
    flag("peers", "Measure Faiss, too."),
    rounds=5,
    size=100_000,
)
def command(size, distance, peers):
    """Measure dedup.Table: probes, memory, changes; beside Faiss."""
    rng = np.random.default_rng(1)
    stored, later = (rng.integers(0, 2**64, n, dtype=np.uint64) for n in (size, size // 20))
    queries = rng.integers(0, 2**64, min(QUERIES, size), dtype=np.uint64)
    near = queries[::2]
    near[:] = stored[rng.integers(0, size, len(near))]
    for _ in range(distance + 1):
        bits = np.uint64(1) << rng.integers(0, 64, len(near), dtype=np.uint64)
        near ^= np.where(rng.random(len(near)) < 0.6, bits, np.uint64(0))
    expected = plain_search(stored, queries[:CHECKED], distance)
    built, running = {}, contenders(distance, peers)
    for name, one in running.items():
        seconds = cpu_seconds(lambda one=one: one.insert(stored, 0))
        built[name] = {"build k/s": size / seconds / 1e3, **one.once(size)}
        check(name, one, queries[:CHECKED], expected)

    def turn(name, one):
        few = one.singles(queries[:SINGLE])
        some = dict(built[name])
        some["us a probe"] = us(lambda part: [one.probe(each) for each in part], few)
        some["us, batched"] = us(one.probe_many, one.batch(queries))
        if isinstance(one, Ours):
            some["insert k/s"] = len(later) / cpu_seconds(lambda: one.insert(later, size)) / 1e3
            for document, value in enumerate(later.tolist(), size):
                one.table.remove(value, document)
        return some

    facts = {
        "stored": size,
        "distance": distance,
        "matches a probe": sum(map(len, expected)) / CHECKED,
    }
    rows = lambda: {name: turn(name, one) for name, one in running.items()}  # noqa: E731
    yield Bench(facts, rows, ("faiss-cpu", "numpy"), "us, batched")


def check(name, one, queries, expected):
    """Raise DedupError if answers in a batch are not those of the plain search."""
    offsets, documents = one.found(one.probe_many(one.batch(queries)))
    parts = np.split(np.asarray(documents), np.asarray(offsets)[1:-1].astype(int))
    if wrong := sum(
        sorted(got.tolist()) != want for got, want in zip(parts, expected, strict=True)
    ):
        raise DedupError(f"{name}: {wrong} of {len(expected)} answers are wrong")


def plain_search(stored, queries, k):
    """Return for each query the documents of all stored values within k, ascending."""
    found = [[] for _ in queries]
    for begin in range(0, len(stored), CHUNK):
        chunk = stored[begin : begin + CHUNK]
        for answer, query in zip(found, queries, strict=True):
            left = chunk ^ query
            for _ in range(k):
                left &= left - np.uint64(1)
            answer.extend((np.flatnonzero(left == 0) + begin).tolist())
    return found


def cpu_seconds(call):
    """Return the CPU seconds that a call takes."""
    begin = time.process_time()
    call()
    return max(time.process_time() - begin, 1e-9)


def us(probe, queries):
    """Return CPU microseconds a query, of as many as take about TURN_SECONDS."""
    count = min(4, len(queries))
    while True:
        took = cpu_seconds(lambda: probe(queries[:count]))  # noqa: B023 - called here
        if took >= TURN_SECONDS / 4 or count == len(queries):
            return took / count * 1e6
        count = min(4 * count, len(queries))
