"""The three middlewares: Scrapy's calls, each guarded. What they do stands in page/.

    DownloaderMiddleware  a fetched page is judged before it is parsed; a copy is dropped
    SpiderMiddleware      next to the engine: what a callback yields passes, or is withheld
    CallbackMiddleware    next to the spider: it sees an exception before any other middleware hides it

Scrapy passes the spider to their methods up to 2.13, not later.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from functools import cached_property
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from dedup.model.page import Verdict
from dedup.scrapy.exceptions import NearDuplicate, near_duplicate_dropped
from dedup.scrapy.guard import logger
from dedup.scrapy.page.in_flight import token_of
from dedup.scrapy.page.judge import Judge
from dedup.scrapy.page.output import Output
from dedup.scrapy.page.request import again, forget_copied, mark
from dedup.scrapy.page.session import Session
from dedup.scrapy.settings import has_pipelines

FLAG = "near-duplicate"
FLAG_PARSED = "near-duplicate-parsed"  # and compared


class _Middleware:
    def __init__(self, session: Session) -> None:
        """Private: from_crawler() makes it."""
        self.session = session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Join the crawler's session. Raises NotConfigured where the add-on cannot work."""
        return cls(Session.of(crawler))


class DownloaderMiddleware(_Middleware):
    """Judges pages in process_response, at 545: decoded bodies, final responses, no page objects yet."""

    @cached_property
    def _judge(self) -> Judge:
        return Judge(self.session)

    def process_request(
        self,
        request: Request,
        spider: Spider | None = None,  # noqa: ARG002
    ) -> Awaitable[None] | None:
        """Remove from meta what belongs to another page; raise KnownUrl if the page was accepted under another URL.

        A control visit waits for the next second: the page may show the time.
        """
        session, known, pause = self.session, None, None
        try:
            noted = forget_copied(request)
            known = self._judge.known_url(request, noted)
            if noted.control:
                pause = asyncio.sleep(1 - time.time() % 1)
        except Exception as error:  # noqa: BLE001 - a fault of ours never stops a request
            session.counts.fault(error, f"{request} may pass for another page")
        if known is not None:
            raise known
        return pause

    async def process_response(
        self,
        request: Request,
        response: Response,
        spider: Spider | None = None,  # noqa: ARG002
    ) -> Response:
        """Return the page, or raise NearDuplicate. No other exception leaves this method."""
        session, drop = self.session, None
        try:
            verdict = await self._judge.judge(request, response)
            if verdict is not None and verdict.reason in {"compared", "in_flight"}:
                response.flags.append(FLAG_PARSED)
            elif verdict is not None and verdict.status == "near_duplicate":
                response.flags.append(FLAG)
                if session.config.mode == "drop":
                    drop = self._drop(request, response, verdict)
        except Exception as error:  # noqa: BLE001 - a fault of ours never costs a page
            session.counts.fault(error, f"{request} is kept")
        if drop is not None:
            raise drop
        return response

    def _drop(self, request: Request, response: Response, verdict: Verdict) -> NearDuplicate:
        drop, crawler = NearDuplicate(verdict), self.session.crawler
        logger.debug("[dedup] dropped %s: %s", request, drop)
        crawler.signals.send_catch_log(
            near_duplicate_dropped,
            request=request,
            response=response,
            verdict=verdict,
            spider=crawler.spider,
        )
        return drop


class CallbackMiddleware(_Middleware):
    """Releases a page whose callback raised, or was never called (HttpError), at 1000."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Join the crawler's session. Raises NotConfigured."""
        try:
            return super().from_crawler(crawler)
        except NotConfigured:
            raise NotConfigured from None  # the downloader middleware reports this, once

    def process_spider_exception(
        self,
        response: Response,
        exception: Exception,  # noqa: ARG002
        spider: Spider | None = None,  # noqa: ARG002
    ) -> None:
        """Release the page, and leave the exception to others."""
        with self.session.counts.guard(f"{response} stays in flight until its reservation expires"):
            self.session.in_flight.end(_token(response), accepted=False)


class SpiderMiddleware(CallbackMiddleware):
    """Watches what callbacks yield, at 10: next to the engine, after all other middlewares."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Join the crawler's session, and close it with the spider. Raises NotConfigured."""
        middleware = super().from_crawler(crawler)
        connect = crawler.signals.connect
        connect(middleware.spider_opened, signal=signals.spider_opened)
        if has_pipelines(crawler.settings):  # a task for each item, where Scrapy runs on asyncio
            connect(middleware.item_scraped, signal=signals.item_scraped)
            connect(middleware.item_dropped, signal=signals.item_dropped)
            connect(middleware.item_error, signal=signals.item_error)
        else:
            middleware.session.in_flight.has_pipelines = False
        connect(middleware.request_scheduled, signal=signals.request_scheduled)
        connect(middleware.spider_idle, signal=signals.spider_idle)
        connect(middleware.spider_closed, signal=signals.spider_closed)
        return middleware

    async def process_spider_output(
        self,
        response: Response,
        result: AsyncIterator[Any],
        spider: Spider | None = None,  # noqa: ARG002
    ) -> AsyncIterator[Any]:
        """Pass on what a callback yields, and end the page when it is complete."""
        output, complete = Output(self.session, response), False
        if (journal := self.session.report.journal) is not None:
            with self.session.counts.guard("the CPU time of callbacks is not known"):
                result = journal.timed(result)
        try:
            try:
                async for made in result:
                    for passing in output.take(made):
                        yield passing
            except Exception:
                for passing in output.held():
                    yield passing
                raise
            for passing in await output.finish():
                yield passing
            complete = True
        finally:
            output.end(complete=complete)

    async def spider_opened(self) -> None:
        """Begin the session (Scrapy's signal), before any request."""
        with self.session.counts.guard("a store is used"):
            await self.session.begin()

    def item_scraped(self, response: Response | None) -> None:
        """Note an item that got through the pipelines (Scrapy's signal)."""
        self._item_done(response, got_through=True)

    def item_dropped(self, response: Response | None) -> None:
        """Note an item that a pipeline dropped (Scrapy's signal)."""
        self._item_done(response, got_through=False)

    def _item_done(self, response: Response | None, *, got_through: bool) -> None:
        with self.session.counts.guard(f"{response} stays in flight"):
            self.session.in_flight.item_done(_token(response), got_through=got_through)

    def item_error(self, response: Response | None) -> None:
        """Forget the page of an item that a pipeline failed on (Scrapy's signal)."""
        request = getattr(response, "request", None)
        with self.session.counts.guard(f"{response} stays remembered although its item failed"):
            if request is not None:
                self.session.forget(request)

    def request_scheduled(self, request: Request) -> None:
        """Note that a page is fetched for a callback, not awaited in one (Scrapy's signal)."""
        session = self.session
        try:
            session.scheduling = True
            mark(request, scheduled=request.url)
            session.requests.note(session.fingerprint(request))
        except Exception as error:  # noqa: BLE001 - a fault of ours never costs a request
            session.counts.fault(error, f"{request} counts as awaited in a callback")

    def spider_idle(self) -> None:
        """Finish pending work, and send waiting requests: the spider may be closed now (Scrapy's signal)."""
        with self.session.counts.guard("pages stay in flight"):
            self.session.in_flight.commit()
        with self.session.counts.guard("waiting requests are not sent"):
            for space in self.session.spaces.values():
                self.session.send(space.ledger.rest(), "requests/again")
                self.session.send(map(again, space.ledger.last_looks()), "items/last_look")

    async def spider_closed(self, reason: str) -> None:
        """End the session (Scrapy's signal)."""
        counts = self.session.counts
        with counts.guard("what this crawl has learned may be forgotten"):
            await self.session.close(reason)
        with counts.guard("the last faults are not counted"):
            counts.flush()


def _token(response: Response | None) -> str | None:
    request = None if response is None else response.request
    return None if request is None else token_of(request.meta.get("dedup"))
