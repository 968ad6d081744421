"""A table larger than memory: immutable segments on disk, and one mutable table before them.

    append -> table (in memory) -> write -> segment (a mapped file) -> merge -> larger segment
    probe  -> the table and every segment -> one answer

    segment.py           one file: written once, verified when it is opened, searched where it is
    segment_manifest.py  which files make up the table, replaced in one step
    folder.py            those files: opened, written, deleted
    segmented_table.py   SegmentedTable: append, remove, probe, freeze, write, merge
    merged_answers.py    one answer of what the table and its segments found
    value_pairs.py       pairs as arrays, on their way from place to place

A store has two of them (dedup/store/index.py). docs/tables.md, "Larger than memory", explains it;
docs/segment-format.md is the format.
"""

from dedup.core.bulk.segments.segment import Segment, write_segment
from dedup.core.bulk.segments.segmented_table import SegmentedStats, SegmentedTable

__all__ = ["Segment", "SegmentedStats", "SegmentedTable", "write_segment"]
