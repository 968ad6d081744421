"""One segment: its bytes are specified, and it answers as the table of its pairs."""

from pathlib import Path

import numpy as np
import pytest
from segment_data import ALL, numbered, probe_segment, spread, stats_of, write_segment

from dedup.core.table import Table
from dedup.model.errors import UsageError
from dedup.store.segmented_table import Segment


def test_the_bytes_are_those_of_the_specification(tmp_path):
    """The golden bytes are what is written, on every machine (native/src/segment/segment_format.h)."""
    hexadecimal = (Path(__file__).parents[1] / "golden" / "segment.hex").read_text("utf-8")
    write_segment(tmp_path / "s", [ALL, 1, 1], [0, 9, 7], 3, note=5)
    assert (tmp_path / "s").read_bytes() == bytes.fromhex(hexadecimal)


@pytest.mark.parametrize(
    ("k", "spread_over"),
    [
        (0, 1),
        (3, 1),
        (3, 1 << 32),
        (6, (1 << 64) // 7_000),
        (15, 1 << 32),
        (15, (1 << 64) // 7_000),
    ],
)
def test_a_segment_answers_as_the_table_of_its_pairs(tmp_path, k, spread_over):
    """Probes of it, one and many, give what dedup.Table gives, for its k and smaller ones, with limits.

    Also of documents that 4 bytes do not tell apart.
    """
    values = spread(6_000)
    values[::2] = values[0] ^ (np.uint64(1) << (values[::2] % np.uint64(64)))
    documents = numbered(values) % np.uint64(2_000) * np.uint64(spread_over)
    assert write_segment(tmp_path / "s", values, documents, k, note=5) == len(
        set(zip(values.tolist(), documents.tolist(), strict=True))
    )
    segment = Segment(tmp_path / "s")
    assert (segment.k, stats_of(segment).note) == (k, 5)
    assert stats_of(segment).values == len(np.unique(values))
    queries = np.concatenate([values[:50], values[50:100] ^ np.uint64(5), spread(50, 2)])
    for smaller in {k, k // 2, 0}:
        table = Table(smaller)
        table.insert_many(values, documents)
        for limit in (0, 1, 10):
            found = probe_segment(segment, queries, smaller, limit)
            expected = table.probe_each(queries, limit)
            assert found == expected
            assert [found[i].cut for i in expected] == [expected[i].cut for i in expected]


def test_a_static_segment_takes_at_most_13_bytes_a_fingerprint(tmp_path):
    """A million evenly spread fingerprints, for k = 3; documents aside."""
    values = spread(1_000_000)
    write_segment(tmp_path / "s", values, numbered(values), 3)
    assert (tmp_path / "s").stat().st_size - 4 * len(values) <= 13 * len(values)


def test_a_distance_beyond_a_segments_design_is_refused(tmp_path):
    """It would not be exact."""
    write_segment(tmp_path / "s", [1], [1], 3)
    with pytest.raises(UsageError, match="probing a segment: .*distance"):
        probe_segment(Segment(tmp_path / "s"), np.ones(1, np.uint64), 4)


@pytest.mark.parametrize(
    ("values", "documents", "k"),
    [
        ([1], [1, 2], 3),
        ([1], [1], 16),
        ([-1], [1], 3),
        ([1.5], [1], 3),
        (np.zeros((2, 2), np.uint64), [1], 3),
        (np.zeros(1), [1], 3),
        ("1", [1], 3),
    ],
)
def test_what_cannot_be_written(tmp_path, values, documents, k):
    """Wrong shapes, types and distances are refused, and there is no file."""
    with pytest.raises(UsageError):
        write_segment(tmp_path / "s", values, documents, k)
    assert list(tmp_path.iterdir()) == []
