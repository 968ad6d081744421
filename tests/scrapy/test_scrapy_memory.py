"""What a crawl remembers of the crawl before it: DEDUP_MEMORY, JOBDIR, and what is forgotten again."""

from functools import partial
from pathlib import Path

import pytest
from crawling import TEXT, Case, Crawl, Page, article, hub, run_case

import dedup

crawl = partial(run_case, settings=TEXT)

DAY_1 = {"/": hub("/a?sid=1", "/b?sid=1"), "/a?sid=1": article(1), "/b?sid=1": article(2)}
DAY_2 = {"/": hub("/a?sid=2", "/b?sid=2"), "/a?sid=2": article(1), "/b?sid=2": article(2)}


def days(folder: Path, **settings: object) -> list[Crawl]:
    return [crawl(folder, Case(pages, settings=settings)) for pages in (DAY_1, DAY_2)]


def test_a_crawl_begins_with_an_empty_memory(tmp_path):
    """Tomorrow's session ids cost nothing: each crawl begins empty, and says so."""
    first, second = days(tmp_path)
    assert len(first.parsed) == len(second.parsed) == 3
    assert second.stat("unique") == 2
    assert "starts with an empty store" in second.log


def test_a_memory_that_is_kept_knows_yesterdays_pages(tmp_path):
    """An age: yesterday's texts are known under their other URLs; what is older is pruned when the crawl begins."""
    _, second = days(tmp_path, DEDUP_MEMORY="30d")
    assert set(second.dropped) == {"/a?sid=2", "/b?sid=2"}
    old = "import time\nreal = time.time\ntime.time = lambda: real() + 100_000"
    later = crawl(tmp_path, Case(DAY_2, settings={"DEDUP_MEMORY": "1d"}), setup=old)
    assert later.dropped == {}
    assert "forgot 4 old documents" in later.log  # both start pages


@pytest.mark.long
def test_a_crawl_that_resumes_remembers(tmp_path):
    """With the JOBDIR of the crawl that was stopped the store is kept; with another one it is emptied."""
    settings = {"JOBDIR": str(tmp_path / "job")}
    crawl(tmp_path, Case(DAY_1, settings=settings | {"CLOSESPIDER_ITEMCOUNT": 3}))
    resumed = crawl(tmp_path, Case(DAY_2, settings=settings))
    assert set(resumed.dropped) == {"/a?sid=2", "/b?sid=2"}
    assert "resumes, and remembers its pages" in resumed.log
    other = crawl(tmp_path, Case(DAY_2, settings={"JOBDIR": str(tmp_path / "other")}))
    assert other.dropped == {}


@pytest.mark.long
def test_a_page_that_is_gone_makes_room_for_its_copy(tmp_path):
    """A 404 for a known key forgets its document: the copy is kept."""
    pages = {"/": hub("/a", "/copy"), "/a": article(1), "/copy": article(1, frame="copy")}
    ever = {"DEDUP_MEMORY": "ever"}
    gone = pages | {"/a": Page(b"gone", status=404)}
    keys = """
    def links(self, response, **options):
        options["errback"] = self.failed
        for n, path in enumerate(("/a", "/copy")):
            meta = {"dedup_key": path}
            yield scrapy.Request(self.base + path, meta=meta, priority=-n, **options)
    """
    first = crawl(tmp_path / "keys", Case(pages, keys, ever))
    second = crawl(tmp_path / "keys", Case(gone, keys, ever))
    assert set(first.dropped) == {"/copy"}
    assert second.meta("/copy")["status"] == "unique"


def test_forget_takes_back_what_an_earlier_crawl_stored(tmp_path):
    """A page that was stored, and is fetched again, is forgotten as what it was, too."""
    pages = {"/": hub("/a"), "/a": article(1)}
    ever = {"DEDUP_MEMORY": "ever"}
    key = """
    paths = %s
    def links(self, response, **options):
        for n, path in enumerate(self.paths):
            meta = {"dedup_key": path}
            yield scrapy.Request(self.base + path, meta=meta, priority=-n, errback=self.failed)
    """
    forgets = """
    def parse(self, response):
        from dedup.scrapy import forget
        if response.url.endswith("/a"):
            forget(response)
        yield from super().parse(response)
    """
    copies = {"/": hub(), "/a": article(1), "/copy": article(1, frame="copy")}
    first = crawl(tmp_path, Case(pages, key % ["/a"], ever))
    second = crawl(tmp_path, Case(copies, key % ["/a", "/copy"] + forgets, ever))
    assert first.stat("inserted") == 2
    assert second.meta("/copy")["status"] == "unique"


def test_a_store_that_others_filled_is_not_emptied(tmp_path):
    """What a service, an import or the library put into a crawl's own store stays there."""
    crawl(tmp_path, Case(DAY_1))
    [store] = (tmp_path / "dedup").iterdir()
    with dedup.open(store.parent, namespace=store.name) as detector:
        page = dedup.fingerprint(article(3).body, url="http://elsewhere/")
        detector.insert(detector.reserve(page, "http://elsewhere/"))
    second = crawl(tmp_path, Case(DAY_2))
    assert set(second.dropped) == {"/a?sid=2", "/b?sid=2"}
    assert "which another setting or program filled" in second.log
