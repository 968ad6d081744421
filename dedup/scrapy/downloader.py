"""The downloader middleware: a fetched page is judged before anyone parses it."""

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.utils.reactor import is_asyncio_reactor_installed

from dedup.scrapy.session import Session, logger
from dedup.scrapy.signals import NearDuplicate, near_duplicate_dropped

__all__ = ["DownloaderMiddleware"]

FLAG = "near-duplicate"


class DownloaderMiddleware:
    """Judges pages in process_response, at 540: decoded bodies, final responses.

    In the mode "drop" a near-duplicate raises NearDuplicate; the errback gets it.
    """

    def __init__(self, session: Session) -> None:
        """Private: from_crawler() makes it."""
        self.session = session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Join the crawler's session. Raises NotConfigured where the add-on cannot work."""
        session = Session.of(crawler)
        if not _has_asyncio():
            raise NotConfigured(
                "dedup waits for pages in flight on an asyncio loop; remove TWISTED_REACTOR, or "
                'set it to "twisted.internet.asyncioreactor.AsyncioSelectorReactor"'
            )
        return cls(session)

    def process_request(self, request: Request) -> None:
        """Take out an earlier verdict that was copied along with meta, or left by a retry."""
        request.meta.pop("dedup", None)

    async def process_response(self, request: Request, response: Response) -> Response:
        """Return the page, or raise NearDuplicate. No other exception leaves this method."""
        session = self.session
        try:
            verdict = await session.judge(request, response)
            if verdict is None or verdict.status != "near_duplicate":
                return response
            response.flags.append(FLAG)
            if session.config.mode != "drop":
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
            session.fault(error, f"{request} is kept")
            return response
        raise drop


def _has_asyncio() -> bool:
    try:
        from scrapy.utils.asyncio import is_asyncio_available
    except ImportError:  # Scrapy 2.13
        return is_asyncio_reactor_installed()
    return is_asyncio_available()
