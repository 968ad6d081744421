"""DEDUP_EXPLORE in real crawls: a share of the near-duplicates is kept, the same one every time."""

import pytest
from crawling import Case, Crawl, Crawling, article, hub, run_cases, serve

from dedup.model.recipes import recipe_of
from dedup.scrapy.responses import explores
from dedup.scrapy.settings import EXEMPTIONS

COPIES = 60
# Each copy leads to a page of its own, and must be dropped all the same.
BY_TEXT = {"DEDUP_EXEMPT": [reason for reason in EXEMPTIONS if reason != "new_links"]}
PAGES = {
    "/": hub("/original", *(f"/copy/{n}" for n in range(COPIES))),
    "/original": article(1),
    **{f"/copy/{n}": article(1, f"/behind/{n}", frame=f"copy {n}") for n in range(COPIES)},
    **{f"/behind/{n}": article(100 + n) for n in range(COPIES)},
}
SHARES = {"nothing": 0.0, "some": 0.3, "all": 1.0}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    settings = {
        **{name: {"DEDUP_EXPLORE": share} for name, share in SHARES.items()},
        "skip": {"DEDUP_EXPLORE": 0.3, "DEDUP_MODE": "skip_links"},
        "tag": {"DEDUP_EXPLORE": 1.0, "DEDUP_MODE": "tag"},
    }
    cases = {name: Case(PAGES, settings=given | BY_TEXT) for name, given in settings.items()}
    return run_cases(tmp_path_factory.mktemp("explore"), cases)


def copies(paths) -> set[str]:
    return {path for path in paths if path.startswith("/copy/")}


def chosen(crawl: Crawl, share: float) -> set[str]:
    return {path for path in copies(PAGES) if explores(crawl.url + path, share)}


@pytest.mark.parametrize("name", SHARES)
def test_the_share_is_parsed_and_the_rest_dropped(crawls, name):
    """The near-duplicates that their keys choose are parsed, all others are dropped."""
    crawl = crawls[name]
    kept = chosen(crawl, SHARES[name])
    assert copies(crawl.parsed) == kept
    assert copies(crawl.dropped) == copies(PAGES) - kept
    assert crawl.stat("explored") == len(kept)
    assert crawl.stat("near_duplicate") == COPIES
    assert not crawl.faults


def test_the_ends_of_the_range(crawls):
    """A share of 0 keeps no near-duplicate, a share of 1 keeps them all."""
    assert copies(crawls["nothing"].parsed) == set()
    assert copies(crawls["all"].parsed) == copies(PAGES)


def test_meta_and_flag_of_an_explored_page(crawls):
    """An explored page still says that it is a near-duplicate, of which page, and how near."""
    crawl = crawls["all"]
    event = crawl.event("/copy/7")
    assert event["flags"] == ["near-duplicate"]
    assert event["dedup"]["explored"] is True
    assert event["dedup"]["status"] == "near_duplicate"
    assert event["dedup"]["of"] == f"{crawl.url}/original"
    assert event["dedup"]["distance"] <= recipe_of().distance
    assert event["dedup"]["similarity"] >= recipe_of().similarity
    assert "explored" not in crawl.meta("/original")


def test_links_of_explored_pages_are_followed(crawls):
    """In drop and in skip_links, exactly the links behind explored pages are followed."""
    for name in ("some", "skip"):
        crawl = crawls[name]
        behind = {path.replace("copy", "behind") for path in chosen(crawl, 0.3)}
        assert {path for path in crawl.requested if path.startswith("/behind/")} == behind


def test_an_explored_page_never_becomes_an_original(crawls):
    """Explored pages are not inserted and hold no token: later copies name the original."""
    crawl = crawls["all"]
    assert crawl.stat("inserted") == 2 + COPIES  # the hub has too few words; /behind/ pages
    assert {crawl.meta(path)["of"] for path in copies(PAGES)} == {f"{crawl.url}/original"}
    assert {crawl.meta(path)["token"] for path in copies(PAGES)} == {None}


def test_explored_pages_send_no_signal(crawls):
    """near_duplicate_dropped is for pages that were dropped."""
    crawl = crawls["some"]
    assert set(crawl.paths("signal")) == set(crawl.dropped)


def test_tag_explores_nothing(crawls):
    """In the mode tag every page is kept anyway: none counts as explored."""
    assert crawls["tag"].stat("explored") == 0
    assert copies(crawls["tag"].parsed) == copies(PAGES)


def test_summary_tells_explored(crawls):
    """The summary at the end says how many near-duplicates were kept to explore."""
    assert f"dropped before parsing but for {COPIES} explored, 0 fetched again" in crawls["all"].log


@pytest.mark.long
def test_recrawl_explores_the_same(tmp_path):
    """A second crawl of the site explores the same pages, whatever the order of its links."""
    with serve(PAGES) as site:
        case = Case(PAGES, settings={"DEDUP_EXPLORE": 0.3} | BY_TEXT)
        first = Crawling(tmp_path, {"only": (site, case)}).end()["only"]
        backwards = "def links(self, r): return list(super().links(r))[::-1]"
        again = Case(PAGES, backwards, case.settings | {"CONCURRENT_REQUESTS": 4})
        second = Crawling(tmp_path, {"only": (site, again)}).end()["only"]
    assert copies(first.parsed)
    assert copies(first.parsed) == copies(second.parsed)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.5, 1.0])
def test_share_is_met_in_expectation(share):
    """Of 20,000 keys the share chosen is the one asked for, within five standard deviations."""
    found = sum(explores(f"http://127.0.0.1/page/{n}", share) for n in range(20_000))
    assert abs(found - 20_000 * share) <= 5 * (20_000 * share * (1 - share)) ** 0.5


def test_the_choice_is_fixed():
    """The same keys are chosen on every machine and in every version."""
    assert [n for n in range(40) if explores(f"http://example.com/{n}", 0.2)] == FIXED


FIXED = [1, 18, 26, 28, 29]
