"""One segment: its bytes are specified, and it answers as the table of its pairs."""

from pathlib import Path

import numpy as np
import pytest
from segment_data import ALL, numbered, spread, stats_of, write_segment

from dedup.core.table import Table
from dedup.model.errors import StoreDamaged, UsageError
from dedup.store.segmented_table import Segment, Segments, pairs_of


def test_the_bytes_are_those_of_the_specification(tmp_path):
    """The example of docs/reference/segment-format.md is what is written, on every machine."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "segment-format.md"
    hexadecimal = page.read_text(encoding="utf-8").split("```text")[1].split("```")[0]
    write_segment(tmp_path / "s", [ALL, 1, 1], [0, 9, 7], 3, note=5)
    assert (tmp_path / "s").read_bytes() == bytes.fromhex(hexadecimal)


@pytest.mark.parametrize("spread_over", [1, 1 << 32, (1 << 64) // 7_000])
@pytest.mark.parametrize("k", [0, 3, 6, 15])
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
            found = Segments([segment]).probe_each(queries, smaller, limit)
            expected = table.probe_each(queries, limit)
            assert found == expected
            assert [found[i].cut for i in expected] == [expected[i].cut for i in expected]
        assert Segments([segment]).probe(int(values[0]), smaller) == table.probe(int(values[0]))


def test_a_segment_tells_its_pairs(tmp_path):
    """pairs_of() has each pair once, and has() tells these from others."""
    values = spread(3000) % np.uint64(1000)
    documents = spread(3000, 2) % np.uint64(50)
    write_segment(tmp_path / "s", values, documents)
    segment = Segment(tmp_path / "s")
    pairs = set(zip(*(part.tolist() for part in pairs_of([segment])), strict=True))
    assert pairs == set(zip(values.tolist(), documents.tolist(), strict=True))
    assert len(segment) == len(pairs)
    others = np.repeat(np.arange(1000, dtype=np.uint64), 50), np.tile(numbered(np.empty(50)), 1000)
    expected = [pair in pairs for pair in zip(*(o.tolist() for o in others), strict=True)]
    assert list(segment.has(*others)) == expected


def test_a_static_segment_takes_at_most_13_bytes_a_fingerprint(tmp_path):
    """A million evenly spread fingerprints, for k = 3; documents aside."""
    values = spread(1_000_000)
    write_segment(tmp_path / "s", values, numbered(values), 3)
    assert (tmp_path / "s").stat().st_size - 4 * len(values) <= 13 * len(values)


def test_a_distance_beyond_a_segments_design_is_refused(tmp_path):
    """It would not be exact."""
    write_segment(tmp_path / "s", [1], [1], 3)
    with pytest.raises(UsageError, match="probing 1 segments: .*distance"):
        Segments([Segment(tmp_path / "s")]).probe(1, 4)


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


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "longer", "version", "other"])
def test_a_damaged_segment_is_named_and_refused(tmp_path, damage):
    """The error has the path."""
    path = tmp_path / "s"
    values = spread(1000)
    write_segment(path, values, numbered(values))
    content = bytearray(path.read_bytes())
    match damage:
        case "flip":
            content[len(content) // 2] ^= 1
        case "cut":
            del content[len(content) // 2 :]
        case "empty":
            content.clear()
        case "longer":
            content += b"\0"
        case "version":
            content[8] = 3
        case _:
            content[:8] = b"NDDTABLE"
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match=str(path)):
        Segment(path)
