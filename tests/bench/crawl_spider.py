"""One crawl of `python tests/bench crawl`, in a process of its own; the outcome as JSON on stdout.

    python crawl_spider.py --url START [--addon [--service URL]] [--steps] [--work ...]

    fetch   nothing is done with a page
    scrape  an item of some hundred characters: the title, the heading, the first paragraph
    parse   an item: the title, the links, made absolute, and the visible text
    follow  the item, and a request for each link

The spider is one that people write, and does as little as such a spider can. Only the pages of the start
page's list are fetched (DEPTH_LIMIT drops the requests that "follow" makes, before the scheduler compares
them), so that every crawl does the same. All pages are parsed (mode "tag"), whatever they are. Nothing of
dedup is imported but by the add-on: what it adds at the start counts.
"""

import argparse
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from inspect import iscoroutinefunction
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

import msgspec
import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse, Response

Work = Literal["fetch", "scrape", "parse", "follow"]


class Outcome(msgspec.Struct, frozen=True):
    """What a crawl took, in CPU seconds of its process: user and system, all threads.

    pages            pages fetched after the start page, `bytes` in all
    startup_seconds  from the start of the process to the start page's callback
    crawl_seconds    from there to the end of the crawl, the store closed
    whole_seconds    from the start of the process to the end of the crawl
    dedup            the add-on's stats; empty without it
    steps_seconds    by step, where they were timed
    """

    pages: int
    bytes: int
    startup_seconds: float
    crawl_seconds: float
    whole_seconds: float
    dedup: dict[str, float]
    steps_seconds: dict[str, float] = {}


class _Spider(scrapy.Spider):
    name = "bench"
    work: Work = "parse"

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.pages = self.bytes = 0
        self.started_seconds = 0.0

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        self.started_seconds = time.process_time()
        callbacks: dict[Work, Callable[..., Any]] = {
            "fetch": self.fetch_page,
            "scrape": self.scrape_page,
            "parse": self.parse_page,
            "follow": self.parse_and_follow,
        }
        assert isinstance(response, HtmlResponse)
        yield from response.follow_all(css="a", callback=callbacks[self.work])

    def scrape_page(self, response: Response) -> Iterator[Any]:
        self.fetch_page(response)
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "heading": response.css("h1::text").get(),
            "lead": response.css("p::text").get("")[:300],
        }

    def parse_page(self, response: Response) -> Iterator[Any]:
        self.fetch_page(response)
        text = response.xpath("//body//text()[not(parent::script|parent::style)]").getall()
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "links": [response.urljoin(link) for link in response.css("a::attr(href)").getall()],
            "text": " ".join(" ".join(text).split()),
        }

    def parse_and_follow(self, response: Response, **_: Any) -> Iterator[Any]:
        for item in self.parse_page(response):
            yield item
            for link in item["links"]:
                if link.startswith("http"):
                    yield scrapy.Request(link, callback=self.parse_and_follow)

    def fetch_page(self, response: Response) -> None:
        self.pages += 1
        self.bytes += len(response.body)


def _crawl(url: str, work: Work, folder: str, service: str | None, *, addon: bool) -> Outcome:
    settings: dict[str, Any] = {
        "LOG_LEVEL": "WARNING",
        "TELNETCONSOLE_ENABLED": False,
        "HTTPPROXY_ENABLED": False,  # the site is on loopback, whatever the environment says
        "DOWNLOAD_MAXSIZE": 0,
        "DEPTH_LIMIT": 1,
    }
    if addon:
        settings |= {
            "ADDONS": {"dedup.scrapy.Addon": 500},
            "DEDUP_MODE": "tag",
            "DEDUP_WAIT_SECONDS": 60,  # what is counted does not depend on how busy the machine is
            "DEDUP_PATH": folder,
            "DEDUP_SERVICE": service,
            "DEDUP_NAMESPACE": secrets.token_hex(8),  # of its own, with a service too
        }
    process = CrawlerProcess(settings)
    crawler = process.create_crawler(_Spider)
    process.crawl(crawler, start_urls=[url], work=work)
    process.start()
    ended_seconds = time.process_time()
    spider, stats = crawler.spider, crawler.stats
    if not isinstance(spider, _Spider) or stats is None or not spider.pages:
        sys.exit(1)  # Scrapy has said why
    return Outcome(
        pages=spider.pages,
        bytes=spider.bytes,
        startup_seconds=spider.started_seconds,
        crawl_seconds=ended_seconds - spider.started_seconds,
        whole_seconds=ended_seconds,
        dedup={k: v for k, v in stats.get_stats().items() if k.startswith("dedup/")},
    )


class _Steps:
    """CPU seconds of each step in this process, from now on."""

    def __init__(self) -> None:
        import dedup.scrapy.page.judge
        from dedup.detector import EmbeddedDetector
        from dedup.detector.detector import AsyncEmbeddedDetector
        from dedup.scrapy.guard import Counts
        from dedup.scrapy.page.session import Session

        steps: dict[str, tuple[tuple[Any, str], ...]] = {  # in the order of a page's way
            "page to fingerprint": ((Session, "read"),),
            "document key": ((dedup.scrapy.page.judge, "key_of"),),
            "probe and reservation": ((AsyncEmbeddedDetector, "judge"),),
            "insert, and the stats": ((EmbeddedDetector, "insert_many"), (Counts, "flush")),
        }
        self.seconds = dict.fromkeys(steps, 0.0)
        for step, calls in steps.items():
            for owner, name in calls:
                setattr(owner, name, self._timed(step, getattr(owner, name)))

    def _timed(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[step] += time.thread_time() - start

        async def timed_async(*arguments: Any, **options: Any) -> Any:
            start = time.thread_time()
            try:
                return await function(*arguments, **options)  # never waits
            finally:
                self.seconds[step] += time.thread_time() - start

        return timed_async if iscoroutinefunction(function) else timed


def main() -> None:
    """Crawl, and write the outcome."""
    parser = argparse.ArgumentParser(prog="crawl_spider.py")
    parser.add_argument("--url", required=True)
    parser.add_argument("--work", choices=get_args(Work), default="parse")
    parser.add_argument("--addon", action="store_true")
    parser.add_argument("--service", help="of a table service, in place of a store")
    parser.add_argument("--steps", action="store_true", help="time the add-on's steps")
    options = parser.parse_args()
    steps = None
    if options.steps:
        steps = _Steps()
    with TemporaryDirectory(prefix="dedup-bench-") as folder:
        outcome = _crawl(options.url, options.work, folder, options.service, addon=options.addon)
    if steps is not None:
        outcome = msgspec.structs.replace(outcome, steps_seconds=steps.seconds)
    sys.stdout.buffer.write(msgspec.json.encode(outcome))


if __name__ == "__main__":
    main()
