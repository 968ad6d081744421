"""Crawls the demo site with real Scrapy and the add-on, and notes what became of every page.

    site (a process) <- Scrapy (a process) -> outcomes -> report

Invariant: the spider is what a user would write, the add-on is enabled by ADDONS alone, and whatever
this module adds only watches. The crawl has a process of its own, since Twisted's reactor starts
once and the CPU time measured is to be the crawl's; its folder is temporary and so is its store.
"""

import argparse
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import msgspec
import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse, Response
from twisted.python.failure import Failure

from dedup.demo.loopback import running
from dedup.demo.site import serve_in_child
from dedup.model.errors import DedupError
from dedup.model.forms import to_plain
from dedup.model.policy import Mode, Urls
from dedup.scrapy import KnownUrl, NearDuplicate

_PROGRESS_EVERY_PAGES = 20
_LOG, _RESULT = "requests.log", "crawl.json"


class Outcome(msgspec.Struct, frozen=True):
    """What became of one fetched page; paths stand for URLs.

    status  the verdict's, or "failed" with the reason if the page could not be fetched or parsed
    parsed  whether the spider's callback saw it
    """

    path: str
    status: str
    reason: str = ""
    of: str | None = None
    distance: int | None = None
    similarity: float | None = None
    parsed: bool = True


class DemoCrawl(msgspec.Struct, frozen=True):
    """A crawl that came to its end.

    outcomes      one for each fetched page, in the order in which Scrapy handed them to the spider
    requested     the paths in the server's log
    items         number of items the spider yielded
    errors        number of errors Scrapy logged; they stand on stderr
    stats         the add-on's stats (dedup/...)
    cpu_seconds   of the crawl's process, from the first request to the end
    wall_seconds  of the same time
    """

    mode: Mode
    outcomes: tuple[Outcome, ...]
    requested: frozenset[str]
    items: int
    errors: int
    stats: Mapping[str, float]
    cpu_seconds: float
    wall_seconds: float


def crawl_site(
    pages: int = 500,
    seed: int = 1,
    mode: Mode = "drop",
    urls: Urls = "learn",
    progress: Callable[[int, int], object] | None = None,
) -> DemoCrawl:
    """Serve the demo site of that size and seed, crawl it, and return what happened.

    urls      what the crawl does with what it learns of the site's URLs (DEDUP_URLS)
    progress  called now and then with the numbers of pages fetched and of near-duplicates among
              them

    Raises DedupError if the site did not start or the crawl did not come to its end.
    """
    with TemporaryDirectory(prefix="dedup-demo-") as folder:
        log, result = Path(folder, _LOG), Path(folder, _RESULT)
        with (
            serve_in_child(pages, seed, log) as url,
            running(
                "-m", __name__, f"--url={url}", f"--mode={mode}", f"--urls={urls}", cwd=folder
            ) as child,
        ):
            assert child.stdout is not None
            for line in child.stdout:
                if progress is not None:
                    fetched, found = map(int, line.split())
                    progress(fetched, found)
            code = child.wait()
        if code or not result.exists():
            raise DedupError(
                f"the demo's crawl failed: its process ended with exit code {code}; its error "
                "stands above"
            )
        crawl = msgspec.json.decode(result.read_bytes(), type=DemoCrawl)
        return msgspec.structs.replace(crawl, requested=_requested(log))


def _requested(log: Path) -> frozenset[str]:
    lines = log.read_text(encoding="utf-8").splitlines()
    return frozenset(line.partition(" ")[2] for line in lines)


# In the crawl's own process


class NewsSpider(scrapy.Spider):
    """Follows every link and yields an item for each page: a spider like anyone's."""

    name = "news"

    async def start(self) -> AsyncIterator[scrapy.Request]:
        """Request the front page."""
        yield scrapy.Request(self.start_urls[0], self.parse, errback=self.missed)

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        """Yield title and length of a page's text, then follow its links."""
        if not isinstance(response, HtmlResponse):
            return
        text = "".join(response.xpath("//body//text()[not(parent::script|parent::style)]").getall())
        yield {
            "url": response.url,
            "title": response.css("h1::text").get(),
            "text_length": len(" ".join(text.split())),
        }
        yield from response.follow_all(css="a", callback=self.parse, errback=self.missed)

    def missed(self, failure: Failure) -> None:
        """Learn of a page that did not arrive."""


class _WatchedSpider(NewsSpider):
    """The same spider, and notes beside it."""

    def __init__(self, *args: Any, **arguments: Any) -> None:
        super().__init__(*args, **arguments)
        self.outcomes: list[Outcome] = []
        self.items = 0
        self._near_duplicates = 0
        self.cpu_start = self.wall_start = 0.0

    async def start(self) -> AsyncIterator[scrapy.Request]:
        self.cpu_start, self.wall_start = time.process_time(), time.perf_counter()
        async for request in super().start():
            yield request

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        noted = dict(response.meta.get("dedup") or {"status": "not judged"})
        self._note(response.url, noted, parsed=True)
        for yielded in super().parse(response):
            self.items += isinstance(yielded, dict)
            yield yielded

    def missed(self, failure: Failure) -> None:
        if isinstance(failure.value, KnownUrl):
            return  # never fetched: the stats count it
        url = failure.request.url  # type: ignore[attr-defined]  # Scrapy's own addition
        if isinstance(failure.value, NearDuplicate):
            self._note(url, to_plain(failure.value.verdict), parsed=False)
        else:
            reason = f"{type(failure.value).__name__}: {failure.value}"
            self._note(url, {"status": "failed", "reason": reason}, parsed=False)
        super().missed(failure)

    def _note(self, url: str, noted: Mapping[str, Any], *, parsed: bool) -> None:
        of = noted.get("of")
        self.outcomes.append(
            Outcome(
                path=_path(url),
                status=noted["status"],
                reason=noted.get("reason") or "",
                of=None if of is None else _path(of),
                distance=noted.get("distance"),
                similarity=noted.get("similarity"),
                parsed=parsed,
            )
        )
        self._near_duplicates += noted["status"] == "near_duplicate"
        if len(self.outcomes) % _PROGRESS_EVERY_PAGES == 0:
            with suppress(BrokenPipeError):  # the parent is gone, and the site with it
                print(len(self.outcomes), self._near_duplicates, flush=True)


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _settings(mode: Mode, urls: Urls) -> dict[str, Any]:
    """Return a project's settings: the first line is all the add-on needs."""
    settings: dict[str, Any] = {
        "ADDONS": {"dedup.scrapy.Addon": 500},
        "ROBOTSTXT_OBEY": True,
        "LOG_LEVEL": "WARNING",
        "TELNETCONSOLE_ENABLED": False,
        "HTTPPROXY_ENABLED": False,  # the site is on loopback, whatever the environment says
    }
    if mode != "drop":
        settings["DEDUP_MODE"] = mode
    if urls != "learn":
        settings["DEDUP_URLS"] = urls
    return settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Crawl from that URL, say how far it is on standard output, and leave the result in a file."""
    parser = argparse.ArgumentParser(prog="python -m dedup.demo.crawl")
    parser.add_argument("--url", required=True)
    parser.add_argument("--mode", default="drop")
    parser.add_argument("--urls", default="learn")
    options = parser.parse_args(arguments)

    process = CrawlerProcess(_settings(options.mode, options.urls))
    crawler = process.create_crawler(_WatchedSpider)
    process.crawl(crawler, start_urls=[f"{options.url}/"])
    process.start()

    spider, stats = crawler.spider, crawler.stats
    if not isinstance(spider, _WatchedSpider) or stats is None:
        return 1  # Scrapy has said why
    if stats.get_value("finish_reason") != "finished":
        return 1
    crawl = DemoCrawl(
        mode=options.mode,
        outcomes=tuple(spider.outcomes),
        requested=frozenset(),  # the parent's part
        items=spider.items,
        errors=stats.get_value("log_count/ERROR", 0),
        stats={k: v for k, v in stats.get_stats().items() if k.startswith("dedup/")},
        cpu_seconds=time.process_time() - spider.cpu_start,
        wall_seconds=time.perf_counter() - spider.wall_start,
    )
    Path(_RESULT).write_bytes(msgspec.json.encode(crawl))
    return 0


if __name__ == "__main__":
    sys.exit(main())
