"""What a table benchmark compares: ours and its peers, each behind the same few calls.

    CONTENDERS -> make(k) -> build, insert, probe, probe_many, save, load

Invariants: a contender is used as its users would use it, on one core; what it needs is
imported when it is made; and every one of them promises every stored value within k, so that their
answers can be compared.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dedup.core.numbers import Array
from dedup.core.table import PRESETS, Table


class Contender(ABC):
    """One structure, empty at first; the documents of the values it is built of are 0, 1, 2, ..."""

    values_of_its_own = False  # it cannot be given fingerprints: own_values() says which it has
    grows = True  # it takes further values once it is built

    def __init__(self, k: int) -> None:
        self.k = k

    def build(self, values: Array) -> None:
        """Take the first values, all at once."""
        self.insert(values, 0)

    def insert(self, values: Array, first: int) -> None:
        """Take further values as the documents first, first + 1, ...; unless `grows` is False."""
        raise TypeError(
            f"{type(self).__name__} takes no values after build(): {first=}, {len(values)=}"
        )

    @abstractmethod
    def queries(self, values: Array) -> Sequence[Any]:
        """Return values as probe() takes them, one each."""

    @abstractmethod
    def probe(self, query: Any) -> Any:
        """Return the answer to one query, as the structure gives it."""

    @abstractmethod
    def documents(self, answer: Any) -> Iterable[int]:
        """Return the documents in an answer of probe()."""

    def batch(self, values: Array) -> Any:
        """Return values as probe_many() takes them."""
        return self.queries(values)

    def probe_many(self, batch: Any) -> Any:
        """Return the answers to a batch; a structure that knows no batches is probed in a loop."""
        return [self.probe(query) for query in batch]

    def documents_many(self, answers: Any) -> list[list[int]]:
        """Return the documents in the answers of probe_many(), ascending, query by query."""
        return [sorted(self.documents(answer)) for answer in answers]

    def own_bytes(self) -> int | None:
        """Return the memory that the structure itself says it holds."""
        return None

    def save(self, path: Path) -> bool:
        """Write it to a file; False if it cannot."""
        del path
        return False

    def load(self, path: Path) -> Any:
        """Return what save() wrote, searchable."""
        raise TypeError(f"{type(self).__name__} is never saved: nothing is in {path}")

    def own_values(self, values: Array) -> Array:
        """Return the values that stand for these; for those with values_of_its_own."""
        return values


@dataclass(frozen=True)
class Entry:
    """A contender's name, how it is made, and the packages it needs.

    trial         it is first built small, and left out where it would take too much time or memory
    uniform_only  its values are uniform whatever it is given
    """

    name: str
    make: Callable[[int], Contender]
    needs: tuple[str, ...] = ()
    trial: bool = True
    uniform_only: bool = False

    def installed(self) -> bool:
        """Return whether all it needs can be imported."""
        return all(find_spec(module) is not None for module in self.needs)


# ---------------------------------------------------------------- ours, and the paper's tables


class _Arrays(Contender):
    """A table that takes arrays, and answers a batch with offsets and documents."""

    table: Any

    def probe(self, query: Any) -> Any:
        return self.table.probe(query)

    def queries(self, values: Array) -> Sequence[Any]:
        listed: list[int] = values.tolist()
        return listed

    def batch(self, values: Array) -> Any:
        return values

    def probe_many(self, batch: Any) -> Any:
        return self.table.probe_many(batch)

    def documents_many(self, answers: Any) -> list[list[int]]:
        return _split(answers[0], answers[1])


class _Ours(_Arrays):
    def __init__(self, k: int, preset: str) -> None:
        super().__init__(k)
        self.table = Table(k, preset)

    def insert(self, values: Array, first: int) -> None:
        self.table.insert_many(values, np.arange(first, first + len(values), dtype=np.uint64))

    def documents(self, answer: Any) -> Iterable[int]:
        return (match.document for match in answer)

    def own_bytes(self) -> int | None:
        held: int = self.table.stats().bytes
        return held

    def save(self, path: Path) -> bool:
        self.table.save(path)
        return True

    def load(self, path: Path) -> Any:
        return Table.load(path, self.k)


class _Paper(_Arrays):
    """Permuted, sorted tables (Manku, Jain and Das Sarma, WWW 2007, section 3.1); immutable."""

    grows = False

    def __init__(self, k: int, levels: tuple[int, ...]) -> None:
        super().__init__(k)
        self._levels = levels

    def build(self, values: Array) -> None:
        from permuted import PermutedTables  # builds the paper's library, once

        self.table = PermutedTables(values, self.k, self._levels)

    def documents(self, answer: Any) -> Iterable[int]:
        return (document for document, _, _ in answer)

    def own_bytes(self) -> int | None:
        held: int = self.table.bytes
        return held


def _split(offsets: Any, documents: Any) -> list[list[int]]:
    ends = offsets.tolist()
    listed = documents.tolist()
    return [sorted(listed[ends[i] : ends[i + 1]]) for i in range(len(ends) - 1)]


# -------------------------------------------------------------------------------------- Faiss


class _Faiss(Contender):
    """A binary index of Faiss. Its radius is strict: k + 1 finds what lies within k."""

    def __init__(self, k: int, make: Callable[[Any, int], Any]) -> None:
        super().__init__(k)
        import faiss

        faiss.omp_set_num_threads(1)
        self._faiss, self._index = faiss, make(faiss, k)

    def insert(self, values: Array, first: int) -> None:
        assert self._index.ntotal == first
        self._index.add(_codes(values))

    def queries(self, values: Array) -> Sequence[Any]:
        codes = _codes(values)
        return [codes[i : i + 1] for i in range(len(codes))]

    def probe(self, query: Any) -> Any:
        return self._index.range_search(query, self.k + 1)

    def documents(self, answer: Any) -> Iterable[int]:
        listed: list[int] = answer[2].tolist()
        return listed

    def batch(self, values: Array) -> Any:
        return _codes(values)

    def probe_many(self, batch: Any) -> Any:
        return self._index.range_search(batch, self.k + 1)

    def documents_many(self, answers: Any) -> list[list[int]]:
        return _split(answers[0], answers[2])

    def save(self, path: Path) -> bool:
        self._faiss.write_index_binary(self._index, str(path))
        return True

    def load(self, path: Path) -> Any:
        return self._faiss.read_index_binary(str(path))


def _codes(values: Array) -> Any:
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1, 8)


def _multi_hash(faiss: Any, k: int) -> Any:
    """Four tables of 16 bits: with k // 4 flips in each they find every pair (pigeonhole)."""
    index = faiss.IndexBinaryMultiHash(64, 4, 16)
    index.nflip = k // 4
    return index


def _binary_hash(faiss: Any, k: int) -> Any:
    """One table of 18 bits, where any k of them may differ."""
    index = faiss.IndexBinaryHash(64, 18)
    index.nflip = k
    return index


def _flat(faiss: Any, _k: int) -> Any:
    return faiss.IndexBinaryFlat(64)


# -------------------------------------------------------------------------------- other peers


class _Simhash(Contender):
    """1e0ng/simhash: k + 1 blocks, sets of strings."""

    def __init__(self, k: int) -> None:
        super().__init__(k)
        from simhash import Simhash, SimhashIndex

        quiet = logging.getLogger(__name__)  # it warns of every big bucket that it visits
        quiet.setLevel(logging.CRITICAL)
        self._simhash, self._index = Simhash, SimhashIndex([], f=64, k=k, log=quiet)

    def probe(self, query: Any) -> Any:
        return self._index.get_near_dups(query)

    def insert(self, values: Array, first: int) -> None:
        for document, value in enumerate(values.tolist(), first):
            self._index.add(document, self._simhash(value))

    def queries(self, values: Array) -> Sequence[Any]:
        return [self._simhash(value) for value in values.tolist()]

    def documents(self, answer: Any) -> Iterable[int]:
        return map(int, answer)


class _Gaoya(Contender):
    """gaoya takes texts, never fingerprints: a text here is one word, and its value gaoya's hash.

    A number stands for itself as a word; k + 1 blocks are the fastest of its exact designs.
    """

    values_of_its_own = True

    def __init__(self, k: int) -> None:
        super().__init__(k)
        from gaoya.gaoya import simhash

        self._index = simhash.SimHash64StringIntIndex(k + 1, k, "word", False, None)

    def probe(self, query: Any) -> Any:
        return self._index.query_tokens(query)

    def insert(self, values: Array, first: int) -> None:
        insert = self._index.insert_tokens
        for document, value in enumerate(values.tolist(), first):
            insert(document, [str(value)])

    def queries(self, values: Array) -> Sequence[Any]:
        return [[str(value)] for value in values.tolist()]

    def documents(self, answer: Any) -> Iterable[int]:
        listed: list[int] = answer
        return listed

    def own_values(self, values: Array) -> Array:
        hashes = self._index.par_bulk_doc2signatures([str(value) for value in values.tolist()])
        return np.array(hashes, dtype=np.uint64)


# ------------------------------------------------------------------------------ the registry


def _ours(preset: str) -> Entry:
    return Entry(f"dedup {preset}", lambda k: _Ours(k, preset), trial=False)


def _paper(name: str, levels: Callable[[int], tuple[int, ...]]) -> Entry:
    return Entry(f"paper, {name} blocks", lambda k: _Paper(k, levels(k)))


def _faiss(name: str, make: Callable[[Any, int], Any]) -> Entry:
    return Entry(f"Faiss {name}", lambda k: _Faiss(k, make), ("faiss",))


CONTENDERS: tuple[Entry, ...] = (
    *(_ours(preset) for preset in PRESETS),
    # For k = 3 these are the 20, 16, 10 and 4 tables of the paper's Example 3.1.
    _paper("k+3", lambda k: (k + 3,)),
    _paper("k+1 by k+1", lambda k: (k + 1, k + 1)),
    _paper("k+2", lambda k: (k + 2,)),
    _paper("k+1", lambda k: (k + 1,)),
    _faiss("MultiHash(4x16)", _multi_hash),
    _faiss("BinaryHash(18)", _binary_hash),
    _faiss("Flat", _flat),
    Entry("gaoya", _Gaoya, ("gaoya",), uniform_only=True),
    Entry("1e0ng/simhash", _Simhash, ("simhash",)),
)
