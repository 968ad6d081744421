"""The table finds what a plain scan finds, whatever is inserted, removed and probed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sizes import FULL, examples
from table_oracle import (
    DISTANCES,
    KINDS,
    PRESETS,
    clustered,
    neighbourhoods,
    numbers,
    scan,
    some_queries,
    uniform,
)

from dedup.core.table import Match, Table

# In `make test` each distance with each kind of data, and each of both with each preset; at size the others.
TABLES = [
    (k, kind, preset)
    for k in DISTANCES
    for i, kind in enumerate(KINDS)
    for j, preset in enumerate(PRESETS)
    if bool((i + j + k) % len(PRESETS)) == FULL
]


@pytest.mark.sized
@pytest.mark.parametrize(("k", "kind", "preset"), TABLES)
def test_promise_4_the_search_is_exact(k: int, kind: str, preset: str) -> None:
    """A probe returns every stored document within k and none beyond, at every size and k."""
    rng = np.random.default_rng(k)
    table = Table(k, preset)
    values, documents = np.empty(0, np.uint64), np.empty(0, np.uint64)
    for size in (1, 400, 600, 1_500, 30_000):
        new = KINDS[kind](rng, size - len(values))
        values = np.concatenate([values, new])
        documents = rng.permutation(len(values)).astype(np.uint64)[: len(values)]
        table = Table(k, preset)
        assert table.insert_many(values, documents) == size
        for query in some_queries(rng, values, k):
            assert table.probe(query) == scan(values, documents, query, k)
    assert table.stats().blocks > 0 or k > 6


@settings(deadline=None, max_examples=examples(150))
@given(values=neighbourhoods(), k=st.integers(0, 15), query=numbers, data=st.data())
def test_exact_for_values_chosen_to_meet(
    values: list[int], k: int, query: int, data: st.DataObject
) -> None:
    """For any values, k and limit, a probe is what a scan gives, cut at the limit."""
    table = Table(k, data.draw(st.sampled_from(PRESETS), "preset"))
    if data.draw(st.booleans(), "indexed"):  # else so few values are simply compared
        filler = uniform(np.random.default_rng(1), 1_200)
    else:
        filler = np.empty(0, np.uint64)
    stored = np.concatenate([np.array(values, dtype=np.uint64), filler])
    documents = np.arange(len(stored), dtype=np.uint64) % np.uint64(5)
    pairs = np.unique(np.stack([stored, documents], axis=1), axis=0)
    assert table.insert_many(stored, documents) == len(pairs)
    for value in [query, *values[:5]]:
        expected = scan(pairs[:, 0], pairs[:, 1], value, k)
        limit = data.draw(st.none() | st.integers(1, 9), "limit")
        matches = table.probe(value, limit)
        assert matches == expected[:limit]
        assert matches.cut == (limit is not None and len(expected) > limit)


class TableMachine(RuleBasedStateMachine):
    """Inserts, removals and probes in any order, beside a set of pairs."""

    @initialize(k=st.integers(0, 15), preset=st.sampled_from(PRESETS), filled=st.booleans())
    def start(self, k: int, preset: str, filled: bool) -> None:
        self.table, self.pairs, self.k = Table(k, preset), set(), k
        if filled:
            for i, value in enumerate(uniform(np.random.default_rng(7), 700).tolist()):
                self.pairs.add((value, i))
                self.table.insert(value, i)

    @rule(value=neighbourhoods(), document=st.integers(0, 3))
    def insert(self, value: list[int], document: int) -> None:
        for one in value:
            assert self.table.insert(one, document) == ((one, document) not in self.pairs)
            self.pairs.add((one, document))

    @rule(data=st.data(), document=st.integers(0, 3))
    def remove(self, data: st.DataObject, document: int) -> None:
        value = data.draw(st.sampled_from(sorted({v for v, _ in self.pairs}) or [0]))
        assert self.table.remove(value, document) == ((value, document) in self.pairs)
        self.pairs.discard((value, document))

    @rule(data=st.data(), bits=st.lists(st.integers(0, 63), max_size=15))
    def probe(self, data: st.DataObject, bits: list[int]) -> None:
        value = data.draw(st.sampled_from(sorted({v for v, _ in self.pairs}) or [0]))
        for bit in bits:
            value ^= 1 << bit
        expected = sorted(
            ((value ^ found).bit_count(), document, found)
            for found, document in self.pairs
            if (value ^ found).bit_count() <= self.k
        )
        assert self.table.probe(value) == [Match(d, found, bits) for bits, d, found in expected]

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "table"):
            stats = self.table.stats()
            assert len(self.table) == stats.documents == len(self.pairs)
            assert stats.values == len({value for value, _ in self.pairs})


TableMachine.TestCase.settings = settings(
    deadline=None, max_examples=examples(25), stateful_step_count=20
)
TestTableMachine = TableMachine.TestCase


@pytest.mark.parametrize("k", [0, 3, 6, 12])
def test_probe_many_is_probe_for_each(k: int) -> None:
    """A batch of probes gives what the single probes give, with and without a limit."""
    rng = np.random.default_rng(k)
    values = clustered(rng, 20_000)
    table = Table(k)
    table.insert_many(values, np.arange(20_000))
    queries = some_queries(rng, values, k, n=300)
    for limit in (None, 1, 7):
        probed = table.probe_many(queries, limit)
        offsets, documents, distances = probed
        assert (probed.cut.dtype, probed.cut.shape) == (np.bool_, (len(queries),))
        assert (offsets.dtype, documents.dtype, distances.dtype) == (np.uint64, np.uint64, np.uint8)
        assert offsets.shape == (len(queries) + 1,)
        assert len(documents) == len(distances) == offsets[-1]
        for i, query in enumerate(queries):
            own = slice(int(offsets[i]), int(offsets[i + 1]))
            expected = table.probe(query, limit)
            assert probed.cut[i] == expected.cut
            assert documents[own].tolist() == [match.document for match in expected]
            assert distances[own].tolist() == [match.distance for match in expected]


def test_a_probe_of_nothing_is_empty() -> None:
    """An empty batch, or an empty table, gives no match, and arrays of the stated types."""
    table = Table(3)
    assert table.probe(0) == []
    offsets, documents, distances = table.probe_many([])
    assert offsets.tolist() == [0]
    assert len(documents) == len(distances) == 0
    assert table.probe_many([1, 2])[0].tolist() == [0, 0, 0]
    assert table.insert_many([], []) == 0


def test_results_are_the_callers_own() -> None:
    """The arrays of one probe do not change with the next."""
    table = Table(0)
    table.insert_many([1, 2], [10, 20])
    first = table.probe_many([1])
    table.probe_many([2])
    assert [part.tolist() for part in first] == [[0, 1], [10], [0]]
