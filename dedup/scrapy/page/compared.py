"""The ways of a page that looks like an accepted one, or is visited again: what is new passes.

    the callback yields -> held -> it ends -> which items are known? -> (a control visit) -> the new ones pass

What is new may be volatile: then it passes only once a control visit has shown that it is not.
"""

import time
from copy import copy
from functools import cache
from typing import Any

from scrapy import Item, Request
from scrapy.http import Response

from dedup.scrapy.evidence.departures import Side
from dedup.scrapy.evidence.difference import NUMBERS, WORDS
from dedup.scrapy.evidence.digest import (
    BESIDE_HEADING,
    OF_LIST,
    Digest,
    Hashes,
    are_known,
    differing,
    what_is_left,
)
from dedup.scrapy.evidence.visits import Visit
from dedup.scrapy.page.accepted import Accepted, Lead, Made, new_digester
from dedup.scrapy.page.in_flight import Page
from dedup.scrapy.page.request import (
    fetch,
    is_closing,
    mark_of,
    note_lead,
)
from dedup.scrapy.page.session import Session
from dedup.scrapy.report import Seen

VISIT_SECONDS = 30  # that pages of a callback wait at most, from the begin of its control visit
HELD = 1000  # objects of a page that are held back until its callback ends; of more, all pass


class Compared(Accepted):
    """Of a page that looks like an accepted one: only what is new passes."""

    def __init__(self, session: Session, response: Response, page: Page, lead: Lead) -> None:
        super().__init__(session, response, page, lead)
        self._match = page.digest
        is_unchanged = page.way == "refetch" and page.verdict.reason == "unchanged"
        self._before = self._match.items if is_unchanged and self._match else frozenset[int]()
        self._made = self.held  # by the callback, in its order
        self._found: list[Hashes | None] = []  # of the items, in their order
        self._full = False
        self._is_copy = False  # whether its match brought all of the items
        self._refused = False  # whether all that is new was brought before, and forgotten

    def take(self, made: Any) -> Made:
        """Return what passes now."""
        if made is None:
            return ()
        self._speak(made)
        if isinstance(made, Request):
            self._see(made)
        else:
            with self._session.counts.meter:
                self._found.append(self._read(made))
        if len(self._made) < HELD:
            self._made.append(_as_yielded(made))
            return ()
        self._made.append(made)  # passes at once, as it is: a fault on the way must know it again
        self._full = True
        return self._release()

    def _release(self) -> Made:
        """Return all that the callback made until now."""
        for each in self._made:
            if isinstance(each, Request):
                note_lead(each, self._lead)
            else:
                self._passes_item()
        released = [*self._made]
        self._made.clear()
        return released

    def _passes_item(self) -> None:
        self._session.in_flight.item_yielded(self._page)

    async def finish(self) -> Made:
        """Return what passes at the end. What is new may be volatile: then only once a control visit has shown it."""
        digest = self._digested()
        says = digest is not None and (
            not digest.number
            or digest.says
            or self._page.verdict.reason == "unchanged"
            or self._session.decides_by_text(self._page)
        )
        if self._full or self._asked or digest is None or not says:
            self._page.way = "accept" if not self._asked else self._page.way
            if self._items:
                self._session.news(self._lead)
            return self._release()
        known = self._known(digest)
        if not all(known):
            gone = self._visit(digest)
            await self._session.visited(self._page.callback, len(self._response.body))
            known = self._known(digest)
            if gone and not all(known):
                await self._read_again(gone)
                known = self._known(digest)
        return self._passing(digest, known)

    def _known(self, digest: Digest) -> list[bool]:
        """Return of each item whether it is known.

        Numbers of its page that a new item of a list explains say nothing of the items beside it.
        """
        self._is_copy = self._is_whole(digest)
        if self._is_copy:
            return [True] * len(self._found)
        of_list = digest.number > 1
        known = [self._is_met(e and (e.row if of_list else e.known), e) for e in self._found]
        if all(known) or not of_list or self._list is None:
            return known
        page, volatile = self._page, self._session.visits.of(self._page.callback)
        wanted = frozenset(
            each.apart
            for each, is_known in zip(self._found, known, strict=True)
            if not is_known and each is not None and self._is_met(each.apart, each)
        )
        if not wanted:
            return known
        titles = volatile.fields.isdisjoint(BESIDE_HEADING)
        rows = page.space.met.lists.explained(self._list, wanted, volatile.places, titles=titles)
        return [
            is_known or (each is not None and each.apart in rows)
            for each, is_known in zip(self._found, known, strict=True)
        ]

    def _is_met(self, name: bytes | None, item: Hashes | None) -> bool:
        """Whether the crawl knows an item by a hash of it, or the last visit of an unchanged page brought it."""
        if item is None or name is None or item.inside:
            return False
        page = self._page
        return item.digest in self._before or page.space.met.has_item(page.callback, name)

    def _visit(self, digest: Digest) -> frozenset[int]:
        """Begin a control visit, if it can show what differs to be volatile; return what Visits.note() does."""
        session, page, original = self._session, self._page, self._page.original
        if page.name is None or original is None:
            return frozenset()
        match = original.digest
        mine = Side(page.verdict.key, page.verdict.page, digest)
        gone = session.visits.note(page.name, mine, original)
        if page.again is None or not session.visits.wants(page.name):
            return gone
        beside = frozenset((*BESIDE_HEADING, OF_LIST))
        # the rows of a list may be others at each visit: that makes none of their fields volatile
        counts = self._digester is not None and self._digester.has_own
        if counts if digest.number > 1 else match.number == 1 and differing(digest, match):
            until = time.monotonic() + VISIT_SECONDS
            numbers = page.reading.numbers
            visit = Visit(page.name, digest, page.verdict.page, until, numbers, beside)
            session.visits.begin(page.verdict.key, visit)
            session.send((page.again,), "items/control")
        return gone

    async def _read_again(self, gone: frozenset[int]) -> None:
        """Read pages of the class again that had what is gone: a clock went on."""
        session, page, original = self._session, self._page, self._page.original
        assert page.name is not None
        assert original is not None
        with session.visits.reading(page.callback, time.monotonic() + VISIT_SECONDS):
            for each in session.visits.to_read(page.name, original, gone):
                if self._request.method != "GET" or is_closing(session.crawler):
                    return
                session.counts.add("items/control")
                response = await fetch(session.crawler, self._request, each.key)
                if response is not None:
                    reading = session.read(page.space.recipe, response)
                    session.visits.read_again(page.callback, each, reading)

    def _passing(self, digest: Digest, known: list[bool]) -> Made:
        """Return what is new of the page."""
        self._note_list()
        page = self._page
        new = [each for each, is_known in zip(self._found, known, strict=True) if not is_known]
        met = page.space.met
        self._refused = all(each and met.was_forgotten(page.callback, each.known) for each in new)
        if self._digester is not None:
            for item in self._digester.items:
                self._take(item)
        if not all(known):
            return self._brought(digest, known)
        if page.way == "refetch":
            return self._unchanged(len(known))
        return self._nothing_new(digest, len(known))

    def _unchanged(self, items: int) -> Made:
        """Withhold the items of a page that brought them at its last visit; return its requests."""
        for _ in range(items):
            self._session.in_flight.item_withheld(self._page)
        if items:
            self._session.counts.add("unchanged_items", items)
        self._withhold(items, 0)
        return self._requests()

    def _nothing_new(self, digest: Digest, items: int) -> Made:
        """Withhold the items of a page that brought no new one; return its new requests.

        If its match did not bring them, but another page, it is no copy of its match: pages of its class are none.
        """
        session, page = self._session, self._page
        requests, beyond = self._new_requests()
        self._withhold(items, len(self._made) - items - len(requests))
        if page.name is None:  # it is like no other
            return requests
        if beyond:
            page.way = "accept"
            session.spoil(page, None)
        elif digest.number and self._match is not None and not self._is_copy:
            session.spoil(page, self._differing(digest))
        elif not requests and (digest.number or self._is_beyond()):
            session.counts.add("items/equal")
            page.space.ledger.same(page.name)
            if page.match is not None:
                key, of = page.verdict.document.key, page.match.document.key
                page.space.urls.learn(key, of, same=True)
        return requests

    def _is_whole(self, digest: Digest) -> bool:
        """Whether the match brought all of the items, or they hold nothing but the page, after these items, too."""
        volatile = self._session.visits.of(self._page.callback)
        if volatile.fields and not volatile.tells and digest.number == 1:
            volatile.tell(what_is_left(digest.fields.items(), volatile.fields))
        fields = volatile.fields if volatile.tells else frozenset[int]()
        are_all = digest.number and self._match and are_known(digest, self._match, fields)
        session, page = self._session, self._page
        return (
            bool(are_all) or session.decides_by_text(page) or session.are_equal_items(page, digest)
        )

    def _brought(self, digest: Digest, known: list[bool]) -> Made:
        """Note that the page brought new items; return these, and its requests."""
        session, page = self._session, self._page
        session.counts.add("items/other")
        # each page of an endless calendar is another item there, or one that the pipelines refuse: its requests are paid
        keeps = page.way == "compare" and (self._refused or session.keeping.keeps(page.callback))
        was_refetch, page.way = page.way == "refetch", "accept"
        requests = self._requests()
        if keeps:
            requests, _ = self._new_requests()
        else:
            self._new = True
            session.news(self._lead)
        if page.name is not None:
            fields = self._differing(digest)
            if not fields or fields - session.visits.of(page.callback).fields:
                session.spoil(page, fields)
        new = iter(known)
        sent = set(map(id, requests))
        passing = [
            e for e in self._made if (id(e) in sent if isinstance(e, Request) else not next(new))
        ]
        for each in passing:
            if not isinstance(each, Request):
                self._passes_item()
        if was_refetch and any(known):
            session.counts.add("unchanged_items", sum(known))
        self._withhold(sum(known), len(self._made) - len(known) - len(requests))
        return passing

    def _differing(self, digest: Digest) -> frozenset[int] | None:
        """Return the fields in which the page's item differs from its match's; None if there is no one item of each."""
        match = self._match
        comparable = match is not None and match.number == digest.number == 1
        return differing(digest, match) if match is not None and comparable else None

    def _new_requests(self) -> tuple[list[Request], bool]:
        """Return which requests pass (Outlinks.new)."""
        return ([], False) if self._outlinks is None else self._outlinks.new(self._requests())

    def _requests(self) -> list[Request]:
        return [each for each in self._made if isinstance(each, Request)]

    def _withhold(self, items: int, requests: int) -> None:
        """Count what is withheld."""
        session, page = self._session, self._page
        if items:
            session.counts.add("items/withheld", items)
        if requests:
            session.counts.add("requests/withheld", requests)
        journal = session.report.journal
        if journal is not None and (items or requests):
            seen = Seen(page.verdict, self._response, page.space.recipe, page.callback)
            journal.withheld(seen, items, requests)

    def end(self, *, complete: bool) -> None:
        """Insert a page that brought something new, release one that did not."""
        page, in_flight = self._page, self._session.in_flight
        accepted = complete and not self._asked and page.way != "compare"
        if complete and not self._asked and not accepted:
            page.space.met.links.add(page.reading.links)
        parts = page.name.parts if page.name is not None else ""
        if complete and self._silent and WORDS in parts and NUMBERS not in parts:
            # else a calendar's empty days would never end
            self._session.was_silent(page.callback, self._lead)
        in_flight.end(page.token, accepted=accepted)


class Watched(Compared):
    """The same where items pass at once: tag, skip_links, DEDUP_PROOF_ITEMS, a page with too few words to be like others.

    In the mode tag requests do, too.
    """

    def __init__(self, session: Session, response: Response, page: Page, lead: Lead) -> None:
        super().__init__(session, response, page, lead)
        self._made = []  # held has what has not passed
        self._changes_nothing = session.config.mode == "tag"

    def take(self, made: Any) -> Made:
        """Return what passes now."""
        released = super().take(made)
        is_request = isinstance(made, Request)
        if made is not None and not is_request:
            self._session.in_flight.item_yielded(self._page)
        if self._changes_nothing:
            return (made,)
        if is_request:
            self.held.append(made)
        if released:  # more than are held back
            self.held.clear()
        requests = [each for each in released if isinstance(each, Request)]
        return requests if is_request else [*requests, made]

    async def finish(self) -> Made:
        """Return what passes at the end."""
        passing = await super().finish()
        if self._changes_nothing:
            return ()
        return [each for each in passing if isinstance(each, Request)]

    def _passes_item(self) -> None:
        """Do nothing: it passed."""

    def _withhold(self, items: int, requests: int) -> None:
        """Count what is withheld, or, in the mode "tag", would be."""
        super()._withhold(items if self._changes_nothing else 0, requests)


class Visited:
    """Of a control visit: its items are compared with those of the first visit; but for what is volatile, new ones pass.

    So do requests that the crawl has not made: a callback with a list of its own takes one out of it at each call.
    """

    def __init__(self, session: Session, response: Response, request: Request) -> None:
        self.held: list[Any] = []
        self._session, self._key = session, mark_of(request).control
        self._callback = session.callback(request).name
        space = session.space_of(request)
        assert space is not None
        self._met = space.met
        self._reading = cache(lambda: session.read(space.recipe, response))
        self._digester = new_digester(session, response, self._callback, self._reading)

    def take(self, made: Any) -> Made:
        """Return what passes now."""
        if isinstance(made, Request):
            session = self._session
            is_known = not session.filters or session.requests.has(session.fingerprint(made))
            return () if is_known else (made,)
        if made is not None:
            item = self._digester.add(made)
            if item is None or not self._met.has_item(self._callback, item.known):
                self.held.append(_as_yielded(made))
        return ()

    async def finish(self) -> Made:
        """Return what passes at the end."""
        session = self._session
        reading, digest = self._reading(), self._digester.digest()
        found = session.visits.ended(self._key, digest, reading.fingerprint, reading.numbers)
        passing = [] if found is not None and found.is_same else [*self.held]
        self.held.clear()
        if found is not None and found.fields:
            callback, fields = found.callback, found.fields
            session.counts.add("items/volatile", len(fields))
            session.report.volatile(callback, self._key, session.names.of(fields))
        return passing

    def end(self, *, complete: bool) -> None:
        """End the page."""
        if not complete:
            self._session.visits.forget(self._key)


def _as_yielded(made: Any) -> Any:
    """Return an item as it is now: a callback may go on with it while it is held back."""
    if isinstance(made, Request):
        return made
    try:
        return made.copy() if isinstance(made, Item) else copy(made)
    except Exception:  # noqa: BLE001 - it is passed as it is then
        return made
