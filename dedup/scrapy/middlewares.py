"""The add-on, its three middlewares, and the exceptions of dropped pages and requests.

    Addon                 ADDONS = {"dedup.scrapy.Addon": 500}: puts the middlewares in place
    DownloaderMiddleware  a fetched page is judged before it is parsed; a near-duplicate is dropped
    SpiderMiddleware      next to the engine: a page is inserted when its callback's output is complete
    CallbackMiddleware    next to the spider: it sees an exception before any other middleware hides it

Scrapy passes the spider to their methods up to 2.13, not later.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.misc import arg_to_iter
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from dedup.core.fingerprint import PageReading
from dedup.model.page import Verdict
from dedup.model.recipes import Recipe
from dedup.scrapy.counts import Counts, logger
from dedup.scrapy.crawl_session import Session
from dedup.scrapy.credit import is_on_credit
from dedup.scrapy.items import Digest, Digester, encode
from dedup.scrapy.responses import (
    BEHIND,
    CONTROL,
    PageLinks,
    asks,
    forget_copied,
    mark_own,
    mark_scheduled,
    wanted_urls,
)
from dedup.scrapy.settings import Config, has_pipelines

if TYPE_CHECKING:
    from dedup.scrapy.in_flight import Flight
    from dedup.scrapy.proof import Proof

near_duplicate_dropped = object()
"""Sent after a page was dropped, with request, response, verdict and spider."""


class NearDuplicate(IgnoreRequest):
    """A near-duplicate was dropped; verdict names its original, distance and similarity.

    is_known  whether someone asked for it: an errback that does knows of drops
    """

    def __init__(self, verdict: Verdict) -> None:
        """Keep the verdict and make a message of it."""
        self._verdict = verdict
        self.is_known = False
        super().__init__(
            f"near-duplicate of {verdict.of} ({round(100 * (verdict.similarity or 0))} % similar, "
            f"distance {verdict.distance})"
        )

    @property
    def verdict(self) -> Verdict:
        """The verdict on the page."""
        self.is_known = True
        return self._verdict


class KnownUrl(IgnoreRequest):
    """A request was not sent: by the site's rules it leads to a page accepted under another URL.

    of     the document key of that page
    rules  the rules that say so, as `dedup store rules` lists them
    """

    def __init__(self, of: str, rules: list[str]) -> None:
        """Keep these and make a message of them."""
        self.of, self.rules = of, rules
        super().__init__(f"the same page as {of}, by {', '.join(rules)}")


FLAG = "near-duplicate"
FLAG_PARSED = "near-duplicate-parsed"  # as evidence
HELD_ITEMS = 1000  # items of a page that are held back until its callback ends


class DownloaderMiddleware:
    """Judges pages in process_response, at 540: decoded bodies, final responses.

    In the mode "drop" a near-duplicate raises NearDuplicate; the errback gets it. One that is parsed as
    evidence (exempt, "items") passes, flagged.
    """

    def __init__(self, session: Session) -> None:
        """Private: from_crawler() makes it."""
        self.session = session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Join the crawler's session. Raises NotConfigured where the add-on cannot work."""
        return cls(Session.of(crawler))

    def process_request(
        self,
        request: Request,
        spider: Spider | None = None,  # noqa: ARG002
    ) -> Request | None:
        """Remove from meta what belongs to another page, or to an earlier try of this one.

        Returns the request, to be scheduled again at the end, if its page may turn out to be known;
        raises KnownUrl if rules say that its page was accepted under another URL.
        """
        try:
            forget_copied(request)
            kept = self.session.kept
            known = kept.urls.known(request) if kept.urls.learners else None
        except Exception as error:
            self.session.counts.fault(error, f"{request} may pass for another page")
            return None
        if known is None or isinstance(known, Request):
            return known
        kept.credit.came_back(request, sent=False)
        rules = [str(rule) for rule in known.rules]
        request.meta["dedup"] = {"status": "skipped", "of": known.original, "rules": rules}
        raise KnownUrl(known.original, rules)

    async def process_response(
        self,
        request: Request,
        response: Response,
        spider: Spider | None = None,  # noqa: ARG002
    ) -> Response:
        """Return the page, or raise NearDuplicate. No other exception leaves this method."""
        session = self.session
        try:
            mark_own(request)
            verdict = await session.judge(request, response)
            if verdict is None or verdict.status != "unique":  # that one is noted when it is parsed
                session.kept.credit.came_back(request)
            if verdict is not None and verdict.reason == "items":
                response.flags.append(FLAG_PARSED)
            if verdict is None or verdict.status != "near_duplicate":
                return response
            response.flags.append(FLAG)
            if session.config.mode != "drop":
                return response
            drop = NearDuplicate(verdict)
            withholds = session.config.proof_items == "withhold"
            if request.errback is not None and session.kept.proof is not None and withholds:
                request.errback = _Errback(request, drop, session.counts)
            logger.debug("Dropped %s: %s", request, drop)
            session.crawler.signals.send_catch_log(
                near_duplicate_dropped,
                request=request,
                response=response,
                verdict=verdict,
                spider=session.crawler.spider,
            )
        except Exception as error:
            session.counts.fault(error, f"{request} is kept")
            return response
        raise drop


class _Errback:
    """An errback whose items are withheld when a dropped page ends in it, as those of its parsed copies are.

    Requests pass, and so do the items of an errback that asks for the drop: it reads the drop's verdict, or
    checks the failure for NearDuplicate.
    """

    def __init__(self, request: Request, drop: NearDuplicate, counts: Counts) -> None:
        self._request, self._drop, self._counts = request, drop, counts
        self._errback = request.errback

    def __call__(self, failure: Failure) -> Any:
        assert self._errback is not None
        self._request.errback = self._errback  # the request may be sent again
        check: Callable[..., Any] = failure.check

        def noted(*kinds: Any) -> Any:
            self._drop.is_known = self._drop.is_known or NearDuplicate in kinds
            return check(*kinds)

        failure.check = noted  # type: ignore[method-assign]
        return self._filtered(self._errback(failure))

    def _filtered(self, output: Any) -> Any:
        if isinstance(output, Deferred):
            return output.addCallback(self._filtered)
        if isinstance(output, Awaitable):
            return self._awaited(output)
        if isinstance(output, AsyncIterator):
            return self._each(output)
        if output is None or isinstance(output, Failure):
            return output
        return filter(self._passes, arg_to_iter(output))

    async def _awaited(self, output: Awaitable[Any]) -> Any:
        return self._filtered(await output)

    async def _each(self, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for made in output:
            if self._passes(made):
                yield made

    def _passes(self, made: object) -> bool:
        if made is None or isinstance(made, Request) or self._drop.is_known:
            return True
        self._counts.add("items/errback")
        return False


class CallbackMiddleware:
    """Releases a page whose callback raised, or was never called (HttpError), at 1000."""

    def __init__(self, session: Session) -> None:
        """Private: from_crawler() makes it."""
        self.session = session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Join the crawler's session. Raises NotConfigured."""
        try:
            return cls(Session.of(crawler))
        except NotConfigured:
            raise NotConfigured from None  # the downloader middleware reports this, once

    def process_spider_exception(
        self,
        response: Response,
        exception: Exception,  # noqa: ARG002
        spider: Spider | None = None,  # noqa: ARG002
    ) -> None:
        """Release the page, and leave the exception to others."""
        self.session.in_flight.end(_noted(response).get("token"), accepted=False)


class SpiderMiddleware(CallbackMiddleware):
    """Watches what callbacks yield, at 10: next to the engine, after all other middlewares."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Join the crawler's session, and close it with the spider. Raises NotConfigured."""
        middleware = super().from_crawler(crawler)
        crawler.signals.connect(middleware.spider_opened, signal=signals.spider_opened)
        if has_pipelines(crawler.settings):  # a task for each item, where Scrapy runs on asyncio
            crawler.signals.connect(middleware.item_scraped, signal=signals.item_scraped)
            crawler.signals.connect(middleware.item_dropped, signal=signals.item_dropped)
            crawler.signals.connect(middleware.item_error, signal=signals.item_error)
        else:
            middleware.session.in_flight.has_pipelines = False
        crawler.signals.connect(middleware.request_scheduled, signal=signals.request_scheduled)
        crawler.signals.connect(middleware.request_dropped, signal=signals.request_dropped)
        crawler.signals.connect(middleware.spider_idle, signal=signals.spider_idle)
        crawler.signals.connect(middleware.spider_closed, signal=signals.spider_closed)
        return middleware

    def process_spider_output(
        self,
        response: Response,
        result: Iterable[Any],
        spider: Spider | None = None,  # noqa: ARG002
    ) -> Iterator[Any]:
        """Pass on a callback's output and end the page's reservation when it is complete."""
        journal = self.session.journal
        output, complete = _Output(self.session, response), False
        try:
            try:
                for yielded in result if journal is None else journal.timed(result):
                    if output.passes(yielded):
                        yield yielded
            except Exception:
                yield from output.held()
                raise
            yield from output.finish()
            complete = True
        finally:
            output.end(complete=complete)

    async def process_spider_output_async(
        self,
        response: Response,
        result: AsyncIterator[Any],
        spider: Spider | None = None,  # noqa: ARG002
    ) -> AsyncIterator[Any]:
        """Do the same for an asynchronous callback."""
        journal = self.session.journal
        output, complete = _Output(self.session, response), False
        try:
            try:
                async for yielded in result if journal is None else journal.timed_async(result):
                    if output.passes(yielded):
                        yield yielded
            except Exception:
                for held in output.held():
                    yield held
                raise
            for held in output.finish():
                yield held
            complete = True
        finally:
            output.end(complete=complete)

    async def spider_opened(self) -> None:
        """Begin the session (Scrapy's signal), before any request."""
        await self.session.begin()

    def item_scraped(self, response: Response | None) -> None:
        """Note an item that got through the pipelines (Scrapy's signal)."""
        self.session.in_flight.item_done(_token(response), got_through=True)

    def item_dropped(self, response: Response | None) -> None:
        """Note an item that a pipeline dropped (Scrapy's signal)."""
        self.session.in_flight.item_done(_token(response), got_through=False)

    def item_error(self, response: Response | None) -> None:
        """Forget the page of an item that a pipeline failed on (Scrapy's signal)."""
        request = getattr(response, "request", None)
        if request is not None:
            self.session.forget(request)

    def request_scheduled(self, request: Request) -> None:
        """Note that a page is fetched for a callback, not awaited in one (Scrapy's signal)."""
        self.session.scheduling = True
        mark_scheduled(request)
        if self.session.kept.proof is not None:
            self.session.kept.proof.met.schedule(request)

    def request_dropped(self, request: Request) -> None:
        """Note a request that Scrapy filtered out: it brings nothing (Scrapy's signal)."""
        self.session.kept.credit.came_back(request, sent=False)

    def spider_idle(self) -> None:
        """Finish pending work: the spider may be closed now (Scrapy's signal)."""
        self.session.in_flight.commit()

    async def spider_closed(self) -> None:
        """End the session (Scrapy's signal)."""
        await self.session.close()


def _token(response: Response | None) -> str | None:
    return None if response is None else _noted(response).get("token")


def _noted(response: Response) -> dict[str, Any]:
    noted = response.request.meta.get("dedup") if response.request is not None else None
    return noted if isinstance(noted, dict) else {}


class _Output:
    """The output of one callback, from its first object to its end.

    Complete: insert. Raised, closed early, or asked for something (a login, a captcha, a retry):
    release, since that is no content. Where items decide, the items of a page that is parsed for evidence
    are held back until the end, and withheld if they are equal to its original's.
    """

    _look = _before = None
    _digester: Digester | None = None
    _hash: int | None = None  # of the item yielded last
    _wanted: frozenset[str] | None = None  # once a request is yielded
    _asked = _paid = _new = _followed = _leads_on = _overflowed = False
    _beyond = False  # whether it leads on to pages without a link to them
    _linked = False  # whether it leads on to pages with one
    # whether, before an item, it asked for a new page, or for one without a link to it
    _asks = False
    _made = 0  # requests
    _links: PageLinks | None = None  # once they are asked for

    def __init__(self, session: Session, response: Response) -> None:
        noted = _noted(response)
        self._session = session
        self._token = noted.get("token")
        self._follows_nothing = (
            session.config.mode == "skip_links" and noted.get("status") == "near_duplicate"
        )
        self._request = request = response.request
        self._response = response
        self._behind = request.meta.get(BEHIND) if request is not None else None
        is_like = noted.get("of") is not None  # as few pages are
        self._on_credit = noted if is_like and is_on_credit(noted) else None
        self._is_unique = noted.get("status") == "unique"
        self._proof = session.kept.proof
        self._flight = session.in_flight.flights.get(self._token or "")
        tags = session.config.mode == "tag"
        if self._proof is not None and is_like:
            self._look = self._proof.look(request)
        elif self._proof is not None and noted.get("reason") == "unchanged" and not tags:
            self._before = self._proof.before(request)
        self._withholds = self._proof is None and noted.get("reason") == "unchanged" and not tags
        self._control = (
            None if request is None or self._proof is None else request.meta.get(CONTROL)
        )
        self._items: list[Any] = []
        self._requests: list[Request] = []
        self._holds_items = (self._look is not None and self._look.withheld) or (
            self._before is not None and not self._before.items  # compared all together
        )
        self._holds_requests = self._look is not None and self._look.checks

    def passes(self, yielded: Any) -> bool:
        """Whether an object that a callback yielded is passed to the engine now."""
        if isinstance(yielded, Request):
            return self._passes_request(yielded)
        if yielded is None:
            return self._control is None
        new = self._digested(yielded)
        if self._control is not None:
            return False
        if new and self._request is not None:
            self._new = True
            if self._session.kept.credit.was_given:
                self._session.kept.credit.paid_for(self._request)
        self._paid = True
        if self._withholds or (self._before is not None and self._hash in self._before.items):
            self._unchanged()
            return False
        if self._holds_items:
            self._items.append(yielded)
            if len(self._items) <= HELD_ITEMS:
                return False
            self._holds_items, self._overflowed = False, True  # too many: all of them pass
            return False
        self._session.in_flight.item_yielded(self._token)
        return True

    def _unchanged(self) -> None:
        """Note an item that is withheld, as an earlier crawl brought it."""
        self._session.in_flight.item_withheld(self._token)
        self._session.counts.add("unchanged_items")

    def _digested(self, item: Any) -> bool:
        """Add an item to the page's digest; return whether no page of its callback brought it before."""
        if self._proof is None or self._request is None:
            return True
        if self._flight is None and self._look is None and self._control is None:
            return True
        with self._session.counts.meter:
            if self._digester is None:
                if (flight := self._flight) is None:
                    given = self._unjudged(self._request)
                else:
                    recipe = flight.namespace.detector.recipe
                    given = flight.callback, recipe, lambda: flight.reading
                self._digester = self._proof.digester(self._response, *given)
            self._hash = self._digester.add(item)
            return self._control is None and self._proof.met.is_new_item(
                self._digester.callback, self._hash
            )

    def _unjudged(self, request: Request) -> tuple[str, Recipe, Callable[[], PageReading]]:
        """Return callback, recipe and reading of a control visit, or in the mode "tag" of a near-duplicate.

        It is read when an item has a text.
        """
        session, response = self._session, self._response
        recipe = session.recipe_of(request)
        reading = cache(lambda: session.read(recipe, response))
        return session.callback(request).name, recipe, reading

    def _passes_request(self, request: Request) -> bool:
        self._followed = True
        if self._control is not None:
            return False
        credit = self._session.kept.credit
        credit.mark(request, self._on_credit, None if self._new else self._request)
        if self._behind is not None:
            request.meta[BEHIND] = self._behind
        if self._wanted is None:
            self._wanted = self._wanted_urls()
        if asks(request, self._wanted):
            self._asked = True
        if self._proof is not None and self._flight is not None:
            try:
                self._compare_request(self._proof, self._flight, request)
            except Exception as error:
                self._session.counts.fault(error, f"{self._response} is taken to lead on")
                self._leads_on = self._beyond = self._asks = True
        if self._follows_nothing:
            return False
        if self._holds_requests and not self._asked:
            self._requests.append(request)
            return False
        return True

    def _wanted_urls(self) -> frozenset[str]:
        try:
            return (
                frozenset() if self._request is None else wanted_urls(self._request, self._response)
            )
        except Exception as error:
            self._session.counts.fault(error, f"{self._response} is parsed, but not remembered")
            self._asked = True
            return frozenset()

    def _compare_request(self, proof: "Proof", flight: "Flight", request: Request) -> None:
        proof.met.follow(flight, request, self._is_linked, self._made)
        self._made += 1
        if self._digester is None and not self._asks:
            self._asks = proof.met.asks(flight, request, self._is_linked, self._made)
        if self._look is not None and not (self._beyond and self._linked):
            leads_on = not proof.met.is_scheduled(request)
            beyond = leads_on and proof.met.leads_beyond(flight, request, self._is_linked)
            self._leads_on, self._beyond = self._leads_on or leads_on, self._beyond or beyond
            self._linked = self._linked or (leads_on and not beyond)

    def _is_linked(self, url: str) -> bool:
        if self._links is None:
            self._links = PageLinks(self._response)
        return self._links.lead_to(url)

    def held(self) -> Iterator[Any]:
        """Return what was held back, as the items are not equal, or not known."""
        items, self._items = self._items, []
        requests, self._requests = self._requests, []
        for _ in items:
            self._session.in_flight.item_yielded(self._token)
        yield from items
        yield from requests

    def finish(self) -> Iterator[Any]:
        """Compare the items, and return what was held back, unless they are equal."""
        if self._proof is None or self._request is None:
            return iter(())
        try:
            equal = self._compared(self._proof, self._request)
        except Exception as error:
            self._session.counts.fault(error, f"{self._response} is kept")
            equal = False
        if not self._items and not self._requests:
            return iter(())
        if not equal or self._overflowed:
            self._requests = [] if equal else self._requests
            return self.held()
        if self._before is not None:
            for _ in self._items:
                self._unchanged()
        elif self._items:
            self._session.counts.add("items/withheld", len(self._items))
        self._items.clear()
        self._requests.clear()
        return iter(())

    def _compared(self, proof: "Proof", request: Request) -> bool:
        """Note the digest of the page; return whether it is a copy by its items, and is withheld."""
        with self._session.counts.meter:
            digest = (
                Digest(0, silent=not self._asks)
                if self._digester is None
                else self._digester.digest()
            )
        if self._control is not None:
            proof.control_ended(self._control, digest)
            return False
        if self._flight is not None and digest is not None:
            self._flight.brought = encode(digest)
            if proof.met.own is not None:
                proof.met.accept(self._flight.verdict.document.key)
        if self._before is not None:
            return digest == self._before
        if self._look is None or self._asked:
            return False
        if digest is not None and digest.is_nothing and self._look.hidden:
            self._on_credit = None  # nothing follows such pages, however many there are
            return False
        equal = proof.ended(
            request,
            digest,
            leads_on=self._leads_on,
            beyond=self._beyond,
            digester=self._digester,
        )
        if not equal or self._flight is None or self._flight.verdict.reason != "items":
            return False
        if self._on_credit is not None:
            self._session.kept.credit.ended(
                self._on_credit, paid=self._new, followed=self._followed and not self._requests
            )
            self._on_credit = None
        # what a copy leads to is known from now on, if its requests were made
        self._session.in_flight.end(self._token, accepted=False, followed=not self._requests)
        return True

    def end(self, *, complete: bool) -> None:
        """End the page's reservation; complete says whether the callback got to its end."""
        accepted = complete and not self._asked
        session, request = self._session, self._request
        if self._look is not None and self._proof is not None:
            self._proof.not_compared(request)
        if self._control is not None and self._proof is not None and not complete:
            self._proof.control_ended(self._control, None)
        credit = session.kept.credit
        if self._is_unique and request is not None and credit.was_given:
            if self._paid or (accepted and not session.has_yielded(request)):
                credit.paid_for(request)
            else:
                credit.came_back(request)
        if self._on_credit is not None and accepted:
            own = self._beyond and not self._linked
            credit.ended(self._on_credit, paid=self._new, followed=self._followed, own=own)
        session.in_flight.end(self._token, accepted=accepted)


# -------------------------------------------------------------------------------------- the add-on


class Addon:
    """Enables the middlewares at their orders, unless the project already placed them."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Check the settings and put the middlewares in place (Scrapy's add-on interface)."""
        if "SCRAPY_CHECK" in os.environ:
            raise NotConfigured("scrapy check runs contracts on pages it must see")
        Config.from_settings(settings)
        # 540: after decompression, redirects, meta refresh and retries, so that it sees final,
        # decoded pages; 10: next to the engine, so that it sees all that a callback yields; 1000:
        # next to the spider, so that it sees what a callback raises
        place = settings.setdefault_in_component_priority_dict
        place("DOWNLOADER_MIDDLEWARES", DownloaderMiddleware, 540)
        place("SPIDER_MIDDLEWARES", SpiderMiddleware, 10)
        place("SPIDER_MIDDLEWARES", CallbackMiddleware, 1000)
