"""Crawls the sample site with real Scrapy, with the add-on and without, and notes what became of every page.

The spider is what a user would write, ADDONS alone enables the add-on, and whatever this module adds only watches. A
crawl has a process of its own, since the CPU time measured is to be the crawl's; its folder and store are temporary.
"""

import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import scrapy
from scrapy.crawler import CrawlerProcess
from twisted.python.failure import Failure

from dedup.demo.loopback import running
from dedup.demo.site import serve_in_child
from dedup.model.errors import DedupError
from dedup.scrapy import NearDuplicate

_PROGRESS_EVERY_PAGES = 20

Progress = Callable[[int, int], object]


class Dropped(msgspec.Struct, frozen=True):
    """A page that was dropped, and the accepted page that it resembles; paths stand for URLs."""

    path: str
    of: str
    distance: int
    similarity: float


class DemoCrawl(msgspec.Struct):
    """What a crawl did: paths requested and parsed, items that passed the pipelines (title, author, text).

    errors are those that Scrapy logged, stats the add-on's; cpu_seconds from the first request to the end.
    """

    requested: list[str] = []
    parsed: list[str] = []
    dropped: list[Dropped] = []
    failed: dict[str, str] = {}
    items: list[tuple[str, str, str]] = []
    errors: int = 0
    stats: dict[str, float] = {}
    cpu_seconds: float = 0


def crawl_both(
    pages: int, seed: int, progress: Progress | None = None
) -> tuple[DemoCrawl, DemoCrawl]:
    """Crawl the site without the add-on and with it, both at once. Raises DedupError if one did not come to its end.

    progress is called with the numbers of pages and of drops of the crawl with it.
    """
    with ThreadPoolExecutor(2) as pool:
        without = pool.submit(_crawl, pages, seed, None)
        found = _crawl(pages, seed, progress, "addon")
        return without.result(), found


def _crawl(pages: int, seed: int, progress: Progress | None, *options: str) -> DemoCrawl:
    with TemporaryDirectory(prefix="dedup-demo-") as folder:
        log, result = Path(folder, "requests.log"), Path(folder, "crawl.json")
        with (
            serve_in_child(pages, seed, log) as url,
            running("-m", __name__, url, *options, cwd=folder) as child,
        ):
            assert child.stdout is not None
            for line in child.stdout:
                if progress is not None:
                    progress(*map(int, line.split()))
            code = child.wait()
        if code or not result.exists():
            raise DedupError(f"the demo's crawl failed with exit code {code}; its error is above")
        crawl = msgspec.json.decode(result.read_bytes(), type=DemoCrawl)
        crawl.requested = [line.partition(" ")[2] for line in log.read_text().splitlines()]
        return crawl


# In the crawl's own process


class NewsSpider(scrapy.Spider):
    """Follows every link and yields an item for each page: a spider like anyone's."""

    name = "news"

    async def start(self) -> AsyncIterator[scrapy.Request]:
        """Request the front page."""
        yield scrapy.Request(self.start_urls[0], self.parse, errback=self.missed)

    def parse(self, response: Any, **_: Any) -> Iterator[Any]:
        """Yield title, author and text of a page, then follow its links."""
        yield {
            "url": response.url,
            "title": response.css("h1::text").get(),
            "author": response.css(".byline b::text").get(""),
            "text": "\n".join(response.css("article > p:not(.byline)::text").getall()),
        }
        yield from response.follow_all(css="a", callback=self.parse, errback=self.missed)

    def missed(self, failure: Failure) -> None:
        """Learn of a page that did not arrive."""


class _WatchedSpider(NewsSpider):
    """The same spider, and notes beside it."""

    def __init__(self, *args: Any, **arguments: Any) -> None:
        super().__init__(*args, **arguments)
        self.notes, self.begun = DemoCrawl(), 0.0

    async def start(self) -> AsyncIterator[scrapy.Request]:
        self.begun = time.process_time()
        self.crawler.signals.connect(self.passed, scrapy.signals.item_scraped)
        async for request in super().start():
            yield request

    def parse(self, response: Any, **_: Any) -> Iterator[Any]:
        self.notes.parsed.append(self._path(response.url))
        fetched, dropped = len(self.notes.parsed), len(self.notes.dropped)
        if fetched % _PROGRESS_EVERY_PAGES == 0:
            with suppress(BrokenPipeError):  # the parent is gone, and the site with it
                print(fetched + dropped, dropped, flush=True)
        return super().parse(response)

    def passed(self, item: dict[str, str]) -> None:
        self.notes.items.append((item["title"], item["author"], item["text"]))

    def missed(self, failure: Failure) -> None:
        path = self._path(failure.request.url)  # type: ignore[attr-defined]  # Scrapy adds it
        why = failure.value
        if isinstance(why, NearDuplicate):
            of, bits, alike = why.verdict.of, why.verdict.distance, why.verdict.similarity
            self.notes.dropped.append(Dropped(path, self._path(of or ""), bits or 0, alike or 0.0))
        else:
            self.notes.failed[path] = f"{type(why).__name__}: {why}"

    def _path(self, url: str) -> str:
        return "/" + url.removeprefix(self.start_urls[0])


def main(url: str, *options: str) -> int:
    """Crawl from that URL, say how far it is on standard output, and leave the result in a file."""
    process = CrawlerProcess(
        {
            "ADDONS": {"dedup.scrapy.Addon": 500} if "addon" in options else {},
            "LOG_LEVEL": "WARNING",
            "TELNETCONSOLE_ENABLED": False,
            "HTTPPROXY_ENABLED": False,  # the site is on loopback, whatever the environment says
        }
    )
    crawler = process.create_crawler(_WatchedSpider)
    process.crawl(crawler, start_urls=[f"{url}/"])
    process.start()
    spider, stats = crawler.spider, crawler.stats
    if not isinstance(spider, _WatchedSpider) or stats is None:
        return 1  # Scrapy has said why
    if stats.get_value("finish_reason") != "finished":
        return 1
    spider.notes.cpu_seconds = time.process_time() - spider.begun
    spider.notes.errors = stats.get_value("log_count/ERROR", 0)
    spider.notes.stats = {k: v for k, v in stats.get_stats().items() if k.startswith("dedup/")}
    Path("crawl.json").write_bytes(msgspec.json.encode(spider.notes))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
