"""The requests that a callback yields: whether its page has a link to them, and which of them are new.

A request is known if the crawl made it before, or if a URL rule in force maps it to an accepted page; where items hold
nothing but the page, also by a link of an accepted page. New requests cost the budget of the page's class, but for
those that the page has no link to: a spider that counts has an end of its own.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, cached_property

from scrapy import Request
from scrapy.http import Response, TextResponse

from dedup.core.fingerprint import each_link, read_page
from dedup.model.names import document_key, registrable_domain
from dedup.scrapy.evidence.difference import shape, undirected
from dedup.scrapy.evidence.enough import MOST
from dedup.scrapy.evidence.ledger import Account
from dedup.scrapy.page.in_flight import Page
from dedup.scrapy.page.request import note_lead
from dedup.scrapy.page.session import Session

MOST_LINKED = 2000  # links of a page whose URLs are compared with those of requests
LEADS = 100  # accounts that are told of something new: a bound of memory, the last ones that paid on the way to it
LOOKED = 10  # requests of a page that are compared with its links
_SESSION_IN_PATH = re.compile(r";|/\([A-Za-z]\(")


class PageLinks:
    """The links of a page, navigation and footer included; of the first MOST_LINKED."""

    def __init__(self, response: Response) -> None:
        """Gather them."""
        self._urls: set[str] = set()
        self._keys: set[str] | None = None  # their canonical forms, which take their time
        if not isinstance(response, TextResponse):
            return
        found = response.selector.root.xpath("//a/@href | //area/@href | //link/@href")
        for href in {href.strip().partition("#")[0] for href in found[:MOST_LINKED]}:
            with suppress(ValueError):  # no URL
                self._urls.add(response.urljoin(href))

    def lead_to(self, url: str) -> bool:
        """Whether one of them leads to a URL."""
        if url in self._urls:
            return True
        if self._keys is None:
            self._keys = set()
            for each in self._urls:
                with suppress(ValueError):
                    self._keys.add(document_key(each))
        return document_key(url) in self._keys


class Outlinks:
    """The requests of one page's callback; is_beyond: whether the page has no link to one that was looked at."""

    def __init__(
        self, session: Session, response: Response, page: Page, lead: tuple[Account, ...]
    ) -> None:
        """Begin without any; lead: the accounts that paid on the way to the page."""
        self._session, self._response, self._page, self._lead = session, response, page, lead
        self._seen = 0
        self._last: Request | None = None
        self.is_beyond = False

    def see(self, request: Request, *, has_items: bool) -> None:
        """Look at a request, if that may still show something of the callback; has_items: it yielded items."""
        self._last = request
        keeping, callback = self._session.keeping, self._page.callback
        if self.is_beyond or self._seen >= LOOKED:
            return
        if keeping.looks_at_requests(callback, has_items=has_items):
            self._seen += 1
            linked = self._is_linked(request)
            keeping.note_request(callback, linked=linked)
            self.is_beyond = not linked

    def see_last(self) -> None:
        """Look at the last request of all: spiders that count ask for the next page last."""
        keeping, callback = self._session.keeping, self._page.callback
        if self._last is not None and keeping.is_open(callback) and not self._is_linked(self._last):
            self.is_beyond = True
            keeping.note_request(callback, linked=False)

    def new(self, requests: Iterable[Request]) -> tuple[list[Request], bool]:
        """Return which pass, of a page that brought no new item; whether it has no link to one of them.

        Others wait for news of their accounts.
        """
        session, met = self._session, self._page.space.met
        passing: list[Request] = []
        beyond = False
        made: dict[object, Request] = {}
        for number, each in enumerate(requests):
            made.setdefault(session.fingerprint(each) if session.filters else number, each)
        addresses = cache(lambda: Counter(self._address(each.url) for each in made.values()))
        # whose items are not the page may have other items under a link that an accepted page had
        keeps, links = session.keeping.keeps_all(self._page.callback), self._page.reading.links
        # of a callback that passes over most links, those of accepted pages were not followed either
        follows = keeps and bool(links) and len(made) >= MOST * len([*each_link(links)])
        is_old = follows and not met.is_new(links)
        for fingerprint, request in made.items():
            if isinstance(fingerprint, bytes) and session.requests.has(fingerprint):
                continue
            if not self._is_linked(request):
                note_lead(request, self._lead)
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
        """Pay a request, which passes; else it waits for news of its account. In the mode tag nothing is paid."""
        page, session = self._page, self._session
        if session.config.mode == "tag":
            return True
        ledger = page.space.ledger
        differs = undirected(shape(page.verdict.key, request.url))
        account = Account(page.callback, page.verdict.domain, differs)
        note_lead(request, (account, *(each for each in self._lead if each != account))[:LEADS])
        if ledger.afford(account):
            ledger.charge(account, 1)
            return True
        waits = ledger.wait(account, request)
        session.counts.add("requests/waiting" if waits else "requests/forgotten")
        return False

    def _is_linked(self, request: Request) -> bool:
        """Whether the page has a link to a request's page."""
        page, url = self._page, request.url
        is_own = registrable_domain(url) == page.verdict.document.domain
        if is_own and self._address(url) in each_link(page.reading.links):
            return True
        return self._links.lead_to(url)

    @cached_property
    def _links(self) -> PageLinks:
        return PageLinks(self._response)

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
