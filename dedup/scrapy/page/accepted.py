"""The ways of a page that looks like no accepted one: all that its callback yields passes."""

from collections.abc import Callable, Iterable
from typing import Any

from scrapy import Request
from scrapy.http import Response

from dedup.core.fingerprint import PageReading, read_page
from dedup.model.page import PART
from dedup.scrapy.evidence.difference import HEADING
from dedup.scrapy.evidence.digest import (
    BESIDE_HEADING,
    Digest,
    Digester,
    Hashes,
    Rules,
    encode,
)
from dedup.scrapy.evidence.digest import Page as ItemPage
from dedup.scrapy.evidence.ledger import Account
from dedup.scrapy.evidence.lists import Numbers, numbers_of_rows
from dedup.scrapy.page.in_flight import Page
from dedup.scrapy.page.outlinks import Outlinks
from dedup.scrapy.page.request import asks, note_lead, wanted_urls
from dedup.scrapy.page.session import Session

Made = Iterable[Any]
Lead = tuple[Account, ...]


class Unjudged:
    """Of a page that is not judged, or flagged only: everything passes, but for links in the mode skip_links."""

    def __init__(self, session: Session, request: Request | None, lead: Lead) -> None:
        self.held: list[Any] = []
        self._session, self._request, self._lead = session, request, lead
        self._silent = True
        noted: Any = {} if request is None else request.meta.get("dedup")
        found = isinstance(noted, dict) and noted.get("status") == "near_duplicate"
        self._follows = not found or session.config.mode != "skip_links"

    def take(self, made: Any) -> Made:
        """Return what passes now."""
        if made is not None and self._silent:
            self._silent = False
            if self._request is not None:
                self._session.speaks(self._session.callback(self._request).name)
        if isinstance(made, Request):
            note_lead(made, self._lead)
            return (made,) if self._follows else ()
        self._session.news(self._lead)
        return (made,)

    async def finish(self) -> Made:
        """Return what passes at the end."""
        return ()

    def end(self, *, complete: bool) -> None:
        """Note a page of a silent callback."""
        if complete and self._silent and self._request is not None:
            self._session.was_silent(self._session.callback(self._request).name, self._lead)


class Accepted:
    """Of an accepted page: everything passes."""

    def __init__(self, session: Session, response: Response, page: Page, lead: Lead) -> None:
        assert response.request is not None
        self.held: list[Any] = []
        self._session, self._response, self._page = session, response, page
        self._request: Request = response.request
        self._lead = lead
        self._digester: Digester | None = None
        self._wanted: frozenset[str] | None = None  # once a request is yielded
        self._asked = False  # for something: the page is no content
        self._items = 0
        self._list: Numbers | None = None  # of a page with rows
        self._silent = True  # neither items nor requests
        self._new = False  # whether an item is new
        self._outlinks: Outlinks | None = None  # once a request is yielded

    def take(self, made: Any) -> Made:
        """Return what passes now."""
        self._speak(made)
        if isinstance(made, Request):
            self._see(made)
            note_lead(made, () if self._new else self._lead)
        elif made is not None:
            page = self._page
            with self._session.counts.meter:
                found = self._read(made)
                self._new = (found is not None and self._take(found)) or self._new
            if self._new and self._lead:
                self._session.news(self._lead)
            self._session.in_flight.item_yielded(page)
        return (made,)

    def _take(self, item: Hashes) -> bool:
        """Note that the page brings an item; return whether no page did before."""
        page = self._page
        met, brought = page.space.met, {item.known, item.apart, item.row}
        first = [each for each in brought if met.take_item(page.callback, each)]
        page.first += first
        return item.known in first

    def _speak(self, made: Any) -> None:
        """Note that the callback yields something."""
        if made is not None and self._silent:
            self._silent = False
            self._session.speaks(self._page.callback)

    def _see(self, request: Request) -> None:
        """Note a request that the callback yields."""
        if self._wanted is None:
            self._wanted = wanted_urls(self._request, self._response)
        self._asked = self._asked or asks(request, self._wanted)
        if self._outlinks is None:
            self._outlinks = Outlinks(self._session, self._response, self._page, self._lead)
        self._outlinks.see(request, has_items=self._items > 0)

    def _is_beyond(self) -> bool:
        """Whether the page has no link to one of the requests that were looked at."""
        return self._outlinks is not None and self._outlinks.is_beyond

    def _read(self, item: Any) -> Hashes | None:
        """Add an item to the digest; return its hashes, None if it cannot be read."""
        self._items += 1
        if self._digester is None:
            page = self._page
            self._digester = new_digester(
                self._session, self._response, page.callback, lambda: page.reading
            )
        return self._digester.add(item)

    async def finish(self) -> Made:
        """Return what passes at the end."""
        if self._outlinks is not None:
            self._outlinks.see_last()
        self._digested()
        self._note_list()
        return ()

    def _note_heading(self) -> None:
        """Note the heading of a page: where headings tell pages apart, what stands beside them does not count."""
        page, session = self._page, self._session
        if BESIDE_HEADING.keys() <= session.visits.of(page.callback).fields:
            return  # they do not count any more
        if session.keeping.tells(page.callback, page.reading.fingerprint.parts[PART[HEADING]]):
            for field in BESIDE_HEADING:
                session.visits.let_go(page.callback, field)

    def _listed(self, digester: Digester) -> Numbers:
        """Return the numbers of a page with rows."""
        reading, recipe = self._page.reading, self._page.space.recipe
        rows, forms = numbers_of_rows(
            digester.numbers(),
            lambda text: read_page(f"<main><p>{text}", recipe=recipe, numbers=True).numbers,
        )
        items = frozenset(each.apart for each in digester.items)
        return Numbers(reading.numbers, rows, forms, items, reading.fingerprint.title)

    def _note_list(self) -> None:
        """Note the page's rows, now that they pass."""
        if self._list is not None:
            self._page.space.met.lists.note(self._page.verdict.document.key, self._list)

    def _digested(self) -> Digest | None:
        """Keep the digest of the page's items; None if they cannot be read."""
        if self._digester is None:
            nothing = Digest(0, says=self._is_beyond())
            self._page.brought = encode(nothing)
            return nothing
        with self._session.counts.meter:
            digest = self._digester.digest()
            if self._digester.has_own:
                self._note_heading()
                if digest is not None and digest.number > 1:
                    self._list = self._listed(self._digester)
            if digest is not None:
                self._page.brought = encode(digest)
                if self._digester.shows:
                    self._session.keeping.note(self._page.callback, self._digester.shown)
        return digest

    def end(self, *, complete: bool) -> None:
        """End the page."""
        session, page = self._session, self._page
        is_hub = not self._items and not session.in_flight.has_yielded(page.callback)
        if complete and not self._asked and is_hub and page.verdict.status == "unique":
            session.news(self._lead)
        if complete and self._silent:
            session.was_silent(page.callback, self._lead)
        session.in_flight.end(page.token, accepted=complete and not self._asked)


def new_digester(
    session: Session, response: Response, callback: str, reading: Callable[[], PageReading]
) -> Digester:
    """Return what makes the digest of the items that a callback yields for a page."""
    request = response.request
    assert request is not None
    shows = session.keeping.is_open(callback)
    # the URLs before a redirect are data: an item has them to say what leads where
    page = ItemPage(
        (response.url, request.url),
        lambda: getattr(response, "text", ""),
        len(response.body),
        reading,
        request.meta.get("dedup"),
    )
    config, volatile = session.config, session.visits.of(callback)
    rules = Rules(
        session.names,
        config.item_fields,
        config.item_ignore,
        volatile.fields,
        volatile.tell,
        shows,
    )
    return Digester(page, rules)
