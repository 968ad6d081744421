"""Compressed fingerprints: what goes in comes out, and nothing else is believed."""

import math

import numpy as np
import pytest

pytest.importorskip("paper_library", exc_type=ModuleNotFoundError)  # needs cmake

from compressed import CODECS, Compressed, compress
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sizes import examples

pytestmark = pytest.mark.long

ALL = 2**64 - 1

word = st.integers(0, ALL)
near_zero = st.integers(0, 50)
near_all = near_zero.map(lambda x: ALL - x)
crowded = st.integers(0, 2**12).map(lambda x: 0xFEEDFACE00000000 + x)
power = st.integers(0, 63).map(lambda x: 1 << x)
lists = st.lists(word | near_zero | near_all | crowded | power, max_size=300).map(sorted)


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=examples(150), deadline=None)
@given(values=lists)
@example(values=[7] * 5000)
@example(values=[0] * 300 + [ALL] * 300)
def test_round_trip(codec, values):
    """Any fingerprints, equal ones, 0 and all ones included, come back in order."""
    made = compress(values, codec)
    assert made.decode().tolist() == values
    assert Compressed(made.bytes).decode().tolist() == values


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=examples(150), deadline=None)
@given(
    values=lists,
    query=word | near_zero | near_all | crowded,
    k=st.integers(0, 64),
    prefix_bits=st.integers(0, 64),
)
def test_a_probe_finds_what_a_scan_finds(codec, values, query, k, prefix_bits):
    """Those that share the prefix and lie within k, in order, each as often as it is there."""
    below = 64 - prefix_bits
    expected = [
        value
        for value in values
        if value >> below == query >> below and (value ^ query).bit_count() <= k
    ]
    assert compress(values, codec).probe(query, k, prefix_bits).tolist() == expected


def test_sizes_near_the_bound():
    """Of evenly spread fingerprints, Elias-Fano is within 2 % of the entropy bound, Huffman within 8."""
    n = 200_000
    values = np.sort(np.random.default_rng(1).integers(0, 2**64, n, dtype=np.uint64))
    bound = (64 * n - math.lgamma(n + 1) / math.log(2)) / 8
    assert bound <= len(compress(values, "elias-fano").bytes) <= 1.02 * bound
    assert bound <= len(compress(values, "huffman").bytes) <= 1.08 * bound
