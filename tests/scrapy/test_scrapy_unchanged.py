"""DEDUP_UNCHANGED: a crawl that brings only what is new or has changed, embedded and through a service."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from crawling import WRITES, Case, Crawl, Crawling, Page, Site, article, hub, serve, words
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


@pytest.mark.parametrize("memory", ["embedded", pytest.param("service", marks=pytest.mark.long)])
def test_only_pages_that_are_new_or_changed_bring_items(tmp_path, memory):
    """Text, title and links count, the shell does not; what an unchanged page leads to is followed."""
    service = nullcontext() if memory == "embedded" else Serving(tmp_path / "service")
    with service as serving, serve(FIRST) as site:
        asks = {"DEDUP_SERVICE": f"redis://127.0.0.1:{serving.port}"} if serving else {}
        asks |= {"DEDUP_TIMEOUT_SECONDS": 60}
        first, second, third = (
            crawl(tmp_path, site, pages, **asks) for pages in (FIRST, SECOND, SECOND)
        )
    assert first.parsed == second.parsed == third.parsed == set(FIRST)
    assert items(first) == len(FIRST)
    assert {e["path"] for e in second.of("parsed") if e["dedup"]["reason"] == "unchanged"} == (
        set(FIRST) - CHANGED - ALWAYS
    )
    assert items(second) == len(CHANGED | ALWAYS)
    assert items(third) == len(ALWAYS)
    assert third.stat("unchanged") == third.stat("unchanged_items") == len(FIRST) - len(ALWAYS)
    assert first.faults == second.faults == third.faults == {}


CODES = """
def parse(self, response):
    for code in response.css("main i::attr(lang)").getall():
        yield {"url": response.url, "code": f"code {code}"}
    yield from self.links(response)
"""


def coded(number: int, *codes: str) -> Page:
    """Return a page with values in an attribute that neither its text nor its parts have."""
    marks = "".join(f"<i lang='{code}'></i>" for code in codes)
    return article(number, text=f"{words(number)}{marks}")


def test_an_unchanged_page_brings_the_items_that_it_did_not_bring_before(tmp_path):
    """The items decide, one by one; of more than are told apart, all together."""
    many = [f"m{n}" for n in range(60)]
    first = {
        "/one": coded(1, "a"),
        "/other": coded(2, "b"),
        "/two": coded(3, "c", "d"),
        "/many": coded(4, *many),
        "/most": coded(5, *(f"x{n}" for n in range(60))),
    }
    second = first | {
        "/other": coded(2, "B"),
        "/two": coded(3, "c", "D"),
        "/most": coded(5, *(f"x{n}" for n in range(1, 61))),
    }
    found = []
    with serve({}) as site:
        for pages in (first, second):
            pages = {"/": hub(*pages)} | pages
            site.pages = {path: [page] for path, page in pages.items()}
            case = Case(pages, CODES, ONLY_NEW | WRITES)
            done = Crawling(tmp_path, {"only": (site, case)}).end()["only"]
            assert not done.faults
            found.append(sorted(item["code"].removeprefix("code ") for item in done.items))
    assert len(found[0]) == 1 + 1 + 2 + 60 + 60
    assert found[1] == sorted(["B", "D", *(f"x{n}" for n in range(1, 61))])
    assert done.stat("unchanged") == 5
    assert done.stat("unchanged_items") == 1 + 1 + 60


def test_by_text_alone_an_unchanged_page_brings_nothing_and_in_the_mode_tag_every_item_comes(
    tmp_path,
):
    """DEDUP_PROOF = "text": whatever its item is now; and tagging changes nothing."""
    modes = {"text": {"DEDUP_PROOF": "text"}, "tag": {"DEDUP_MODE": "tag"}}
    with serve({}) as site:
        settings = ONLY_NEW | WRITES
        cases = {name: (site, Case({}, CODES, settings | mode)) for name, mode in modes.items()}
        for code in "ab":
            pages = {"/": hub("/one", "/two"), "/one": coded(1, code), "/two": coded(2, "same")}
            site.pages = {path: [page] for path, page in pages.items()}
            done = Crawling(tmp_path, cases).end()
    assert not done["text"].items
    assert sorted(item["code"] for item in done["tag"].items) == ["code b", "code same"]
    assert done["tag"].stat("unchanged") == 2
