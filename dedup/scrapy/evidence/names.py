"""What a page calls itself, by its title and first headings, and whether a page with the same text says that, too.

    an accepted page -> Names.of() -> kept with its items
    a near-duplicate with the same text -> Names.of() -> add_or_lack(the original's)

A list of one article has the title of the list, and the article its own; but the list has that in a heading. As with the
text, a copy adds or lacks, it never replaces: "Opening hours in Leeds" beside "Opening hours in York" is another page.
"""

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

OWN_BYTES = 200  # of title and first-level headings; of a page with more they are not known
HEADINGS_BYTES = 200  # of the other headings; what comes after is not known to be said

HEADINGS, TEXT = 100, 2000  # of a page, and characters of one, which are read

# No expression goes on to another tag, so that each takes linear time.
_TITLE = re.compile(r"<title\b[^<>]*>", re.IGNORECASE)
_HEADING = re.compile(r"<h([1-6])\b[^<>]*>", re.IGNORECASE)
_END = re.compile(r"</(?:title|h[1-6])", re.IGNORECASE)
_TAG, _WORD = re.compile(r"<[^<>]*(?:>|$)"), re.compile(r"\w+")


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
