"""The paper's planner, against its Example 3.1 and a slow search."""

import itertools
import math

import pytest
from designs import paper_designs


def test_example_3_1():
    """For 2^34 fingerprints and k = 3 the plan has the paper's four designs and no others."""
    found = [(d.tables, d.levels, d.prefix_bits, d.candidates) for d in paper_designs(2**34, 3)]
    assert found == [
        (20, (6,), (31, 33), 8),
        (16, (4, 4), (28, 28), 64),
        (10, (5,), (25, 26), 512),
        (4, (4,), (16, 16), 262144),
    ]


def shortest_prefix(levels, k, bits=64):
    """The shortest prefix of a design, by trying every choice of blocks."""
    if not levels:
        return 0
    blocks = levels[0]
    widths = [bits // blocks + (i < bits % blocks) for i in range(blocks)]
    lengths = {sum(chosen) for chosen in itertools.combinations(widths, blocks - k)}
    return min(length + shortest_prefix(levels[1:], k, bits - length) for length in lengths)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_no_fewer_tables_have_so_long_a_prefix(k):
    """The paper's designs of a plan agree with a search through all of up to three levels, 40 tables."""
    designs = []
    for depth in (1, 2, 3):
        for levels in itertools.product(range(k + 1, 12), repeat=depth):
            tables = math.prod(math.comb(blocks, k) for blocks in levels)
            if tables <= 40:
                designs.append((tables, shortest_prefix(levels, k)))
    assert designs
    papers = paper_designs(2**63, k)[::-1]  # the fewest tables first
    longest = min(max(prefix for _, prefix in designs), papers[-1].prefix_bits[0])
    for bits in range(1, longest + 1):
        least = min(tables for tables, prefix in designs if prefix >= bits)
        found = next(design for design in papers if design.prefix_bits[0] >= bits)
        assert found.tables <= least
        assert shortest_prefix(found.levels, k) >= bits
        if found.tables < least:  # only by blocks or levels that the search above does not try
            assert max(found.levels) >= 12 or len(found.levels) > 3
