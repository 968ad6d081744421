"""Pages in flight: from the verdict to the end of callback and pipelines.

    begin -> items are yielded -> the callback ends -> the pipelines are through -> parsed -> commit

Invariants:
  - A page has paid when one of its items got through the pipelines, or if no page of its callback ever yielded one.
  - Finished pages are inserted together, at most COMMIT_SECONDS later, and at once when another page
    waits for one of them: a transaction for each would cost more than everything else. Until then they
    are in flight, so nothing is dropped because of them, and a kill forgets them.
"""

import asyncio
from collections import deque
from typing import Any, Literal
from weakref import WeakKeyDictionary, ref

import msgspec
from scrapy import Request

from dedup.core.fingerprint import PageReading
from dedup.model.page import Neighbour, Verdict
from dedup.scrapy.evidence.items import ItemsDigest
from dedup.scrapy.evidence.page_text import PageText
from dedup.scrapy.evidence.patterns import Pattern
from dedup.scrapy.evidence.seen import FETCHED
from dedup.scrapy.guard import Counts, run_guarded
from dedup.scrapy.memory import Space

COMMIT_SECONDS = 0.1  # how long a parsed page waits for others to be inserted with
COMMIT_PAGES = 16  # parsed pages that are inserted without waiting

Handling = Literal["accept", "check", "refetch"]


class _Request(ref[Request]):
    """A request that may be freed while its page is in flight."""

    __slots__ = ("token",)
    token: str


class Page(msgspec.Struct, eq=False):
    """A page in flight.

    handling  accept: what it yields passes; check: what is new passes; refetch: the same, and all requests
    match    what its items are compared with: an accepted page, or this one when it was fetched before
    pattern  of a page that is checked
    by_text  whether the text alone decides that it brings nothing new
    given    the hash of what its callback is given beside the response; 0: nothing
    text     of a page that is checked, if its match's items hold the page
    digest   the match's items; None if they count for nothing: it is of another crawl, and has other numbers
    items    how many are still in the pipelines
    first    the hashes of those that no page brought before
    brought  the digest of all, once the callback has ended
    token    of its reservation, once it is in flight; request ends it at the latest, when that is freed
    """

    space: Space
    verdict: Verdict
    callback: str
    reading: PageReading
    handling: Handling = "accept"
    match: Neighbour | None = None
    pattern: Pattern | None = None
    by_text: bool = False
    digest: ItemsDigest | None = None
    given: int = 0
    text: PageText | None = None
    items: int = 0
    first: list[bytes] = []
    brought: bytes = b""
    paid: bool = False
    called_back: bool = False
    token: str = ""
    request: _Request | None = None


class PagesInFlight:
    """The pages of one crawl that are not inserted yet.

    pages      those that neither callback nor pipelines have ended, by token
    discarded  the requests of pages in flight that were freed: another component discarded them
    """

    def __init__(self, counts: Counts, *, has_pipelines: bool) -> None:
        """Hold none. has_pipelines: items pass them before their page is done."""
        self._counts, self._has_pipelines = counts, has_pipelines
        self.pages: dict[str, Page] = {}
        self.discarded: deque[_Request] = deque()
        self._parsed: dict[Space, list[Verdict]] = {}  # to be inserted by commit()
        self._timer: asyncio.TimerHandle | None = None  # which calls it
        self._yielding: set[str] = set()  # callbacks that have yielded an item
        # of each judged page the items that no page brought before
        self._first: WeakKeyDictionary[Request, list[bytes]] = WeakKeyDictionary()

    def begin(self, page: Page, request: Request) -> None:
        """Add a page, which has a token."""
        assert page.verdict.token is not None
        page.request = held = _Request(request, self.discarded.append)
        held.token = page.token = page.verdict.token
        self.pages[page.token] = page
        self._first[request] = page.first

    def has_judged(self, request: Request) -> bool:
        """Whether a page has, or had, a reservation."""
        return request in self._first

    def forget(self, request: Request, space: Space) -> None:
        """Forget the items of a judged page, which end with it."""
        space.seen.forget_items(self._first.get(request, []))

    def page_of(self, request: Request | None) -> Page | None:
        """Return the page of a request, while it is in flight."""
        noted = None if request is None else request.meta.get("dedup")
        token = noted.get("token") if isinstance(noted, dict) else None
        return self.pages.get(token) if isinstance(token, str) else None

    def item_yielded(self, page: Page) -> None:
        """Note an item that goes to the pipelines, or, where there are none, got through."""
        page.items += self._has_pipelines
        page.paid = page.paid or not self._has_pipelines
        self._yielding.add(page.callback)

    def item_withheld(self, page: Page) -> None:
        """Note an item that the crawl, or an earlier one, has."""
        page.paid = True
        self._yielding.add(page.callback)

    def item_done(self, token: str | None, *, got_through: bool) -> None:
        """Note that an item is through the pipelines, or was dropped by one."""
        page = self.pages.get(token or "")
        if page is None:
            return
        page.items -= 1
        page.paid = page.paid or got_through
        if page.called_back and page.items <= 0:
            self.end(token, accepted=True)

    def has_yielded(self, callback: str) -> bool:
        """Whether a page of a callback brought an item."""
        return callback in self._yielding

    def end(self, token: str | None, *, accepted: bool) -> None:
        """Insert a page soon, if its callback succeeded, or release it; later calls do nothing."""
        page = self.pages.get(token or "")
        if page is None or token is None:
            return
        if accepted and page.items > 0:
            page.called_back = True
            return
        del self.pages[token]
        if not accepted:
            page.space.memory.release(page.verdict)
            return
        page.space.seen.add_links(page.callback, page.reading.links)
        page.space.seen.add_links(FETCHED, page.reading.address)
        paid = page.paid or page.callback not in self._yielding
        if not paid:  # the pipelines refused its items: those of a copy may get through
            page.space.seen.forget_items(page.first)
        verdict = page.verdict.brought(paid=paid, items=page.brought)
        parsed = self._parsed.setdefault(page.space, [])
        parsed.append(verdict)
        if len(parsed) >= COMMIT_PAGES:
            self.commit()
        else:
            self.schedule_commit()

    def release_discarded(self) -> None:
        """Release the pages that another component discarded: their requests were freed."""
        while self.discarded:
            self.end(self.discarded.popleft().token, accepted=False)

    def waits_for_insert(self, key: str) -> bool:
        """Whether the next commit inserts a page with this key."""
        return any(v.document.key == key for verdicts in self._parsed.values() for v in verdicts)

    def schedule_commit(self) -> None:
        """Schedule a commit(), soon."""
        if self._timer is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # the loop has ended, and the crawl with it
            self.commit()
        else:
            consequence = "pages are parsed, but not remembered"
            self._timer = loop.call_later(
                COMMIT_SECONDS, run_guarded, self._counts, self.commit, consequence
            )

    def commit(self) -> None:
        """Insert the pages that were parsed since the last time, and flush the stats."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        parsed, self._parsed = self._parsed, {}
        for space, verdicts in parsed.items():
            space.memory.insert(verdicts)
        self._counts.flush()

    def close(self) -> None:
        """Release what is left, and insert what was parsed. Reservations end with the crawl."""
        for token in [*self.pages]:
            self.end(token, accepted=False)
        self.commit()


def token_of(noted: Any) -> str | None:
    """Return the token in meta["dedup"], or None."""
    token = noted.get("token") if isinstance(noted, dict) else None
    return token if isinstance(token, str) else None
