"""Every function and method of the add-on fails in turn, in real crawls: no wanted item is lost.

tests/support/faulting.py finds them. A crawl without a fault says which are called; then each fails at every call,
in the crawl of a spider with a plain callback, or an asynchronous one.
"""

import itertools
import shutil
from typing import Any

import faulting
import pytest
from crawling import Case, Crawl, Crawling, Page, article, hub, serve
from sizes import FULL

from dedup.scrapy.guard import kind_of

pytestmark = pytest.mark.sized  # one in 13 of them in `make test`, the others in `make test-long`


def thing(number: int, code: object, links: str = "", frame: str = "") -> Page:
    """Return a page of a text by its number, whose item no text shows."""
    page = article(number, *links.split(), frame=frame)
    return Page(page.body.replace(b"<main>", f"<main><i lang='{code}'></i>".encode()))


def printed(number: int) -> Page:
    """Return a copy with a time, another on each."""
    said = f"<main><p>Printed at 10:{10 + number}</p>"
    return Page(article(20 + number).body.replace(b"<main>", said.encode()))


def rows(*codes: int) -> Page:
    """Return a list of items under one heading."""
    said = "".join(f"<p><i lang='{code}'>Row {code}</i></p>" for code in codes)
    return Page(article(60).body.replace(b"<main>", f"<main>{said}".encode()))


def site() -> dict[str, Any]:
    """Originals, copies, variants, a pattern that is disproved at its end, counters, lists, traps, and what is gone."""
    pages: dict[str, Any] = {f"/a/{n}": thing(n, n, f"/a/{n}/more") for n in range(1, 9)}
    pages |= {f"/a/{n}?ref=x": thing(n, n, f"/a/{n}/more", "mail") for n in range(1, 9)}
    late = thing(1, 200, "/a/1/more", "mail").body
    pages |= {
        "/a/1?ref=late": Page(late.replace(b'="/a/1/more"', b'="/v/1"'))
    }  # a link that is new
    pages |= {f"/a/{n}?v=2": thing(n, 100 + n, f"/v/{n}") for n in range(1, 4)}
    pages |= {f"/a/{n}?seen=1": [thing(n, f"{n}+{k}") for k in range(3)] for n in (1, 2)}
    pages |= {f"/k/{n}": article(20 + n % 4) for n in range(8)}
    pages |= {f"/k/{n}?print=1": printed(n) for n in range(4)}
    pages |= {f"/l/{n}": rows(300, 301, 310 + n) for n in range(4)}
    pages |= {"/raises": article(30), "/gone": Page(b"", status=410), "/pipeline": thing(31, 31)}
    linked = {f"/a/{n}/more": article(40 + n) for n in range(1, 9)}
    linked |= {f"/v/{n}": thing(50 + n, 50 + n) for n in range(1, 4)}
    return {"/": hub(*pages, "/a/1")} | pages | linked


SITE = site()
WANTED = {
    *range(1, 9),
    *range(101, 104),
    200,
    *range(51, 54),
    *(300, 301),
    *range(310, 314),
}  # codes; the pipeline drops that of /pipeline
BODY = """
{a}def parse(self, response):
    self.note("parsed", response)
    if response.url.endswith("/raises"):
        raise ValueError("the callback is broken")
    code = response.css("main i::attr(lang)").get()
    if code:
        number, _, seen = code.partition("+")
        yield {{"url": response.url, "code": number, "seen": seen}}
    ways = {{"k": self.keep, "l": self.rows}}
    for request in self.links(response):
        yield request.replace(callback=ways.get(request.url.split("/")[3], self.parse))

{a}def keep(self, response):
    yield {{"url": response.url, "html": response.text}}

{a}def rows(self, response):
    for code in response.css("main i::attr(lang)").getall():
        yield {{"url": response.url, "code": code}}
"""
WAYS = {"sync": BODY.format(a=""), "async": BODY.format(a="async ")}

SETUP = """
import faulting
faulting.prepare_addon()

class Write:
    @classmethod
    def from_crawler(cls, crawler):
        self = cls()
        self.crawler = crawler
        return self

    def process_item(self, item, spider=None):
        if item["url"].endswith("/pipeline"):
            raise ValueError("the pipeline is broken")
        if "code" in item:
            self.crawler.spider.note("item", code=int(item["code"]))
        return item
"""

# What fails there is taken for an item that cannot be read.
SILENT = ("scrapy.evidence.items.",)

Faulty = dict[tuple[str, str, str], Crawl]  # by way, point, kind


@pytest.fixture(scope="module")
def served():
    with serve(SITE) as site:
        yield site


def crawl(folder, site, plan: list[tuple[str, str, str]]) -> list[Crawl]:
    """Crawl once for each (way, point, kind), in one process."""
    cases = {}
    for number, (way, point, kind) in enumerate(plan):
        settings = {
            "DEDUP_PATH": str(folder / f"store{number}"),
            "JOBDIR": str(folder / f"job{number}"),
            "CONCURRENT_ITEMS": 4,  # as in crawls without JOBDIR: nothing is killed here
            "DEDUP_NAMESPACE": "site",
            "DEDUP_WAIT_SECONDS": 0.05,
            "DEDUP_REPORT": str(folder / f"report{number}.html"),
            "DEDUP_DROPPED": str(folder / f"dropped{number}.jsonl"),
            "ITEM_PIPELINES": {"spiders.Write": 1},
        }
        body = faulting.armed(point, kind, None) + WAYS[way]
        cases[f"f{number}"] = (site, Case(SITE, body, settings))
    found = [*Crawling(folder, cases, SETUP, in_turn=True).end().values()]
    for path in [*folder.glob("store*"), *folder.glob("job*")]:
        shutil.rmtree(path)
    return found


@pytest.fixture(scope="module")
def healthy(tmp_path_factory, served):
    plan = [(way, "nowhere", "bug") for way in WAYS]
    found = crawl(tmp_path_factory.mktemp("healthy"), served, plan)
    return dict(zip(WAYS, found, strict=True))


@pytest.fixture(scope="module")
def faulty(tmp_path_factory, served, healthy):
    """What came of each point that a crawl calls, by way and point."""
    kinds = itertools.cycle(("bug", "memory", "locked", "timeout"))
    called = {way: crawled.of("calls")[0]["calls"] for way, crawled in healthy.items()}
    ways = {point: [way for way in WAYS if point in called[way]] for point in faulting.ADDON}
    plan = [
        (found[n % len(found)], point, next(kinds))
        for n, (point, found) in enumerate(ways.items())
        if found
    ]
    plan = [each for n, each in enumerate(plan) if bool(n % 25) == FULL]
    found = []
    for part, first in enumerate(range(0, len(plan), 60)):
        folder = tmp_path_factory.mktemp(f"part{part}")
        found += crawl(folder, served, plan[first : first + 60])
    return dict(zip(plan, found, strict=True))


def codes(crawled: Crawl) -> set[int]:
    return {event["code"] for event in crawled.of("item")}


def reached(faulty: Faulty) -> Faulty:
    """Return the crawls that came to their point and must tell of it; the order of pages decides for a few."""
    found = {plan: crawled for plan, crawled in faulty.items() if crawled.of("raised")}
    assert len(found) >= 0.9 * len(faulty)
    return {plan: each for plan, each in found.items() if not plan[1].startswith(SILENT)}


@pytest.mark.parametrize("way", WAYS)
def test_the_crawl_without_a_fault_goes_all_ways(healthy, way):
    """It checks, drops, fetches again and a second time, and nothing is lost or wrong."""
    crawled = healthy[way]
    assert codes(crawled) == WANTED
    assert not crawled.faults
    for name in (
        "items/equal",
        "items/other",
        "items/dropped",
        "items/by_text",
        "items/again",
        "items/second_fetch",
    ):
        assert crawled.stat(name), name


def test_promise_1_no_wanted_item_is_lost_whatever_of_the_add_on_fails(faulty):
    """All items of the spider without the add-on come out, and the crawl ends by itself."""
    lost = {
        f"{way} {point}": sorted(WANTED - codes(crawled))
        for (way, point, _), crawled in faulty.items()
        if not codes(crawled) >= WANTED or crawled.stats.get("finish_reason") != "finished"
    }
    assert lost == {}


def test_each_fault_of_the_add_on_is_counted(faulty):
    """As dedup/error/KIND."""
    untold = {
        f"{way} {point}"
        for (way, point, kind), crawled in reached(faulty).items()
        if kind_of(faulting.KINDS[kind]("text")) not in (crawled.faults or {})
    }
    assert untold == set()


def test_each_fault_of_the_add_on_is_logged_once(faulty):
    """For each kind; no exception is told by another logger than ours, but those of the spider and its pipeline."""
    log = {id(crawled.log): crawled.log for crawled in faulty.values()}
    lines = [line for each in log.values() for line in each.splitlines() if " ERROR: " in line]
    said = {
        f"{way} {point}": len(
            [line for line in lines if f"broken {point} in {crawled.name}." in line]
        )
        for (way, point, _), crawled in reached(faulty).items()
    }
    allowed = ("[dedup] ERROR", "/raises>", "Error processing {'url'")
    assert [line for line in lines if not any(each in line for each in allowed)] == []
    assert {point: number for point, number in said.items() if number < 1} == {}
