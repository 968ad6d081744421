"""What callbacks show of themselves: whose items hold nothing but the page, and who asks for more than its links.

    an item -> each field is the page, its address, a time, its title, or a datum -> Keeping.note()
    a request -> has the page a link to it? -> Keeping.note_request()

Where the items hold nothing but the page, equal pages are copies. A corpus builder yields {url, title, html}, or
{url, text}; a link collector {url}. Comparing such items adds nothing to comparing the pages. Beside a field that holds
the page, one with the same value in all items until now ("source": "docs") says as little of further ones, but the next
page may bring another value: it is parsed.
"""

import msgspec

from dedup.core.fingerprint import PageReading
from dedup.model.page import PART
from dedup.scrapy.evidence.departures import BESIDE_TEXT, Side, departures
from dedup.scrapy.evidence.difference import (
    ATTRIBUTES,
    BESIDE,
    DATA,
    FRAME,
    HEADING,
    NUMBERS,
    PICTURES,
    TITLE,
    UNKNOWN,
    WORDS,
)
from dedup.scrapy.evidence.digest import Digest, Shown, held_by
from dedup.scrapy.evidence.enough import FEW
from dedup.scrapy.evidence.ledger import Class
from dedup.scrapy.evidence.visits import Volatile

LOOKED = 100  # requests of a callback that are looked at, if the pages have links to all of them
CALLBACKS = 1000
SAID = frozenset((HEADING, NUMBERS, TITLE, UNKNOWN, WORDS))  # parts of a page that say what it is
BESIDES = frozenset((FRAME, BESIDE))  # and what a text that holds the page may be taken from, too
IN_MARKUP = (DATA, PICTURES, ATTRIBUTES)  # and a field of markup


class _Callback(msgspec.Struct):
    pages: int = 0
    data: dict[str, bytes] = {}
    keeps: bool = True
    text: bool = False
    requests: int = 0
    goes_beyond: bool = False
    heading: bytes | None = None  # of its first page


class Keeping:
    """The callbacks of one crawl."""

    def __init__(self) -> None:
        """Know none."""
        self._known: dict[str, _Callback] = {}

    def _of(self, callback: str) -> _Callback:
        known = self._known.get(callback)
        if known is None:
            known = _Callback(keeps=len(self._known) < CALLBACKS)
            if len(self._known) < CALLBACKS:
                self._known[callback] = known
        return known

    def note(self, callback: str, items: list[Shown]) -> None:
        """Note the items of a page."""
        known = self._of(callback)
        if not known.pages and items:
            known.data = dict(items[0].data)
        known.keeps = known.keeps and all(
            i.data == known.data and (i.holds or not i.data) for i in items
        )
        known.text = known.text or any(i.text for i in items)
        known.pages += bool(items)

    def tells(self, callback: str, heading: bytes) -> bool:
        """Whether headings tell the pages of a callback apart: this one is not that of the first page."""
        known = self._of(callback)
        if known.heading is None:
            known.heading = heading
        return heading != known.heading

    def is_open(self, callback: str) -> bool:
        """Whether further items may show more of a callback."""
        known = self._known.get(callback)
        return len(self._known) < CALLBACKS if known is None else known.keeps

    def keeps(self, callback: str) -> bool:
        """Whether the items of a callback hold nothing but the page itself, and it asks for nothing else."""
        known = self._known.get(callback)
        return known is not None and known.keeps and not known.goes_beyond and known.pages >= FEW

    def keeps_all(self, callback: str) -> bool:
        """Whether the same shows without parsing: its items have no field beside, constant until now."""
        return self.keeps(callback) and not self._known[callback].data

    def is_text(self, callback: str) -> bool:
        """Whether items of a callback hold the page as a text: pages with another frame may be other items."""
        known = self._known.get(callback)
        return known is not None and known.text

    def looks_at_requests(self, callback: str, *, has_items: bool = False) -> bool:
        """Whether it is to be found out if a page of a callback has a link to its request.

        Where some have none, it counts for pages without items.
        """
        known = self._of(callback)
        return not has_items if known.goes_beyond else known.requests < LOOKED

    def note_request(self, callback: str, *, linked: bool) -> None:
        """Note whether a page of a callback has a link to its request."""
        known = self._of(callback)
        known.requests += 1
        known.goes_beyond = known.goes_beyond or not linked


def are_equal(
    name: Class, reading: PageReading, match: Side | None, volatile: Volatile, *, is_text: bool
) -> bool:
    """Whether a page of a class says what its match says, but for what each visit of such pages changes, or all of them add.

    match    None if nothing is known of its items
    is_text  whether the callback's items hold the page as a text
    """
    counts = SAID
    if is_text:
        counts |= BESIDES
    else:  # of markup, what the page has: without any, a print copy lacks nothing
        counts |= {each for each in IN_MARKUP if any(reading.fingerprint.parts[PART[each]])}
    differ = counts & set(name.parts) - volatile.parts_of(name.shape)
    if not differ:
        return True
    if match is None or not match.digest.holds or not differ <= {WORDS, NUMBERS, *BESIDE_TEXT}:
        return False
    mine = Side("", reading.fingerprint, held_by(Digest(1), reading))
    return volatile.says_nothing(name, departures(mine, match, differ - {WORDS, NUMBERS}))
