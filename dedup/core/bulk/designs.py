"""Table designs for a number of documents: what each costs, and which to take.

    documents, k -> the paper's designs, and those of dedup.Table and of segments
                 -> tables, bytes, candidates, time

The paper is Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling" (WWW 2007). Its
designs (section 3.1) cut the 64 bits into r blocks and have a table for each choice of r - k of them
to stand first; what is left out may be cut and chosen from again. Longer prefixes leave fewer
candidates and take more tables (section 3.1.2), found here by trying every cut into whole bits.

Invariants:
  - Tables, bits, bytes and candidates follow from the design and are exact, or expected values for
    fingerprints spread evenly; the paper's "up to" are the tables with the shortest prefix.
  - Times are estimates: a few measured points of one common machine, and lines through them.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache, reduce
from operator import or_
from typing import Any

import msgspec

from dedup.core.memory import memory_bytes
from dedup.core.native import check, ffi, lib
from dedup.core.numbers import max_distance, number
from dedup.model.errors import UsageError

WIDTH = 64
VALUE_BYTES = 8
MAX_TABLES = 128  # of a paper's design: a kilobyte for each fingerprint
FEW_CANDIDATES = 8  # they lie in one cache line, so a longer prefix saves nothing
TABLE_VALUES = 2**31 - 2  # distinct values of one dedup.Table
NEARLY_AS_FAST = 1.2  # estimates are no better than that

# Estimates, in ns, of one core among many probes, from measured points of the tables of tests/paper.
SEARCH_AT_100K = 118.0  # one table by interpolation, and for each tenfold number of values
SEARCH_DECADE = 100.0
CANDIDATE = 3.2
COMPARE = 1.2  # with one fingerprint, where all are compared
PRESETS = {"auto": lib.NDD_AUTO, "compact": lib.NDD_COMPACT, "fast": lib.NDD_FAST}
SET_BYTES = 13  # of a distinct value in the set that a dedup.Table keeps


class Design(msgspec.Struct, frozen=True):
    """One way to find what lies within k, for the number of documents that was given.

    kind              "paper" (PermutedTables of tests/paper), "ours" (dedup.Table), or "segment"
                      (dedup.store.segmented_table: immutable, on disk)
    preset            ours: the preset of dedup.Table that has it; else None
    name              the design in words
    tables            how many tables of all documents
    blocks            how many blocks the 64 bits are cut into, at the first level
    levels            the number of blocks at each level; ours: at the one level
    prefix_bits       the shortest prefix of a table and the longest, in bits; ours: keys
    keys              how many places a probe looks at, in all tables
    candidates        expected fingerprints compared in the table that has most, by one probe
    bytes             memory of the tables, documents aside
    latency_ns        estimated time of a probe, among many, on one core
    parts             not the paper's: tables of at most 2**31 - 2 values, among which documents are divided
    recommended       the one to take, of those that fit in the memory; at most one of a plan
    """

    kind: str
    name: str
    tables: int
    blocks: int
    levels: tuple[int, ...]
    prefix_bits: tuple[int, int]
    keys: int
    candidates: float
    bytes: int
    latency_ns: float
    preset: str | None = None
    parts: int = 1
    recommended: bool = False


def plan(documents: int, k: int, memory: int | str | None = None) -> list[Design]:
    """Return the sensible designs for a number of documents: our presets', a segment's, the paper's.

    Of the paper's designs, those are sensible than which none has a prefix as long in fewer tables;
    up to the first that leaves 8 candidates or fewer, and up to 128 tables. Of the presets, those
    that differ. Each kind begins with what takes most memory. A segment is mapped from disk and counts as if
    all of it were in memory, for which its time holds. documents is at least 1;
    k is in bits, 0 .. 15; memory in bytes, or as "16G", "512M". Without it there is no limit. The
    recommended design is the smallest of those that fit and take at most a fifth more time than the
    fastest of these; when none fits, none is recommended. Raises UsageError.
    """
    n, k = _documents(documents), max_distance(k)
    limit = None if memory is None else memory_bytes(memory)
    papers = [_paper(n, k, levels) for levels in _sensible(n, k)]
    designs = [*_ours(n, k), *_of_segments(n, k), *reversed(papers)]
    fitting = [design for design in designs if limit is None or design.bytes <= limit]
    fastest = min((design.latency_ns for design in fitting), default=0.0)
    near = [design for design in fitting if design.latency_ns <= NEARLY_AS_FAST * fastest]
    best = min(near, key=lambda design: (design.bytes, design.latency_ns), default=None)
    return [
        msgspec.structs.replace(design, recommended=True) if design is best else design
        for design in designs
    ]


# ------------------------------------------------------------------------------ the paper's designs


def _sensible(n: int, k: int) -> Iterator[tuple[int, ...]]:
    for _, shortest, levels in _front(k):
        yield levels
        if n <= FEW_CANDIDATES << shortest:
            return


@cache
def _front(k: int) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
    """Return (tables, shortest prefix, levels) of the designs that no other beats, fewest first."""
    designs = [(_tables(levels, k), -_prefix(levels, k)[0], levels) for levels in _designs(k)]
    front: list[tuple[int, int, tuple[int, ...]]] = []
    for tables, negative, levels in sorted(designs, key=lambda d: (d[0], d[1], len(d[2]), d[2])):
        if not front or -negative > front[-1][1]:
            front.append((tables, -negative, levels))
    return tuple(front)


def _designs(k: int, left: int = WIDTH, room: int = MAX_TABLES) -> Iterator[tuple[int, ...]]:
    """Yield every list of levels whose tables are at most `room`."""
    for blocks in range(k + 1, left + 1):
        tables = math.comb(blocks, k)
        if tables > room:
            return
        yield (blocks,)
        if k == 0:
            return  # one block is the whole fingerprint
        rest = _left_out(left, blocks, k)[0]
        for further in _designs(k, rest, room // tables):
            yield (blocks, *further)


def _tables(levels: tuple[int, ...], k: int) -> int:
    tables: int = math.prod(math.comb(blocks, k) for blocks in levels)
    return tables


def _left_out(bits: int, blocks: int, k: int) -> tuple[int, int]:
    """Return the fewest and the most bits in k of the blocks, when cut as evenly as possible."""
    width, larger = divmod(bits, blocks)
    return k * width + max(0, k - (blocks - larger)), k * width + min(k, larger)


@cache
def _prefix(levels: tuple[int, ...], k: int, bits: int = WIDTH) -> tuple[int, int]:
    """Return the shortest and the longest prefix of the tables of a design, in bits."""
    if not levels:
        return 0, 0
    least, most = _left_out(bits, levels[0], k)
    ends = []
    for rest in range(least, most + 1):
        shortest, longest = _prefix(levels[1:], k, rest)
        ends += [bits - rest + shortest, bits - rest + longest]
    return min(ends), max(ends)


def _paper(n: int, k: int, levels: tuple[int, ...]) -> Design:
    tables, prefix_bits = _tables(levels, k), _prefix(levels, k)
    candidates = n / 2 ** prefix_bits[0]
    return Design(
        kind="paper",
        name=", then ".join(f"{blocks} choose {blocks - k}" for blocks in levels),
        tables=tables,
        blocks=levels[0],
        levels=levels,
        prefix_bits=prefix_bits,
        keys=tables,
        candidates=candidates,
        bytes=VALUE_BYTES * tables * n,
        latency_ns=tables * (_line(n, SEARCH_AT_100K, SEARCH_DECADE) + CANDIDATE * candidates),
    )


def _line(n: int, at_100k: float, decade: float) -> float:
    return at_100k + decade * max(0.0, math.log10(n) - 5)


# -------------------------------------------------------------------------------------- our design


def _ours(n: int, k: int) -> list[Design]:
    """Return the designs of the presets: auto, and the others where they differ from those before."""
    found: list[Design] = []
    for preset in PRESETS:
        design = _of_preset(n, k, preset)
        if all(
            (d.tables, d.keys, d.bytes) != (design.tables, design.keys, design.bytes) for d in found
        ):
            found.append(design)
    return sorted(found, key=lambda design: -design.bytes)


def _divided(n: int) -> tuple[int, int]:
    """Return into how many parts documents are divided, and how many each has."""
    parts = -(-n // TABLE_VALUES)
    return parts, -(-n // parts)


def _blocks(design: Callable[..., int], *arguments: int) -> list[Any]:
    """Return the block tables of a native design."""
    blocks, count = ffi.new("ndd_block[64]"), ffi.new("uint32_t *")
    check(design(*arguments, blocks, len(blocks), count), "planning")
    return [blocks[i] for i in range(count[0])]


def _of_preset(n: int, k: int, preset: str) -> Design:
    parts, each = _divided(n)
    found = _blocks(lib.ndd_design_get, each, k, PRESETS[preset])
    if found:
        design = _of_blocks(f"dedup.Table {preset}", "ours", found, each, parts)
        own = design.bytes + parts * SET_BYTES * each
        return msgspec.structs.replace(design, preset=preset, bytes=own)
    return Design(
        kind="ours",
        name="compare with all",
        tables=parts,
        blocks=1,
        levels=(1,),
        prefix_bits=(0, 0),
        keys=parts,
        candidates=float(each),
        bytes=parts * SET_BYTES * each,
        latency_ns=parts * each * COMPARE,
        preset=preset,
        parts=parts,
    )


def _of_segments(n: int, k: int) -> list[Design]:
    """Return the design of a segment with n documents; none when it would compare with all."""
    parts, each = _divided(n)
    found = _blocks(lib.ndd_segment_design_get, each, k)
    if not any(block.bits for block in found):
        return []
    return [_of_blocks("segment on disk", "segment", found, each, parts)]


def _of_blocks(name: str, kind: str, found: list[Any], each: int, parts: int) -> Design:
    """Return the design of a number of parts with these block tables, each of `each` values."""
    keys = [_flipped(block.flips.bit_count(), block.threshold) for block in found]
    cut = _cut_blocks([block.mask for block in found])
    flips = "no flips" if sum(keys) == len(keys) else f"{sum(keys)} keys by flips"
    return Design(
        kind=kind,
        name=f"{name}, {flips}" + (f", {parts} parts" if parts > 1 else ""),
        tables=parts * len(found),
        blocks=cut,
        levels=(cut,),
        prefix_bits=(min(block.bits for block in found), max(block.bits for block in found)),
        keys=parts * sum(keys),
        candidates=max(key * each / 2**block.bits for key, block in zip(keys, found, strict=True)),
        bytes=parts * round(sum(block.bytes for block in found)),
        latency_ns=parts
        * sum(key * block.visit_ns for key, block in zip(keys, found, strict=True)),
        parts=parts,
    )


def _flipped(bits: int, most: int) -> int:
    """Return how many keys differ from one in at most `most` of the bits."""
    keys: int = sum(math.comb(bits, i) for i in range(most + 1))
    return keys


def _cut_blocks(masks: list[int]) -> int:
    """Return how many blocks the tables search: those that share bits share a block."""
    blocks: list[int] = []
    for mask in masks:
        shared = [block for block in blocks if block & mask]
        blocks = [block for block in blocks if not block & mask]
        blocks.append(reduce(or_, shared, mask))
    return len(blocks)


# -------------------------------------------------------------------------------------- arguments


def _documents(documents: int) -> int:
    n = number(documents, "documents")
    if n == 0:
        raise UsageError("documents is 0; it must be an int from 1 up")
    return n
