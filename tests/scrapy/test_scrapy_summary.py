"""The summary at the end of a crawl: at most eight lines, each with [dedup], which add up, and none for zero."""

import re

import pytest
from crawling import Case, article, hub, run_cases

from dedup.model.stats import STATS
from dedup.report.crawl import Crawl
from dedup.report.summary import summary

ITEMS = """
def parse(self, response):
    self.note("parsed", response)
    if "closing" in response.text or "/p/" in response.url:
        yield {"begins": response.css("main p::text").get()[:20]}
    yield from self.links(response)
"""
COPIES = {f"/p/{n}?sid={k}": article(n + 1, frame=f"copy {k}") for n in range(5) for k in range(8)}
CASES = {
    "copies": Case(
        {"/": hub(*(f"/p/{n}" for n in range(5)), *COPIES, "/short")}
        | {f"/p/{n}": article(n + 1) for n in range(5)}
        | COPIES
        | {"/short": article(99, count=5)},
        ITEMS,
    ),
}
CASES["tag"] = Case(CASES["copies"].pages, ITEMS, {"DEDUP_MODE": "tag"})
FIGURES = re.compile(r"([\d,]+) (unique|checked|dropped|copies|seen URLs fetched again|exempt)")


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    return run_cases(tmp_path_factory.mktemp("summary"), CASES, in_turn=True)


def lines_of(crawls, name: str) -> list[str]:
    """Return the lines of a crawl's summary; the crawls are in turn, with one log."""
    records = re.findall(
        r"INFO: (\[dedup\] [\d,]+ pages?: .*(?:\n\[dedup\] .*)*)", crawls[name].log
    )
    assert len(records) == len(CASES)
    return records[[*CASES].index(name)].splitlines()


def test_it_adds_up(crawls):
    """The first line's parts are its pages, and the stats; each line begins alike, and there are at most eight."""
    for name, crawl in crawls.items():
        lines = lines_of(crawls, name)
        assert len(lines) <= 8
        assert all(line.startswith("[dedup] ") for line in lines)
        figures = re.sub(r"127\.0\.0\.1|/\S+", "", " ".join(lines))
        assert not re.search(r"\b0\b(?! us)", figures), lines
        total = int(re.match(r"\[dedup\] (\d+) pages", lines[0])[1])
        parts = {what: int(number) for number, what in FIGURES.findall(lines[0])}
        assert total == sum(parts.values()) == crawl.stats["downloader/response_count"]
        assert parts.get("checked", 0) == crawl.stat("checked")


def test_copies_are_told_by_their_urls(crawls):
    """How many were dropped unparsed, in words by how their URLs differ, and what became of those checked."""
    crawl, lines = crawls["copies"], lines_of(crawls, "copies")
    copies, equal = crawl.stat("near_duplicate"), crawl.stat("items/equal")
    assert copies + equal == 40
    assert lines[1:3] == [
        f"[dedup] dropped {copies} copies unparsed: parameter `sid` added ({copies})",
        f"[dedup] {equal} near-duplicates were checked: {equal} gave nothing new; {equal} items withheld",
    ]
    assert len(lines) == 4


def test_tag_mode_says_what_drop_would_do(crawls):
    """The same figures as in drop mode, said as what would be."""
    drop, tag = lines_of(crawls, "copies"), lines_of(crawls, "tag")
    copies = crawls["copies"].stat("near_duplicate")
    assert tag[0] == drop[0].replace(f"{copies} dropped", f"{copies} copies")
    said = f'DEDUP_MODE = "tag" changes nothing; "drop" would drop {copies} copies unparsed: '
    assert tag[1] == f"[dedup] {said}parameter `sid` added ({copies})"
    assert tag[2] == drop[2].replace("withheld", "would be withheld")
    assert tag[-1].endswith(
        "; the number of drops holds within some 5 %, the list depends on the order of responses"
    )


def test_the_longest_summary():
    """All that can be said at once is eight lines; patterns that brought something new, and faults are named."""
    counts = dict.fromkeys(STATS, 3) | {"error/store_locked": 2, "exempt/short": 4}
    counts |= {"cpu_seconds": 0.003, "near_duplicate/distance/1": 3}
    counts = {name: n for name, n in counts.items() if not name.endswith(("/KIND", "/REASON"))}
    crawl = Crawl("drop", stats=counts)
    crawl.differences = {"parameter `sid` added": 2, "`/amp` added": 1}
    crawl.patterns = [{"name": "parse, parameter `color` added (frame)", "again": 3}]
    crawl.waiting = {"parse on a.test": 38}
    assert summary(crawl, "9 documents in store").splitlines() == [
        "[dedup] 16 pages: 3 unique + 3 checked + 3 dropped + 3 seen URLs fetched again + 4 exempt (short 4)",
        "[dedup] dropped 3 copies unparsed: parameter `sid` added (2), `/amp` added (1); 3 by their text alone",
        "[dedup] 3 near-duplicates were checked: 3 gave nothing new, 3 gave new items, 3 gave only new links; 3 items "
        "withheld",
        "[dedup] 3 items of pages fetched again withheld: the page gave them before",
        "[dedup] 3 dropped pages fetched again, because a page of their pattern gave something new: parse, parameter "
        "`color` added (frame) (3)",
        "[dedup] the link budget is spent: 38 requests wait for something new: parse on a.test (38)",
        "[dedup] dedup failed at times, and those pages were kept: store_locked (2)",
        "[dedup] 3 pages remembered: 9 documents in store; CPU 1000 us a page",
    ]


def test_a_crawl_that_gained_nothing_says_so():
    """In the last line, with what it cost; not where something was withheld."""
    crawl = Crawl("drop", stats={"unique": 40, "probed": 40, "inserted": 40, "cpu_seconds": 0.004})
    last = summary(crawl, "40 documents in store").splitlines()[-1]
    assert last == (
        "[dedup] 40 pages remembered: 40 documents in store; nothing gained on this site, CPU 100 us a page"
    )
    crawl.stats["items/withheld"] = 1
    assert "nothing gained" not in summary(crawl, "40 documents in store")
