"""The downloader middleware: a fetched page is judged before anyone parses it.

Scrapy passes its methods the spider up to 2.13, and not after.
"""

from typing import Self

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response

from dedup.scrapy.counts import logger
from dedup.scrapy.responses import forget_copied, mark_own
from dedup.scrapy.session import Session
from dedup.scrapy.signals import NearDuplicate, near_duplicate_dropped

__all__ = ["DownloaderMiddleware"]

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

    def process_request(self, request: Request, spider: Spider | None = None) -> None:  # noqa: ARG002
        """Forget what meta still says of another page, or of an earlier try of this one."""
        try:
            forget_copied(request)
        except Exception as error:
            self.session.counts.fault(error, f"{request} may pass for another page")

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
