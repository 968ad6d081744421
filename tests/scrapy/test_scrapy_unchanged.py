"""DEDUP_UNCHANGED: a crawl that brings only what is new or has changed, embedded and through a service."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from crawling import Case, Crawl, Crawling, Page, Site, article, hub, serve, words
from services import Serving

ONLY_NEW = {"DEDUP_MEMORY": "ever", "DEDUP_UNCHANGED": "drop"}


def linked(number: int, link: str) -> Page:
    """A page whose link may change, and no word with it."""
    return article(number, text=f'{words(number)} <a href="{link}">the file</a>')


FIRST = {
    "/": hub("/list", "/text", "/title", "/link", "/shell", "/dropped", "/doc-1", "/doc-2"),
    "/list": article(1, "/behind"),  # the only page that leads there
    "/behind": article(2),
    "/text": article(3),
    "/title": article(4),
    "/link": linked(5, "/doc-1"),
    "/shell": article(6, frame="12 visitors"),
    "/dropped": article(7),
    "/doc-1": article(8),
    "/doc-2": article(9),
}
SECOND = FIRST | {
    "/behind": article(2, text=words(2) + " for 3 Euro less"),
    "/text": article(30),
    "/title": article(4, title="Another title"),
    "/link": linked(5, "/doc-2"),
    "/shell": article(6, frame="13 visitors"),
}
CHANGED = {"/behind", "/text", "/title", "/link"}
ALWAYS = {"/", "/dropped"}  # a start request; a page whose item is never through

BODY = """
custom_settings = dict(custom_settings, ITEM_PIPELINES={"spiders.Complete": 300})

def parse(self, response):
    self.note("parsed", response)
    yield {"url": response.url}
    yield from self.links(response)
"""
PIPELINE = """
from scrapy.exceptions import DropItem

class Complete:
    async def process_item(self, item, spider=None):
        if item["url"].endswith("/dropped"):
            raise DropItem("incomplete")
        return item
"""


def crawl(folder: Path, site: Site, pages: dict[str, Page], **settings: object) -> Crawl:
    site.pages = {path: [page] for path, page in pages.items()}
    case = Case(pages, BODY, ONLY_NEW | settings)
    return Crawling(folder, {"only": (site, case)}, setup=PIPELINE).end()["only"]


def items(crawl: Crawl) -> int:
    """How many items went to the pipelines."""
    return crawl.stats.get("item_scraped_count", 0) + crawl.stats.get("item_dropped_count", 0)


@pytest.mark.parametrize("memory", ["embedded", "service"])
def test_only_pages_that_are_new_or_changed_bring_items(tmp_path, memory):
    """Text, title and links count, the shell does not; what an unchanged page leads to is followed."""
    service = nullcontext() if memory == "embedded" else Serving(tmp_path / "service")
    with service as serving, serve(FIRST) as site:
        asks = {"DEDUP_SERVICE": f"redis://127.0.0.1:{serving.port}"} if serving else {}
        asks |= {"DEDUP_TIMEOUT_SECONDS": 60}
        first = crawl(tmp_path, site, FIRST, **asks)
        second = crawl(tmp_path, site, SECOND, **asks)
        third = crawl(tmp_path, site, SECOND, **asks)
    assert first.parsed == second.parsed == third.parsed == set(FIRST)
    assert items(first) == len(FIRST)
    assert {e["path"] for e in second.of("parsed") if e["dedup"]["reason"] == "unchanged"} == (
        set(FIRST) - CHANGED - ALWAYS
    )
    assert items(second) == len(CHANGED | ALWAYS)
    assert items(third) == len(ALWAYS)
    assert third.stat("unchanged") == third.stat("unchanged_items") == len(FIRST) - len(ALWAYS)
    assert "8 of them unchanged (8 items not brought again)" in third.log
    assert first.faults == second.faults == third.faults == {}


def test_in_the_mode_tag_every_item_comes(tmp_path):
    """Tagging changes nothing: meta says what is unchanged."""
    with serve(FIRST) as site:
        for _ in range(2):
            last = crawl(tmp_path, site, FIRST, DEDUP_MODE="tag")
    assert last.stat("unchanged") == 8
    assert items(last) == len(FIRST)
