"""Pairs (value, document) as two arrays: the form in which they go from place to place."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dedup.core.bulk.segments.segment import Segment
from dedup.core.numbers import Array
from dedup.core.table import Table

__all__ = ["NONE", "Pairs", "array_of", "held", "joined", "table_of"]

Pairs = tuple[Array, Array]  # values and documents
NONE: Pairs = (np.empty(0, np.uint64), np.empty(0, np.uint64))


def array_of(numbers: Sequence[int]) -> Array:
    """Return numbers as the tables take them."""
    return np.array(numbers, dtype=np.uint64)


def joined(parts: Sequence[Pairs]) -> Pairs:
    """Return all pairs of several parts."""
    if len(parts) == 1:
        return parts[0]
    values, documents = zip(*parts, strict=True)
    return np.concatenate(values), np.concatenate(documents)


def table_of(pairs: Pairs) -> Table:
    """Return a table in memory of the pairs, which tells whether it has one."""
    table = Table(0)
    table.insert_many(*pairs)
    return table


def held(places: Sequence[Table | Segment], *pairs: Array) -> npt.NDArray[np.bool_]:
    """Return for each pair whether one of some places has it."""
    there = np.zeros(len(pairs[0]), np.bool_)
    for place in places:
        there |= place.has(*pairs)
    return there
