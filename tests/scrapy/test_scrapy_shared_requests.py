"""Spiders that share a filter through a real table service: each page once, none lost, whatever is killed."""

from __future__ import annotations

import shutil

import pytest
from crawling import Case, Crawling, article, hub, run_case, serve, wait_for
from services import Serving

PAGES = {
    "/": hub(*(f"/{i}" for i in range(8))),
    **{f"/{i}": article(i, *(f"/{i}/{j}" for j in range(4)), f"/{(i + 1) % 8}") for i in range(8)},
    **{f"/{i}/{j}": article(100 + 10 * i + j, f"/{i}") for i in range(8) for j in range(4)},
}
QUICK = "import dedup.service.core.requests_seen as seen; seen.DEAD_SECONDS = 6.0"  # of the service


def case(service: Serving, **settings: object) -> Case:
    return Case(
        PAGES,
        settings={
            "DUPEFILTER_CLASS": "dedup.scrapy.RequestFilter",
            "DEDUP_SERVICE": f"redis://127.0.0.1:{service.port}",
            "DEDUP_TIMEOUT_SECONDS": 60,
            "DEDUP_NAMESPACE": "team",
            "DEDUP_MODE": "tag",
        }
        | settings,
    )


def killed(folder, site, crawl: Case, most: int):
    """Crawl until a number of pages were asked for, and kill the spider; return what it parsed."""
    site.most = most
    crawling = Crawling(folder, {"only": (site, crawl)})
    wait_for(lambda: len(site.requested) > most)
    wait_for(lambda: len(crawling.events()) >= most)
    parsed = {e["path"] for e in crawling.events() if e["event"] == "parsed"}
    crawling.process.kill()
    crawling.end(-9)
    site.most = None
    return parsed


def test_two_spiders_fetch_each_page_once(tmp_path):
    """Both begin at the start page; every other page is one's only."""
    with Serving(tmp_path / "service") as service, serve(PAGES) as site:
        site.most = 0  # until both have begun: one that is done before ends the crawl's memory
        both = [Crawling(tmp_path / n, {"only": (site, case(service))}) for n in ("one", "two")]
        wait_for(lambda: site.requested.count("/") == 2)
        site.most = None
        one, two = (crawling.end()["only"] for crawling in both)
    assert one.parsed | two.parsed == set(PAGES)
    assert one.parsed & two.parsed == {"/"}
    assert one.faults == two.faults == {}
    assert one.stats["dupefilter/filtered"] + two.stats["dupefilter/filtered"] > 8


@pytest.mark.parametrize("most", [2, 30])
def test_promise_1_another_spider_makes_the_requests_of_a_killed_one(tmp_path, most):
    """Those that it had scheduled, and whose pages lead further, with no JOBDIR, and on another disk."""
    with Serving(tmp_path / "service", setup=QUICK) as service, serve(PAGES) as site:
        crawl = case(service, DEDUP_MEMORY="ever")
        parsed = killed(tmp_path / "one", site, crawl, most)
        two = run_on(tmp_path / "two", site, crawl)
    assert parsed | two.parsed == set(PAGES)
    assert most < 30 or len(two.parsed) < len(PAGES)
    assert two.stats["dedup/requests/resumed"] > 0
    assert two.faults == {}


def run_on(folder, site, crawl: Case):
    return Crawling(folder, {"only": (site, crawl)}).end()["only"]


def test_promise_1_a_killed_spider_resumes_its_jobdir(tmp_path):
    """Its requests are at the service; Scrapy's queue is gone."""
    with Serving(tmp_path / "service") as service, serve(PAGES) as site:
        crawl = case(service, JOBDIR=str(tmp_path / "job"))
        parsed = killed(tmp_path, site, crawl, 30)
        shutil.rmtree(tmp_path / "job" / "requests.queue", ignore_errors=True)
        resumed = run_on(tmp_path, site, crawl)
    assert parsed | resumed.parsed == set(PAGES)
    assert len(resumed.parsed) < len(PAGES)
    assert resumed.stats["dedup/requests/resumed"] > 0


def test_promise_6_a_killed_service_knows_what_it_acknowledged(tmp_path):
    """Killed and started again between two spiders: the second one finds everything seen."""
    with Serving(tmp_path / "service") as service, serve(PAGES) as site:
        one = run_on(tmp_path / "one", site, case(service, DEDUP_MEMORY="ever"))
        service.kill()
        service.start()
        two = run_on(tmp_path / "two", site, case(service, DEDUP_MEMORY="ever"))
    assert one.parsed == set(PAGES)
    assert two.parsed == {"/"}


def test_a_service_killed_in_a_crawl_loses_no_page(tmp_path):
    """Requests pass while it is away; when it is back it is told of them."""
    with Serving(tmp_path / "service") as service, serve(PAGES) as site:
        crawl = case(service, DEDUP_TIMEOUT_SECONDS=1)
        site.most = 4  # in any order further pages with new links follow
        crawling = Crawling(tmp_path / "one", {"only": (site, crawl)})
        wait_for(lambda: len(site.requested) > 4)
        service.kill()
        site.most = 20
        wait_for(lambda: len(site.requested) > 20)
        service.start()
        site.most = None
        one = crawling.end()["only"]
    assert one.parsed == set(PAGES)
    assert len(one.paths("parsed")) == len(PAGES)
    assert one.faults["requests"] > 0


def test_without_a_service_requests_pass_and_are_counted(tmp_path):
    """The crawl ends as one of its own."""
    crawl = Case(
        PAGES,
        settings={
            "DUPEFILTER_CLASS": "dedup.scrapy.RequestFilter",
            "DEDUP_SERVICE": "redis://127.0.0.1:1",
            "DEDUP_MODE": "tag",
        },
    )
    found = run_case(tmp_path, crawl)
    assert found.parsed == set(PAGES)
    assert len(found.paths("parsed")) == len(PAGES)
    assert found.faults["requests"] >= len(PAGES) - 1


@pytest.mark.parametrize("memory", ["crawl", "ever"])
def test_what_the_next_crawl_remembers(tmp_path, memory):
    """With DEDUP_MEMORY = crawl nothing, once all spiders of the crawl have ended."""
    with Serving(tmp_path / "service") as service, serve(PAGES) as site:
        crawl = case(service, DEDUP_MEMORY=memory)
        run_on(tmp_path / "one", site, crawl)
        two = run_on(tmp_path / "two", site, crawl)
    assert two.parsed == (set(PAGES) if memory == "crawl" else {"/"})
