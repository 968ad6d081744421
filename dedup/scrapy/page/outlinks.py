"""The requests that a callback yields: whether its page has a link to them, and which of them are new.

A request was seen if the crawl made it, or did so with another session. New ones cost the link budget of the page's
callback and site, but for those that leave the site, or that the page has no link to: a spider that counts has an end of
its own. Those that cost it have a priority that is one lower: what accepted pages lead to is fetched before, so that it is
no news of a budget.
"""

from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from html import escape

import msgspec
from scrapy import Request
from scrapy.http import Response, TextResponse

from dedup.core.fingerprint import holds_link, read_page
from dedup.model.names import document_key, registrable_domain
from dedup.scrapy.evidence.link_budget import Budget
from dedup.scrapy.page.in_flight import Page
from dedup.scrapy.page.request import Budgets, note_paid_by
from dedup.scrapy.page.session import Session

MOST_LINKED = 2000  # links of a page whose URLs are compared with those of requests
PAYING = 100  # budgets that something new refills
EXAMINED = 10  # requests of a page that are compared with its links


class NewRequests(msgspec.Struct):
    """The requests of a page that pass.

    followed   of these, those that stay on the site; is_beyond: the page has no link to one of them
    repeated   how many do not pass that Scrapy's filter would not make, either
    """

    passing: list[Request] = []
    followed: int = 0
    is_beyond: bool = False
    repeated: int = 0


class Outlinks:
    """The requests of one page's callback; asks_beyond: whether the page has no link to one that was looked at."""

    def __init__(self, session: Session, response: Response, page: Page, paid_by: Budgets) -> None:
        """Begin without any; paid_by: the budgets that paid on the way to the page."""
        self._session, self._response, self._page, self._paid_by = session, response, page, paid_by
        self._examined = 0
        self._last: Request | None = None
        self.asks_beyond = False

    def note(self, request: Request, *, has_items: bool) -> None:
        """Look at a request, if that is still evidence of the callback; has_items: it yielded items."""
        self._last = request
        callbacks, callback = self._session.callbacks, self._page.callback
        if self.asks_beyond or self._examined >= EXAMINED:
            return
        if callbacks.examines_requests(callback, has_items=has_items):
            self._examined += 1
            self._examine(request)

    def note_last(self) -> None:
        """Look at the last request of all, too: spiders that count ask for the next page last."""
        if self._last is not None and self._session.callbacks.may_store_pages(self._page.callback):
            self._examine(self._last)

    def _examine(self, request: Request) -> None:
        linked = self._is_linked(request)
        self._session.callbacks.note_request(self._page.callback, linked=linked)
        self.asks_beyond = self.asks_beyond or not linked

    def new(self, requests: Iterable[Request]) -> "NewRequests":
        """Return which requests pass, of a page that brought no new item."""
        session, page = self._session, self._page
        found, made = NewRequests(), set[bytes]()
        for request in requests:
            fingerprint = session.fingerprint(request) if session.filters else b""
            if fingerprint and (fingerprint in made or session.requests.has(fingerprint)):
                found.repeated += 1
                continue
            made.add(fingerprint)
            if session.is_followed(request, page.verdict.domain):
                if not self._is_linked(request):
                    note_paid_by(request, self._paid_by)
                    found.is_beyond = True
                elif plain := session.seen_as(page.space, request):
                    found.repeated += not self._withhold(request, plain)
                    continue
                elif not self._pay(request):
                    continue
                found.followed += 1
            found.passing.append(request)
        return found

    def _withhold(self, request: Request, plain: str) -> bool:
        """List a request that was made with another session; return whether it was not listed before."""
        session, fingerprint = self._session, self._session.fingerprint(request)
        if session.config.mode == "tag":
            return True
        if session.withheld.has(fingerprint):
            return False
        session.withheld.note(fingerprint)
        session.report.not_requested(
            request, self._page.callback, reason="session", rule=f"seen as {plain}"
        )
        return True

    def _pay(self, request: Request) -> bool:
        """Whether a request passes; else it waits for news of its budget. In the mode tag nothing is paid."""
        page, session = self._page, self._session
        if session.config.mode == "tag":
            return True
        budget = Budget(page.callback, page.verdict.domain)
        note_paid_by(request, (budget, *(e for e in self._paid_by if e != budget))[:PAYING])
        request.priority -= 1
        became = page.space.budget.pay(budget, request)
        if became != "paid":
            session.counts["requests/waiting"] += 1
        if became == "lost":
            session.report.waits(request, budget)
        return became == "paid"

    def _is_linked(self, request: Request) -> bool:
        """Whether the page has a link to a request's page; hidden ones count, of the first MOST_LINKED."""
        page, url = self._page, request.url
        if registrable_domain(url) == page.verdict.document.domain:
            mine = read_page(b"", url=url, recipe=page.space.recipe, links=True).address
            is_fragment = "#" in url and mine == page.reading.address  # of the page itself
            if is_fragment or holds_link(page.reading.links, mine):
                return True
        html = getattr(self._response, "text", "")
        if any(f'href="{each}"' in html for each in {url, escape(url)}):  # XPath takes longer
            return True
        return url in self._urls or document_key(url) in self._keys

    @cached_property
    def _urls(self) -> set[str]:
        if not isinstance(self._response, TextResponse):
            return set()
        found = self._response.selector.root.xpath("//a/@href | //area/@href | //link/@href")
        urls = set()
        for href in {href.strip().partition("#")[0] for href in found[:MOST_LINKED]}:
            with suppress(ValueError):  # no URL
                urls.add(self._response.urljoin(href))
        return urls

    @cached_property
    def _keys(self) -> set[str]:
        keys = set()
        for each in self._urls:
            with suppress(ValueError):
                keys.add(document_key(each))
        return keys
