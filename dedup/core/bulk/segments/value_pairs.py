"""Pairs (value, document) as two arrays: the form in which they go from place to place."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dedup.core.bulk.segments.segment import Segment
from dedup.core.numbers import Array
from dedup.core.table import Table

__all__ = ["NONE", "Pairs", "array_of", "held", "pair", "table_of", "take_out"]

Pairs = tuple[Array, Array]  # values and documents
NONE: Pairs = (np.empty(0, np.uint64), np.empty(0, np.uint64))


def array_of(numbers: Any) -> Array:
    """Return numbers as the tables take them."""
    return np.array(numbers, dtype=np.uint64)


def pair(value: int, document: int) -> Pairs:
    """Return one pair."""
    return array_of([value]), array_of([document])


def table_of(pairs: Pairs) -> Table:
    """Return a table in memory of the pairs, which tells whether it has one."""
    table = Table(0)
    table.insert_many(*pairs)
    return table


def take_out(table: Table, values: Array, documents: Array) -> int:
    """Remove pairs from a table; return how many were there."""
    pairs = zip(values.tolist(), documents.tolist(), strict=True)
    return sum(table.remove(value, document) for value, document in pairs)


def held(segments: tuple[Segment, ...], *pairs: Array) -> npt.NDArray[np.bool_]:
    """Return for each pair whether one of the segments has it."""
    there = np.zeros(len(pairs[0]), np.bool_)
    for segment in segments:
        there |= segment.has(*pairs)
    return there
