"""dedup.Table, and Faiss beside it: every stored fingerprint within k.

    data, size, k -> each table is built, and its answers compared with a plain search -> probes, in turns

Invariants: all have the same fingerprints and the same queries, on one core; what is measured is CPU time; the
answers to the first queries are those of a plain search of all values.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from runner import Bench, Progress, Round
from table_data import Data, brute_force, cpu_seconds, cpu_us, make_data

from dedup.core.numbers import Array
from dedup.core.table import PRESETS, Table
from dedup.model.errors import DedupError, UsageError

CHECK_WORK = 400_000_000  # comparisons of the plain search, at most, but for:
CHECK_LEAST, CHECK_MOST = 16, 200
CHECKED_SINGLE = 16
MOST_SINGLE = 50_000  # probes of a turn: their queries are Python objects


class Ours:
    """A dedup.Table with a preset; the documents of its values are 0, 1, 2, ..."""

    def __init__(self, k: int, preset: str) -> None:
        self.k, self.table = k, Table(k, preset)

    def insert(self, values: Array, first: int) -> None:
        """Insert values as the documents first, first + 1, ..."""
        self.table.insert_many(values, np.arange(first, first + len(values), dtype=np.uint64))

    def queries(self, values: Array) -> Sequence[Any]:
        """Return values as probe() takes them."""
        return values.tolist()

    def batch(self, values: Array) -> Any:
        """Return values as probe_many() takes them."""
        return values

    def probe(self, query: Any) -> Any:
        return self.table.probe(query)

    def documents(self, answer: Any) -> list[int]:
        """Return the documents of an answer of probe(), ascending."""
        return sorted(match.document for match in answer)

    def probe_many(self, batch: Any) -> Any:
        return self.table.probe_many(batch)

    def documents_many(self, answers: Any) -> list[list[int]]:
        """Return the documents of the answers of probe_many(), ascending, query by query."""
        return _split(answers[0], answers[1])

    def once(self, size: int) -> dict[str, float]:
        """Return what is measured once."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "saved"
            self.table.save(path)
            seconds = cpu_seconds(lambda: Table.load(path, self.k))
        return {"B each": self.table.stats().bytes / size, "load k/s": size / seconds / 1e3}

    def remove(self, values: Array, first: int) -> None:
        """Remove what was inserted."""
        for document, value in enumerate(values.tolist(), first):
            self.table.remove(value, document)


class Faiss:
    """A binary index of Faiss. Its radius is strict: k + 1 finds what lies within k."""

    def __init__(self, k: int, index: Any) -> None:
        self.k, self._index = k, index

    def insert(self, values: Array, first: int) -> None:
        assert self._index.ntotal == first
        self._index.add(self.batch(values))

    def queries(self, values: Array) -> Sequence[Any]:
        codes = self.batch(values)
        return [codes[i : i + 1] for i in range(len(codes))]

    def batch(self, values: Array) -> Any:
        return np.ascontiguousarray(values).view(np.uint8).reshape(-1, 8)

    def probe(self, query: Any) -> Any:
        return self._index.range_search(query, self.k + 1)

    probe_many = probe

    def documents(self, answer: Any) -> list[int]:
        return sorted(answer[2].tolist())

    def documents_many(self, answers: Any) -> list[list[int]]:
        return _split(answers[0], answers[2])

    def once(self, _size: int) -> dict[str, float]:
        return {}


Contender = Ours | Faiss


def _split(offsets: Any, documents: Any) -> list[list[int]]:
    ends, listed = offsets.tolist(), documents.tolist()
    return [sorted(listed[ends[i] : ends[i + 1]]) for i in range(len(ends) - 1)]


def contenders(k: int, *, peers: bool) -> dict[str, Contender]:
    """Return ours, and the two of Faiss that are exact. Raises UsageError if it is not installed."""
    made: dict[str, Contender] = {f"dedup {preset}": Ours(k, preset) for preset in PRESETS}
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


@contextmanager
def open_case(
    size: int, distance: int, peers: bool, progress: Progress | None = None
) -> Iterator[Bench]:
    """Build every contender."""
    del progress
    made = make_data(size, distance)
    count = min(max(CHECK_LEAST, CHECK_WORK // len(made.stored)), CHECK_MOST)
    expected = brute_force(made.stored, made.queries[:count], distance)
    running = {
        name: _Running(name, contender, made, expected)
        for name, contender in contenders(distance, peers=peers).items()
    }

    def measure() -> Round:
        return {name: one.turn() for name, one in running.items()}

    facts: dict[str, Any] = {"stored": size, "distance": distance, "checked": count}
    facts["matches a probe"] = sum(map(len, expected)) / count
    yield Bench(facts, measure, ("faiss-cpu", "numpy"), "us, batched")


class _Running:
    """A contender that is built, and what was measured of it once. Raises DedupError for a wrong answer."""

    def __init__(
        self, name: str, contender: Contender, data: Data, expected: list[list[int]]
    ) -> None:
        self._contender, self._data, self._turns = contender, data, 0
        size = len(data.stored)
        seconds = cpu_seconds(lambda: contender.insert(data.stored, 0))
        self._once = {"build k/s": size / seconds / 1e3, **contender.once(size)}
        if wrong := mistakes(contender, data.queries[: len(expected)], expected):
            raise DedupError(f"{name}: {wrong} of {len(expected)} answers are wrong")

    def turn(self) -> dict[str, float]:
        """Return microseconds a probe, one query a call and many, changes, and what was measured once."""
        contender, begin = self._contender, self._turns * MOST_SINGLE
        self._turns += 1

        def single(queries: Sequence[Any]) -> None:
            for query in queries:
                contender.probe(query)

        few = np.take(self._data.queries, np.arange(begin, begin + MOST_SINGLE), mode="wrap")
        all_of_them = np.roll(self._data.queries, -begin)
        probes = {
            "us a probe": cpu_us(single, few, contender.queries),
            "us, batched": cpu_us(contender.probe_many, all_of_them, contender.batch),
        }
        changes = self._change(contender) if isinstance(contender, Ours) else {}
        return {**probes, **self._once, **changes}

    def _change(self, contender: Ours) -> dict[str, float]:
        values, first = self._data.later, len(self._data.stored)
        inserting = cpu_seconds(lambda: contender.insert(values, first))
        removing = cpu_seconds(lambda: contender.remove(values, first))
        return {
            "insert k/s": len(values) / inserting / 1e3,
            "remove k/s": len(values) / removing / 1e3,
        }


def mistakes(contender: Contender, queries: Array, expected: list[list[int]]) -> int:
    """Return how many queries have an answer, in a batch or alone, that is not the expected one."""
    many = contender.documents_many(contender.probe_many(contender.batch(queries)))
    single = [
        contender.documents(contender.probe(query))
        for query in contender.queries(queries[:CHECKED_SINGLE])
    ]
    return sum(
        got != want or (i < len(single) and single[i] != want)
        for i, (got, want) in enumerate(zip(many, expected, strict=True))
    )
