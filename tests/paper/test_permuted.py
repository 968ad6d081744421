"""The paper's permuted tables, against a plain scan."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from permuted import CODECS, PermutedTables
from sizes import examples
from table_oracle import clustered, uniform

from dedup.core.bulk.designs import plan
from dedup.core.table import Table
from dedup.model.errors import UsageError

pytestmark = pytest.mark.long

ALL = 2**64 - 1
DESIGNS = [
    (0, (1,)),
    (1, (2,)),
    (1, (3, 2)),
    (1, (64,)),
    (2, (3,)),
    (2, (5, 3)),
    (3, (6,)),
    (3, (4, 4)),
    (3, (5,)),
    (3, (4,)),
    (3, (4, 4, 4)),
    (4, (6,)),
    (5, (7,)),
    (6, (8,)),
    (7, (8,)),
    (7, (9,)),
    (15, (16,)),
]


def adversarial(rng, n):
    """Values whose places cannot be guessed: crowded at one end, powers of two, the extremes, equal ones."""
    powers = np.uint64(1) << rng.integers(0, 64, n // 4, dtype=np.uint64)
    crowd = rng.integers(0, 2**10, n // 4, dtype=np.uint64)
    high = np.uint64(ALL) - rng.integers(0, 2**10, n // 4, dtype=np.uint64)
    ends = np.where(rng.integers(0, 2, n // 4) == 1, np.uint64(ALL), np.uint64(0))
    return np.concatenate([powers, crowd, high, ends])


def near(rng, values, n):
    """Queries: stored ones, some with a few bits flipped, and others."""
    queries = values[rng.integers(0, len(values), n)]
    for _ in range(4):
        flips = np.uint64(1) << rng.integers(0, 64, n, dtype=np.uint64)
        queries ^= np.where(rng.integers(0, 2, n) == 1, flips, np.uint64(0))
    queries[::10] = uniform(rng, len(queries[::10]))
    queries[:2] = (0, ALL)
    return queries


def scan(values, documents, query, k):
    """What a probe must return, by comparing with every value."""
    pairs = zip(values.tolist(), documents.tolist(), strict=True)
    rows = [((query ^ value).bit_count(), document, value) for value, document in pairs]
    return [(document, value, d) for d, document, value in sorted(rows) if d <= k]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("make", [uniform, clustered, adversarial])
@pytest.mark.parametrize(("k", "levels"), DESIGNS)
def test_a_probe_finds_what_a_scan_finds(make, k, levels, codec):
    """Every design is exact on every kind of data, equal values included, compressed or not."""
    rng = np.random.default_rng(k * 100 + len(levels))
    values = make(rng, 1200)
    values[-20:] = values[:20]
    documents = np.arange(len(values), dtype=np.uint64)
    tables = PermutedTables(values, k, levels, codec=codec)
    for query in near(rng, values, 40).tolist():
        assert tables.probe(query) == scan(values, documents, query, k)


@pytest.mark.parametrize("limit", [None, 1, 3, 1000])
def test_answers_are_those_of_the_table(limit):
    """probe_many gives what dedup.Table's gives, limits and documents included."""
    rng = np.random.default_rng(5)
    values = clustered(rng, 3000)
    documents = rng.permutation(3000).astype(np.uint64)
    table = Table(3)
    table.insert_many(values, documents)
    queries = near(rng, values, 300)
    expected = table.probe_many(queries, limit)
    found = PermutedTables(values, 3, (6,), documents).probe_many(queries, limit)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)
    one = PermutedTables(values, 3, (6,), documents).probe(int(queries[5]), limit)
    other = [(m.document, m.value, m.distance) for m in table.probe(int(queries[5]), limit)]
    assert one == other


word = st.integers(0, ALL)
crowded = st.builds(lambda high, low: high << 60 | low, st.integers(0, 15), st.integers(0, 3))


@settings(max_examples=examples(60), deadline=None)
@given(
    values=st.lists(word | crowded | st.sampled_from([0, ALL]), max_size=60),
    query=word | crowded,
    design=st.sampled_from(DESIGNS),
    codec=st.sampled_from(list(CODECS)),
)
def test_any_values_any_design(values, query, design, codec):
    """Whatever is stored, a probe finds what a scan finds."""
    k, levels = design
    array = np.array(values, dtype=np.uint64)
    documents = np.arange(len(values), dtype=np.uint64)
    found = PermutedTables(array, k, levels, codec=codec).probe(query)
    assert found == scan(array, documents, query, k)


@pytest.mark.parametrize("codec", CODECS)
def test_more_matches_than_room_was_made_for(codec):
    """An answer far larger than usual comes whole."""
    values = np.arange(2**12, dtype=np.uint64)
    tables = PermutedTables(values, 12, (13,), codec=codec)
    offsets, documents, distances = tables.probe_many([0, 1])
    assert offsets.tolist() == [0, 2**12, 2**13]
    assert sorted(documents[: 2**12].tolist()) == list(range(2**12))
    assert distances[0] == 0


def test_an_empty_batch_and_an_empty_table():
    """Nothing stored, or nothing asked, gives nothing."""
    empty = PermutedTables([], 3, 4)
    assert len(empty) == 0
    assert empty.probe(5) == []
    offsets, documents, _ = PermutedTables([1, 2], 3, 4).probe_many([])
    assert offsets.tolist() == [0]
    assert len(documents) == 0


def test_threads_probe_one_set_of_tables():
    """Probes from several threads give what one gives."""
    rng = np.random.default_rng(3)
    values = uniform(rng, 20_000)
    tables, queries = PermutedTables(values, 3, (4, 4)), near(rng, values, 500)
    expected = tables.probe_many(queries)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: tables.probe_many(queries), range(12)):
            assert all(map(np.array_equal, found, expected))


def test_what_the_tables_tell_of_themselves():
    """k, levels, prefixes and memory are those of the design."""
    tables = PermutedTables(range(10), 3, (6,))
    assert (tables.k, tables.levels, len(tables)) == (3, (6,), 10)
    assert tables.prefix_bits == (31, 33)
    assert len(set(tables.prefixes)) == 20
    assert tables.bytes == 8 * 10 * 20


def test_compressed_tables_take_less():
    """Each of the tables is compressed: Elias-Fano is smaller than Huffman, and that than neither."""
    values = uniform(np.random.default_rng(1), 50_000)
    sizes = [PermutedTables(values, 3, 5, codec=codec).bytes for codec in CODECS]
    assert 10 * 50_000 * 5 < sizes[2] < sizes[1] < sizes[0]


@pytest.mark.parametrize(
    ("k", "design", "said"),
    [
        (3, 65, "more than the 64 bits"),
        (3, (4, 49), "more than the 48 bits"),
        (0, (1, 1), "more than the 0 bits"),
        (3, 3, "takes 4 or more"),
        (3, (5, 2), "takes 4 or more"),
        (3, 0, "takes 4 or more"),
        (3, (), "design is"),
        (3, "six", "design is"),
        (3, 4.5, "design is"),
        (-1, 4, "k is -1"),
        (16, 17, "k is 16"),
        (True, 4, "k is True"),
        ("3", 4, "k is '3'"),
    ],
)
def test_designs_that_are_none(k, design, said):
    """More blocks than bits, fewer than k + 1, and distances out of range are named."""
    with pytest.raises(UsageError, match=said):
        PermutedTables([1, 2, 3], k, design)


def test_other_arguments_that_are_wrong():
    """Documents that do not match, limits and values out of range are refused."""
    tables = PermutedTables([1, 2, 3], 3, 4)
    with pytest.raises(UsageError, match="3 values and 2 documents"):
        PermutedTables([1, 2, 3], 3, 4, [1, 2])
    with pytest.raises(UsageError, match="codec is 'zip'"):
        PermutedTables([1], 3, 4, codec="zip")
    with pytest.raises(UsageError, match="limit"):
        tables.probe(1, 0)
    with pytest.raises(UsageError):
        tables.probe(2**64)
    with pytest.raises(UsageError):
        tables.probe_many([-1])
    with pytest.raises(UsageError):
        PermutedTables(np.zeros((2, 2), np.uint64), 3, 4)


def planned(documents, k):
    """The paper's designs of `dedup plan`."""
    return [design for design in plan(documents, k) if design.kind == "paper"]


@pytest.mark.parametrize(("documents", "k"), [(10**6, 3), (2**34, 3), (2**34, 2), (10**5, 6)])
def test_prefixes_are_those_that_were_planned(documents, k):
    """The permuted tables of a planned design are as many, with prefixes as long, as was said."""
    for design in planned(documents, k):
        tables = PermutedTables([], k, design.levels)
        assert len(tables.prefixes) == design.tables
        assert tables.prefix_bits == design.prefix_bits


def test_candidates_are_those_compared():
    """A probe of evenly spread fingerprints compares as many as planned, within a tenth."""
    rng = np.random.default_rng(7)
    values = rng.integers(0, 2**64, 2**18, dtype=np.uint64)
    (design,) = [design for design in planned(len(values), 3) if design.tables == 4]
    tables = PermutedTables(values, 3, design.levels)
    tables.probe_many(rng.integers(0, 2**64, 2000, dtype=np.uint64))
    assert tables.candidates / 2000 / 4 == pytest.approx(design.candidates, rel=0.1)
    assert tables.bytes == design.bytes
