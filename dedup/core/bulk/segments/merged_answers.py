"""One answer from those of the table in memory and of the segments.

    answers -> less what is removed -> merged: in order, cut at the limit

The rule kept here: a pair is in one of them only, so nothing is found twice, and the order (distance,
document, value) is that of one table.
"""

import numpy as np
import numpy.typing as npt

from dedup.core.bulk.segments.value_pairs import array_of
from dedup.core.matches import Found, Matches
from dedup.core.numbers import Array
from dedup.core.table import Table

__all__ = ["found_less_removed", "in_order", "matches_less_removed", "merged"]


def matches_less_removed(matches: Matches, removed: Table) -> Matches:
    """Return the matches of one probe, less what is removed."""
    values, documents = zip(*((m.value, m.document) for m in matches), strict=True)
    dead = removed.has(array_of(values), array_of(documents))
    return Matches(m for m, gone in zip(matches, dead, strict=True) if not gone)


def in_order(matches: Matches) -> None:
    """Put the matches of one probe into the order of an answer."""
    matches.sort(key=lambda match: (match.distance, match.document, match.value))


def found_less_removed(found: Found, removed: Table) -> Found:
    """Return an answer to many probes, less what is removed."""
    matches = found.matches
    values, documents = matches["value"], matches["document"]
    kept = ~removed.has(np.ascontiguousarray(values), np.ascontiguousarray(documents))
    if np.all(kept):
        return found
    offsets = _offsets(_queries(found)[kept], len(found.cut))
    return Found(offsets, matches[kept], found.cut)


def merged(parts: list[Found], limit: int) -> Found:
    """Return several answers as one; a limit of 0 is none."""
    count, some = len(parts[0].cut), [part for part in parts if len(part.matches)]
    if not some:
        return parts[0]
    matches = np.concatenate([part.matches for part in some])
    queries = np.concatenate([_queries(part) for part in some])
    if len(some) > 1:
        keys = matches["value"], matches["document"], matches["distance"], queries
        order = np.lexsort(keys)
        matches, queries = matches[order], queries[order]
    offsets = _offsets(queries, count)
    cut = np.logical_or.reduce([part.cut for part in parts])
    if limit:
        cut |= offsets[1:] - offsets[:-1] > limit
        place = np.arange(len(queries)) - offsets[queries].astype(np.int64)
        matches, queries = matches[place < limit], queries[place < limit]
        offsets = _offsets(queries, count)
    return Found(offsets, matches, cut)


def _queries(found: Found) -> npt.NDArray[np.intp]:
    """Return for each match the number of its probe."""
    counts = (found.offsets[1:] - found.offsets[:-1]).astype(np.intp)
    return np.repeat(np.arange(len(counts)), counts)


def _offsets(queries: npt.NDArray[np.intp], count: int) -> Array:
    offsets = np.zeros(count + 1, np.uint64)
    offsets[1:] = np.cumsum(np.bincount(queries, minlength=count))
    return offsets
