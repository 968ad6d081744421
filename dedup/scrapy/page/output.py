"""What a callback yields: passed on, or held until the callback ends, and then only what is new of it passes.

    PassingPage  everything passes; the items of an accepted page are read
    CheckedPage  of a near-duplicate, or a page that is fetched again: what was seen is withheld

    the callback yields -> held -> it ends -> which items are new? -> (the page is fetched once more) -> these pass

An item was seen if the page's match brought an equal one, or an earlier page of this callback. Where nothing is withheld
(tag, skip_links, DEDUP_PROOF_ITEMS, a page with too few words), items pass at once, and the same is counted. The guard
around both is in middlewares.py.
"""

from collections.abc import Iterable
from copy import copy
from typing import Any

from scrapy import Item, Request
from scrapy.http import Response

from dedup.model.differences import GIVEN, HEADING, NUMBERS, WORDS
from dedup.model.page import PART
from dedup.scrapy.evidence.items import (
    ITEMS,
    ItemReader,
    ItemsDigest,
    ReadItem,
    differing,
    encode,
)
from dedup.scrapy.evidence.lists import rows_of
from dedup.scrapy.evidence.page_text import content_hashes, placed
from dedup.scrapy.page.in_flight import Page
from dedup.scrapy.page.outlinks import NewRequests, Outlinks
from dedup.scrapy.page.request import (
    Budgets,
    asks,
    callback_name,
    fetch,
    mark_of,
    note_paid_by,
    wanted_urls,
)
from dedup.scrapy.page.session import Session

HELD = 1000  # objects of a page that are held back until its callback ends; of more, all pass
ASKS = "no content: dont_filter, a form, or a URL that was redirected to it"

Objects = Iterable[Any]


class PassingPage:
    """Everything passes. page: None of one that is not judged."""

    def __init__(
        self, session: Session, response: Response, page: Page | None, held: list[Any]
    ) -> None:
        assert response.request is not None
        self._held = held  # what of the output has not passed
        self.page, self._session, self._response = page, session, response
        self._request: Request = response.request
        spider = session.crawler.spider
        self._callback = callback_name(self._request, spider) if page is None else page.callback
        self._paid_by: Budgets = mark_of(self._request).paid_by
        self._reader: ItemReader | None = None
        self._outlinks: Outlinks | None = None  # once a request is yielded
        self._wanted: frozenset[str] | None = None  # the same
        self._items = 0
        self._yields_nothing = True  # until now
        self._asked = False  # for something: the page is no content
        self._is_new = False  # whether an item is new
        self._has_own_address = False  # whether items have the page's address
        noted: Any = self._request.meta.get("dedup") or {}
        self._follows = (
            session.config.mode != "skip_links" or noted.get("status") != "near_duplicate"
        )

    def take(self, one: Any) -> Objects:
        """Return what passes now."""
        if one is None:
            return (one,)
        item = self._read(one)
        if isinstance(one, Request):
            note_paid_by(one, () if self._is_new else self._paid_by)
            return (one,) if self._follows else ()
        self._is_new = self._note_item(item) or self._is_new
        if self._paid_by and (self._is_new or self.page is None):
            self._session.news(self._paid_by)
        if self.page is not None:
            self._session.in_flight.item_yielded(self.page)
        return (one,)

    def note_items(self, passing: Objects) -> None:
        """Note the items among what passes that was held."""
        for each in passing:
            if self.page is not None and not isinstance(each, Request):
                self._session.in_flight.item_yielded(self.page)

    def _read(self, one: Any) -> ReadItem | None:
        """Read what the callback yields; return what was read of an item."""
        page = self.page
        if self._yields_nothing:
            self._yields_nothing = False
            self._session.note_yielding(self._callback)
        if page is None:
            return None
        if not isinstance(one, Request):
            self._items += 1
            if self._reader is None:
                session = self._session
                self._reader = session.item_reader(
                    self._request, self._response, page.reading, page.callback
                )
            return self._reader.add(one)
        if self._outlinks is None or self._wanted is None:
            self._wanted = wanted_urls(self._request, self._response)
            self._outlinks = Outlinks(self._session, self._response, page, self._paid_by)
        self._asked = self._asked or asks(one, self._wanted)
        self._outlinks.note(one, has_items=self._items > 0)
        return None

    def _note_item(self, item: ReadItem | None) -> bool:
        """Note that the page brings an item; return whether no page did before."""
        page = self.page
        if page is None or item is None or not page.space.seen.take_item(item.exact):
            return False
        page.first.append(item.exact)
        return True

    async def finish(self) -> Objects:
        """Return what passes at the end."""
        if self._outlinks is not None:
            self._outlinks.note_last()
        self._digest()
        self._note_list()
        return ()

    def _asks_beyond(self) -> bool:
        return self._outlinks is not None and self._outlinks.asks_beyond

    def _digest(self) -> ItemsDigest | None:
        """Keep the digest of the page's items; None if they cannot be read."""
        reader, page = self._reader, self.page
        if page is None:
            return None
        if reader is None:
            digest: ItemsDigest | None = ItemsDigest(
                0, has_data=self._asks_beyond(), given=page.given
            )
        else:
            digest = reader.digest(page.given)
        if digest is None:
            return None
        page.brought = encode(digest)
        if reader is not None:
            self._has_own_address = any(item.holds_own for item in reader.items)
            heading = page.reading.fingerprint.parts[PART[HEADING]]
            known = heading if self._has_own_address else None
            self._session.callbacks.note_items(page.callback, reader.items, known)
        return digest

    def _note_list(self) -> None:
        """Note the rows of a list, now that its callback has ended: other pages are checked while they pass."""
        page, reader = self.page, self._reader
        if self._has_own_address and page and reader and len(reader.items) > 1:
            page.space.seen.lists.note(page.verdict.key, rows_of(page.reading, reader.items))

    def end(self, *, complete: bool) -> None:
        """End the page."""
        session, page = self._session, self.page
        is_hub = not self._items and not session.in_flight.has_yielded(self._callback)
        is_unique = page is not None and page.verdict.status == "unique"
        if complete and not self._asked and is_hub and is_unique:
            session.news(self._paid_by)
        if complete and self._yields_nothing:
            session.yielded_nothing(self._callback, self._paid_by)
        if page is not None:
            session.in_flight.end(page.token, accepted=complete and not self._asked)


class CheckedPage(PassingPage):
    """Only what is new passes; with withholds=False items pass at once."""

    page: Page

    def __init__(
        self, session: Session, response: Response, page: Page, held: list[Any], *, withholds: bool
    ) -> None:
        super().__init__(session, response, page, held)
        self._withholds, self._full = withholds, False
        self._is_copy = False  # whether the match brought all of its items, or the text decides it
        self._tags = session.config.mode == "tag"  # and so requests pass at once, too
        # by the callback, in its order; _held: of it, what has not passed
        self._made: list[Any] = []
        self._found: list[ReadItem | None] = []  # of the items, in their order

    def take(self, one: Any) -> Objects:
        """Return what passes now."""
        if one is None:
            return ()
        item, is_item = self._read(one), not isinstance(one, Request)
        if is_item:
            self._found.append(item)
        if self._tags or (is_item and not self._withholds):
            self._made.append(one)
            if is_item:
                self._session.in_flight.item_yielded(self.page)
            return (one,)
        self._full = self._full or len(self._held) >= HELD
        self._held.append(_as_yielded(one) if is_item and not self._full else one)
        self._made.append(self._held[-1])
        return self._released(self._made) if self._full else ()

    def _released(self, passing: Iterable[Any]) -> Objects:
        """Return of what passes that which has not passed yet, and forget what was held."""
        held = {*map(id, self._held)}
        found = [each for each in passing if id(each) in held]
        self.note_items(found)
        self._held.clear()
        self._made.clear()
        return found

    async def finish(self) -> Objects:
        """Return what passes at the end."""
        page, digest = self.page, self._digest()
        if self._outlinks is not None:
            self._outlinks.note_last()
        proves = digest is not None and (
            not digest.number
            or digest.has_data
            or page.by_text
            or page.verdict.reason == "unchanged"
        )
        if self._full or self._asked or digest is None or not proves:
            page.handling = page.handling if self._asked else "accept"
            if self._items:
                self._session.news(self._paid_by)
            gave = f"over {HELD:,} objects, all pass" if self._full else "nothing to compare"
            self._count(0, 0, ASKS if self._asked else gave)
            self._note_list()
            return self._released(self._made)
        made = [*self._made]
        is_new = self._which(digest)
        if any(is_new) and await self._fetched_again(digest):
            is_new = self._which(digest)
        self._note_list()
        for item in self._found:
            self._note_item(item)
        return self._decided(digest, made, is_new)

    def _decided(self, digest: ItemsDigest, made: list[Any], is_new: list[bool]) -> Objects:
        """Return what passes, now that it is known which items are new, and note it."""
        page, session = self.page, self._session
        is_refetch = page.handling == "refetch"
        # where items hold the page, each page of an endless calendar is another item, and no news
        holds_page = not is_refetch and session.callbacks.stores_pages(page.callback)
        is_news = (any(is_new) and not holds_page) or self._has_new_content(is_new)
        if any(is_new):
            self._note_new(digest)
        if is_news:
            session.news(self._paid_by)
        requests = self._new_requests(made, pays=not is_news and not is_refetch)
        if not any(is_new) and page.pattern is not None:
            self._note_same(digest, requests)
        if is_refetch:
            session.counts["unchanged_items"] += len(is_new) - sum(is_new)
        for new in is_new:
            if not new:
                session.in_flight.item_withheld(page)
        items, sent = iter(is_new), {*map(id, requests.passing)}
        passing = [e for e in made if (id(e) in sent if isinstance(e, Request) else next(items))]
        withheld = len(made) - len(is_new) - len(requests.passing) - requests.repeated
        gave = self._gave(digest, new=any(is_new), links=bool(requests.passing))
        self._count(len(is_new) - sum(is_new), withheld, gave)
        return self._released(passing)

    def _has_new_content(self, is_new: list[bool]) -> bool:
        """Whether a page with too few words to be compared has content, or a picture, that none before had, and no seen item."""
        page = self.page
        if page.handling != "accept" or page.pattern is not None or not all(is_new):
            return False
        html = getattr(self._response, "text", "")
        return page.space.seen.take_item(content_hashes(page.callback, page.reading, html))

    def _gave(self, digest: ItemsDigest, *, new: bool, links: bool) -> str:
        """Return why the page was kept, in words: which fields differ from its match's."""
        names = self._session.names.of(self._differing(digest)) if new else ()
        if names:
            return f"{', '.join(f'`{name}`' for name in names)} differs"
        return "new items" if new else "only new links" if links else "nothing new"

    # ------------------------------------------------------------------ which items are new

    def _which(self, digest: ItemsDigest) -> list[bool]:
        """Return of each item whether it is new."""
        page, self._is_copy = self.page, self._copies(digest)
        if self._is_copy:
            return [False] * len(self._found)
        seen, before = page.space.seen, self._rows_seen(digest)
        if page.digest is not None and page.handling == "refetch":
            before = {*page.digest.items}
        return [
            e is None or e.holds_inside or not (e.by_heading in before or seen.has_item(e.exact))
            for e in self._found
        ]

    def _copies(self, digest: ItemsDigest) -> bool:
        """Whether the page's match brought all of its items, or the text decides it."""
        page, session, match = self.page, self._session, self.page.digest
        if session.decides_by_text(page):
            return True
        if match is None or not digest.number:
            return False
        if digest.number > ITEMS:
            return digest.hashes == match.hashes
        loosely = digest.number == 1 and session.callbacks.headings_differ(page.callback)
        mine = {e and (e.by_heading if loosely else e.loose) for e in self._found}
        if mine and mine <= match.items:
            return True
        if page.pattern is None or not digest.beside or digest.beside != match.beside:
            return False
        return session.callbacks.are_copies(page.pattern, page.reading, page.text, match.page)

    def _rows_seen(self, digest: ItemsDigest) -> set[int]:
        """Return the rows of a list that others had."""
        page, callbacks = self.page, self._session.callbacks
        if digest.number < 2 or not self._has_own_address:
            return set()
        return page.space.seen.lists.seen_rows(
            rows_of(page.reading, self._found),
            callbacks.noisy_places(page.callback),
            page.space.recipe,
            any_title=callbacks.headings_differ(page.callback),
        )

    async def _fetched_again(self, digest: ItemsDigest) -> bool:
        """Fetch the page once more, if that may find numbers that each fetch changes; return whether it was tried.

        Other pages may have brought the same items meanwhile.
        """
        page, callbacks, config = self.page, self._session.callbacks, self._session.config
        by_numbers = digest.page is not None or (digest.number > 1 and self._has_own_address)
        if page.pattern is None or not by_numbers:
            return False
        if not callbacks.may_fetch_twice(page.pattern, config.control):
            return False
        self._session.counts["items/second_fetch"] += 1
        response = await fetch(self._session.crawler, self._request)
        if response is None:
            return True
        again = self._session.read(page.space.recipe, response)
        if again.texts == page.reading.texts:  # else it may be a login now
            changes = {*placed(again)} ^ {*placed(page.reading)}
            callbacks.noisy_places(page.callback).update(each >> 16 for each in changes)
        return True

    # ------------------------------------------------------------------- what it proves

    def _note_new(self, digest: ItemsDigest) -> None:
        """Note a page that brought new items: it is an original."""
        page, session = self.page, self._session
        page.handling = "accept"
        if page.pattern is not None:
            session.counts["items/other"] += 1
            session.disprove(page, self._differing(digest))
            theirs = None if page.digest is None else page.digest.page
            session.callbacks.note_other(page.pattern, page.reading, page.text, theirs)

    def _note_same(self, digest: ItemsDigest, requests: NewRequests) -> None:
        """Note a page that brought no new item.

        If its match did not bring its items, but another page, it is no copy of its match: nor are others of its pattern.
        """
        page, session, patterns = self.page, self._session, self.page.space.patterns
        assert page.pattern is not None
        is_copy = digest.number > 0 and self._is_copy
        if requests.followed or digest.number:
            session.counts["items/links" if requests.followed else "items/equal"] += 1
        session.report.notes.brought_nothing(page.verdict.of or "", page.verdict.key)
        if GIVEN in page.pattern.signals:
            return
        if is_copy:
            patterns.same_items(page.pattern)
        if requests.is_beyond:
            page.handling = "accept"
            session.disprove(page, frozenset())
        elif digest.number and not is_copy:
            session.disprove(page, self._differing(digest))
        elif not requests.followed and (digest.number or self._asks_beyond()):
            patterns.same(page.pattern)

    def _differing(self, digest: ItemsDigest) -> frozenset[int]:
        match = self.page.digest
        if match is None or not match.number == digest.number == 1 or digest.page is not None:
            return frozenset()  # what holds the page is no field that a person may ignore
        return differing(digest, match)

    def _new_requests(self, made: list[Any], *, pays: bool) -> NewRequests:
        """Return the requests that pass."""
        requests = [each for each in made if isinstance(each, Request)]
        if pays and self._outlinks is not None:
            return self._outlinks.new(requests)
        for each in requests:
            note_paid_by(each, ())
        return NewRequests(requests)

    def _count(self, items: int, requests: int, gave: str) -> None:
        """Count what is withheld, or, in the mode "tag", would be."""
        session, page = self._session, self.page
        items *= self._withholds or self._tags
        if items and page.verdict.status != "refetch":
            session.counts["items/withheld"] += items
        if requests:
            session.counts["requests/withheld"] += requests
        session.report.checked(page, self._response, items, requests, gave)

    def end(self, *, complete: bool) -> None:
        """Insert a page that brought something new, release one that did not."""
        page, session = self.page, self._session
        accepted = complete and not self._asked and page.handling != "check"
        if complete and not self._asked and not accepted:
            page.space.seen.add_links(page.callback, page.reading.links)
        differ = page.pattern.signals if page.pattern is not None else ""
        # else days without events never end
        if complete and self._yields_nothing and WORDS in differ and NUMBERS not in differ:
            session.yielded_nothing(page.callback, self._paid_by)
        session.in_flight.end(page.token, accepted=accepted)


def output_of(session: Session, response: Response, held: list[Any]) -> PassingPage | None:
    """Return what becomes of a callback's output; held gets what of it has not passed. None: everything passes."""
    if response.request is None:
        return None
    page, config = session.in_flight.page_of(response.request), session.config
    is_read = page is None or page.verdict.reason not in {"short", "unread"}
    if page is None or (page.handling == "accept" and is_read):
        return PassingPage(session, response, page, held)
    withholds = page.handling != "accept" and config.proof_items != "keep" and config.mode == "drop"
    return CheckedPage(session, response, page, held, withholds=withholds)


def _as_yielded(one: Any) -> Any:
    """Return an item as it is now: a callback may go on with it while it is held back."""
    try:
        return one.copy() if isinstance(one, Item) else copy(one)
    except Exception:  # noqa: BLE001 - it is passed as it is then
        return one
