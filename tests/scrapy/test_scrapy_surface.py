"""The add-on beside the rest of Scrapy: encodings, retries, the HTTP cache, spiders of every kind."""

import pytest
from crawling import TEXT, WRITES, Case, Page, article, hub, run_case, run_cases, words
from scrapy.settings import default_settings

REFRESH = '<meta http-equiv="refresh" content="0; url=/refreshed">'

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
from scrapy.spiders import CrawlSpider
_recorder = Recorder

class Rules(CrawlSpider, _recorder):
    parse = CrawlSpider.parse

"""
SPIDERS = {
    "/": hub("/a", "/b"),
    "/a": article(60, "/c"),
    "/b": article(60, "/c?sid=2", frame="copy"),
    "/c": article(61),
    "/c?sid=2": article(62),
}

CASES = {
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
    "ways": Case(WAYS_PAGES, WAYS),
}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    return run_cases(tmp_path_factory.mktemp("surface"), CASES, settings=TEXT)


def test_no_fault(crawls):
    """None of these crawls meets a fault of ours, or an error of Scrapy's."""
    assert {name: crawl.faults for name, crawl in crawls.items() if crawl.faults} == {}
    assert crawls["ways"].errors == []


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


@pytest.mark.parametrize("way", ["agen", "coroutine", "nothing"])
def test_callbacks_of_every_kind_make_originals(crawls, way):
    """After an async generator, a coroutine, or a callback returning None the copy is dropped."""
    crawl = crawls["ways"]
    assert f"/{way}" in crawl.parsed
    assert crawl.dropped[f"/{way}/copy"]["of"] == f"{crawl.url}/{way}"
    assert "/behind" in crawl.parsed  # what an asynchronous one yields is followed
    assert crawl.event("/kwargs")["word"] == "given"


def test_the_answer_to_a_head_is_kept(crawls):
    """Whatever it resembles."""
    assert crawls["ways"].meta("/head") == {"status": "exempt", "reason": "method"}


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


# the case's class is derived of whatever the name Recorder stands for
OF_RULES = f"import scrapy, crawling\nfrom crawling import Recorder\n{CRAWL_SPIDER}crawling.Recorder = Rules\n"
START = """
rules = [scrapy.spiders.Rule(LinkExtractor(), callback="page", follow=True)]

def parse_start_url(self, response):
    return self.page(response)

def page(self, response):
    yield {"url": response.url, "html": response.text}
"""


@pytest.mark.parametrize("of_start", [True, False], ids=["its items", "no items"])
def test_the_start_page_of_a_crawl_spider_comes_once(tmp_path, of_start):
    """Its copy is another callback's page; where nothing is brought of the start page, the copy is kept."""
    first = [f"/{name}" for name in "abcd"]
    pages = {
        "/": article(9, *first),
        **{path: article(50 + n, "/e") for n, path in enumerate(first)},
    }
    pages |= {"/e": article(60, "/index.html"), "/index.html": article(9, *first)}
    body = START if of_start else START.replace("return self.page(response)", "return ()")
    crawl = run_case(tmp_path, Case(pages, body, WRITES), setup=OF_RULES)
    brought = [each["url"].removeprefix(crawl.url) for each in crawl.items]
    assert sorted(brought) == sorted([*first, "/e", "/" if of_start else "/index.html"])
    assert not crawl.faults


def test_crawl_spider(tmp_path):
    """A CrawlSpider's rules follow kept pages, and nothing of a dropped one."""
    queue = {"SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"}
    crawl = run_case(tmp_path, Case(SPIDERS, RULES, queue), setup=OF_RULES, settings=TEXT)
    assert crawl.parsed == {"/a", "/c"}
    assert crawl.stat("near_duplicate") == 1
    assert "/c?sid=2" not in crawl.requested
