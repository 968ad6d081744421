"""RequestFilter answers as Scrapy's own filter, on disk, and loses no request that was never fetched."""

from __future__ import annotations

import logging
import pickle
import signal
from dataclasses import dataclass
from hashlib import sha1

import pytest
from crawling import Case, Crawling, article, hub, scrapy_command, serve, wait_for
from scrapy import Request, Spider, version_info
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from dedup.scrapy import RequestFilter

pytestmark = pytest.mark.usefixtures("reactor")

CLASS = "dedup.scrapy.RequestFilter"


class Plain(Spider):
    name = "plain"

    def found(self, response, **about):
        pass


def made(folder, **settings):
    """A filter as Scrapy makes it for a crawl."""
    crawler = get_crawler(Plain, {"DEDUP_PATH": str(folder), **settings})
    crawler.crawling = True
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


class Named(RequestFilter):
    """By the way before there were request fingerprinters."""

    def request_fingerprint(self, request):
        return request.url.lower().encode().hex()


@pytest.mark.filterwarnings("ignore:Overriding RFPDupeFilter.request_fingerprint")
def test_a_project_may_name_requests_as_scrapy_allows(tmp_path):
    """REQUEST_FINGERPRINTER_CLASS, or a subclass, decides which requests are the same."""
    subclass = Named(tmp_path / "named")
    subclass.open()
    for ours in (made(tmp_path, REQUEST_FINGERPRINTER_CLASS=Lowered), subclass):
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
    """A request that failed passes in the next crawl, whatever DEDUP_MEMORY says; a stopped crawl's are made again."""
    ours = made(tmp_path, DEDUP_MEMORY="ever")
    assert not ours.request_seen(REQUESTS[0])
    ours.close(reason)
    ours = made(tmp_path, DEDUP_MEMORY="ever")
    left = [ours._name_of(REQUESTS[0])] if reason != "finished" else []
    assert [name for name, _ in ours._pending.take()] == left
    assert not ours.request_seen(REQUESTS[0])
    ours.close("finished")


def test_what_a_job_has_scheduled_is_not_another_crawls(tmp_path):
    """With a DEDUP_MEMORY that lasts, other crawls know what was fetched, not what lies in a paused job's queue."""
    job = {"JOBDIR": str(tmp_path / "job"), "DEDUP_MEMORY": "ever"}
    ours = made(tmp_path / "store", **job)
    assert not fetched(ours, REQUESTS[0])
    assert not ours.request_seen(REQUESTS[1])
    ours.close("shutdown")
    other = made(tmp_path / "store", DEDUP_MEMORY="ever")
    assert [other.request_seen(r) for r in REQUESTS[:2]] == [True, False]
    other.close("finished")
    ours = made(tmp_path / "store", **job)
    assert [ours.request_seen(r) for r in REQUESTS[:2]] == [True, True]
    ours.close("finished")


def files(folder):
    """The content of each file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_with_a_jobdir_the_state_lies_in_it(tmp_path):
    """And in files that nobody else may read."""
    ours = made(tmp_path / "store", JOBDIR=str(tmp_path / "job"))
    assert not ours.request_seen(Request("http://example.com/?token=1"))
    found = files(tmp_path)
    assert {"job/dedup-requests/key", "job/dedup-requests/pending/1.log"} <= set(found)
    assert not (tmp_path / "store").exists()
    (pending,) = (tmp_path / "job" / "dedup-requests" / "pending").iterdir()
    assert pending.stat().st_mode & 0o077 == 0
    ours.close("shutdown")


def test_without_a_jobdir_it_ends_with_the_crawl(tmp_path):
    """It is in files, each crawl has its own, and what a killed one left goes with the next."""
    one, two = made(tmp_path), made(tmp_path)
    assert [r.request_seen(REQUESTS[0]) for r in (one, one, two, two)] == [False, True] * 2
    assert {name for name in files(tmp_path) if name.endswith("all.digests")} == {
        f"plain/requests/crawl/{n}/all.digests" for n in range(2)
    }
    two.close("finished")
    one._close()  # as a kill leaves it: the lock is free, the files are there
    assert files(tmp_path)
    again = made(tmp_path)
    assert [again.request_seen(REQUESTS[0]) for _ in range(2)] == [False, True]
    again.close("finished")
    assert not files(tmp_path)
    assert not again._crawler.stats.get_value("dedup/error/requests")


@dataclass
class Shop:
    price: int


def test_requests_are_kept_as_plain_values(tmp_path):
    """One with all its parts is made again as it was; one that holds an object is counted, and may be made again."""
    job = {"JOBDIR": str(tmp_path / "job")}
    ours = made(tmp_path, **job)
    spider = ours._crawler.spider
    kept = Request(
        "http://example.com/ü",
        spider.found,
        "POST",
        headers={"X-A": ["1", "2"]},
        body=b"\0\xff",
        cookies={"a": "1"},
        meta={"depth": 3, "pairs": [1.5, None, True]},
        cb_kwargs={"of": b"\xfe"},
        priority=-7,
        flags=["f"],
    )
    others = [
        Request("http://example.com/1", spider.found, cb_kwargs={"shop": Shop(1)}),
        Request("http://example.com/2", lambda _: None),
    ]
    assert not any(ours.request_seen(r) for r in (kept, *others))
    assert ours._crawler.stats.get_value("dedup/requests/not_saved") == 2
    ours._close()  # a kill
    ours = made(tmp_path, **job)
    remade, engine = [], ours._crawler
    engine.engine = Engine(ours, remade)
    ours.spider_opened(engine.spider)
    assert [r.to_dict(spider=engine.spider) for r in remade] == [kept.to_dict(spider=spider)]
    assert [ours.request_seen(r) for r in (kept, *others)] == [True, False, False]
    ours.close("finished")


class Engine:
    """Takes requests as Scrapy's does."""

    def __init__(self, filter_, made):
        self.filter, self.made = filter_, made

    def crawl(self, request):
        if request.dont_filter or not self.filter.request_seen(request):
            self.made.append(request)


class Trap:
    def __reduce__(self):
        return exec, ("raise SystemExit('unpickled')",)


def test_nothing_is_unpickled(tmp_path):
    """A record that somebody else wrote calls nothing."""
    job = {"JOBDIR": str(tmp_path / "job")}
    ours = made(tmp_path, **job)
    ours._pending.add(b"name", pickle.dumps(Trap(), protocol=4))
    ours._close()
    ours = made(tmp_path, **job)
    ours._crawler.engine = Engine(ours, remade := [])
    ours.spider_opened(ours._crawler.spider)
    assert remade == []
    assert not ours._crawler.stats.get_value("dedup/error/requests")
    ours.close("finished")


@pytest.mark.parametrize("form", ["lines", "binary"])
def test_what_scrapys_filter_has_seen_is_taken_over(tmp_path, form, caplog):
    """Once, in both forms that its file has had; a record that a kill cut short ends it."""
    names = [RequestFilter().fingerprinter.fingerprint(request) for request in REQUESTS[:2]]
    if form == "lines":
        content = b"".join(name.hex().encode() + b"\n" for name in names)
    else:
        content = b"".join(b"\0\x14" + name for name in names) + b"\0\x14abc"
    (tmp_path / "requests.seen").write_bytes(content)
    caplog.set_level(logging.INFO)
    ours = made(tmp_path / "store", JOBDIR=str(tmp_path))
    assert [ours.request_seen(r) for r in REQUESTS[:2]] == [True, True]
    assert not ours.request_seen(REQUESTS[3])
    assert "requests.seen are taken over" in caplog.text
    ours.close("shutdown")
    caplog.clear()
    ours = made(tmp_path / "store", JOBDIR=str(tmp_path))
    assert ours.request_seen(REQUESTS[3])
    assert "taken over" not in caplog.text
    ours.close("finished")


def test_what_cannot_be_taken_over_is_said(tmp_path, caplog):
    """The filter goes on, on disk."""
    (tmp_path / "requests.seen").mkdir()
    ours = made(tmp_path / "store", JOBDIR=str(tmp_path))
    assert [ours.request_seen(REQUESTS[0]) for _ in range(2)] == [False, True]
    assert "requests.seen cannot be taken over" in caplog.text
    assert ours._crawler.stats.get_value("dedup/error/requests") == 1
    assert ours._own is not None
    ours.close("finished")


@pytest.mark.parametrize("reason", ["shutdown", "finished"])
def test_a_jobdir_resumes(tmp_path, reason):
    """A crawl that goes on remembers what it tried; one with another JOBDIR begins with nothing."""
    for job, seen in (("1", False), ("1", True), ("2", False), ("1", True)):
        ours = made(tmp_path / "store", JOBDIR=str(tmp_path / job))
        assert ours.request_seen(REQUESTS[0]) is seen, job
        ours.close(reason)


@pytest.mark.parametrize("fault", ["locked", "file in the way", "fails later", "full"])
def test_a_fault_of_ours_lets_requests_pass(tmp_path, fault, monkeypatch, caplog):
    """They are filtered in memory, the fault is logged once and counted."""
    job = {"JOBDIR": str(tmp_path / "job")}
    if fault == "locked":
        other = made(tmp_path, **job)
    if fault == "file in the way":
        (tmp_path / "job").mkdir()
        (tmp_path / "job" / "dedup-requests").write_text("")
    ours = made(tmp_path, **job)
    if fault in {"fails later", "full"}:
        assert not ours.request_seen(Request("http://example.com/before"))
        failing = "DigestFolder.put" if fault == "full" else "DigestFolder.find"
        monkeypatch.setattr(f"dedup.core.digests.{failing}", lambda *_: fail())
    assert [ours.request_seen(r) for r in (REQUESTS[0], REQUESTS[0])] == [False, True]
    assert ours._crawler.stats.get_value("dedup/error/requests") == 1
    assert caplog.text.count("in memory only") == 1
    ours.close("finished")
    if fault == "locked":
        other.close("finished")


def fail():
    raise OSError(28, "full")


PAGES = {
    "/": hub(*(f"/{i}" for i in range(8))),
    **{f"/{i}": article(i, *(f"/{i}/{j}" for j in range(4)), f"/{(i + 1) % 8}") for i in range(8)},
    **{f"/{i}/{j}": article(100 + 10 * i + j, f"/{i}") for i in range(8) for j in range(4)},
}


def job(tmp_path, **settings):
    return {"DUPEFILTER_CLASS": CLASS, "JOBDIR": str(tmp_path / "job"), **settings}


def crawling(tmp_path, site, case, most):
    """Begin a crawl; return it once its site has been asked for so many pages."""
    site.most = most
    found = Crawling(tmp_path, {"only": (site, case)})
    wait_for(lambda: len(site.requested) > most)
    return found


def killed(tmp_path, site, case, most):
    """Kill a crawl after so many pages; return what was parsed."""
    found = crawling(tmp_path, site, case, most)
    parsed = {e["path"] for e in found.events() if e["event"] == "parsed"}
    found.process.kill()
    found.end(-9)
    site.most = None
    return parsed


def stopped(tmp_path, site, case, most):
    """Stop a crawl after so many pages."""
    found = crawling(tmp_path, site, case, most)
    found.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "SIGTERM" in (tmp_path / "log").read_text())
    site.most = None
    return found.end()["only"]


def resumed(tmp_path, site, case):
    return Crawling(tmp_path, {"only": (site, case)}).end()["only"]


@pytest.mark.parametrize(
    "most", [3, *(pytest.param(most, marks=pytest.mark.long) for most in (11, 23))]
)
def test_promise_1_no_request_is_lost_by_a_kill(tmp_path, most):
    """After kill -9 and a resume from JOBDIR every page has been parsed."""
    case = Case(PAGES, settings=job(tmp_path))
    with serve(PAGES) as site:
        parsed = killed(tmp_path, site, case, most)
        second = resumed(tmp_path, site, case)
    assert parsed | second.parsed == set(PAGES)
    assert not second.dropped  # what is fetched once more is a refetch
    assert second.stats["dedup/requests/resumed"] > 0


def test_no_request_is_lost_by_a_kill_after_a_stop(tmp_path):
    """What lay in Scrapy's queue when the job was stopped is made again after the next run was killed."""
    case = Case(PAGES, settings=job(tmp_path, DEDUP_ENABLED=False))
    with serve(PAGES) as site:
        first = stopped(tmp_path, site, case, 5)
        parsed = first.parsed | killed(tmp_path, site, case, 4)
        last = resumed(tmp_path, site, case)
    assert len(parsed) < len(PAGES)
    assert parsed | last.parsed == set(PAGES)


def test_what_is_made_again_is_as_it_was(tmp_path):
    """A link to another site, which Scrapy does not follow, is not followed after a kill either."""
    with serve({}) as site:
        away = f"http://localhost:{site.server_port}/away"
        site.pages = {path: [page] for path, page in PAGES.items()}
        site.pages["/"] = [hub(away, *(f"/{i}" for i in range(8)))]
        case = Case(PAGES, 'allowed_domains = ["127.0.0.1"]', job(tmp_path, DEDUP_ENABLED=False))
        parsed = killed(tmp_path, site, case, 5)
        second = resumed(tmp_path, site, case)
    assert parsed | second.parsed == set(PAGES)
    assert "/away" not in second.requested
    assert second.stats["offsite/filtered"] > 0


def test_a_stopped_crawl_resumes_with_scrapys_queue(tmp_path):
    """After a clean end nothing is made twice, and after the last one nothing is pending."""
    case = Case(PAGES, settings=job(tmp_path))
    with serve(PAGES) as site:
        first = stopped(tmp_path, site, case, 9)
        second = resumed(tmp_path, site, case)
    assert first.parsed | second.parsed == set(PAGES)
    assert first.parsed & second.parsed <= {"/"}
    assert "dedup/requests/resumed" not in second.stats
    assert not list((tmp_path / "job").rglob("*.log"))


SPIDER = """
import os
import scrapy

class S(scrapy.Spider):
    name = "s"

    async def start(self):
        yield scrapy.Request(os.environ["SITE"] + "/")

    def parse(self, response):
        yield from response.follow_all(css="a", callback=self.parse)
    parse.__doc__ = f'''Follow.

    @url {os.environ["SITE"]}/3
    @returns requests 0
    '''
"""
SETTINGS = f"""
SPIDER_MODULES = ["spiders"]
ADDONS = {{"dedup.scrapy.Addon": 500}}
DUPEFILTER_CLASS = {CLASS!r}
DEDUP_MEMORY = "ever"
CONCURRENT_REQUESTS = 1
TELNETCONSOLE_ENABLED = False
"""
COMMANDS = {
    "parse": lambda site: ("parse", "--spider", "s", "-c", "parse", "--nolog", f"{site.url}/4"),
    "shell": lambda site: ("shell", "--spider", "s", "--nolog", "-c", fetches(site.url)),
    "check": lambda _: ("check", "s"),
    "job": lambda _: ("crawl", "s", "-s", "JOBDIR=other", "-s", "DEDUP_MEMORY=crawl"),
}


def fetches(url):
    """Return two fetches for the shell; with Scrapy 2.13 one, as another never ends there, without us, too."""
    paths = ("/5", "/6") if version_info >= (2, 14) else ("/5",)
    return ", ".join(f"fetch(scrapy.Request('{url}{path}'))" for path in paths)


@pytest.mark.parametrize(
    "between",
    ["parse", *(pytest.param(c, marks=pytest.mark.long) for c in ("shell", "check", "job"))],
)
def test_nothing_between_two_runs_touches_a_job(tmp_path, between):
    """Not a command of Scrapy, which adds nothing to what is remembered either, and not another job of that spider."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = project\n")
    (tmp_path / "project.py").write_text(SETTINGS)
    (tmp_path / "spiders.py").write_text(SPIDER)
    job, memory = tmp_path / "job", tmp_path / ".scrapy" / "dedup" / "s"
    with serve(PAGES) as site:

        def scrapy(*arguments):
            scrapy_command(tmp_path, *arguments, SITE=site.url)
            return list(site.requested), files(job), files(memory)

        first, *before = scrapy("crawl", "s", "-s", "JOBDIR=job", "-s", "CLOSESPIDER_PAGECOUNT=20")
        assert {"requests/ever/all.digests", "documents.mdb"} <= set(before[1])
        then, *after = scrapy(*COMMANDS[between](site))
        assert len(then) > len(first)
        assert after == before if between != "job" else after[0] == before[0]
        last, *_ = scrapy("crawl", "s", "-s", "JOBDIR=job")
    assert set(first).isdisjoint(last[len(then) :])
    assert set(first) | set(last[len(then) :]) == set(PAGES)
