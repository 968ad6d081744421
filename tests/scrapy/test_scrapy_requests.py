"""RequestFilter answers as Scrapy's own filter, on disk, and loses no request that was never fetched."""

from __future__ import annotations

import gc
import logging
import shutil
from hashlib import sha1

import pytest
from crawling import Case, Crawling, article, hub, run_case, serve, wait_for
from scrapy import Request, Spider
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import Response
from scrapy.utils.reactor import install_reactor, is_reactor_installed
from scrapy.utils.test import get_crawler

from dedup.scrapy import RequestFilter

CLASS = "dedup.scrapy.RequestFilter"


class Plain(Spider):
    name = "plain"


def made(folder, **settings):
    """A filter as Scrapy makes it."""
    if not is_reactor_installed():  # which Scrapy 2.13 asks for
        install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    crawler = get_crawler(Plain, {"DEDUP_PATH": str(folder), **settings})
    crawler.spider = crawler._create_spider()
    if crawler.stats is None:
        crawler._apply_settings()
    found = RequestFilter.from_crawler(crawler)
    found.open()
    return found


def fetched(ours, request):
    """Whether a request was seen before; what was not is fetched now, and its callback ended."""
    seen = ours.request_seen(request)
    if not seen:
        ours.response_received(Response(request.url, request=request), request)
        gc.collect()
    return seen


REQUESTS = [
    Request("http://example.com/a"),
    Request("http://example.com/a?x=1&y=2"),
    Request("http://example.com/a?y=2&x=1"),
    Request("http://example.com/a", method="POST"),
    Request("http://example.com/a", method="POST", body=b"1"),
    Request("http://example.com/a#part"),
    Request("http://example.com/a"),
    Request("http://example.com/INDEX"),
    Request("http://example.com/index"),
]


def test_it_answers_as_scrapys_filter(tmp_path):
    """The same requests are seen before, whatever the order of their parameters."""
    ours, theirs = made(tmp_path), RFPDupeFilter()
    assert [ours.request_seen(r) for r in REQUESTS] == [theirs.request_seen(r) for r in REQUESTS]
    ours.close("finished")


class Lowered:
    """A request fingerprinter: URLs that differ in case are one."""

    def fingerprint(self, request):
        return sha1(request.url.lower().encode(), usedforsecurity=False).digest()


def test_a_custom_fingerprinter_counts(tmp_path):
    """REQUEST_FINGERPRINTER_CLASS decides which requests are the same."""
    ours = made(tmp_path, REQUEST_FINGERPRINTER_CLASS=Lowered)
    assert [ours.request_seen(r) for r in REQUESTS[-2:]] == [False, True]
    ours.close("finished")


class Named(RequestFilter):
    def request_fingerprint(self, request):
        return request.url.lower()


@pytest.mark.filterwarnings("ignore:Overriding RFPDupeFilter.request_fingerprint")
def test_a_subclass_may_name_requests_as_scrapy_allows(tmp_path):
    """By request_fingerprint(), the way before there were request fingerprinters."""
    ours = Named(tmp_path)
    assert [ours.request_seen(r) for r in REQUESTS[-2:]] == [False, True]
    ours.close("finished")


def test_duplicates_are_logged_as_by_scrapy(tmp_path, caplog):
    """One line, or each with DUPEFILTER_DEBUG; and counted."""
    for debug, lines in ((False, 1), (True, 2)):
        ours = made(tmp_path, DUPEFILTER_DEBUG=debug)
        crawler = ours._crawler
        caplog.clear()
        with caplog.at_level(logging.DEBUG):
            for request in [REQUESTS[0]] * 3:
                if ours.request_seen(request):
                    ours.log(request, crawler.spider)
        assert caplog.text.count("Filtered duplicate request") == lines
        assert crawler.stats.get_value("dupefilter/filtered") == 2
        ours.close("finished")


@pytest.mark.parametrize(
    ("memory", "remembers"), [("crawl", False), ("ever", True), ("30d", True), ("0s", False)]
)
def test_what_the_next_crawl_remembers(tmp_path, memory, remembers):
    """DEDUP_MEMORY decides."""
    settings = {} if memory == "0s" else {"DEDUP_MEMORY": memory}
    for expected in (False, remembers):
        ours = made(tmp_path, **settings)
        assert fetched(ours, REQUESTS[0]) is expected
        ours.close("finished")


def test_old_requests_are_forgotten(tmp_path, monkeypatch):
    """Those of crawls that began before the time that DEDUP_MEMORY gives."""
    now = 1_000_000_000.0
    monkeypatch.setattr("dedup.core.digests.time.time", lambda: now)
    for day, url, seen in (
        (0, "/a", False),
        (20, "/b", False),
        (25, "/a", True),
        (40, "/a", False),
        (41, "/b", True),
    ):
        monkeypatch.setattr("dedup.core.digests.time.time", lambda d=day: now + d * 86400)
        ours = made(tmp_path, DEDUP_MEMORY="30d")
        assert fetched(ours, Request(f"http://example.com{url}")) is seen, (day, url)
        ours.close("finished")


@pytest.mark.parametrize("reason", ["finished", "closespider_timeout"])
def test_what_was_never_fetched_is_not_remembered(tmp_path, reason):
    """A request that failed passes in the next crawl, whatever DEDUP_MEMORY says."""
    settings = {"DEDUP_MEMORY": "ever"}
    ours = made(tmp_path, **settings)
    assert not ours.request_seen(REQUESTS[0])
    ours.close(reason)
    ours = made(tmp_path, **settings)
    if reason == "finished":
        assert not ours.request_seen(REQUESTS[0])
    else:  # the requests that a stopped crawl left are made again
        records, _ = ours._pending.left(10, 1000, 10)
        assert [name for name, _ in records] == [ours.name_of(REQUESTS[0])]
    ours.close("finished")


def test_with_a_service_each_crawl_filters_for_itself(tmp_path):
    """DEDUP_SERVICE is about pages: requests are filtered here, whether it answers or not."""
    for folder in ("one", "two"):
        ours = made(tmp_path / folder, DEDUP_SERVICE="redis://127.0.0.1:1")
        assert [ours.request_seen(REQUESTS[0]) for _ in range(2)] == [False, True]
        ours.close("finished")


@pytest.mark.parametrize("reason", ["shutdown", "finished"])
def test_a_jobdir_resumes(tmp_path, reason):
    """A crawl that goes on remembers what it tried; one with another JOBDIR begins with nothing."""
    for job, seen in (("1", False), ("1", True), ("2", False), ("1", False)):
        ours = made(tmp_path / "store", JOBDIR=str(tmp_path / job))
        assert ours.request_seen(REQUESTS[0]) is seen, job
        ours.close(reason)


@pytest.mark.parametrize("fault", ["locked", "file in the way", "fails later"])
def test_a_fault_of_ours_lets_requests_pass(tmp_path, fault, monkeypatch):
    """They are filtered in memory, the fault is logged once and counted."""
    if fault == "locked":
        other = made(tmp_path)
    if fault == "file in the way":
        (tmp_path / "plain").mkdir()
        (tmp_path / "plain" / "requests").write_text("")
    ours = made(tmp_path)
    if fault == "fails later":
        assert not ours.request_seen(Request("http://example.com/before"))
        monkeypatch.setattr(
            "dedup.core.digests.DigestFolder.put",
            lambda *_: (_ for _ in ()).throw(OSError(28, "full")),
        )
    assert [ours.request_seen(r) for r in (REQUESTS[0], REQUESTS[0])] == [False, True]
    assert ours._crawler.stats.get_value("dedup/error/requests") == 1
    ours.close("finished")
    if fault == "locked":
        other.close("finished")


PAGES = {
    "/": hub(*(f"/{i}" for i in range(8))),
    **{f"/{i}": article(i, *(f"/{i}/{j}" for j in range(4)), f"/{(i + 1) % 8}") for i in range(8)},
    **{f"/{i}/{j}": article(100 + 10 * i + j, f"/{i}") for i in range(8) for j in range(4)},
}


@pytest.mark.long
def test_a_crawl_makes_the_requests_that_it_makes_without(tmp_path):
    """Each page once, with the add-on and without it."""
    for name, settings in (
        ("with", {"DUPEFILTER_CLASS": CLASS}),
        ("alone", {"DUPEFILTER_CLASS": CLASS, "DEDUP_ENABLED": False}),
    ):
        crawl = run_case(tmp_path / name, Case(PAGES, settings=settings))
        assert sorted(crawl.requested) == sorted(PAGES), name
        assert crawl.stats["dupefilter/filtered"] > 8


@pytest.mark.parametrize(
    "most", [3, *(pytest.param(most, marks=pytest.mark.long) for most in (11, 23))]
)
def test_promise_1_no_request_is_lost_by_a_kill(tmp_path, most):
    """After kill -9 and a resume from JOBDIR every page has been parsed."""
    case = Case(PAGES, settings={"DUPEFILTER_CLASS": CLASS, "JOBDIR": str(tmp_path / "job")})
    with serve(PAGES) as site:
        site.most = most
        killed = Crawling(tmp_path, {"only": (site, case)})
        wait_for(lambda: len(site.requested) > most)
        parsed = {e["path"] for e in killed.events() if e["event"] == "parsed"}
        killed.process.kill()
        killed.end(-9)
        site.most = None
        # Scrapy's queue does not survive a kill
        shutil.rmtree(tmp_path / "job" / "requests.queue", ignore_errors=True)
        resumed = Crawling(tmp_path, {"only": (site, case)}).end()["only"]
    assert parsed | resumed.parsed == set(PAGES)
    assert not resumed.dropped  # what is fetched once more is a refetch
    assert resumed.stats["dedup/requests/resumed"] > 0


def test_a_stopped_crawl_resumes_with_scrapys_queue(tmp_path):
    """After a clean end nothing is made twice."""
    import signal

    case = Case(PAGES, settings={"DUPEFILTER_CLASS": CLASS, "JOBDIR": str(tmp_path / "job")})
    with serve(PAGES) as site:
        site.most = 9
        stopped = Crawling(tmp_path, {"only": (site, case)})
        wait_for(lambda: len(site.requested) > 9)
        stopped.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "SIGTERM" in (tmp_path / "log").read_text())
        site.most = None
        first = stopped.end()["only"]
        second = Crawling(tmp_path, {"only": (site, case)}).end()["only"]
    assert first.parsed | second.parsed == set(PAGES)
    assert first.parsed & second.parsed <= {"/"}
    assert not list((tmp_path / "dedup").rglob("pending-*.log"))
