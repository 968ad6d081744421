"""Crowds: fingerprints and documents that stand close together, against a plain scan."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from dedup.core.numbers import bit_counts
from dedup.core.table import Table

COUNT = 9_000  # enough for buckets that are searched by an index of their own


def crowd(shape: str, seed: int) -> np.ndarray:
    """Return distinct values: around one centre, with some bits in common, or both and others."""
    rng = np.random.default_rng(seed)
    centre, bits = rng.integers(0, 2**64, 2, dtype=np.uint64)
    values = rng.integers(0, 2**64, COUNT, dtype=np.uint64)
    if shape == "common bits":
        values = values & bits | centre & ~bits
    elif shape == "leading bits":
        values = values >> np.uint64(24) | centre >> np.uint64(40) << np.uint64(40)
    elif shape == "centre":
        few = rng.integers(0, 2**64, COUNT, dtype=np.uint64)
        values = centre ^ (values & few & rng.integers(0, 2**64, COUNT, dtype=np.uint64))
    else:
        third = COUNT // 3
        values[:third] = centre ^ np.uint64(1) << rng.integers(0, 64, third, dtype=np.uint64)
        values[:third] ^= np.uint64(1) << rng.integers(0, 64, third, dtype=np.uint64)
        values[third : 2 * third] >>= np.uint64(32)
    return np.unique(values)


def scan(values: np.ndarray, documents: np.ndarray, query: int, k: int) -> list[tuple[int, int]]:
    """Return (distance, document) of all values within k, in the order of an answer."""
    distances = bit_counts(values ^ np.uint64(query))
    near = np.flatnonzero(distances <= k)
    found = zip(distances[near].tolist(), documents[near].tolist(), strict=True)
    return sorted((int(distance), document) for distance, document in found)


def check(table: Table, values: np.ndarray, documents: np.ndarray, queries: list[int]) -> None:
    for query in queries:
        expected = scan(values, documents, query, table.k)
        for limit in (None, 3):
            answer = table.probe(query, limit)
            assert [(m.distance, m.document) for m in answer] == expected[:limit]
            assert answer.cut == (limit is not None and len(expected) > limit)


@given(
    shape=st.sampled_from(("common bits", "leading bits", "centre", "mixed")),
    seed=st.integers(0, 2**32),
    k=st.integers(0, 7),
    preset=st.sampled_from(("auto", "compact", "fast")),
    flips=st.lists(st.integers(0, 2**64 - 1).filter(lambda n: n.bit_count() < 40), max_size=3),
)
@settings(max_examples=examples(25), deadline=None)
def test_a_probe_of_a_crowd_finds_what_a_scan_finds(shape, seed, k, preset, flips):
    """Whatever crowds, for any k and preset: all within k, nearest first; also after removals."""
    values = crowd(shape, seed)
    documents = np.arange(len(values), dtype=np.uint64)
    table = Table(k, preset)
    table.insert_many(values, documents)
    first, last = int(values[0]), int(values[-1])
    queries = [first, last ^ 1, int(values[seed % len(values)]) ^ (1 << seed % 64), 0, 2**64 - 1]
    queries += [first ^ flip for flip in flips]
    check(table, values, documents, queries)
    gone = seed % len(values)
    for value, document in zip(values[:gone].tolist(), documents[:gone].tolist(), strict=True):
        assert table.remove(value, document)
    check(table, values[gone:], documents[gone:], queries)


@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
def test_a_limit_gives_the_first_documents_of_a_fingerprint_with_very_many(order):
    """Nearest first, then by document: of 50,000 in any order the smallest, and `cut` says so."""
    documents = np.random.default_rng(1).integers(0, 2**64, 50_000, dtype=np.uint64)
    if order != "random":
        documents = np.sort(documents)[:: 1 if order == "ascending" else -1]
    table = Table(3)
    assert table.insert_many(np.full(len(documents), 7, np.uint64), documents) == len(documents)
    ascending = np.sort(documents).tolist()
    for limit in (1, 64, 65, 1_000, len(documents)):
        answer = table.probe(5, limit)
        assert [match.document for match in answer] == ascending[:limit]
        assert answer.cut == (limit < len(documents))
    for document in ascending[:100]:
        assert table.remove(7, document)
    assert [match.document for match in table.probe(7, 2)] == ascending[100:102]
