"""The answers of SegmentedTable.probe_each() as arrays, in the form of Table.probe_many()."""

from __future__ import annotations

import numpy as np

from dedup.core.numbers import packed
from dedup.core.table import Matches, ProbedMany

__all__ = ["probe_many"]


def probe_many(table, values, limit=None) -> ProbedMany:
    """Probe a table of segments for many values."""
    queries = packed(values, "values")
    found = table.probe_each(queries, limit)
    each = [found.get(i, Matches()) for i in range(len(queries))]
    flat = [match for matches in each for match in matches]
    probed = ProbedMany(
        (
            np.cumsum([0, *map(len, each)], dtype=np.uint64),
            np.array([match.document for match in flat], np.uint64),
            np.array([match.distance for match in flat], np.uint8),
        )
    )
    probed.cut = np.array([matches.cut for matches in each], bool)
    return probed
