"""Shows two texts and where they differ: in a line, or in two columns.

    words, hunks -> regions (hunks that share their context) -> pieces of two texts -> columns

Invariants: [-in A only-] and {+in B only+} are marked in the text itself, so that a pipe or a reader
without colours loses nothing.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dedup.report.differences import Hunk

WORDS = 30  # of each side of a hunk, shown unless all are to be shown
CONTEXT = 6  # words shown before and after a hunk
NARROWEST = 24  # columns of text on each side, however small the terminal
BETWEEN = " | "

MARKS = (("[-", "-]"), ("{+", "+}"))


class Piece(NamedTuple):
    """A run of text, and the side that alone has it: 0 (A), 1 (B), -1 (both have it)."""

    text: str
    side: int


class Region(NamedTuple):
    """Hunks close together, with the words around them: a[a_begin:a_end] and so on."""

    a_begin: int
    a_end: int
    b_begin: int
    b_end: int
    hunks: list[Hunk]


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: "1 document", "2,000 documents"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def alike(similarity: float) -> str:
    """Return an estimated similarity of two texts in words; 100 % only where it is 1."""
    return f"{int(100 * similarity)} % similar"


def running(words: Sequence[str]) -> str:
    """Return words as running text; the character pairs that Chinese comes in are joined again."""
    pieces: list[str] = []
    last = ""
    for word in words:
        if len(last) == len(word) == 2 and last[1] == word[0] and _in_pairs(word[0]):
            pieces.append(word[1])
        else:
            pieces.append(f" {word}")
        last = word
    return "".join(pieces)[1:]


def _in_pairs(character: str) -> bool:
    return character >= "\u2e80" or "\u0e00" <= character <= "\u0e7f"


def inline(a: Sequence[str], b: Sequence[str], hunk: Hunk, *, whole: bool) -> str:
    """Return a hunk as one line, with the words around it; cut to WORDS a side unless whole."""
    start = max(0, hunk.a_begin - CONTEXT)
    stop = hunk.a_end + CONTEXT
    parts = ["..." if start else "", running(a[start : hunk.a_begin])]
    for side, words in enumerate((a[hunk.a_begin : hunk.a_end], b[hunk.b_begin : hunk.b_end])):
        if words:
            parts.append(_marked(_cut(words, whole=whole), side))
    parts += [running(a[hunk.a_end : stop]), "..." if stop < len(a) else ""]
    return " ".join(filter(None, parts))


def regions(
    a: Sequence[str], b: Sequence[str], hunks: Sequence[Hunk], context: int = CONTEXT
) -> list[Region]:
    """Return the hunks in regions, each with `context` words around it; none overlaps the next."""
    found: list[Region] = []
    for hunk in hunks:
        a_end, b_end = min(len(a), hunk.a_end + context), min(len(b), hunk.b_end + context)
        if found and hunk.a_begin - context <= found[-1].a_end:
            last = found.pop()
            found.append(Region(last.a_begin, a_end, last.b_begin, b_end, [*last.hunks, hunk]))
        else:
            before = min(context, hunk.a_begin, hunk.b_begin)
            a_begin, b_begin = hunk.a_begin - before, hunk.b_begin - before
            found.append(Region(a_begin, a_end, b_begin, b_end, [hunk]))
    return found


def sides(
    a: Sequence[str], b: Sequence[str], region: Region, *, whole: bool
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
                parts.append(Piece(_cut(words[begin:end], whole=whole), side))
            at = end
        parts.append(Piece(running(words[at:stop]), -1))
        texts.append([piece for piece in parts if piece.text])
    return texts[0], texts[1]


def side_by_side(
    a: Sequence[str], b: Sequence[str], hunks: Sequence[Hunk], width: int, *, whole: bool
) -> Iterator[str]:
    """Yield the lines of two columns, A to the left, in a terminal of this width."""
    column = max(NARROWEST, (width - len(BETWEEN)) // 2)
    yield BETWEEN.join((_filled("A", column), "B"))
    for region in regions(a, b, hunks):
        yield BETWEEN.join(
            _filled(f"-- from word {begin + 1:,}", column, "-")
            for begin in (region.a_begin, region.b_begin)
        )
        left, right = (
            _wrapped(" ".join(_marked(*piece) for piece in pieces), column)
            for pieces in sides(a, b, region, whole=whole)
        )
        for one, other in zip_longest(left, right, fillvalue=""):
            yield BETWEEN.join((_filled(one, column), other)).rstrip()


def _marked(text: str, side: int) -> str:
    return text if side < 0 else text.join(MARKS[side])


def _cut(words: Sequence[str], *, whole: bool) -> str:
    left_out = 0 if whole else max(0, len(words) - WORDS)
    more = f" ... {left_out:,} more" if left_out else ""
    return running(words[: len(words) - left_out]) + more


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines of at most `width` columns; a word that is longer is broken."""
    lines: list[str] = []
    line, used = "", 0
    for word in text.split(" "):
        piece, size = word, _width(word)
        if line and used + 1 + size <= width:
            line, used = f"{line} {piece}", used + 1 + size
            continue
        if line:
            lines.append(line)
        while size > width:
            at, size_at = 0, 0
            while size_at + _width(piece[at]) <= width:
                size_at += _width(piece[at])
                at += 1
            lines.append(piece[:at])
            piece, size = piece[at:], size - size_at
        line, used = piece, size
    return [*lines, line]


def _filled(text: str, width: int, filler: str = " ") -> str:
    gap = max(0, width - _width(text))
    return f"{text} {filler * (gap - 1)}" if gap > 1 else text + " " * gap


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.category(c) in {"Mn", "Me", "Cf"}
        else 1 + (unicodedata.east_asian_width(c) in {"W", "F"})
        for c in text
    )
