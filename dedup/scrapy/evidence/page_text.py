"""What two pages are compared by whose items hold the page: numbers, blocks, names, and where the content leads.

    an accepted page -> text_of() -> kept with its items
    a near-duplicate -> text_of() -> added(), more_numbers(), leads_the_same(), Names.add_or_lack() of the two

A copy adds or lacks, it never replaces: "Opening hours in Leeds" beside "Opening hours in York" is another page. A list of
one article has the title of the list, and the article its own; but the list has that in a heading.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from hashlib import blake2b
from html import unescape
from struct import pack, unpack
from typing import NamedTuple

from dedup.core.fingerprint import IN_HEADING, PageReading, number_runs

NUMBERS = 64  # of a page that items hold
BLOCKS = 64  # of its text that are told apart
PICTURES = 100  # of a page whose addresses are hashed
OWN_BYTES = 200  # of title and first-level headings; of a page with more they are not known
HEADINGS_BYTES = 200  # of the other headings; what comes after is not known to be said
HEADINGS, TEXT = 100, 2000  # of a page, and characters of one, which are read

# No expression goes on to another tag, so that each takes linear time.
_TITLE = re.compile(r"<title\b[^<>]*>", re.IGNORECASE)
_HEADING = re.compile(r"<h([1-6])\b[^<>]*>", re.IGNORECASE)
_END = re.compile(r"</(?:title|h[1-6])", re.IGNORECASE)
_PICTURE = re.compile(r"<img\b[^<>]*?\ssrc=[\"']?([^\"'<>\s]+)", re.IGNORECASE)
_NUMBERED = re.compile(r"\w*\d\w*")
_TAG, _WORD = re.compile(r"<[^<>]*(?:>|$)"), re.compile(r"\w+")

_MASK = (1 << 64) - 1
_LOW = (1 << 32) - 1
_PLACE = 40_503  # by which the second number of a run differs from the first


class Names(NamedTuple):
    """Distinct words, in lower case. own: of title and first-level headings, "" if they are not known; headings: of the others."""

    own: str = ""
    headings: str = ""

    @classmethod
    def of(cls, html: str) -> "Names":
        """Return the names of a page."""
        texts, rest = [title_of(html)], ""
        for level, begin in _headings(html):
            if level == "1":
                texts.append(_text(html, begin))
            elif _bytes(rest) < HEADINGS_BYTES:
                rest = _words(rest, _text(html, begin))
        own = _words(*texts)
        return cls(
            "" if _bytes(own) > OWN_BYTES else own,
            rest.encode("utf-8", "replace")[:HEADINGS_BYTES].decode(errors="ignore"),
        )

    def add_or_lack(self, other: "Names") -> bool:
        """Whether one of two pages says in its headings what the other calls itself.

        Its title does not do: beside "Forum: log in" the page "Forum" may ask for a password.
        """
        return _says(other, self.own) or _says(self, other.own)


class PageText(NamedTuple):
    """What was read of a page that its items hold.

    numbers  in its main text, at most NUMBERS: 16 bits of the place of each, and below 16 of its hash
    texts    its blocks without them (PageReading.texts); of more than BLOCKS one hash of all
    names    its title and headings, if no field has them
    leads    the sum of the hashes of where its main content leads; 0: nowhere
    """

    numbers: bytes
    texts: bytes
    names: Names = Names()
    leads: int = 0

    @property
    def placed(self) -> tuple[int, ...]:
        """The numbers, each with its place."""
        return unpack(f">{len(self.numbers) // 4}I", self.numbers)

    def added(self, other: "PageText", *, named: bool) -> int | None:
        """Return the sum of the hashes of the blocks that this page has more than another, or, below 0, less.

        None: each has some that the other has not, so something is replaced. named: what names one of them does not count.
        """
        if self.texts == other.texts:
            return 0
        one, two = (
            {n >> 32: n & _LOW if named else n >> 32 for n in _hashes(each.texts)}
            for each in (self, other)
        )
        mine, theirs = (Counter(n >> 32 for n in _hashes(each.texts)) for each in (self, other))
        more = Counter(each for n in (mine - theirs).elements() if (each := one[n]))
        less = Counter(each for n in (theirs - mine).elements() if (each := two[n]))
        more, less = more - less, less - more
        return None if more and less else sum(more.elements()) - sum(less.elements())

    def shorter(self) -> "Iterator[PageText]":
        """Yield the same, without names, and with one hash of all blocks."""
        yield self
        yield (unnamed := self._replace(names=Names()))
        yield unnamed._replace(texts=_folded(self.texts))


def text_of(reading: PageReading, html: str = "") -> PageText:
    """Return what two such pages are compared by; html: where their names may differ, the page."""
    found, texts = sorted(placed(reading))[:NUMBERS], reading.texts
    return PageText(
        pack(f">{len(found)}I", *found),
        texts if len(texts) <= 8 * BLOCKS else _folded(texts),
        Names.of(html) if html else Names(),
        sum(_hashes(reading.content_links)) & _MASK,
    )


def content_hashes(callback: str, reading: PageReading, html: str) -> bytes:
    """Return hashes of what a page of a callback consists of, without numbers: words of its names, blocks, and pictures."""
    found: set[object] = {*_NUMBERED.sub("", " ".join(Names.of(html))).split()}
    found |= {n >> 32 for n in _hashes(reading.texts)} | {*_PICTURE.findall(html)[:PICTURES]}
    every = (f"{callback} {each}".encode("utf-8", "replace") for each in found)
    return b"".join(blake2b(each, digest_size=8).digest() for each in every)


def leads_the_same(reading: PageReading, theirs: PageText) -> bool:
    """Whether the main content of a page leads somewhere, and where another's does: to one page more or less at most.

    No page has a link to itself; a list under two names may have one to the other name.
    """
    links, (own,) = _hashes(reading.content_links), _hashes(reading.address)
    more = {
        (sum(links) - theirs.leads + each) & _MASK for each in (0, own)
    }  # links of this page alone
    return theirs.leads > 0 < len(links) and not more.isdisjoint({0, *links})


def _hashes(hashes: bytes) -> tuple[int, ...]:
    return unpack(f"<{len(hashes) // 8}Q", hashes)


def _folded(texts: bytes) -> bytes:
    """Return one hash in place of those of all blocks, whatever their order."""
    every = repr(sorted(n & _LOW for n in _hashes(texts)))
    return blake2b(every.encode(), digest_size=8).digest()


def placed(reading: PageReading) -> list[int]:
    """Return the tokens with digits of a page's main text, each with its place: the word beside it."""
    return [
        (beside + at * _PLACE * (beside != IN_HEADING) & 0xFFFF) << 16 | each & 0xFFFF
        for beside, *run in number_runs(reading.numbers)
        for at, each in enumerate(run)
    ]


def more_numbers(
    mine: Iterable[int], theirs: Iterable[int], noisy: Collection[int]
) -> Counter[int]:
    """Return the numbers that one page has and the other has not, but for those in noisy places."""
    one, other = (
        Counter(n & 0xFFFF for n in each if n >> 16 not in noisy) for each in (mine, theirs)
    )
    return one - other


def _says(page: Names, name: str) -> bool:
    own, more = {*page.own.split()}, {*page.headings.split()}
    return {*name.split()} <= own | more and not {*name.split()} <= own


def _words(*texts: str) -> str:
    return " ".join(dict.fromkeys(_WORD.findall(" ".join(texts).lower())))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def title_of(html: str) -> str:
    """Return the title of a page, "" if it has none."""
    found = _TITLE.search(html)
    return "" if found is None else _text(html, found.end())


def _headings(html: str) -> Iterator[tuple[str, int]]:
    """Yield the level of the first HEADINGS, and where the text of each begins."""
    at, left = html.find("<h"), HEADINGS
    while at >= 0 and left:
        if found := _HEADING.match(html, at):
            left -= 1
            yield found[1], found.end()
        at = html.find("<h", at + 2)


def _text(html: str, begin: int) -> str:
    """Return the text of the element that begins there, at most TEXT characters of it."""
    end = _END.search(html, begin, begin + TEXT)
    markup = html[begin : end.start() if end else begin + TEXT]
    return " ".join(unescape(_TAG.sub(" ", markup)).split())
