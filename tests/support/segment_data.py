"""Values for tables of segments, a plain scan, and one segment written, searched and described."""

from array import array
from pathlib import Path
from typing import Any

import numpy as np

from dedup.core.native import check, ffi, lib
from dedup.core.numbers import Numbers, packed, pointer
from dedup.core.table import Answer, Match, Matches
from dedup.model.errors import UsageError
from dedup.store.segmented_table import Segment, write_pairs

ALL = 2**64 - 1


def spread(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)


def numbered(values: np.ndarray, first: int = 0) -> np.ndarray:
    return np.arange(first, first + len(values), dtype=np.uint64)


def scan(pairs: set[tuple[int, int]], value: int, k: int) -> list[Match]:
    """Return what a probe must return, by comparing with every pair."""
    rows = sorted(((v ^ value).bit_count(), d, v) for v, d in pairs if (v ^ value).bit_count() <= k)
    return [Match(document, found, distance) for distance, document, found in rows]


def write_segment(
    path: Path, values: Numbers, documents: Numbers, k: int = 3, note: int = 0
) -> int:
    """Write a segment of any batches, which stay as they are."""
    value_words = array("Q", packed(values, "values").tobytes())
    document_words = array("Q", packed(documents, "documents").tobytes())
    if len(value_words) != len(document_words):
        raise UsageError("there must be one document for each value")
    return write_pairs(path, value_words, document_words, k, note)


def probe_segment(
    segment: Segment, values: np.ndarray, k: int, limit: int = 0
) -> dict[int, Matches]:
    """Return the matches of each value that has any in a segment alone, by its index."""
    answer, handles = Answer(), ffi.new("ndd_segment *[]", [segment.handle])
    given = pointer(values), len(values), k, limit
    status = lib.ndd_segments_probe(handles, 1, ffi.NULL, *given, answer.handle, ffi.NULL)
    check(status, "probing a segment")
    return answer.each(len(values))


def stats_of(segment: Segment) -> Any:
    """Return the native description of a segment."""
    stats = ffi.new("ndd_segment_stats *")
    lib.ndd_segment_stats_get(segment.handle, stats)
    return stats
