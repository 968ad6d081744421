"""What a callback yields: passed on, or held until the callback ends and withheld if it is known.

    Output     guards one of the ways below: a fault of ours passes everything, held or to come
    Accepted   everything passes; the items are digested
    Compared   of a page that looks like an accepted one: items and requests that are known are withheld
    Visited    of a control visit: what is new passes, but for what is volatile

An item is known if the page's match, or an earlier page of this crawl and callback, brought an equal one. A
request is known if the crawl made it before, or if a URL rule in force maps it to an accepted page; where items hold
nothing but the page, also by a link of an accepted page. New requests cost the budget of the page's class, but for
those that the page has no link to: a spider that counts has an end of its own.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from copy import copy
from functools import cache, cached_property
from typing import Any, Protocol

from scrapy import Item, Request
from scrapy.http import Response

from dedup.core.fingerprint import each_link, read_page
from dedup.model.names import registrable_domain
from dedup.scrapy.evidence.difference import NUMBERS, WORDS, shape, undirected
from dedup.scrapy.evidence.digest import (
    BESIDE_HEADING,
    OF_LIST,
    Digest,
    Digester,
    Hashes,
    are_known,
    differing,
    encode,
    what_is_left,
)
from dedup.scrapy.evidence.enough import MOST
from dedup.scrapy.evidence.ledger import Account
from dedup.scrapy.evidence.lists import Numbers
from dedup.scrapy.evidence.visits import Visit
from dedup.scrapy.page.in_flight import Page
from dedup.scrapy.page.judge import Session
from dedup.scrapy.page.request import PageLinks, asks, mark, mark_of, wanted_urls
from dedup.scrapy.report import Seen

LEADS = 100  # accounts that are told of something new: a bound of memory, the last ones that paid on the way to it
LOOKED = 10  # requests of a page that are compared with its links
VISIT_SECONDS = 30  # that pages of a callback wait at most, from the begin of its control visit
HELD = 1000  # objects of a page that are held back until its callback ends; of more, all pass
_SESSION_IN_PATH = re.compile(r";|/\([A-Za-z]\(")

Made = Iterable[Any]
Lead = tuple[Account, ...]


class _Way(Protocol):
    """A way for what a callback yields. held is what take() keeps back, in its order."""

    held: list[Any]

    def take(self, made: Any) -> Made:
        """Return what passes now that a callback yielded this."""

    async def finish(self) -> Made:
        """Return what passes of the rest: the callback got to its end."""

    def end(self, *, complete: bool) -> None:
        """End the page; complete: the callback got to its end, and nothing raised."""


class Output:
    """The output of one callback. Nothing of ours raises here; what was held passes then."""

    def __init__(self, session: Session, response: Response) -> None:
        """Choose the way."""
        self._session, self._response = session, response
        self._way: _Way | None = None
        try:
            self._way = _way_of(session, response)
        except Exception as error:  # noqa: BLE001 - a fault of ours never costs an item
            session.counts.fault(error, f"what {response} brings passes, and is not compared")

    def take(self, made: Any) -> Made:
        """Return what passes now."""
        if self._way is None:
            return (made,)
        try:
            return self._way.take(made)
        except Exception as error:  # noqa: BLE001 - the same
            return self._failed(error, made)

    async def finish(self) -> Made:
        """Return what passes at the end of the callback."""
        if self._way is None:
            return ()
        try:
            return await self._way.finish()
        except Exception as error:  # noqa: BLE001 - the same
            return self._failed(error)

    def held(self) -> Made:
        """Return what was held back when the callback raised."""
        return () if self._way is None else self._give_up(self._way)

    def end(self, *, complete: bool) -> None:
        """End the page: inserted if the callback got to its end."""
        session = self._session
        try:
            if self._way is not None:
                self._way.end(complete=complete)
                return
            page = session.in_flight.page_of(self._response.request)
            if page is not None:
                session.in_flight.end(page.token, accepted=complete)
        except Exception as error:  # noqa: BLE001 - the same
            session.counts.fault(error, f"{self._response} is parsed, but not remembered")

    def _failed(self, error: Exception, *made: Any) -> Made:
        self._session.counts.fault(error, f"all that {self._response} brings passes")
        assert self._way is not None
        held = self._give_up(self._way)
        return [*held, *(each for each in made if not any(each is other for other in held))]

    def _give_up(self, way: _Way) -> list[Any]:
        """Leave the way; return what it held, which passes."""
        self._way = None
        held, way.held = way.held, []
        with self._session.counts.guard(f"{self._response} is parsed, but not remembered"):
            page = self._session.in_flight.page_of(self._response.request)
            for each in held:
                if page is not None and not isinstance(each, Request):
                    self._session.in_flight.item_yielded(page)
        return held


def _way_of(session: Session, response: Response) -> _Way:
    request = response.request
    if request is None:
        return Unjudged(session, None, ())
    noted = mark_of(request)
    if noted.control:
        return Visited(session, response, request)
    page = session.in_flight.page_of(request)
    if page is None:
        return Unjudged(session, request, noted.lead)
    way = Accepted if page.way == "accept" else Compared
    if page.way == "accept" and page.verdict.reason in {"short", "unread"}:
        return Watched(session, response, page, noted.lead)
    if way is Compared and (session.config.proof_items == "keep" or session.config.mode != "drop"):
        way = Watched
    return way(session, response, page, noted.lead)


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
            _lead(made, self._lead)
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
        self._seen = 0  # requests that were looked at
        self._beyond = False  # whether the page has no link to one of them

    def take(self, made: Any) -> Made:
        """Return what passes now."""
        self._speak(made)
        if isinstance(made, Request):
            self._see(made)
            _lead(made, () if self._new else self._lead)
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
        keeping, callback = self._session.keeping, self._page.callback
        if self._beyond or self._seen >= LOOKED:
            return
        if keeping.looks_at_requests(callback, has_items=self._items > 0):
            self._seen += 1
            linked = self._is_linked(request)
            keeping.note_request(callback, linked=linked)
            self._beyond = not linked

    def _is_linked(self, request: Request) -> bool:
        """Whether the page has a link to a request's page."""
        page, url = self._page, request.url
        if registrable_domain(url) == page.verdict.document.domain:
            address = read_page(b"", url=url, recipe=page.space.recipe, links=True).address
            if address in each_link(page.reading.links):
                return True
        return self._links.lead_to(url)

    @cached_property
    def _links(self) -> PageLinks:
        return PageLinks(self._response)

    def _read(self, item: Any) -> Hashes | None:
        """Add an item to the digest; return its hashes, None if it cannot be read."""
        self._items += 1
        if self._digester is None:
            page = self._page
            self._digester = self._session.digester(
                self._response, page.callback, lambda: page.reading
            )
        return self._digester.add(item)

    async def finish(self) -> Made:
        """Return what passes at the end."""
        self._digested()
        self._note_list()
        return ()

    def _note_list(self) -> None:
        """Note the page's rows, now that they pass."""
        if self._list is not None:
            self._page.space.met.lists.note(self._page.verdict.document.key, self._list)

    def _digested(self) -> Digest | None:
        """Keep the digest of the page's items; None if they cannot be read."""
        if self._digester is None:
            nothing = Digest(0, says=self._beyond)
            self._page.brought = encode(nothing)
            return nothing
        with self._session.counts.meter:
            digest = self._digester.digest()
            if self._digester.has_own:
                self._session.headed(self._page)
                if digest is not None and digest.number > 1:
                    self._list = self._session.listed(self._page, self._digester)
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
                _lead(each, self._lead)
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
            self._visit(digest)
            await self._session.visited(self._page.callback, len(self._response.body))
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

    def _visit(self, digest: Digest) -> None:
        """Begin a control visit, if it can show what differs to be volatile."""
        session, page, match = self._session, self._page, self._match
        if page.name is None or match is None:
            return
        session.visits.note(page.name, digest, match)
        if page.again is None or not session.visits.wants(page.name):
            return
        beside = frozenset((*BESIDE_HEADING, OF_LIST))
        # the rows of a list may be others at each visit: that makes none of their fields volatile
        counts = self._digester is not None and self._digester.has_own
        if counts if digest.number > 1 else match.number == 1 and differing(digest, match):
            until = time.monotonic() + VISIT_SECONDS
            numbers = page.reading.numbers
            visit = Visit(page.name, digest, page.verdict.page, until, numbers, beside)
            session.visits.begin(page.verdict.key, visit)
            session.send((page.again,), "items/control")

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
        return [each for each in self._made if isinstance(each, Request)]

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
        elif not requests and (digest.number or self._beyond):
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
        return bool(are_all) or self._session.decides_by_text(self._page)

    def _brought(self, digest: Digest, known: list[bool]) -> Made:
        """Note that the page brought new items; return these, and its requests."""
        session, page = self._session, self._page
        session.counts.add("items/other")
        # each page of an endless calendar is another item there, or one that the pipelines refuse: its requests are paid
        keeps = page.way == "compare" and (self._refused or session.keeping.keeps(page.callback))
        was_refetch, page.way = page.way == "refetch", "accept"
        requests = [each for each in self._made if isinstance(each, Request)]
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

    # ------------------------------------------------------------------------------ requests

    def _new_requests(self) -> tuple[list[Request], bool]:
        """Return the requests that pass of a page that brought no new item; whether it has no link to one of them.

        Others wait for news of their accounts.
        """
        session = self._session
        passing: list[Request] = []
        beyond = False
        made: dict[bytes, Request] = {}
        for each in self._made:
            if isinstance(each, Request):
                made.setdefault(session.fingerprint(each), each)
        addresses = cache(lambda: Counter(self._address(each.url) for each in made.values()))
        # whose items are not the page may have other items under a link that an accepted page had
        keeps, links = session.keeping.keeps(self._page.callback), self._page.reading.links
        # of a callback that passes over most links, those of accepted pages were not followed either
        follows = keeps and bool(links) and len(made) >= MOST * len([*each_link(links)])
        is_old = follows and not self._page.space.met.is_new(links)
        for fingerprint, request in made.items():
            if session.requests.has(fingerprint):
                continue
            if not self._is_linked(request):
                _lead(request, self._lead)
                beyond = True
            elif (
                (keeps and self._is_known(request, addresses, is_old=is_old))
                or session.known_page(self._page.space, request)
                or not self._pay(request)
            ):
                continue
            passing.append(request)
        return passing, beyond

    def _pay(self, request: Request) -> bool:
        """Pay a request, which passes; else it waits for news of its account."""
        page, counts = self._page, self._session.counts
        ledger = page.space.ledger
        differs = undirected(shape(page.verdict.key, request.url))
        account = Account(page.callback, page.verdict.domain, differs)
        _lead(request, (account, *(each for each in self._lead if each != account))[:LEADS])
        if ledger.afford(account):
            ledger.charge(account, 1)
            return True
        counts.add("requests/waiting" if ledger.wait(account, request) else "requests/forgotten")
        return False

    def _is_known(
        self, request: Request, addresses: Callable[[], Counter[bytes]], *, is_old: bool
    ) -> bool:
        """Whether an accepted page of this site had a link to a request's page, with another session or campaign.

        A link without them that was never followed is new: a menu has links that callbacks pass over. addresses counts
        the requests of the page by address: those that share one differ in a parameter that is no session. is_old: the
        callback follows most links of the page, and accepted pages had all of them.
        """
        page, url = self._page, request.url
        if is_old and addresses()[self._address(url)] == 1:
            return True
        site = page.verdict.domain
        if page.match is None or page.match.domain != site or registrable_domain(url) != site:
            return False
        return (
            self._has_session(url)
            and not page.space.met.is_new(address := self._address(url))
            and addresses()[address] == 1
        )

    def _has_session(self, url: str) -> bool:
        """Whether a URL names a session or campaign, which its address leaves out."""
        base, _, query = url.partition("?")
        if _SESSION_IN_PATH.search(base):
            return True
        parameters = [each for each in query.split("&") if each]
        own = self._address(base) if parameters else b""
        return any(self._address(f"{base}?{each}") == own for each in parameters)

    def _address(self, url: str) -> bytes:
        """Return the hash of a URL without sessions and campaigns, as PageReading.links has it."""
        return read_page(b"", url=url, recipe=self._page.space.recipe, links=True).address

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

    def _pay(self, request: Request) -> bool:
        return self._changes_nothing or super()._pay(request)


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
        self._digester = session.digester(response, self._callback, self._reading)

    def take(self, made: Any) -> Made:
        """Return what passes now."""
        if isinstance(made, Request):
            session = self._session
            return () if session.requests.has(session.fingerprint(made)) else (made,)
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


def _lead(request: Request, lead: tuple[Account, ...]) -> None:
    """Note in a request which accounts paid for it, and for those that led to its page; else remove such a note."""
    if lead or mark_of(request).lead:
        mark(request, lead=lead)
