"""The planner of Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling" (WWW 2007).

Its designs (section 3.1) cut the 64 bits into r blocks and have a table for each choice of r - k of them
to stand first; what is left out may be cut and chosen from again. Longer prefixes leave fewer
candidates and take more tables (section 3.1.2), found here by trying every cut into whole bits.
"""

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

WIDTH = 64
VALUE_BYTES = 8
MAX_TABLES = 128  # of a design: a kilobyte for each fingerprint
FEW_CANDIDATES = 8  # they lie in one cache line, so a longer prefix saves nothing


class PaperDesign(NamedTuple):
    """A design: blocks at each level, tables, the shortest and the longest prefix, candidates of the shortest."""

    levels: tuple[int, ...]
    tables: int
    prefix_bits: tuple[int, int]
    candidates: float
    bytes: int


def paper_designs(n: int, k: int) -> list[PaperDesign]:
    """Return the designs for n fingerprints than which none has a prefix as long in fewer tables, most tables first.

    Up to the first that leaves 8 candidates or fewer, and up to 128 tables.
    """
    found = []
    for tables, shortest, levels in _front(k):
        found.append(
            PaperDesign(
                levels, tables, _prefix(levels, k), n / 2**shortest, VALUE_BYTES * tables * n
            )
        )
        if n <= FEW_CANDIDATES << shortest:
            break
    return found[::-1]


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
    return math.prod(math.comb(blocks, k) for blocks in levels)


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
