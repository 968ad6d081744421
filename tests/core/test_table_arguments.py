"""What a table takes, and what it refuses with an error that says why."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_oracle import PRESETS

from dedup.core.pairs import find_all, find_clusters
from dedup.core.table import Match, Table
from dedup.model.errors import UsageError


@pytest.mark.parametrize("k", [-1, 16, True, 3.0, "3", None])
def test_k_outside_0_to_15_is_refused(k: Any, tmp_path: Path) -> None:
    """Every function that takes k names what was given and what is allowed."""
    Table(3).save(tmp_path / "t")
    calls = (
        lambda: Table(k),
        lambda: Table.load(tmp_path / "t", k),
        lambda: find_all([], k),
        lambda: find_clusters([], k),
    )
    for call in calls:
        with pytest.raises(UsageError, match=re.escape(f"k is {k!r}") + r".*0 \.\. 15"):
            call()


def test_presets_are_two(tmp_path: Path) -> None:
    """The presets of the contract are accepted, by a new and a loaded table; others are refused."""
    assert Table(3).preset == "auto"
    for preset in PRESETS:
        table = Table(3, preset)
        assert (table.k, table.preset) == (3, preset)
        table.save(tmp_path / "t")
        assert Table.load(tmp_path / "t", 5, preset).preset == preset
    for wrong in ("fast", None, ["auto"]):
        message = re.escape(f"preset is {wrong!r}") + ".*auto, compact"
        with pytest.raises(UsageError, match=message):
            Table(3, wrong)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=message):
            Table.load(tmp_path / "t", 3, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "batch",
    [
        np.array([1, -1]),
        np.array([1.0, 2.0]),
        np.array([True, False]),
        np.array([[1, 2]]),
        [1, -1],
        [1, 2**64],
        [True, 1],
        ["1", "2"],
        "12",
        np.array([1, 2**64], dtype=object),
        7,
    ],
    ids=repr,
)
def test_batches_that_are_not_fingerprints_are_refused(batch: Any) -> None:
    """A batch must be integers in 0 .. 2**64 - 1, in one dimension; an error says which is not."""
    table = Table(3)
    for call in (
        lambda: table.insert_many(batch, [1, 2]),
        lambda: table.insert_many([1, 2], batch),
        lambda: table.probe_many(batch),
        lambda: find_all(batch, 3),
        lambda: find_clusters(batch, 3),
    ):
        with pytest.raises(UsageError, match=r"values|documents"):
            call()
    assert len(table) == 0


def test_single_numbers_outside_64_bits_are_refused() -> None:
    """A value, document or limit that is no 64-bit number is named."""
    table = Table(3)
    for wrong in (-1, 2**64, 1.5, True, "1", None):
        with pytest.raises(UsageError, match=re.escape(f"value is {wrong!r}")):
            table.insert(wrong, 1)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=re.escape(f"document is {wrong!r}")):
            table.remove(1, wrong)  # type: ignore[arg-type]
    for wrong in (0, -1, True, 2.0):
        with pytest.raises(UsageError, match=re.escape(f"limit is {wrong!r}")):
            table.probe(1, limit=wrong)  # type: ignore[arg-type]
    assert len(table) == 0


def test_values_and_documents_must_be_as_many() -> None:
    """Batches of different lengths are refused, with both lengths."""
    with pytest.raises(UsageError, match="2 values and 3 documents"):
        Table(3).insert_many([1, 2], [1, 2, 3])


@pytest.mark.parametrize(
    "batch",
    [
        np.array([3, 5], dtype=np.int8),
        np.array([3, 5], dtype=">u8"),
        np.array([3, 0, 5, 0], dtype=np.uint64)[::2],
        np.array([3, 5], dtype=object),
        (3, 5),
        range(3, 7, 2),
        (i for i in (3, 5)),
        [np.uint64(3), np.int32(5)],
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_any_integers_make_a_batch(batch: Any) -> None:
    """Integers of every type, byte order and stride are taken as what they are."""
    table = Table(0)
    assert table.insert_many(batch, [1, 2]) == 2
    assert (table.probe(3), table.probe(5)) == ([Match(1, 3, 0)], [Match(2, 5, 0)])
