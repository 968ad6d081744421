"""The three middlewares: Scrapy's calls, each guarded. What they do stands in page/.

    DownloaderMiddleware  a fetched page is judged before it is parsed; a copy is dropped
    SpiderMiddleware      next to the engine: what a callback yields passes, or is withheld
    CallbackMiddleware    next to the spider: it sees an exception before any other middleware hides it

Invariant: what a callback yields passes, whatever of ours fails: what is held back is in a list of this module.

Scrapy passes the spider to their methods up to 2.13, not later.
"""

from collections.abc import AsyncIterator
from functools import cached_property
from typing import Any, Self
from weakref import WeakSet

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from dedup.model.errors import UsageError
from dedup.model.page import Verdict
from dedup.scrapy.exceptions import NearDuplicate, near_duplicate_dropped
from dedup.scrapy.guard import FAULTS, count_fault, guarded, kind_of, logger
from dedup.scrapy.page.in_flight import token_of
from dedup.scrapy.page.judge import Judge
from dedup.scrapy.page.output import Objects, PassingPage, output_of
from dedup.scrapy.page.request import MARK, again, forget_copied, mark
from dedup.scrapy.page.session import Session
from dedup.scrapy.settings import has_pipelines

_broken: "WeakSet[Crawler]" = WeakSet()  # crawlers whose session could not be made

FLAG = "near-duplicate"
FLAG_PARSED = "near-duplicate-parsed"  # and checked


class _Middleware:
    def __init__(self, session: Session) -> None:
        """Private: from_crawler() makes it."""
        self.session = session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Join the crawler's session. Raises NotConfigured where the add-on cannot work."""
        return cls(_session_of(crawler))


class DownloaderMiddleware(_Middleware):
    """Judges pages in process_response, at 545: decoded bodies, final responses, no page objects yet."""

    @cached_property
    def _judge(self) -> Judge:
        return Judge(self.session)

    def process_request(
        self,
        request: Request,
        spider: Spider | None = None,  # noqa: ARG002
    ) -> None:
        """Remove from meta what belongs to another page."""
        if "dedup" in request.meta or MARK in request.meta:
            with guarded(self.session.counts, f"{request} may pass for another page"):
                forget_copied(request)

    async def process_response(
        self,
        request: Request,
        response: Response,
        spider: Spider | None = None,  # noqa: ARG002
    ) -> Response:
        """Return the page, or raise NearDuplicate. No other exception leaves this method."""
        session, drop = self.session, None
        with guarded(session.counts, f"{request} is kept"):
            verdict = await self._judge.judge(request, response)
            if verdict is not None and verdict.reason in {"checked", "in_flight"}:
                response.flags.append(FLAG_PARSED)
            elif verdict is not None and verdict.status == "near_duplicate":
                response.flags.append(FLAG)
                if session.config.mode == "drop":
                    drop = self._drop(request, response, verdict)
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
        with guarded(
            self.session.counts, f"{response} stays in flight until its reservation expires"
        ):
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
        complete, output = False, _Output(self.session, response)
        try:
            try:
                async for one in result:
                    for passing in output.take(one):
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
        with guarded(self.session.counts, "a store is used"):
            await self.session.begin()

    def item_scraped(self, response: Response | None) -> None:
        """Note an item that got through the pipelines (Scrapy's signal)."""
        self._item_done(response, got_through=True)

    def item_dropped(self, response: Response | None) -> None:
        """Note an item that a pipeline dropped (Scrapy's signal)."""
        self._item_done(response, got_through=False)

    def _item_done(self, response: Response | None, *, got_through: bool) -> None:
        with guarded(self.session.counts, f"{response} stays in flight"):
            self.session.in_flight.item_done(_token(response), got_through=got_through)

    def item_error(self, response: Response | None) -> None:
        """Forget the page of an item that a pipeline failed on (Scrapy's signal)."""
        request = getattr(response, "request", None)
        with guarded(self.session.counts, f"{response} stays remembered although its item failed"):
            if request is not None:
                self.session.forget(request)

    def request_scheduled(self, request: Request) -> None:
        """Note that a page is fetched for a callback, not awaited in one (Scrapy's signal)."""
        session = self.session
        try:  # guarded() would cost each request as much again
            session.schedules = True
            mark(request, scheduled=request.url)
            session.note_request(request)
        except FAULTS as error:
            count_fault(session.counts, error, f"the page of {request} is kept (inline)")

    def spider_idle(self) -> None:
        """Finish pending work, and send waiting requests: the spider may be closed now (Scrapy's signal)."""
        with guarded(self.session.counts, "pages stay in flight"):
            self.session.in_flight.commit()
        with guarded(self.session.counts, "waiting requests are not sent"):
            for space in self.session.spaces.values():
                self.session.send(space.budget.rest(), "requests/again")
                self.session.send(map(again, space.patterns.last_checks()), "items/last_check")

    async def spider_closed(self, reason: str) -> None:
        """End the session (Scrapy's signal)."""
        counts = self.session.counts
        with guarded(counts, "what this crawl has learned may be forgotten"):
            await self.session.close(reason)
        with guarded(counts, "the last faults are not counted"):
            counts.flush()


class _Output:
    """What a callback yields, and the guard around it: after a fault of ours everything passes, held or to come.

    take() each object -> finish(), or held() if the callback raised -> end()
    """

    def __init__(self, session: Session, response: Response) -> None:
        """Find out what becomes of it."""
        self._session, self._response = session, response
        self._held: list[Any] = []  # what of it has not passed
        self._output: PassingPage | None = None  # None: everything passes
        with guarded(session.counts, f"the output of {response} passes unchecked"):
            self._output = output_of(session, response, self._held)

    def take(self, one: Any) -> Objects:
        """Return what passes now."""
        if self._output is None:
            return (one,)
        before = len(self._held)
        try:
            return self._output.take(one)
        except FAULTS as error:
            is_held = len(self._held) > before
            return [*self._failed(error), *([] if is_held else [one])]

    async def finish(self) -> Objects:
        """Return what passes at the end of the callback."""
        try:
            return () if self._output is None else await self._output.finish()
        except FAULTS as error:
            return self._failed(error)

    def held(self) -> list[Any]:
        """Return what was held back when the callback raised, or we failed; it passes."""
        found, output, self._output = [*self._held], self._output, None
        self._held.clear()
        with guarded(self._session.counts, f"{self._response} is parsed, but not remembered"):
            if output is not None:
                output.note_items(found)
        return found

    def end(self, *, complete: bool) -> None:
        """End the page: inserted if the callback got to its end."""
        session, ended = self._session, False
        with guarded(session.counts, f"{self._response} is parsed, but not remembered"):
            if self._output is not None:
                self._output.end(complete=complete)
                ended = True
        if not ended:
            with guarded(session.counts, f"{self._response} stays in flight"):
                session.in_flight.end(_token(self._response), accepted=complete)

    def _failed(self, error: BaseException) -> list[Any]:
        count_fault(self._session.counts, error, f"all output of {self._response} passes")
        return self.held()


def _session_of(crawler: Crawler) -> Session:
    """Return the crawler's session. Raises UsageError for wrong settings, NotConfigured where the add-on cannot work."""
    if crawler in _broken:
        raise NotConfigured
    try:
        return Session.of(crawler)
    except (UsageError, NotConfigured):
        raise
    except Exception as error:
        _broken.add(crawler)
        if crawler.stats is not None:
            crawler.stats.inc_value(f"dedup/error/{kind_of(error)}")
        logger.exception("[dedup] is off in this crawl, pages are kept: %s", error)
        raise NotConfigured from error


def _token(response: Response | None) -> str | None:
    request = None if response is None else response.request
    return None if request is None else token_of(request.meta.get("dedup"))
