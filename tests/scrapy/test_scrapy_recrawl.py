"""Sites that are crawled again, unchanged and changed, and crawls that are closed half way."""

import pytest
from crawling import TEXT, Case, Crawling, Page, article, hub, serve, wait_for

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
    """Every page that was parsed is a refetch; the copy is dropped once more; the store stays as it was, and sound."""
    _, (first, again, _), reports, held = recrawls
    assert again.parsed == first.parsed == set(SITE) - {"/copy"}
    assert {e["dedup"]["status"] for e in again.of("parsed") if e["path"] != "/"} == {"refetch"}
    assert set(again.dropped) == {"/copy"}
    assert [report.documents for report in reports] == [4, 4, 6]
    assert [report.problems for report in reports] == [[], [], []]
    assert held[1] == held[0]


def test_changed_page_is_known_by_its_new_content_only(recrawls):
    """A probe finds the page by what it says now, and one that is gone; a copy is accepted once its original changed.

    A page that was accepted once is never dropped, although it became a copy of another.
    """
    folder, (_, _, changed), _, _ = recrawls
    with dedup.open(folder / "dedup", namespace="only") as detector:

        def found(page: Page) -> list[str]:
            read = detector.fingerprint(page.body, encoding="utf-8")
            return [n.key.removeprefix(changed.url) for n in detector.probe(read)]

        assert sorted(found(article(11))) == ["/one", "/two"]
        assert found(article(1)) == ["/copy"]
        assert found(article(2)) == []
        assert found(article(3)) == ["/three"]
    assert changed.meta("/two")["status"] == "refetch"
    assert changed.meta("/copy")["status"] == "unique"
    assert changed.dropped == {}


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


def test_closed_crawl_leaves_a_sound_store_of_the_pages_that_ended_well(tmp_path):
    """Pages in flight end with their callbacks: those that ended well are remembered, no others; the next crawl has all."""
    case = Case(MANY, CLOSES, {"CONCURRENT_REQUESTS": 4} | EVER)
    with serve(MANY) as site:
        site.most = 20  # it is not over before it is closed
        crawling = Crawling(tmp_path, {"only": (site, case)})
        log = tmp_path / "log"
        wait_for(lambda: log.exists() and "Closing spider (enough)" in log.read_text())
        site.most = None
        first = crawling.end()["only"]
        report = verify_store(tmp_path / "dedup", "only")
        second = Crawling(tmp_path, {"only": (site, Case(MANY, settings=EVER))}).end()["only"]
    assert first.stats["finish_reason"] == "enough"
    assert report.problems == []
    assert report.documents == len(first.paths("ended")) == first.stat("inserted")
    assert 0 < len(first.paths("ended")) < len(MANY)
    assert first.faults == {}
    statuses = {e["path"]: e["dedup"]["status"] for e in second.of("parsed")}
    assert set(statuses) == set(MANY)
    refetched = {path for path, status in statuses.items() if status == "refetch"}
    assert refetched == set(first.paths("ended")) - {"/"}
