"""Sites that are crawled again, unchanged and changed, and crawls that are closed half way."""

import signal

import pytest
from crawling import TEXT, Case, Crawling, Page, article, hub, run_case, serve, wait_for

import dedup
from dedup.store.transfer import decode_line, export_lines
from dedup.store.verify import verify_store

EVER = TEXT | {"DEDUP_MEMORY": "ever"}
SITE = {
    "/": hub("/one", "/two", "/three", "/copy"),
    "/one": article(1),
    "/two": article(2),
    "/three": article(3),
    "/copy": article(1, frame="a copy of /one"),
}
CHANGED = SITE | {
    "/": hub("/one", "/two", "/four", "/copy"),  # /three is gone, /four is new
    "/one": article(11),  # has new content
    "/two": article(11, frame="became a copy of /one"),
    "/four": article(4),
    # /copy is now the only page with its content, which is still known under /one's old fingerprint
}


def stored(folder):
    """What the store holds of each document, its time left out."""
    lines = export_lines(folder / "dedup" / "only", lambda _, fault: pytest.fail(fault))
    held = map(decode_line, lines)
    return {document.key: document.page for _, document in held}


@pytest.fixture(scope="module")
def recrawls(tmp_path_factory):
    """Three crawls: the site, the same again, the changed site; what the store holds after each."""
    folder = tmp_path_factory.mktemp("recrawl")
    crawls, reports, held = [], [], []
    with serve(SITE) as site:
        for pages in (SITE, SITE, CHANGED):
            site.pages = {path: [page] for path, page in pages.items()}
            case = Case(pages, settings=EVER)
            crawls.append(Crawling(folder, {"only": (site, case)}).end()["only"])
            reports.append(verify_store(folder / "dedup", "only"))
            held.append(stored(folder))
    return folder, crawls, reports, held


def test_promise_2_unchanged_site_is_fetched_again_and_nothing_is_dropped_that_was_kept(recrawls):
    """Every page that was parsed is a refetch; the copy is dropped once more."""
    _, (first, again, _), _, _ = recrawls
    assert again.parsed == first.parsed == set(SITE) - {"/copy"}
    assert {e["dedup"]["status"] for e in again.of("parsed") if e["path"] != "/"} == {"refetch"}
    assert set(again.dropped) == {"/copy"}


def test_unchanged_site_leaves_the_store_as_it_was(recrawls):
    """The same documents as before, each once, and sound."""
    _, _, reports, held = recrawls
    assert reports[0].documents == reports[1].documents == 4
    assert [report.problems for report in reports] == [[], [], []]
    assert held[1] == held[0]


def test_changed_page_is_known_by_its_new_content_only(recrawls):
    """A probe finds the page by what it says now; its old fingerprint is gone."""
    folder, (_, _, changed), _, _ = recrawls
    with dedup.open(folder / "dedup", namespace="only") as detector:

        def found(page: Page) -> list[str]:
            read = detector.fingerprint(page.body, encoding="utf-8")
            return [n.key.removeprefix(changed.url) for n in detector.probe(read)]

        assert sorted(found(article(11))) == ["/one", "/two"]
        assert found(article(1)) == ["/copy"]
        assert found(article(2)) == []


def test_page_that_became_a_copy_of_another_is_kept(recrawls):
    """A page that was accepted once is never dropped, whatever it says later."""
    _, (_, _, changed), _, _ = recrawls
    assert changed.meta("/two")["status"] == "refetch"


def test_copy_is_accepted_once_its_original_changed(recrawls):
    """The page that was dropped as a copy is unique when nobody else says the same any more."""
    _, (_, _, changed), _, _ = recrawls
    assert changed.meta("/copy")["status"] == "unique"
    assert changed.dropped == {}


def test_page_that_is_gone_stays_known(recrawls):
    """A page that was not met again is still an original, until it is pruned."""
    folder, (first, _, _), reports, _ = recrawls
    with dedup.open(folder / "dedup", namespace="only") as detector:
        read = detector.fingerprint(article(3).body, encoding="utf-8")
        assert [n.key for n in detector.probe(read)] == [f"{first.url}/three"]
    assert reports[2].documents == 6


# ------------------------------------------------------------------------- closed half way

MANY = {"/": hub(*(f"/{n}" for n in range(30)))} | {f"/{n}": article(100 + n) for n in range(30)}
CLOSES = """
def parse(self, response):
    self.note("parsed", response)
    if response.url.endswith("/9"):
        raise scrapy.exceptions.CloseSpider("enough")
    yield {"url": response.url}
    yield from self.links(response)
    self.note("ended", response)
"""
SLOW = """
async def parse(self, response):
    import asyncio
    self.note("parsed", response)
    await asyncio.sleep(0.05)
    yield {"url": response.url}
    for request in self.links(response):
        yield request
    self.note("ended", response)
"""
CLOSED = {
    "close_spider": (CLOSES, {}, "enough"),
    "item_count": (SLOW, {"CLOSESPIDER_ITEMCOUNT": 5}, "closespider_itemcount"),
    "sigint": (SLOW, {}, "shutdown"),
}


@pytest.fixture(
    scope="module",
    params=[
        "close_spider",
        pytest.param("item_count", marks=pytest.mark.long),
        pytest.param("sigint", marks=pytest.mark.long),
    ],
)
def closed(request, tmp_path_factory):
    """A crawl that was closed half way, the report on its store, the next crawl, its reason."""
    body, settings, reason = CLOSED[request.param]
    closing = "SIGINT" if request.param == "sigint" else f"Closing spider ({reason})"
    folder = tmp_path_factory.mktemp("closed")
    log = folder / "log"
    case = Case(MANY, body, {"CONCURRENT_REQUESTS": 4} | EVER | settings)
    with serve(MANY) as site:
        site.most = 20  # it is not over before it is closed
        crawling = Crawling(folder, {"only": (site, case)})
        if request.param == "sigint":
            wait_for(lambda: len(crawling.events()) > 12)
            crawling.process.send_signal(signal.SIGINT)
        wait_for(lambda: log.exists() and closing in log.read_text())
        site.most = None
        first = crawling.end()["only"]
        report = verify_store(folder / "dedup", "only")
        second = Crawling(folder, {"only": (site, Case(MANY, settings=EVER))}).end()["only"]
    return first, report, second, reason


def test_closed_crawl_leaves_a_sound_store_of_the_pages_that_ended_well(closed):
    """Pages in flight end with their callbacks: those that ended well are remembered, no others."""
    first, report, _, reason = closed
    assert first.stats["finish_reason"] == reason
    assert report.problems == []
    assert report.documents == len(first.paths("ended")) == first.stat("inserted")
    assert 0 < len(first.paths("ended")) < len(MANY)
    assert first.faults == {}


def test_crawl_after_a_closed_one_finds_every_page(closed):
    """What was remembered is fetched again, everything else is unique, nothing is dropped."""
    first, _, second, _ = closed
    statuses = {e["path"]: e["dedup"]["status"] for e in second.of("parsed")}
    assert set(statuses) == set(MANY)
    refetched = {path for path, status in statuses.items() if status == "refetch"}
    assert refetched == set(first.paths("ended")) - {"/"}


# --------------------------------------------------------- middlewares nearer to the spider

DISCARD = """
import gc
from scrapy.exceptions import IgnoreRequest

class Collects:
    def process_response(self, request, response, spider=None):
        gc.collect()  # sooner or later Python does so by itself
        return response

class Discards:
    def process_response(self, request, response, spider=None):
        if request.url.endswith("/original"):
            raise IgnoreRequest("not wanted")
        if request.url.endswith("/retried") and not request.meta.get("again"):
            return request.replace(meta=request.meta | {"again": True}, dont_filter=True)
        if request.url.endswith("/replaced"):
            return response.replace(body=response.body)
        return response
"""
DISCARDED = {
    "/": hub("/original", "/copy", "/retried", "/replaced", "/other"),
    "/original": article(1),
    "/copy": article(1, frame="a copy of /original"),
    "/retried": article(2),
    "/replaced": article(3),
    "/other": article(3, frame="a copy of /replaced"),
}


@pytest.mark.long
def test_page_that_a_later_middleware_discards_is_given_back(tmp_path):
    """Its copy does not wait for it once Python let go of it; one sent on as a copy is accepted."""
    settings = TEXT | {
        "DOWNLOADER_MIDDLEWARES": {"spiders.Discards": 100, "spiders.Collects": 900},
        "DEDUP_WAIT_SECONDS": 60,
    }
    crawl = run_case(tmp_path, Case(DISCARDED, settings=settings), setup=DISCARD)
    assert crawl.parsed == {"/", "/copy", "/retried", "/replaced"}
    assert crawl.meta("/copy")["status"] == "unique"
    assert set(crawl.dropped) == {"/other"}
    assert crawl.stat("released") == 2  # /original, and the first try of /retried
    assert crawl.stat("exempt/in_flight") == 0
