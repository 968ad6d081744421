"""The add-on beside the rest of Scrapy: encodings, retries, the HTTP cache, spiders of every kind."""

import gzip
import json
import zlib
from dataclasses import replace

import pytest
from crawling import TEXT, Case, Crawling, Page, article, hub, run_case, run_cases, serve, words
from scrapy.settings import default_settings


def packed(page: Page, encoding: str) -> Page:
    """The same page as a server sends it compressed."""
    pack = {"gzip": gzip.compress, "deflate": zlib.compress}[encoding]
    return replace(page, body=pack(page.body), headers={"Content-Encoding": encoding})


def moved(to: str) -> Page:
    return Page(b"", status=302, headers={"Location": to})


REFRESH = '<meta http-equiv="refresh" content="0; url=/refreshed">'
PDF = Page(b"%PDF-1.7\n" + words(30).encode(), "application/pdf")
JSON = Page(json.dumps({"text": words(31)}).encode(), "application/json")
FEED = Page(
    f"<rss><channel><item><description>{words(32)}</description></item></channel></rss>".encode(),
    "application/rss+xml",
)

WAYS = """
def parse(self, response):
    self.note("parsed", response)
    for n, (way, callback) in enumerate(
        [("agen", self.agen), ("coroutine", self.coroutine), ("nothing", self.nothing)]
    ):
        yield response.follow("/" + way, callback, priority=-2 * n)
        yield response.follow(
            f"/{way}/copy", callback, priority=-2 * n - 1, errback=self.failed
        )
    yield response.follow("/kwargs", self.kwargs, cb_kwargs={"word": "given"}, priority=-10)
    yield response.follow("/head", self.nothing, method="HEAD", priority=-11)
    yield response.follow("/post", self.nothing, method="POST", body=b"q=1", priority=-12)

async def agen(self, response):
    self.note("parsed", response)
    yield {"url": response.url}
    yield response.follow("/behind", self.nothing)

async def coroutine(self, response):
    self.note("parsed", response)
    return [{"url": response.url}]

def nothing(self, response):
    self.note("parsed", response)

def kwargs(self, response, word):
    self.note("parsed", response, word=word)
"""
WAYS_PAGES = {
    "/": hub(),
    **{
        f"/{way}{copy}": article(50 + n, *(["/behind"] if way == "agen" else []), frame=copy)
        for n, way in enumerate(("agen", "coroutine", "nothing"))
        for copy in ("", "/copy")
    },
    "/kwargs": article(54),
    "/head": article(54),
    "/post": article(54),
    "/behind": article(55),
}

RULES = """
rules = [scrapy.spiders.Rule(LinkExtractor(), callback="page", follow=True, errback="failed")]

def page(self, response):
    self.note("parsed", response)
    yield {"url": response.url}
"""
CRAWL_SPIDER = """
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, SitemapSpider
_recorder = Recorder

class Rules(CrawlSpider, _recorder):
    parse = CrawlSpider.parse

class Map(SitemapSpider, _recorder):
    start = SitemapSpider.start

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.sitemap_urls = [spider.base + "/sitemap.xml"]
        return spider
"""
SPIDERS = {
    "/": hub("/a", "/b"),
    "/a": article(60, "/c"),
    "/b": article(60, "/c?sid=2", frame="copy"),
    "/c": article(61),
    "/c?sid=2": article(62),
}

CASES = {
    "coded": Case(
        {
            "/": hub("/plain", "/gzip", "/deflate"),
            "/plain": article(1),
            "/gzip": packed(article(1, frame="gzip"), "gzip"),
            "/deflate": packed(article(1, frame="deflate"), "deflate"),
        }
    ),
    "sessions": Case(
        {
            "/": hub("/shop", "/shop/again"),
            "/shop": moved("/shop?sid=1"),
            "/shop/again": moved("/shop?sid=2"),
            "/shop?sid=1": article(3, "/shop"),
            "/shop?sid=2": article(3, frame="session 2"),
        }
    ),
    "retries": Case(
        {"/": hub("/busy"), "/busy": [article(4, status=503), article(4, "/copy")]}
        | {"/copy": article(4, frame="copy")}
    ),
    "refresh": Case(
        {
            "/": hub("/refresh", "/same"),
            "/refresh": Page(f"<html><head>{REFRESH}</head>{words(5)}</html>".encode()),
            "/refreshed": article(6),
            "/same": article(0, text=words(5)),
        }
    ),
    "other": Case(
        {
            "/": hub(*(f"/{kind}{c}" for kind in ("pdf", "json", "feed") for c in ("", "/copy"))),
            **{f"/pdf{c}": PDF for c in ("", "/copy")},
            **{f"/json{c}": JSON for c in ("", "/copy")},
            **{f"/feed{c}": FEED for c in ("", "/copy")},
        },
        """
        def parse(self, response):
            self.note("parsed", response)
            if response.url.endswith("/"):
                yield from self.links(response)
        """,
    ),
    "ways": Case(WAYS_PAGES, WAYS, TEXT),
    "rulebook": Case(SPIDERS, RULES, {"SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"}),
    "mapped": Case(SPIDERS),
    "feeds": Case(SPIDERS, settings={"FEEDS": {"items.jsonl": {"format": "jsonlines"}}}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("surface")


@pytest.fixture(scope="module")
def crawls(folder):
    return run_cases(
        folder, {n: c for n, c in CASES.items() if n not in ("rulebook", "mapped")}, settings=TEXT
    )


def test_no_fault(crawls):
    """None of these crawls meets a fault of ours, or an error of Scrapy's."""
    assert {name: crawl.faults for name, crawl in crawls.items() if crawl.faults} == {}
    assert crawls["coded"].errors == []


def test_compressed_pages_are_judged_decoded(crawls):
    """A page in gzip or deflate is a near-duplicate of its plain copy."""
    assert set(crawls["coded"].dropped) == {"/gzip", "/deflate"}


def test_redirects_to_session_ids(crawls):
    """Two URLs that redirect to one text under two session ids: the second is dropped."""
    crawl = crawls["sessions"]
    assert "/shop?sid=1" in crawl.parsed
    assert "/shop?sid=2" not in crawl.parsed
    (verdict,) = crawl.dropped.values()
    assert (verdict["key"], verdict["of"]) == (f"{crawl.url}/shop/again", f"{crawl.url}/shop")


def test_retried_page_is_judged_once(crawls):
    """A 503 that Scrapy retries is not judged; the 200 that follows is unique, its copy is not."""
    crawl = crawls["retries"]
    assert crawl.requested.count("/busy") == 2
    assert crawl.meta("/busy")["status"] == "unique"
    assert set(crawl.dropped) == {"/copy"}
    assert crawl.stat("exempt/status") == 0


def test_meta_refresh_page_is_no_original(crawls):
    """A page that meta-refreshes is not judged; one with its text is unique afterwards."""
    crawl = crawls["refresh"]
    assert crawl.meta("/refreshed")["key"] == f"{crawl.url}/refresh"
    assert crawl.meta("/same")["status"] == "unique"


def test_what_is_no_html_is_kept(crawls):
    """A PDF, a JSON document and a feed are parsed as often as they are linked."""
    crawl = crawls["other"]
    assert len(crawl.parsed) == 7
    assert crawl.stat("exempt/non_html") == 6


@pytest.mark.parametrize("way", ["agen", "coroutine", "nothing"])
def test_callbacks_of_every_kind_make_originals(crawls, way):
    """After an async generator, a coroutine, or a callback returning None the copy is dropped."""
    crawl = crawls["ways"]
    assert f"/{way}" in crawl.parsed
    assert crawl.dropped[f"/{way}/copy"]["of"] == f"{crawl.url}/{way}"


def test_what_a_callback_is_given_and_yields_is_left_alone(crawls):
    """Its arguments arrive, and what an asynchronous one yields is followed."""
    assert crawls["ways"].event("/kwargs")["word"] == "given"
    assert "/behind" in crawls["ways"].parsed


@pytest.mark.parametrize("path", ["/head", "/post"])
def test_head_and_post_are_kept(crawls, path):
    """The answer to a HEAD or a POST is kept, whatever it resembles."""
    assert crawls["ways"].meta(path) == {"status": "exempt", "reason": "method"}


def test_feed_export_holds_the_items_of_kept_pages(crawls, folder):
    """A feed export holds an item of each parsed page, unchanged."""
    crawl = crawls["feeds"]
    items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    assert sorted(item["url"] for item in items) == sorted(crawl.url + p for p in crawl.parsed)
    assert {"url"} == {name for item in items for name in item}


@pytest.mark.skipif(
    not hasattr(default_settings, "TWISTED_REACTOR_ENABLED"), reason="this Scrapy needs a reactor"
)
def test_without_a_reactor(tmp_path):
    """On an asyncio loop alone, without Twisted's reactor, copies are dropped."""
    settings = TEXT | {"TWISTED_REACTOR_ENABLED": False}
    crawl = run_case(tmp_path, Case(SPIDERS), settings=settings)
    assert crawl.parsed == {"/", "/a", "/c"}
    assert set(crawl.dropped) == {"/b"}
    assert (crawl.errors, crawl.faults) == ([], {})


def crawl_as(folder, kind: str, case: Case, pages) -> object:
    """Crawl a case by a spider of another kind than Recorder."""
    with serve(pages) as site:
        if "/sitemap.xml" in pages:
            urls = "".join(f"<url><loc>{site.url}{p}</loc></url>" for p in ("/a", "/b", "/c"))
            map_ = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
            site.pages["/sitemap.xml"] = [Page(map_.encode(), "application/xml")]
        # the case's class is derived of whatever the name Recorder stands for
        setup = "import scrapy\nfrom crawling import Recorder\n" + CRAWL_SPIDER
        crawling = Crawling(
            folder,
            {"only": (site, Case(pages, case.body, case.settings))},
            setup=setup + f"import crawling\ncrawling.Recorder = {kind}\n",
            settings=TEXT,
        )
        return crawling.end()["only"]


def test_crawl_spider(tmp_path):
    """A CrawlSpider's rules follow kept pages, and nothing of a dropped one."""
    crawl = crawl_as(tmp_path, "Rules", CASES["rulebook"], SPIDERS)
    assert crawl.parsed == {"/a", "/c"}
    assert crawl.stat("near_duplicate") == 1
    assert "/c?sid=2" not in crawl.requested


@pytest.mark.long
def test_sitemap_spider(tmp_path):
    """A SitemapSpider's sitemap comes through, and the second of two alike pages is dropped."""
    crawl = crawl_as(tmp_path, "Map", Case({}), SPIDERS | {"/sitemap.xml": Page(b"")})
    assert len(crawl.parsed & {"/a", "/b"}) == 1
    assert "/c" in crawl.parsed
    assert crawl.stat("near_duplicate") == 1
