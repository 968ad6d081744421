"""The lines of DEDUP_DROPPED: one for each page that was dropped or flagged, and what to do about it.

    Drop -> encode() -> a line of JSON -> read_drops() -> by_risk(), advice()

Invariants: a line that was cut off (a kill, a full disk) hides no other line.
"""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from dedup.model.names import count, running
from dedup.report.texts import differences

Action = Literal["dropped", "links_skipped", "flagged"]

FEW = 3  # differences that are kept
WORDS = 12  # of each side of one


class Drop(msgspec.Struct, frozen=True):
    """A near-duplicate that was dropped or flagged.

    time          ISO 8601, UTC
    action        dropped; links_skipped: parsed without its links (DEDUP_MODE); flagged: tag mode
    url, key      of the page, and its document key
    of            the document key of its original
    similarity    of the texts, 0 to 1; distance: in bits
    identity      by title and canonical URL: same, other, unknown
    reason        of the verdict, mostly empty
    callback      name of the spider's callback
    differs       the first places where the texts differ: words of the original, words of the page;
                  null if the original's text was not in memory any more
    numbers_only  every difference is in words with digits
    """

    time: str
    action: Action
    url: str
    key: str
    of: str
    similarity: float
    distance: int
    identity: str
    reason: str
    callback: str
    differs: list[tuple[str, str]] | None = None
    numbers_only: bool = False


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Drop)


def encode(drop: Drop) -> bytes:
    """Return the line of a drop."""
    return _ENCODER.encode(drop) + b"\n"


def read_drops(path: Path) -> Iterator[Drop]:
    """Yield the drops of a file; lines that are no drops are skipped. Raises OSError."""
    with path.open("rb") as file:
        for line in file:
            try:
                yield _DECODER.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue


def compare_words(a: list[str], b: list[str]) -> tuple[list[tuple[str, str]], bool]:
    """Return the first differences of two texts, and whether all differences have digits."""
    hunks = differences(a, b)
    sides = [(a[h.a_begin : h.a_end], b[h.b_begin : h.b_end]) for h in hunks]
    numbers = are_numbers(word for side in sides for words in side for word in words)
    return [(_first(one), _first(other)) for one, other in sides[:FEW]], numbers


def are_numbers(words: Iterable[str]) -> bool:
    """Tell whether there are differing words, and all of them have digits."""
    digits = [any(c.isdigit() for c in word) for word in words]
    return bool(digits) and all(digits)


def _first(words: list[str]) -> str:
    more = " ..." if len(words) > WORDS else ""
    return running(words[:WORDS]) + more


def by_risk(drop: Drop) -> tuple[bool, float, str]:
    """Return the order of drops: numbers-only differences first, then the least similar."""
    return (not drop.numbers_only, drop.similarity, drop.url)


def advice(drop: Drop) -> list[str]:
    """Return the settings that would have kept the page, the narrowest first."""
    found = ['request.meta["dont_dedup"] = True skips deduplication for such requests']
    if drop.differs == []:
        found.append("the main texts are equal: no threshold tells the two pages apart")
    elif drop.similarity < 1:
        least = math.floor(1000 * drop.similarity + 1) / 1000
        found.append(f"DEDUP_SIMILARITY = {least:g} (the texts have {drop.similarity:.4f})")
        if drop.distance:
            apart = count(drop.distance, "bit")
            found.append(f"DEDUP_DISTANCE = {drop.distance - 1} ({apart} apart)")
    if drop.action == "dropped":
        found.append("DEDUP_MODE = 'tag' drops nothing, and still lists such pages")
    return found
