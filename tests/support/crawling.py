"""What the Scrapy tests share: a site on loopback, pages, and real crawls in processes of their own.

    case = Case({"/": hub("/a", "/b"), "/a": article(1), ...}, settings={"DEDUP_MODE": "tag"})
    crawl = run_case(folder, case)
    crawl.parsed, crawl.dropped, crawl.stats, crawl.log, crawl.requested

A spider is a Recorder, which follows every link and notes what happens in a file, line by line, so
that a crawl that is killed has told everything up to then. A case may give the body of its class.
Scrapy's deprecation warnings are errors. Starting a process takes longer than crawling a few pages
(forking.py makes that shorter): run_cases() crawls many cases in one.
"""

import functools
import json
import os
import random
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import scrapy
from forking import forked
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.exceptions import ScrapyDeprecationWarning
from scrapy.http import Request, Response
from twisted.python.failure import Failure

from dedup.model.forms import to_plain

# Setup of a crawl that ends only when a service has taken everything; it is there.
PATIENT = """
import dedup.wire.client.updates
dedup.wire.client.updates.CLOSE_SECONDS = 240.0
"""
# Of one that soon gives up what nobody takes.
HURRIED = PATIENT.replace("240.0", "1.0")

TEXT = {"DEDUP_PROOF": "text"}  # settings of a crawl of which only verdicts matter
CRAWL_SECONDS = 900  # a crawl that takes longer hangs, on the busiest machine
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


Answers = Page | Sequence[Page]


@functools.cache
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
    title: str | None = None,
    **answer: Any,
) -> Page:
    """Return a page: equal numbers are near-duplicates, others are not; frame varies the shell.

    Near-duplicates bear the same title, or else they are other pages by their own word.
    """
    body = words(number, count) if text is None else text
    title = f"Page {number}" if title is None else title
    anchors = "".join(f'<p><a href="{link}">to {link}</a></p>' for link in links)
    html = (
        f"<!doctype html><html><head><title>{title}</title></head><body>"
        f"<nav>{frame}</nav><main><p>{body}</p>{anchors}</main>"
        f"<footer>{frame} is how this copy differs</footer></body></html>"
    )
    return Page(html.encode(answer.pop("encoding", "utf-8")), **answer)


def hub(*links: str) -> Page:
    """Return a page of links and next to no text: the start of a crawl."""
    return article(0, *links, text="Start")


def linked(pages: Mapping[str, Any]) -> dict[str, Any]:
    """Return pages behind a start that links to all of them."""
    return {"/": hub(*pages)} | pages


# -------------------------------------------------------------------------------------- site


class Site(ThreadingHTTPServer):
    """Pages by path on a free port of the loopback, under 127.0.0.1 and localhost.

    A list of pages is answered one by one, the last one for ever. Requests beyond `most` wait until
    that is None: a crawl that is to be killed, or stopped, is not over by then.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, pages: Mapping[str, Answers]) -> None:
        self.pages = {
            path: [page] if isinstance(page, Page) else list(page) for path, page in pages.items()
        }
        self.requested: list[str] = []
        self.most: int | None = None
        self.lock = Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a crawler that was killed; anything else is a fault worth seeing."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


_NOT_FOUND = Page(b"no such page", "text/plain", 404)


class _Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"
    timeout = 600
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.requested.append(self.path)
            number = len(self.server.requested)
            pages = self.server.pages.get(self.path, [_NOT_FOUND])
            page = pages.pop(0) if len(pages) > 1 else pages[0]
        while self.server.most is not None and number > self.server.most:
            time.sleep(0.01)
        if page.before is not None:
            page.before()
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        for name, value in page.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serve(pages: Mapping[str, Answers]) -> Iterator[Site]:
    """Serve pages by path until the block ends. requested lists the paths in order."""
    site = Site(pages)
    thread = Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.most = None
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
        self.record = Path(record).open("a", encoding="utf-8")  # noqa: SIM115

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
        self.record.write(json.dumps(more) + "\n")  # at once: another thread may note something
        self.record.flush()

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
            verdict=None if verdict is None else to_plain(verdict),
        )

    def dropped(self, request: Request, response: Response, verdict: Any, spider: Any) -> None:
        # response.request is None here, as in every downloader middleware
        self.note(
            "signal",
            request,
            verdict=to_plain(verdict),
            flags=response.flags,
            same=[spider is self, response.url == request.url, len(response.body) > 0],
        )


class Writes:
    """The pipeline of WRITES: notes each item that gets through, or those of its fields that the spider names in `noted`."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Writes":
        self = cls()
        self.crawler = crawler
        return self

    def process_item(self, item: Any, spider: Any = None) -> Any:  # Scrapy 2.13 gives the spider
        fields = getattr(self.crawler.spider, "noted", item)
        self.crawler.spider.note("item", item={name: item[name] for name in fields})
        return item


WRITES = {"ITEM_PIPELINES": {"crawling.Writes": 1}}


@dataclass
class Crawl:
    """What a spider left behind: its events in order, stats, the paths its site was asked for.

    The log is that of the process, which other spiders may have shared.
    """

    name: str
    url: str
    requested: list[str]
    events: list[dict[str, Any]]
    stats: dict[str, Any]
    log: str

    def of(self, event: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == event]

    def paths(self, event: str) -> list[str]:
        """Return what an event happened to, in order."""
        return [e["path"] for e in self.of(event)]

    @property
    def items(self) -> list[dict[str, Any]]:
        """The items that got through, of a spider with WRITES."""
        return [e["item"] for e in self.of("item")]

    @property
    def parsed(self) -> set[str]:
        """Paths whose callback was called."""
        return set(self.paths("parsed"))

    @property
    def dropped(self) -> dict[str, dict[str, Any]]:
        """The verdict of each page whose errback got NearDuplicate, by path."""
        return {e["path"]: e["verdict"] for e in self.of("failed") if e["verdict"]}

    def event(self, path: str, event: str = "parsed") -> dict[str, Any]:
        """Return the only such event of a page."""
        (found,) = [e for e in self.of(event) if e["path"] == path]
        return found

    def meta(self, path: str) -> dict[str, Any]:
        """Return response.meta["dedup"] as the callback of a page saw it."""
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


@dataclass
class Case:
    """A spider and its site: pages by path, the body of its class, and its settings."""

    pages: Mapping[str, Answers]
    body: str = "pass"
    settings: Mapping[str, Any] = field(default_factory=dict)


class Crawling:
    """A process that crawls: each case a spider of its own, with a site of its own.

    folder    holds the store (in dedup/) and whatever else the crawl writes
    setup     Python that runs before everything else, to break things on purpose
    settings  of the process, for all spiders
    in_turn   one spider after the other, not all at once
    """

    def __init__(
        self,
        folder: Path,
        cases: Mapping[str, tuple[Site, Case]],
        setup: str = "",
        settings: Mapping[str, Any] | None = None,
        *,
        in_turn: bool = False,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.sites = {name: site for name, (site, _) in cases.items()}
        for site in self.sites.values():
            site.requested.clear()
        spiders = [
            f"class {name.title()}(Recorder):\n"
            f"    name = {name!r}\n"
            f"    custom_settings = {dict(case.settings)!r}\n"
            f"{textwrap.indent(textwrap.dedent(case.body), '    ')}\n"
            for name, (_, case) in cases.items()
        ]
        (folder / "spiders.py").write_text("\n".join([setup, _IMPORTS, *spiders]))
        # of 100, Scrapy makes as many tasks for each page
        settings = {"CONCURRENT_ITEMS": 4} | dict(settings or {})
        spec = {
            "in_turn": in_turn,
            "bases": {name: site.url for name, site in self.sites.items()},
            "settings": {
                "ADDONS": {"dedup.scrapy.Addon": 500},
                "DEDUP_PATH": str(folder / "dedup"),
                "CONCURRENT_REQUESTS": 1,  # pages are judged in the order of their links
                "LOG_FILE": str(folder / "log"),
                "TELNETCONSOLE_ENABLED": False,
                "REMOTE_CONTROL_ENABLED": False,
            }
            | settings,
        }
        (folder / "spec.json").write_text(json.dumps(spec))
        self.process = forked(
            "scrapy",
            "from crawling import main; main()",
            [str(folder)],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
            stderr=folder / "stderr",
        )

    def events(self) -> list[dict[str, Any]]:
        """Return what was noted up to now; a line that a kill cut short does not count."""
        record = self.folder / "record"
        text = record.read_text() if record.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def end(self, code: int = 0) -> dict[str, Crawl]:
        """Wait for the end, which must be with this exit code, and return what each spider left."""
        try:
            ended_with = self.process.wait(CRAWL_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
        events, log, stats = self.events(), "", {}
        for file in (self.folder / "log", self.folder / "stderr"):
            log += file.read_text() if file.exists() else ""
        if (self.folder / "stats").exists():
            stats = json.loads((self.folder / "stats").read_text())
        for name in ("record", "log", "stderr", "stats"):
            (self.folder / name).unlink(missing_ok=True)
        assert ended_with == code, f"{ended_with}: {log}"
        return {
            name: Crawl(
                name,
                site.url,
                list(site.requested),
                [e for e in events if e["spider"] == name],
                stats.get(name, {}),
                log,
            )
            for name, site in self.sites.items()
        }


def run_cases(folder: Path, cases: Mapping[str, Case], **options: Any) -> dict[str, Crawl]:
    """Crawl each case to its end, all in one process; see Crawling for the options."""
    with ExitStack() as stack:
        sites = {name: stack.enter_context(serve(case.pages)) for name, case in cases.items()}
        together = {name: (sites[name], case) for name, case in cases.items()}
        return Crawling(folder, together, **options).end()


def run_case(folder: Path, case: Case, **options: Any) -> Crawl:
    """Crawl one case to its end, in a process of its own, by a spider named "only"."""
    return run_cases(folder, {"only": case}, **options)["only"]


def scrapy_command(folder: Path, *arguments: str, code: int = 0, **env: str) -> str:
    """Run a command of Scrapy's in a folder, which must end with this exit code; return what it wrote."""
    said = folder / "said"
    run = "from scrapy.cmdline import execute; execute()"
    process = forked(
        "scrapy", run, arguments, cwd=folder, env=os.environ | env, stdout=said, stderr=said
    )
    try:
        ended_with = process.wait(600)
    finally:
        process.kill()
    text = said.read_text()
    said.unlink()
    assert ended_with == code, text
    return text


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


_IMPORTS = "import html, json\nimport scrapy\nfrom crawling import Recorder"


def _loaded(name: str, path: Path) -> ModuleType:
    """Import a module that is written anew for each crawl: its bytecode may be the last one's."""
    sys.modules[name] = module = ModuleType(name)
    module.__file__ = str(path)
    exec(compile(path.read_text(), path, "exec"), vars(module))
    return module


def main() -> None:
    """Crawl: the program that Crawling starts, with its folder."""
    warnings.filterwarnings("error", category=ScrapyDeprecationWarning)
    warnings.filterwarnings("error", module=r"dedup(\.|$)")  # whatever our code is warned of
    folder = Path(sys.argv[1])
    spec = json.loads((folder / "spec.json").read_text())
    sys.path.insert(0, str(folder))
    module = _loaded("spiders", folder / "spiders.py")
    if spec["settings"].get("TWISTED_REACTOR_ENABLED", True):
        process = CrawlerProcess(spec["settings"])
    else:
        process = scrapy.crawler.AsyncCrawlerProcess(spec["settings"])
    crawlers = {
        name: process.create_crawler(getattr(module, name.title())) for name in spec["bases"]
    }

    def crawl(name: str) -> Any:
        return process.crawl(
            crawlers[name], base=spec["bases"][name], record=str(folder / "record")
        )

    first, *others = crawlers
    ended = crawl(first)
    for name in others:
        if spec["in_turn"]:
            ended.addCallback(lambda _, name=name: crawl(name))
        else:
            crawl(name)
    process.start()
    stats = {name: crawler.stats.get_stats() for name, crawler in crawlers.items()}
    (folder / "stats").write_text(json.dumps(stats, default=str))
