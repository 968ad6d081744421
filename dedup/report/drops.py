"""The lines of DEDUP_DROPPED: one for each page dropped, flagged or withheld, and each request not made; what to do about it.

    Drop -> DropsFile.add() -> a line of JSON -> read_drops() -> by_risk(), advice()

Invariants: a line is written by one call, so a kill loses at most the line being written; one that was cut off hides no
other line.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from dedup.model.names import count, running
from dedup.report.texts import differences

Action = Literal["dropped", "links_skipped", "flagged", "withheld", "not_requested"]

FEW = 3  # differences that are kept
WORDS = 12  # of each side of one


class Drop(msgspec.Struct, frozen=True):
    """A near-duplicate that was dropped, a page of which something was withheld, or a request that was not made.

    time          ISO 8601, UTC
    action        dropped; links_skipped: parsed without its links (DEDUP_MODE); withheld: parsed, and what was seen of it
                  withheld; flagged: the mode "tag" did nothing; not_requested: a near-duplicate has the link
    url, key      of the page, and its document key
    of            the document key of its original; of a request, the page that has the link, "" where it is not known
    similarity    of the texts, 0 to 1; distance: in bits
    identity      by title and canonical URL: same, other, unknown
    reason        of the verdict, mostly empty
    callback      name of the spider's callback
    differs       the first places where the texts differ: words of the original, words of the page;
                  null if the crawl no longer held the original's text
    numbers_only  every difference is in words with digits
    rule          why it was dropped: "text", or "items: " and the pattern that is proven to bring nothing new; of a
                  request, its link budget, or the address that it was seen as
    would         in the mode "tag", what the mode "drop" would do: drop, or check and withhold
    items, requests  how many were withheld
    template      how much of the page is its site's template, where that was learned
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
    rule: str = ""
    would: Literal["", "drop", "check"] = ""
    items: int = 0
    requests: int = 0
    template: str = ""

    @property
    def is_parsed(self) -> bool:
        """Whether it is parsed, and only what was seen of it is withheld."""
        return self.action == "withheld" or self.would == "check"


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Drop)


def encode(drop: Drop) -> bytes:
    """Return the line of a drop."""
    return _ENCODER.encode(drop) + b"\n"


class DropsFile:
    """The file of one crawl, opened at its first judged page: empty, unless the crawl resumes."""

    def __init__(
        self, path: Path, *, resumes: bool, on_error: Callable[[Exception], object]
    ) -> None:
        """Open nothing yet; on_error is called once, and nothing is written after it."""
        self._path, self._resumes, self._on_error = path, resumes, on_error
        self._fd: int | None = None
        self._failed = False

    def open(self) -> None:
        """Open the file, if it is not."""
        if self._fd is not None or self._failed:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | (0 if self._resumes else os.O_TRUNC)
            self._fd = os.open(self._path, flags, 0o666)
            if os.lseek(self._fd, 0, os.SEEK_END):
                os.lseek(self._fd, -1, os.SEEK_END)
                if os.read(self._fd, 1) != b"\n":
                    os.write(self._fd, b"\n")  # ends a line that a kill has cut off
        except OSError as error:
            self._fail(error)

    def add(self, drop: Drop) -> None:
        """Write a line."""
        if self._fd is None:
            return
        try:
            os.write(self._fd, encode(drop))
        except (OSError, ValueError) as error:
            self._fail(error)

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _fail(self, error: Exception) -> None:
        self.close()
        self._failed = True
        self._on_error(error)


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
    """Return the settings that would have kept the page, or all that it brings, the narrowest first."""
    if drop.action == "not_requested":
        return [
            "start_urls, or a request of the spider without a link to it, reaches the page",
            'request.meta["dont_dedup"] = True for pages that have such links lets all of their requests pass',
        ]
    if drop.is_parsed:
        return [
            "DEDUP_ITEM_FIELDS names the fields that tell items apart",
            "DEDUP_PROOF_ITEMS = 'keep' lets all items pass",
            'request.meta["dont_dedup"] = True skips deduplication for such requests',
        ]
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
