"""The spider middlewares: a page lasts when its callback ended well, and is given back when not.

One stands next to the engine and sees all that is yielded; another next to the spider, where it
sees an exception before any middleware in between makes up for it. Scrapy passes them the spider up
to 2.13, and not after.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from dedup.scrapy.responses import own_urls
from dedup.scrapy.session import Session

__all__ = ["CallbackMiddleware", "SpiderMiddleware"]


class CallbackMiddleware:
    """Gives a page back whose callback raised, or was never called (HttpError), at 1000."""

    def __init__(self, session: Session) -> None:
        """Private: from_crawler() makes it."""
        self.session = session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Join the crawler's session. Raises NotConfigured."""
        try:
            return cls(Session.of(crawler))
        except NotConfigured:
            raise NotConfigured from None  # the downloader middleware says why, once

    def process_spider_exception(
        self,
        response: Response,
        exception: Exception,  # noqa: ARG002
        spider: Spider | None = None,  # noqa: ARG002
    ) -> None:
        """Give the page back, and leave the exception to others."""
        self.session.end(_noted(response).get("token"), accepted=False)


class SpiderMiddleware(CallbackMiddleware):
    """Watches what callbacks yield, at 10: next to the engine, after all other middlewares."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Join the crawler's session, and end it with the spider. Raises NotConfigured."""
        middleware = super().from_crawler(crawler)
        crawler.signals.connect(middleware.item_error, signal=signals.item_error)
        crawler.signals.connect(middleware.spider_idle, signal=signals.spider_idle)
        crawler.signals.connect(middleware.spider_closed, signal=signals.spider_closed)
        return middleware

    def process_spider_output(
        self,
        response: Response,
        result: Iterable[Any],
        spider: Spider | None = None,  # noqa: ARG002
    ) -> Iterator[Any]:
        """Pass on what a callback yields and end the page's reservation when it is through."""
        journal = self.session.journal
        with _Output(self.session, response) as output:
            for yielded in result if journal is None else journal.timed(result):
                if not isinstance(yielded, Request) or output.passes(yielded):
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
                if not isinstance(yielded, Request) or output.passes(yielded):
                    yield yielded

    def item_error(self, response: Response | None) -> None:
        """Forget the page of an item that a pipeline failed on (Scrapy's signal)."""
        request = getattr(response, "request", None)
        if request is not None:
            self.session.forget(request)

    def spider_idle(self) -> None:
        """Leave nothing undone: the spider may be closed now (Scrapy's signal)."""
        self.session.commit()

    async def spider_closed(self) -> None:
        """End the session (Scrapy's signal)."""
        await self.session.close()


def _noted(response: Response) -> dict[str, Any]:
    noted = response.request.meta.get("dedup") if response.request is not None else None
    return noted if isinstance(noted, dict) else {}


class _Output:
    """The output of one callback, from its first object to its end.

    Ended well: insert. Raised, closed half way, or yielded its own page again: release.
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
        self._response = response
        self._asked_again = False

    def __enter__(self) -> Self:
        return self

    def passes(self, yielded: Request) -> bool:
        """Whether a request goes on to the engine."""
        if yielded.dont_filter and not self._asked_again:  # Scrapy filters a mere link to itself
            self._asked_again = self._is_own(yielded)
        return not self._follows_nothing

    def _is_own(self, yielded: Request) -> bool:
        """Whether a request is for the page itself: a retry."""
        request = self._response.request
        if self._token is None or request is None:
            return False
        try:
            return yielded.url in own_urls(request, self._response)
        except Exception as error:
            self._session.counts.fault(error, f"{request} is parsed, but not remembered")
            return True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._session.end(self._token, accepted=kind is None and not self._asked_again)
