"""The three middlewares of the add-on, and the exceptions of dropped pages and requests.

    DownloaderMiddleware  a fetched page is judged before it is parsed; a near-duplicate is dropped
    SpiderMiddleware      next to the engine: a page is inserted when its callback's output is complete
    CallbackMiddleware    next to the spider: it sees an exception before any other middleware hides it

Scrapy passes the spider to their methods up to 2.13, not later.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Response

from dedup.model.values import Verdict
from dedup.scrapy.counts import logger
from dedup.scrapy.crawl_session import Session
from dedup.scrapy.credit import is_on_credit
from dedup.scrapy.responses import (
    BEHIND,
    asks,
    forget_copied,
    mark_own,
    mark_scheduled,
    wanted_urls,
)

__all__ = [
    "CallbackMiddleware",
    "DownloaderMiddleware",
    "KnownUrl",
    "NearDuplicate",
    "SpiderMiddleware",
    "near_duplicate_dropped",
]

near_duplicate_dropped = object()
"""Sent after a page was dropped, with request, response, verdict and spider."""


class NearDuplicate(IgnoreRequest):
    """A near-duplicate was dropped; verdict names its original, distance and similarity."""

    def __init__(self, verdict: Verdict) -> None:
        """Keep the verdict and make a message of it."""
        self.verdict = verdict
        super().__init__(
            f"near-duplicate of {verdict.of} ({round(100 * (verdict.similarity or 0))} % of the word "
            f"triples alike, distance {verdict.distance})"
        )


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


class DownloaderMiddleware:
    """Judges pages in process_response, at 540: decoded bodies, final responses.

    In the mode "drop" a near-duplicate raises NearDuplicate; the errback gets it. One that
    DEDUP_EXPLORE keeps goes on, flagged.
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
            known = None if kept.urls is None else kept.known(request)
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
            if verdict is None or verdict.status != "near_duplicate":
                return response
            response.flags.append(FLAG)
            if session.config.mode != "drop" or "explored" in request.meta["dedup"]:
                return response
            drop = NearDuplicate(verdict)
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
        crawler.signals.connect(middleware.item_scraped, signal=signals.item_scraped)
        crawler.signals.connect(middleware.item_dropped, signal=signals.item_dropped)
        crawler.signals.connect(middleware.item_error, signal=signals.item_error)
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
        with _Output(self.session, response) as output:
            for yielded in result if journal is None else journal.timed(result):
                if output.passes(yielded):
                    yield yielded

    async def process_spider_output_async(
        self,
        response: Response,
        result: AsyncIterator[Any],
        spider: Spider | None = None,  # noqa: ARG002
    ) -> AsyncIterator[Any]:
        """Do the same for an asynchronous callback."""
        journal = self.session.journal
        with _Output(self.session, response) as output:
            async for yielded in result if journal is None else journal.timed_async(result):
                if output.passes(yielded):
                    yield yielded

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
    release, since that is no content.
    """

    def __init__(self, session: Session, response: Response) -> None:
        noted = _noted(response)
        self._session = session
        self._token = noted.get("token")
        self._follows_nothing = (
            session.config.mode == "skip_links"
            and noted.get("status") == "near_duplicate"
            and "explored" not in noted
        )
        self._withholds = noted.get("reason") == "unchanged" and session.config.mode != "tag"
        self._request = response.request
        self._behind = response.request.meta.get(BEHIND) if response.request is not None else None
        self._on_credit = noted if is_on_credit(noted) else None
        self._wanted: frozenset[str] = frozenset()
        self._asked = self._paid = self._followed = False
        if self._token is None or response.request is None:
            return
        try:
            self._wanted = wanted_urls(response.request, response)
        except Exception as error:
            session.counts.fault(error, f"{response} is parsed, but not remembered")
            session.in_flight.end(self._token, accepted=False)

    def __enter__(self) -> Self:
        return self

    def passes(self, yielded: Any) -> bool:
        """Whether an object that a callback yielded is passed to the engine."""
        credit = self._session.kept.credit
        if not isinstance(yielded, Request):
            if yielded is not None and not self._paid:
                self._paid = True
                if self._request is not None:
                    credit.paid_for(self._request)
            if yielded is None:
                return True
            if self._withholds:
                self._session.in_flight.item_withheld(self._token)
                self._session.counts.add("unchanged_items")
                return False
            self._session.in_flight.item_yielded(self._token)
            return True
        self._followed = True
        credit.mark(yielded, self._on_credit)
        if self._behind is not None:
            yielded.meta[BEHIND] = self._behind
        if asks(yielded, self._wanted):
            self._asked = True
        return not self._follows_nothing

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        accepted = kind is None and not self._asked
        if self._on_credit is not None and accepted:
            self._session.kept.credit.ended(
                self._on_credit, paid=self._paid, followed=self._followed
            )
        self._session.in_flight.end(self._token, accepted=accepted)
