"""One of the spiders of the demo with Kafka: it crawls its share of the site's pages, in a process.

    python tests/support/fleet_spider.py --url SITE --share 0/2 --service URL ...

Rule: the spider is what a user would write, and the settings are what several spiders that share a
service need; whatever is beside it only notes. A line of JSON goes to standard output for each page
that was parsed, was dropped, or did not arrive.
"""

import argparse
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec
import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse, Response
from twisted.python.failure import Failure

from dedup.demo.site import Site
from dedup.model.errors import DedupError
from dedup.scrapy import NearDuplicate

__all__ = ["Note"]

CONCURRENT_REQUESTS = 4
DELAY_SECONDS = 0.02  # the demo is to be watched


class Note(msgspec.Struct, frozen=True):
    """Something that happened to the page with this URL: parsed, dropped, or failed."""

    event: str
    url: str
    of: str | None = None


class ShareSpider(scrapy.Spider):
    """Fetches its share of the site's pages."""

    name = "fleet"
    pages: Sequence[str] = ()

    async def start(self) -> AsyncIterator[scrapy.Request]:
        """Ask for the front page, which says that the site is there."""
        yield scrapy.Request(self.start_urls[0], self.parse_front)

    def parse_front(self, response: Response) -> Iterator[scrapy.Request]:
        """Ask for the pages of the share."""
        for path in self.pages:
            yield response.follow(path, self.parse, errback=self.missed)

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        """Yield an item."""
        if isinstance(response, HtmlResponse):
            yield {"url": response.url, "title": response.css("h1::text").get()}
        _tell(Note("parsed", response.url))

    def missed(self, failure: Failure) -> None:
        """Note a page that was dropped, or did not arrive."""
        url = failure.request.url  # type: ignore[attr-defined]  # Scrapy's own addition
        if isinstance(failure.value, NearDuplicate):
            _tell(Note("dropped", url, failure.value.verdict.of))
        else:
            _tell(Note("failed", url))


def _tell(note: Note) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(note) + b"\n")
    sys.stdout.buffer.flush()


def main() -> int:
    """Crawl."""
    parser = argparse.ArgumentParser(prog="fleet_spider.py")
    for name in ("--url", "--share", "--service", "--path"):
        parser.add_argument(name, required=True)
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    mine, spiders = map(int, options.share.split("/"))
    process = CrawlerProcess(
        {
            "ADDONS": {"dedup.scrapy.Addon": 500},
            "DEDUP_SERVICE": options.service,
            "DEDUP_PATH": options.path,
            "DEDUP_PROOF": "text",  # many drops from the first page on: what is dropped by mistake shows
            "CONCURRENT_REQUESTS": CONCURRENT_REQUESTS,
            "DOWNLOAD_DELAY": DELAY_SECONDS,
            "LOG_LEVEL": "CRITICAL",
            "TELNETCONSOLE_ENABLED": False,
            "HTTPPROXY_ENABLED": False,  # the site is on loopback, whatever the environment says
        }
    )
    paths = sorted(set(Site(options.pages, options.seed).truth) - {Site.start})[mine::spiders]
    crawler = process.create_crawler(ShareSpider)
    process.crawl(crawler, start_urls=[options.url + Site.start], pages=paths)
    process.start()
    stats = crawler.stats
    if stats is None or stats.get_value("finish_reason") != "finished":
        raise DedupError("the demo's spider did not come to its end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
