"""The paper's permuted tables, against a plain scan."""

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("paper_library", exc_type=ModuleNotFoundError)  # needs cmake

from designs import paper_designs
from permuted import CODECS, PermutedTables
from table_oracle import clustered, uniform

pytestmark = pytest.mark.long

ALL = 2**64 - 1
DESIGNS = [
    (0, (1,)), (1, (2,)), (1, (3, 2)), (1, (64,)), (2, (3,)), (2, (5, 3)), (3, (6,)), (3, (4, 4)), (3, (5,)),
    (3, (4,)), (3, (4, 4, 4)), (4, (6,)), (5, (7,)), (6, (8,)), (7, (8,)), (7, (9,)), (15, (16,)),
]  # fmt: skip


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


def scan(values, query, k):
    """What a probe must return, by comparing with every value: (distance, document), nearest first."""
    rows = [((query ^ value).bit_count(), n) for n, value in enumerate(values.tolist())]
    return sorted(row for row in rows if row[0] <= k)


def probed(tables, queries):
    """What a batch of probes gives, as scan() has it, for each query."""
    offsets, documents, distances = tables.probe_many(queries)
    rows = list(zip(distances.tolist(), documents.tolist(), strict=True))
    return [rows[begin:end] for begin, end in pairwise(offsets.tolist())]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("make", [uniform, clustered, adversarial])
@pytest.mark.parametrize(("k", "levels"), DESIGNS)
def test_a_probe_finds_what_a_scan_finds(make, k, levels, codec):
    """Every design is exact on every kind of data, equal values included, compressed or not."""
    rng = np.random.default_rng(k * 100 + len(levels))
    values = make(rng, 1200)
    values[-20:] = values[:20]
    queries = near(rng, values, 40)
    found = probed(PermutedTables(values, k, levels, codec), queries)
    assert found == [scan(values, query, k) for query in queries.tolist()]


@pytest.mark.parametrize(("documents", "k"), [(10**6, 3), (2**34, 3), (2**34, 2), (10**5, 6)])
def test_prefixes_are_those_that_were_planned(documents, k):
    """The permuted tables of a planned design are as many, with prefixes as long, as was said."""
    for design in paper_designs(documents, k):
        tables = PermutedTables([], k, design.levels)
        assert len(tables.prefixes) == design.tables
        assert tables.prefix_bits == design.prefix_bits


def test_candidates_are_those_compared():
    """A probe of evenly spread fingerprints compares as many as planned, within a tenth."""
    rng = np.random.default_rng(7)
    values = rng.integers(0, 2**64, 2**18, dtype=np.uint64)
    (design,) = [design for design in paper_designs(len(values), 3) if design.tables == 4]
    tables = PermutedTables(values, 3, design.levels)
    tables.probe_many(rng.integers(0, 2**64, 2000, dtype=np.uint64))
    assert tables.candidates / 2000 / 4 == pytest.approx(design.candidates, rel=0.1)
    assert tables.bytes == design.bytes
