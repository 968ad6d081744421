"""The Scrapy add-on in real crawls: what is dropped, what is kept, and what is said about it."""

from pathlib import Path

import pytest
from crawling import Case, Crawl, Page, article, hub, run_cases, words

from dedup.model.recipes import recipe_of

TWINS = {
    "/": article(100, "/a", "/b", "/c", "/start-copy"),
    "/a": article(1),
    "/b": article(1, "/c?sid=2", frame="another shell"),
    "/c": article(2),
    "/start-copy": article(100, frame="copied"),
    "/c?sid=2": article(3),
}
DOWNLOADER = "dedup.scrapy.DownloaderMiddleware"
SPIDER, CALLBACK = "dedup.scrapy.SpiderMiddleware", "dedup.scrapy.CallbackMiddleware"


def listing(*links: str, **answer) -> Page:
    """A page of a listing: the same text every time, with other links."""
    return article(7, *links, **answer)


LISTING = {
    "/": hub("/list?page=1", "/list?page=2", "/list?page=1&sid=5"),
    "/list?page=1": listing(*(f"/item/{n}" for n in range(10))),
    "/list?page=2": listing(*(f"/item/{n}" for n in range(10, 20))),
    "/list?page=1&sid=5": listing(*(f"/item/{n}" for n in range(10)), frame="again"),
}
NAMED = {
    "/": hub("/red", "/blue", "/print", "/bare", "/again"),
    "/red": article(8, title="Red rope"),
    "/blue": article(8, "/behind", title="Blue rope", text=f"{words(8)} in blue"),
    "/print": article(8, title="Red rope", text=f"{words(8)} printed"),
    "/bare": article(8, title="", text=f"{words(8)} bare"),
    "/again": article(8, title="Red rope, visited again"),
    "/behind": article(9),
}
ALL_BUT_OTHER_TITLE = [
    "start",
    "non_html",
    "status",
    "method",
    "short",
    "too_large",
    "data_page",
    "unread",
    "no_callback",
]
ALL_BUT_NEW_LINKS = [
    "start",
    "non_html",
    "status",
    "method",
    "short",
    "too_large",
    "data_page",
    "no_callback",
]

CASES = {
    "drop": Case(TWINS),
    "bare": Case(TWINS, "def links(self, r): return super().links(r, errback=None)"),
    "skip": Case(TWINS, settings={"DEDUP_MODE": "skip_links"}),
    "tag": Case(TWINS, settings={"DEDUP_MODE": "tag"}),
    "off": Case(TWINS, settings={"DEDUP_ENABLED": False}),
    "removed": Case(
        TWINS,
        settings={
            "DOWNLOADER_MIDDLEWARES": {DOWNLOADER: None},
            "SPIDER_MIDDLEWARES": {SPIDER: None, CALLBACK: None},
        },
    ),
    "manual": Case(
        TWINS,
        settings={
            "ADDONS": {},
            "DOWNLOADER_MIDDLEWARES": {DOWNLOADER: 545},
            "SPIDER_MIDDLEWARES": {SPIDER: 11},
        },
    ),
    "both": Case(TWINS, settings={"DOWNLOADER_MIDDLEWARES": {DOWNLOADER: 545}}),
    "named": Case(NAMED),
    "unnamed": Case(NAMED, settings={"DEDUP_EXEMPT": ALL_BUT_OTHER_TITLE}),
    "guarded": Case(LISTING),
    "unguarded": Case(LISTING, settings={"DEDUP_EXEMPT": ALL_BUT_NEW_LINKS}),
}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    return run_cases(tmp_path_factory.mktemp("crawl"), CASES)


@pytest.fixture(scope="module")
def drop(crawls) -> Crawl:
    return crawls["drop"]


# ------------------------------------------------------------------------------- the promises


def test_promise_1_nothing_is_lost_every_own_content_is_parsed(drop):
    """Of near-duplicates one is parsed, and every other page is."""
    assert drop.parsed in ({"/", "/a", "/c"}, {"/", "/b", "/c", "/c?sid=2"})
    assert not drop.faults


def test_promise_1_nothing_is_lost_and_every_drop_is_explained(drop):
    """The errback gets NearDuplicate with the page it resembles, its distance and similarity."""
    verdict = drop.dropped["/b"]
    assert verdict["status"] == "near_duplicate"
    assert verdict["of"] == f"{drop.url}/a"
    assert 0 <= verdict["distance"] <= recipe_of().distance
    assert recipe_of().similarity <= verdict["similarity"] <= 1
    assert drop.event("/b", "failed")["message"] == (
        f"near-duplicate of {drop.url}/a ({round(100 * verdict['similarity'])} % similar, "
        f"distance {verdict['distance']})"
    )


def test_promise_3_two_phases_a_drop_follows_the_original(drop):
    """A near-duplicate is dropped only after its original was parsed."""
    order = [(e["event"], e["path"]) for e in drop.events]
    assert order.index(("parsed", "/a")) < order.index(("failed", "/b"))


# --------------------------------------------------------------------------------- a drop


def test_dropped_before_parse(drop):
    """The callback of a near-duplicate is never called, and it gives no items."""
    assert "/b" not in drop.parsed
    assert drop.stats["item_scraped_count"] == 3


def test_outlinks_of_a_dropped_page_are_never_requested(drop):
    """By the server's log a near-duplicate was fetched, what it links to was not."""
    assert drop.requested.count("/b") == 1
    assert "/c?sid=2" not in drop.requested


def test_signal(drop):
    """near_duplicate_dropped brings request, response, verdict and spider."""
    signal = drop.event("/b", "signal")
    assert signal["same"] == [True, True, True]
    assert signal["verdict"] == drop.dropped["/b"]
    assert signal["flags"] == ["near-duplicate"]


def test_without_an_errback_the_crawl_goes_on(crawls):
    """A drop that nobody handles is no error: the pages after it are parsed."""
    assert crawls["bare"].parsed == {"/", "/a", "/c"}
    assert sorted(crawls["bare"].paths("signal")) == ["/b", "/start-copy"]


def test_no_error_is_logged(drop):
    """Nothing that these spiders do is logged as an error."""
    assert drop.errors == []


def test_stats(drop):
    """The stats count what happened."""
    counts = {n: v for n, v in drop.stats.items() if n.startswith("dedup/")}
    assert counts.pop("dedup/cpu_seconds") > 0
    assert counts == {
        "dedup/probed": 5,
        "dedup/exempt/start": 1,
        "dedup/unique": 2,
        "dedup/inserted": 3,
        "dedup/near_duplicate": 2,
        "dedup/items/by_text": 2,  # items with nothing but the page's own address
        **{
            f"dedup/near_duplicate/distance/{v['distance']}": 1 + (len(distances) == 1)
            for distances in [{d["distance"] for d in drop.dropped.values()}]
            for v in drop.dropped.values()
        },
    }


def test_summary(drop):
    """The crawl ends with a readable summary in the log."""
    assert (
        "[dedup] INFO: dedup: 5 pages judged: 2 unique, 2 near-duplicates (40 %) dropped before "
        "parsing, 0 fetched again\n  kept, by reason: start (1)\n" in drop.log
    )
    told = "\n  faults of dedup: none\n  remembered 3, released 0; 3 documents in "
    folder = drop.log.partition(told)[2].partition("\n")[0]
    assert (Path(folder) / "documents.mdb").exists()


def test_meta_of_an_accepted_page(drop):
    """response.meta["dedup"] tells a callback the verdict in plain values."""
    meta = drop.meta("/a")
    assert meta.pop("token")
    assert meta == {
        "status": "unique",
        "reason": "",
        "key": f"{drop.url}/a",
        "of": None,
        "distance": None,
        "similarity": None,
        "identity": None,
    }


def test_start_page_is_never_dropped_but_inserted(drop):
    """A start page is exempt, and an original: its later near-duplicate is dropped."""
    assert (drop.meta("/")["status"], drop.meta("/")["reason"]) == ("exempt", "start")
    assert drop.dropped["/start-copy"]["of"] == f"{drop.url}/"


# ---------------------------------------------------------------------------------- modes


def test_skip_links_parses_but_follows_nothing(crawls):
    """In skip_links a near-duplicate is parsed and gives its items; its links are not followed."""
    crawl = crawls["skip"]
    assert crawl.parsed == {"/", "/a", "/b", "/c", "/start-copy"}
    assert crawl.stats["item_scraped_count"] == 5
    assert "/c?sid=2" not in crawl.requested


def test_skip_links_flags(crawls):
    """In skip_links a near-duplicate is flagged, and meta says of which page it is one."""
    crawl = crawls["skip"]
    assert crawl.event("/b")["flags"] == ["near-duplicate"]
    assert (crawl.meta("/b")["status"], crawl.meta("/b")["of"]) == (
        "near_duplicate",
        f"{crawl.url}/a",
    )
    assert crawl.event("/a")["flags"] == []


@pytest.mark.parametrize("mode", ["skip", "tag"])
def test_kept_near_duplicate_never_becomes_an_original(crawls, mode):
    """A near-duplicate that a mode keeps is not inserted, and sends no signal."""
    assert crawls[mode].stat("inserted") == crawls[mode].stat("unique") + 1  # the start page
    assert crawls[mode].of("signal") == []


def test_tag_changes_nothing(crawls):
    """In tag every page is parsed and every link followed; the flag and meta say what it is."""
    crawl = crawls["tag"]
    assert crawl.parsed == set(TWINS)
    assert crawl.event("/b")["flags"] == ["near-duplicate"]
    assert crawl.meta("/b")["of"] == f"{crawl.url}/a"
    assert crawl.stat("near_duplicate") == 2


# -------------------------------------------------------------------------------- on and off


@pytest.mark.parametrize("how", ["off", "removed"])
def test_turned_off(crawls, how):
    """DEDUP_ENABLED = False, or None for the middlewares: as if it were not installed."""
    crawl = crawls[how]
    assert crawl.parsed == set(TWINS)
    assert {e["dedup"] for e in crawl.of("parsed")} == {None}
    assert not any(name.startswith("dedup/") for name in crawl.stats)


@pytest.mark.parametrize("how", ["manual", "both"])
def test_project_places_the_middlewares(crawls, how):
    """Middlewares that a project placed itself work, with the add-on or without it, once."""
    assert crawls[how].parsed == {"/", "/a", "/c"}
    assert crawls[how].stat("probed") == 5


# ----------------------------------------------------------------------- what pages say they are


def test_another_page_by_its_title_is_kept(crawls):
    """Alike text under another title, one more variant of a product, is kept and followed."""
    crawl = crawls["named"]
    assert crawl.meta("/blue")["reason"] == "other_title"
    assert crawl.stat("exempt/other_title") == 1
    assert "/behind" in crawl.requested


def test_a_copy_bears_the_same_title_or_none_or_is_the_same_text(crawls):
    """Alike text under the same title or none is a near-duplicate; the very same text always is."""
    assert set(crawls["named"].dropped) == {"/print", "/bare", "/again"}
    assert crawls["named"].dropped["/print"]["identity"] == "same"


def test_other_titles_are_left_out_of_it(crawls):
    """Without other_title in DEDUP_EXEMPT the texts alone decide; the verdict still says it."""
    crawl = crawls["unnamed"]
    assert set(crawl.dropped) == {"/blue", "/print", "/bare", "/again"}
    assert crawl.dropped["/blue"]["identity"] == "other"
    assert "/behind" not in crawl.requested


# ------------------------------------------------------------------------------ listing guard


def test_next_page_of_a_listing_is_kept(crawls):
    """Alike text with new links, the second page of a listing, is kept and followed."""
    crawl = crawls["guarded"]
    assert crawl.meta("/list?page=2")["reason"] == "new_links"
    assert crawl.stat("exempt/new_links") == 1
    assert {f"/item/{n}" for n in range(20)} <= set(crawl.requested)


def test_same_page_of_a_listing_is_dropped(crawls):
    """Alike text with the links of the original is a near-duplicate, however many links."""
    assert set(crawls["guarded"].dropped) == {"/list?page=1&sid=5"}


def test_guard_is_turned_off(crawls):
    """Without new_links in DEDUP_EXEMPT the second page of a listing is dropped."""
    crawl = crawls["unguarded"]
    assert set(crawl.dropped) == {"/list?page=2", "/list?page=1&sid=5"}
    assert "/item/15" not in crawl.requested


def test_spiders_of_other_names_do_not_meet(crawls):
    """The namespace is the spider's name: what another spider saw is no original."""
    assert all("/c" in crawls[name].parsed for name in ("drop", "bare", "manual"))
