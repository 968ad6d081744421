"""Finds where two texts differ, word by word: a patience diff.

    words, words -> runs that occur once in both -> the longest rising chain of them -> the gaps

Invariants: time is near linear in the words, whatever they are. (difflib's is quadratic, and cubic at
worst, on repetitive text, which crawled pages are full of.) A gap without a word that is unique on
both sides is one hunk.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

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
