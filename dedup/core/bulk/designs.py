"""Table designs for a number of documents: what each takes, and which to take.

    documents, k -> the designs of dedup.Table and of a segment -> tables, prefixes, candidates, bytes

A design cuts the 64 bits into blocks and searches each by one or several tables (native/src/design/design.h). The
designs of Manku, Jain and Das Sarma (WWW 2007) themselves are planned and built by `make paper`.

Tables, bits, bytes and candidates follow from the design: exact, or expected values for fingerprints spread evenly.
"""

import math
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import NamedTuple

import msgspec

from dedup.core.memory import memory_bytes
from dedup.core.native import check, ffi, lib
from dedup.core.numbers import max_distance, number
from dedup.core.table import PRESETS
from dedup.model.errors import UsageError

TABLE_VALUES = 2**31 - 2  # distinct values of one dedup.Table
SET_BYTES = 13  # of a distinct value in the set that a dedup.Table keeps


class Design(msgspec.Struct, frozen=True):
    """One way to find what lies within k, for the number of documents that was given.

    name              the design in words
    preset            the preset of dedup.Table that has it; None for a segment, a file of a store's index
    tables            how many tables, in all parts
    blocks            how many blocks the 64 bits are cut into
    prefix_bits       the shortest key of a table and the longest, in bits
    keys              how many places a probe looks at, in all tables
    candidates        expected fingerprints compared in the table that has most, by one probe
    bytes             memory of the tables, documents aside
    parts             tables of at most 2**31 - 2 values, among which documents are divided
    recommended       the one to take, of those that fit in the memory; at most one of a plan
    """

    name: str
    preset: str | None
    tables: int
    blocks: int
    prefix_bits: tuple[int, int]
    keys: int
    candidates: float
    bytes: int
    parts: int = 1
    recommended: bool = False


def plan(documents: int, k: int, memory: int | str | None = None) -> list[Design]:
    """Return the designs for a number of documents: of the presets of dedup.Table, and of a segment.

    Presets with the same design are one. A segment is mapped from disk and counts as if all of it were in
    memory. documents is at least 1; k is in bits, 0 .. 15; memory in bytes, or as "16G", "512M". Without it
    there is no limit. The first design that fits is recommended; when none fits, none is. Raises UsageError.
    """
    n, k = number(documents, "documents"), max_distance(k)
    if n == 0:
        raise UsageError("documents is 0; it must be an int from 1 up")
    limit = math.inf if memory is None else memory_bytes(memory)
    designs: list[Design] = []
    for preset in (*PRESETS, None):
        design = _design(n, k, preset)
        same = (each.bytes for each in designs)
        if design is not None and design.bytes not in same:
            designs.append(design)
    best = next((design for design in designs if design.bytes <= limit), None)
    return [msgspec.structs.replace(each, recommended=each is best) for each in designs]


class _BlockTable(NamedTuple):
    """A block table of a native design: copied, as an element of a cffi array does not keep the array."""

    mask: int
    bits: int
    keys: int
    bytes: float


def _block_tables(design: Callable[..., int], *arguments: int) -> list[_BlockTable]:
    blocks, count = ffi.new("ndd_block[64]"), ffi.new("uint32_t *")
    check(design(*arguments, blocks, len(blocks), count), "planning")
    found = []
    for i in range(count[0]):
        mask, flips, threshold = blocks[i].mask, blocks[i].flips, blocks[i].threshold
        keys = sum(math.comb(flips.bit_count(), flipped) for flipped in range(threshold + 1))
        found.append(_BlockTable(mask, blocks[i].bits, keys, blocks[i].bytes))
    return found


def _design(n: int, k: int, preset: str | None) -> Design | None:
    """Return a preset's design, or without one that of a segment; None for a segment that compares with all."""
    parts = -(-n // TABLE_VALUES)
    each = -(-n // parts)
    if preset is None:
        found = _block_tables(lib.ndd_segment_design_get, each, k)
        name, own_bytes = "segment on disk", 0
        if not any(table.bits for table in found):
            return None
    else:
        found = _block_tables(lib.ndd_design_get, each, k, PRESETS[preset])
        name, own_bytes = f"dedup.Table {preset}", SET_BYTES * each
    keys = sum(table.keys for table in found)
    if not found:
        name, found, keys = "compare with all", [_BlockTable(0, 0, 1, 0)], 1
    elif keys == len(found):
        name += ", no flips"
    else:
        name += f", {keys} keys by flips"
    bits = [table.bits for table in found]
    return Design(
        name=name + (f", {parts} parts" if parts > 1 else ""),
        preset=preset,
        tables=parts * len(found),
        blocks=_cut_blocks([table.mask for table in found]),
        prefix_bits=(min(bits), max(bits)),
        keys=parts * keys,
        candidates=max(table.keys * each / 2**table.bits for table in found),
        bytes=parts * round(own_bytes + sum(table.bytes for table in found)),
        parts=parts,
    )


def _cut_blocks(masks: list[int]) -> int:
    """Return how many blocks the tables search: those that share bits share a block."""
    blocks: list[int] = []
    for mask in masks:
        shared = [block for block in blocks if block & mask]
        blocks = [block for block in blocks if not block & mask]
        blocks.append(reduce(or_, shared, mask))
    return len(blocks)
