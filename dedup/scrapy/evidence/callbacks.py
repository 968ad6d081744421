"""What the pages of a callback have in common: whether its items are the page, and what of a page is noise.

    an item -> each field is the page, its address, a time, its title, or a datum -> note_items()
    a request -> has the page a link to it? -> note_request()
    a page was fetched twice -> noisy_places()

A callback stores pages if its items hold nothing but the page: {url, title, html}, or {url}. Then pages that are equal
in title, heading, words and numbers are copies. Of an item with other fields the text alone decides nothing: they count,
and the pictures, data and attributes of the page, too. A copy may add the same blocks as FEW others of its pattern, with
numbers of their own (a banner, a date, a counter), or lack the same: it never replaces anything. Where menus, and what
stands beside little text, are the same, that counts for all patterns of the callback.

Where no item has the title, title and heading may differ, too, with the numbers in the first headings, and lines that say
them beside the text. If most of the page was read, and one page says, in its headings, what the other calls itself (a month
with one article). Or, as on FEW others, if no other words differ and the main content leads to the same pages
(a list under two tags).
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from dedup.core.fingerprint import IN_HEADING, PageReading
from dedup.model.differences import TEMPLATE, WORDS, undirected
from dedup.model.page import PART, PICTURE_FEATURES
from dedup.model.recipes import recipe_of
from dedup.scrapy.evidence.enough import FEW, MANY, MOST, Bounded
from dedup.scrapy.evidence.items import ReadItem
from dedup.scrapy.evidence.page_text import PageText, leads_the_same, more_numbers
from dedup.scrapy.evidence.patterns import Pattern

EXAMINED = 100  # requests of a callback that are looked at, if the pages have links to all of them
CALLBACKS = 1000
NAMES = frozenset("ht")  # heading and title: what a page calls itself
TEXT = frozenset("hntw?")  # heading, numbers, title, words: signals of what a page is
BESIDE = "b"  # text beside the main text: where most was not read, a text that holds the page may be taken from it
IN_MARKUP = "jsd"  # inline data, pictures, data attributes: what a field of markup holds, too
EXACT = frozenset("jsda")  # the same, and other attributes
TEMPLATES = 10_000  # that are counted
FIELDS = 1000  # that are counted


class _Callback(msgspec.Struct):
    pages: int = 0
    data: dict[str, str] = {}  # of the first item
    stores_pages: bool = True
    is_text: bool = False
    has_title: bool = False
    requests: int = 0
    asks_beyond: bool = False
    noisy: set[int] = set()
    fetched_twice: list[str] = []
    # of the first page whose items have its address; b"": others have others
    heading: bytes | None = None


class CallbackEvidence:
    """The callbacks of one crawl."""

    def __init__(self, *, exact: bool = False) -> None:
        """Know none. exact: pages are copies only if they are equal in all signals (DEDUP_PROOF)."""
        self._exact = exact
        self._known = Bounded[str, _Callback](CALLBACKS, lambda _: _Callback())
        # pages of a pattern that add, or lack, the same
        self._added = Counter[tuple[str, str, int]]()
        # near-duplicates whose items differ in one field alone
        self._alone = Counter[tuple[str, int]]()

    def note_items(
        self, callback: str, items: Sequence[ReadItem], heading: bytes | None = None
    ) -> None:
        """Note the items of a page, and its heading if they have its address."""
        known = self._known[callback]
        if heading is not None:
            known.heading = heading if known.heading in {None, heading} else b""
        known.is_text = known.is_text or any(each.is_text for each in items)
        known.has_title = known.has_title or any(each.has_title for each in items)
        if not known.stores_pages or not items:
            return
        if not known.pages:
            known.data = dict(items[0].data)
        known.stores_pages = all(
            each.data == known.data and (each.holds_page or not each.data) for each in items
        )
        known.pages += 1

    def may_store_pages(self, callback: str) -> bool:
        """Whether the items of a callback may hold nothing but the page: no item had anything else."""
        return self._known[callback].stores_pages

    def stores_pages(self, callback: str, *, only: bool = False) -> bool:
        """Whether the items of a callback hold the page, and beside it what is the same in all; and it asks for links only.

        only: whether they hold nothing else: then the text is the item.
        """
        known = self._known[callback]
        holds = known.stores_pages and not (only and known.data)
        return holds and not known.asks_beyond and known.pages >= FEW

    # -------------------------------------------------------------------- what is noise

    def headings_differ(self, callback: str) -> bool:
        """Whether headings tell apart the pages whose items have their address."""
        return self._known[callback].heading == b""

    def noisy_places(self, callback: str) -> set[int]:
        """Return the places of numbers that each fetch of a page of a callback changes."""
        return self._known[callback].noisy

    def may_fetch_twice(self, pattern: Pattern, most: int) -> bool:
        """Whether a page is fetched again, to find such places; at most so many of a callback, one of a difference."""
        known, difference = self._known[pattern.callback], undirected(pattern.difference)
        wants = difference not in known.fetched_twice and len(known.fetched_twice) < most
        known.fetched_twice += [difference] * wants
        return wants

    def note_differing(self, callback: str, fields: frozenset[int]) -> None:
        """Note the fields in which the item of a near-duplicate differs from its original's."""
        for field in fields if len(fields) == 1 and len(self._alone) < FIELDS else ():
            self._alone[callback, field] += 1

    def noisy_fields(self) -> Iterator[tuple[int, int]]:
        """Yield the fields that alone differed in MANY near-duplicates of a callback, and in how many."""
        for (_, field), times in self._alone.most_common():
            if times >= MANY:
                yield field, times

    # ------------------------------------------------------------- what it asks for

    def examines_requests(self, callback: str, *, has_items: bool = False) -> bool:
        """Whether it is to be found out if a page has a link to its request; where some have none, without items."""
        known = self._known[callback]
        return not has_items if known.asks_beyond else known.requests < EXAMINED

    def note_request(self, callback: str, *, linked: bool) -> None:
        """Note whether a page of a callback has a link to its request."""
        known = self._known[callback]
        known.requests += 1
        known.asks_beyond = known.asks_beyond or not linked

    # ------------------------------------------------------------------------- copies

    def are_copies(
        self, pattern: Pattern, reading: PageReading, mine: PageText | None, theirs: PageText | None
    ) -> bool:
        """Whether a page is a copy of its original, by what was read of them."""
        differ = self._differ(pattern, reading, mine, theirs)
        if not differ:
            return True
        added = self._template(pattern, reading, differ, mine, theirs)
        return added is not None and self._added[added] >= FEW

    def note_other(
        self, pattern: Pattern, reading: PageReading, mine: PageText | None, theirs: PageText | None
    ) -> None:
        """Note a page that is kept beside its original: what it adds may be what all of its pattern do."""
        differ = self._differ(pattern, reading, mine, theirs)
        added = self._template(pattern, reading, differ, mine, theirs)
        if added is not None and len(self._added) < TEMPLATES:
            self._added[added] += 1

    def _differ(
        self, pattern: Pattern, reading: PageReading, mine: PageText | None, theirs: PageText | None
    ) -> set[str]:
        """Return the signals that count, of those that differ."""
        counts, known = {*TEXT}, self._known[pattern.callback]
        stores_pages = known.stores_pages and known.pages > 0  # 0: beyond CALLBACKS
        if self._exact:
            counts |= EXACT
        elif known.is_text:
            is_read = reading.words_read >= MOST * reading.words
            counts |= set() if is_read else {*BESIDE}
        elif known.data or not stores_pages:  # without any, a print copy lacks nothing
            counts |= {e for e in IN_MARKUP if any(reading.fingerprint.parts[PART[e]])}
        differ = counts.intersection(pattern.signals)
        if not differ & NAMES or mine is None or theirs is None:
            return differ
        if self._exact or known.has_title or known.data or not stores_pages:
            return differ
        # else the text may not be the page; nor, if words are added, near the other whatever was not read
        least = recipe_of(reading.fingerprint.recipe).similarity if WORDS in differ else MOST
        if reading.words_read >= least * reading.words and mine.names.add_or_lack(theirs.names):
            return differ - NAMES
        is_list = mine.added(theirs, named=True) == 0 and leads_the_same(reading, theirs)
        return (differ - NAMES) | {WORDS} if is_list else differ

    def _template(
        self,
        pattern: Pattern,
        reading: PageReading,
        differ: set[str],
        mine: PageText | None,
        theirs: PageText | None,
    ) -> tuple[str, str, int] | None:
        """Return what one of the two pages adds, the same for all of a pattern that do; None if it is not that alone."""
        if mine is None or theirs is None or self._exact or not differ <= {"w", "n", *BESIDE}:
            return None
        noisy, named = self.noisy_places(pattern.callback), bool(NAMES & {*pattern.signals})
        if named:  # what names the page does not count here, nor do numbers in that
            noisy = noisy | {IN_HEADING}
        one, other, added = mine.placed, theirs.placed, mine.added(theirs, named=named)
        if added is None or (more_numbers(one, other, noisy) and more_numbers(other, one, noisy)):
            return None
        if not added and BESIDE in differ:  # what stands there is not known: it may be the item
            return None
        # such blocks, or a list under other names, mean the same however the URLs differ; not in another template, nor where
        # something beside little text differs
        is_little = reading.fingerprint.features < PICTURE_FEATURES
        apart = {TEMPLATE, BESIDE} if is_little else {TEMPLATE}
        is_one = (added or named) and not apart & {*pattern.signals}
        return pattern.callback, "" if is_one else undirected(pattern.difference), abs(added)
