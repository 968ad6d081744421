"""What the Scrapy tests share: a site on loopback, pages, and real crawls in processes of their own.

    with serve({"/": hub("/a", "/b"), "/a": article(1), ...}) as site:
        crawl = run_crawl(site, folder, SPIDER, DEDUP_MODE="tag")
    crawl.parsed, crawl.dropped, crawl.stats, crawl.log, site.requested

A spider is source text: it may use Recorder, which notes what happens to it in a file line by line,
so that a crawl that is killed has told everything up to then. A warning of Scrapy is an error.
"""

import importlib
import json
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit

import msgspec
import scrapy
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.exceptions import ScrapyDeprecationWarning
from scrapy.http import Request, Response
from twisted.python.failure import Failure

CRAWL_SECONDS = 120  # a crawl that takes longer hangs
WORDS = ["".join(pair) for pair in zip("bdfgklmnprst" * 200, "aeiou" * 480, strict=True)]

# ------------------------------------------------------------------------------------- pages


@dataclass(frozen=True)
class Page:
    """An answer of the site; before() is called, in the server's thread, before it is sent."""

    body: bytes
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[], object] | None = None


def words(number: int, count: int = 160) -> str:
    """Return the words of a text, the same for the same number and no other."""
    source = random.Random(f"text {number}")
    return " ".join(
        "".join(source.choice(WORDS) for _ in range(source.randint(2, 4))) for _ in range(count)
    )


def article(
    number: int,
    *links: str,
    frame: str = "",
    count: int = 160,
    text: str | None = None,
    **answer: Any,
) -> Page:
    """Return a page: equal numbers are near-duplicates, others are not; frame varies the shell."""
    body = words(number, count) if text is None else text
    anchors = "".join(f'<p><a href="{link}">to {link}</a></p>' for link in links)
    html = (
        f"<!doctype html><html><head><title>{frame}</title></head><body>"
        f"<nav>{frame}</nav><main><p>{body}</p>{anchors}</main>"
        f"<footer>{frame} is how this copy differs</footer></body></html>"
    )
    return Page(html.encode(answer.pop("encoding", "utf-8")), **answer)


def hub(*links: str) -> Page:
    """Return a page of links and next to no text: the start of a crawl."""
    return article(0, *links, text="Start")


# -------------------------------------------------------------------------------------- site


class Site(ThreadingHTTPServer):
    """Pages by path on a free port of the loopback, under 127.0.0.1 and localhost."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self.pages = dict(pages)
        self.requested: list[str] = []
        self.lock = Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"
    timeout = 60
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.requested.append(self.path)
        page = self.server.pages.get(self.path) or Page(b"no such page", "text/plain", 404)
        if page.before is not None:
            page.before()
        try:
            self.send_response(page.status)
            self.send_header("Content-Type", page.content_type)
            self.send_header("Content-Length", str(len(page.body)))
            for name, value in page.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(page.body)
        except ConnectionError:  # the crawler was killed
            self.close_connection = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serve(pages: Mapping[str, Page]) -> Iterator[Site]:
    """Serve pages by path until the block ends. requested lists the paths in order."""
    site = Site(pages)
    thread = Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.shutdown()
        thread.join()
        site.server_close()


# ------------------------------------------------------------------- the crawl, in its process


class Recorder(scrapy.Spider):
    """Follows every link, in the order of the page, and notes what becomes of each page."""

    name = "recorder"

    def __init__(self, base: str, record: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.base = base
        self.start_urls = [f"{base}/"]
        self.record = open(record, "a", encoding="utf-8")  # noqa: SIM115: open while it crawls

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> "Recorder":
        from dedup.scrapy import near_duplicate_dropped

        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.dropped, signal=near_duplicate_dropped)
        return spider

    def note(self, event: str, response: Response | Request | None = None, **more: Any) -> None:
        """Write down an event, with the path of what it is about."""
        more |= {"event": event, "spider": self.name}
        if response is not None:
            parts = urlsplit(response.url)
            more["path"] = parts.path + (f"?{parts.query}" if parts.query else "")
            more["dedup"] = response.meta.get("dedup")
        if isinstance(response, Response):
            more["flags"] = response.flags
        print(json.dumps(more), file=self.record, flush=True)

    def parse(self, response: Response) -> Iterator[Any]:
        self.note("parsed", response)
        yield {"url": response.url}
        yield from self.links(response)

    def links(self, response: Response, **options: Any) -> Iterator[Request]:
        """Follow the links of a page, the first one first."""
        options = {"callback": self.parse, "errback": self.failed} | options
        for position, href in enumerate(response.css("a::attr(href)").getall()):
            yield response.follow(href, priority=-position, **options)

    def failed(self, failure: Failure) -> None:
        verdict = getattr(failure.value, "verdict", None)
        self.note(
            "failed",
            failure.request,
            error=type(failure.value).__name__,
            message=str(failure.value),
            verdict=msgspec.to_builtins(verdict),
        )

    def dropped(self, request: Request, response: Response, verdict: Any, spider: Any) -> None:
        # response.request is None here, as in every downloader middleware
        self.note(
            "signal",
            request,
            verdict=msgspec.to_builtins(verdict),
            flags=response.flags,
            same=[spider is self, response.url == request.url, len(response.body) > 0],
        )


@dataclass
class Crawl:
    """What a crawl left behind: its events in order, stats, log, and exit code."""

    events: list[dict[str, Any]]
    stats: dict[str, Any]
    log: str
    code: int | None

    def of(self, event: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == event]

    def paths(self, event: str) -> list[str]:
        return [e["path"] for e in self.of(event)]

    @property
    def parsed(self) -> list[str]:
        """Paths whose callback was called, sorted."""
        return sorted(self.paths("parsed"))

    @property
    def dropped(self) -> dict[str, dict[str, Any]]:
        """The verdict of each page whose errback got NearDuplicate, by path."""
        return {e["path"]: e["verdict"] for e in self.of("failed") if e["verdict"]}

    def event(self, path: str, event: str = "parsed") -> dict[str, Any]:
        """Return the only such event of a page."""
        (found,) = [e for e in self.of(event) if e["path"] == path]
        return found

    def meta(self, path: str) -> dict[str, Any]:
        """Return response.meta["dedup"] as the callback saw it."""
        noted: dict[str, Any] = self.event(path)["dedup"]
        return noted

    def stat(self, name: str) -> int:
        return int(self.stats.get(f"dedup/{name}", 0))

    @property
    def faults(self) -> dict[str, int]:
        """The stats dedup/error/KIND, by kind."""
        return {n[12:]: v for n, v in self.stats.items() if n.startswith("dedup/error/")}

    @property
    def errors(self) -> list[str]:
        """The first lines of what was logged as an error."""
        return [line for line in self.log.splitlines() if " ERROR: " in line]


def start_crawl(
    site: Site, folder: Path, source: str, *, setup: str = "", **settings: Any
) -> "subprocess.Popen[str]":
    """Start a crawl of every spider class in source; finish_crawl() ends it.

    setup runs before everything else in the process, to break things on purpose.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "crawled.py").write_text(
        f"import sys\n{setup}\nimport scrapy\nfrom tests.crawling import *\n{source}\n"
    )
    defaults = {
        "ADDONS": {"dedup.scrapy.Addon": 500},
        "DEDUP_PATH": str(folder / "dedup"),
        "LOG_FILE": str(folder / "log"),
        "TELNETCONSOLE_ENABLED": False,
    }
    (folder / "spec.json").write_text(
        json.dumps({"base": site.url, "settings": defaults | settings})
    )
    return subprocess.Popen(
        [sys.executable, "-c", "from tests.crawling import main; main()", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=(folder / "stderr").open("w"),
        cwd=Path(__file__).parent.parent,
        text=True,
    )


def finish_crawl(process: "subprocess.Popen[str]", folder: Path) -> Crawl:
    """Wait for a crawl and return what it left; the files of the crawl go with this call."""
    try:
        code = process.wait(CRAWL_SECONDS)
    finally:
        process.kill()
        process.wait()
    record, stats, log = folder / "record", folder / "stats", folder / "log"
    lines = record.read_text().splitlines() if record.exists() else []
    crawl = Crawl(
        [json.loads(line) for line in lines],
        json.loads(stats.read_text()) if stats.exists() else {},
        (log.read_text() if log.exists() else "") + (folder / "stderr").read_text(),
        code,
    )
    for file in (record, stats, log):
        file.unlink(missing_ok=True)
    return crawl


def run_crawl(site: Site, folder: Path, source: str = "", **options: Any) -> Crawl:
    """Crawl a site to the end; see start_crawl(). A spider is a Recorder if none is given."""
    source = source or "class TestSpider(Recorder): pass"
    crawl = finish_crawl(start_crawl(site, folder, source, **options), folder)
    assert crawl.code == 0, crawl.log
    return crawl


def wait_for(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a crawl: the program that start_crawl() starts, with its folder."""
    warnings.filterwarnings("error", category=ScrapyDeprecationWarning)
    (folder,) = map(Path, arguments or sys.argv[1:])
    spec = json.loads((folder / "spec.json").read_text())
    sys.path.insert(0, str(folder))
    module = importlib.import_module("crawled")
    spiders = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == "crawled" and issubclass(value, Recorder)
    ]
    process = CrawlerProcess(spec["settings"])
    for spider in spiders:
        process.crawl(spider, base=spec["base"], record=str(folder / "record"))
    crawlers = list(process.crawlers)
    process.start()
    stats: dict[str, Any] = {}
    for crawler in crawlers:
        assert crawler.stats is not None
        for name, value in crawler.stats.get_stats().items():
            if isinstance(value, int | float):
                stats[name] = stats.get(name, 0) + value
            else:
                stats[name] = str(value)
    (folder / "stats").write_text(json.dumps(stats))
