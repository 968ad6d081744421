"""Finds where two texts differ, and shows it: in a line, or as pieces of both.

    words, words -> runs that occur once in both -> the longest rising chain of them -> the gaps: hunks
    words, hunks -> regions (hunks that share their context) -> pieces of two texts

Invariants: time is near linear in the words, whatever they are. (difflib's is quadratic, and cubic at worst,
on repetitive text, which crawled pages are full of.) A gap without a word that is unique on both sides is one
hunk. [-in A only-] and {+in B only+} are marked in the text itself, so that a pipe or a reader without colours
loses nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dedup.model.names import running

# -------------------------------------------------------------------- a patience diff, word by word


DEPTH = 12  # how often a gap is looked into
RUNS = (3, 1)  # words to a run; the longer ones first, as they seldom match by chance
MERGED = 1  # hunks with at most this many equal words between them are one


class Hunk(NamedTuple):
    """b[b_begin:b_end] replaces a[a_begin:a_end]; one of them may be empty."""

    a_begin: int
    a_end: int
    b_begin: int
    b_end: int


def differences(a: Sequence[str], b: Sequence[str]) -> list[Hunk]:
    """Return the hunks in which two sequences of words differ, in order; none if they are equal."""
    hunks: list[Hunk] = []
    gaps = [(Hunk(0, len(a), 0, len(b)), DEPTH)]
    while gaps:
        gap, depth = gaps.pop()
        gap = _trimmed(a, b, gap)
        if gap.a_begin == gap.a_end and gap.b_begin == gap.b_end:
            continue
        anchors = _anchors(a, b, gap) if depth else []
        if anchors:
            i, j = gap.a_begin, gap.b_begin
            inside = []
            for next_i, next_j in [*anchors, (gap.a_end, gap.b_end)]:
                inside.append((Hunk(i, next_i, j, next_j), depth - 1))
                i, j = next_i, next_j  # the anchor itself is trimmed off the next gap
            gaps += reversed(inside)
        elif hunks and gap.a_begin - hunks[-1].a_end == gap.b_begin - hunks[-1].b_end <= MERGED:
            hunks[-1] = Hunk(hunks[-1].a_begin, gap.a_end, hunks[-1].b_begin, gap.b_end)
        else:
            hunks.append(gap)
    return hunks


def _trimmed(a: Sequence[str], b: Sequence[str], gap: Hunk) -> Hunk:
    """Return a gap without the equal words at its ends."""
    i, i_end, j, j_end = gap
    while i < i_end and j < j_end and a[i] == b[j]:
        i, j = i + 1, j + 1
    while i < i_end and j < j_end and a[i_end - 1] == b[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
    return Hunk(i, i_end, j, j_end)


def _anchors(a: Sequence[str], b: Sequence[str], gap: Hunk) -> list[tuple[int, int]]:
    """Return where runs that are unique on both sides begin: the longest chain rising in both."""
    for width in RUNS:
        at_a = _unique_runs(a, gap.a_begin, gap.a_end, width)
        at_b = _unique_runs(b, gap.b_begin, gap.b_end, width)
        pairs = [(i, at_b[run]) for run, i in at_a.items() if run in at_b]
        if pairs:
            return _rising(pairs)
    return []


def _unique_runs(
    words: Sequence[str], begin: int, end: int, width: int
) -> dict[tuple[str, ...], int]:
    runs = list(zip(*(words[begin + i : end] for i in range(width)), strict=False))
    times = Counter(runs)
    return {run: begin + i for i, run in enumerate(runs) if times[run] == 1}


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest chain of pairs, which rise in the first, that also rise in the second."""
    ends: list[int] = []  # least second of a chain of each length
    last: list[int] = []  # the pair that ends it
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        last[length : length + 1] = [index]
    chain = []
    index = last[-1]
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


# ----------------------------------------------------------------------------- in words and columns


WORDS = 30  # of each side of a hunk that are shown
CONTEXT = 6  # words shown before and after a hunk

MARKS = (("[-", "-]"), ("{+", "+}"))


class Piece(NamedTuple):
    """A run of text, and the side that alone has it: 0 (A), 1 (B), -1 (both have it)."""

    text: str
    side: int


class DiffRegion(NamedTuple):
    """Hunks close together, with the words around them: a[a_begin:a_end] and so on."""

    a_begin: int
    a_end: int
    b_begin: int
    b_end: int
    hunks: list[Hunk]


def alike(similarity: float) -> str:
    """Return an estimated similarity of two texts in words; 100 % only where it is 1."""
    return f"{int(100 * similarity)} % similar"


def inline(a: Sequence[str], b: Sequence[str], hunk: Hunk) -> str:
    """Return a hunk as one line, with the words around it; cut to WORDS a side."""
    start = max(0, hunk.a_begin - CONTEXT)
    stop = hunk.a_end + CONTEXT
    parts = ["..." if start else "", running(a[start : hunk.a_begin])]
    for side, words in enumerate((a[hunk.a_begin : hunk.a_end], b[hunk.b_begin : hunk.b_end])):
        if words:
            parts.append(_cut(words).join(MARKS[side]))
    parts += [running(a[hunk.a_end : stop]), "..." if stop < len(a) else ""]
    return " ".join(filter(None, parts))


def regions(
    a: Sequence[str], b: Sequence[str], hunks: Sequence[Hunk], context: int = CONTEXT
) -> list[DiffRegion]:
    """Return the hunks in regions, each with `context` words around it; none overlaps the next."""
    found: list[DiffRegion] = []
    for hunk in hunks:
        a_end, b_end = min(len(a), hunk.a_end + context), min(len(b), hunk.b_end + context)
        if found and hunk.a_begin - context <= found[-1].a_end:
            last = found.pop()
            found.append(DiffRegion(last.a_begin, a_end, last.b_begin, b_end, [*last.hunks, hunk]))
        else:
            before = min(context, hunk.a_begin, hunk.b_begin)
            a_begin, b_begin = hunk.a_begin - before, hunk.b_begin - before
            found.append(DiffRegion(a_begin, a_end, b_begin, b_end, [hunk]))
    return found


def sides(
    a: Sequence[str], b: Sequence[str], region: DiffRegion
) -> tuple[list[Piece], list[Piece]]:
    """Return the two texts of a region in pieces."""
    texts = []
    spans = ((a, region.a_begin, region.a_end), (b, region.b_begin, region.b_end))
    for side, (words, first, stop) in enumerate(spans):
        at = first
        parts = []
        for hunk in region.hunks:
            begin, end = hunk[2 * side : 2 * side + 2]
            parts.append(Piece(running(words[at:begin]), -1))
            if end > begin:
                parts.append(Piece(_cut(words[begin:end]), side))
            at = end
        parts.append(Piece(running(words[at:stop]), -1))
        texts.append([piece for piece in parts if piece.text])
    return texts[0], texts[1]


def _cut(words: Sequence[str]) -> str:
    left_out = max(0, len(words) - WORDS)
    more = f" ... {left_out:,} more" if left_out else ""
    return running(words[: len(words) - left_out]) + more
