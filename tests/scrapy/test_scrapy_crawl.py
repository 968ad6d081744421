"""The Scrapy add-on in real crawls: what is dropped, checked and kept, and what is said about it."""

from typing import Any

import pytest
from crawling import TEXT, Case, Crawl, Page, article, hub, run_cases, words

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
SPIDER = "dedup.scrapy.SpiderMiddleware"

COUNT = 12
GOODS = [f"/{n}" for n in range(COUNT)]
COPIES = [f"/{n}?print=1" for n in range(COUNT)]


def good(number: int, *links: str, frame: str = "", price: str = "", **options: Any) -> Page:
    """Return a page with a price of its own, which no text has."""
    mark = f'<b data-price="{price or f"{number}.50"}"></b>'
    return article(number, "/front", *links, frame=f"{mark}{frame}", **options)


SHOP = {
    "/": hub("/front"),
    "/front": good(99, *GOODS, *COPIES),
    **{f"/{n}": good(n) for n in range(COUNT)},
    **{f"/{n}?print=1": good(n, frame="printed") for n in range(COUNT)},
}
NEWS = SHOP | {
    "/3?print=1": good(3, "/behind", frame="printed"),
    "/6?print=1": good(6, frame="printed", price="5.99", text=f"{words(6)} 5.99"),
    "/9?print=1": good(9, frame="printed", title="Other size", text=f"{words(9)} other size"),
    "/10?print=1": good(10, frame="printed", title="Green"),
    "/behind": good(77),
}
ITEMS = """
seen = 0

@classmethod
def from_crawler(cls, crawler, *args, **kwargs):
    spider = super().from_crawler(crawler, *args, **kwargs)
    crawler.signals.connect(spider.scraped, signal=scrapy.signals.item_scraped)
    return spider

def scraped(self, item, response):
    self.note("item", response, item=item)

def parse(self, response):
    self.note("parsed", response)
    if price := response.css("[data-price]::attr(data-price)").get():
        self.seen += self.settings.getbool("SEEN")
        name = response.css("title::text").get()
        item = {"url": response.url, "name": name, "price": price}
        yield item | {"seen": self.seen} if self.seen else item
    yield from self.links(response)
"""
FIELDS = {"SEEN": True, "DEDUP_ITEM_FIELDS": "name, price"}

CASES = {
    "drop": Case(TWINS, settings=TEXT),
    "bare": Case(TWINS, "def links(self, r): return super().links(r, errback=None)", TEXT),
    "skip": Case(TWINS, settings=TEXT | {"DEDUP_MODE": "skip_links"}),
    "tag": Case(TWINS, settings=TEXT | {"DEDUP_MODE": "tag"}),
    "off": Case(TWINS, settings=TEXT | {"DEDUP_ENABLED": False}),
    "manual": Case(
        TWINS,
        settings=TEXT
        | {
            "ADDONS": {},
            "DOWNLOADER_MIDDLEWARES": {DOWNLOADER: 545},
            "SPIDER_MIDDLEWARES": {SPIDER: 11},
        },
    ),
    "both": Case(TWINS, settings=TEXT | {"DOWNLOADER_MIDDLEWARES": {DOWNLOADER: 545}}),
    "shop": Case(SHOP, ITEMS),
    "shop_tag": Case(SHOP, ITEMS, {"DEDUP_MODE": "tag"}),
    "shop_off": Case(SHOP, ITEMS, {"DEDUP_ENABLED": False}),
    "no_risk": Case(SHOP, ITEMS, {"DEDUP_RISK": 0}),
    "fields": Case(SHOP, ITEMS, FIELDS),
    "keeper": Case(SHOP),
    # Not in order: a page is fetched a second time while the page that asks for it waits.
    "news": Case(NEWS, ITEMS, {"SCRAPER_SLOT_MAX_ACTIVE_SIZE": 5_000_000}),
    "news_tag": Case(NEWS, ITEMS, {"DEDUP_MODE": "tag"}),
    "news_off": Case(NEWS, ITEMS, {"DEDUP_ENABLED": False}),
}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    # Each page is parsed to its end before the next is asked for: the order is one in every Scrapy.
    in_order = {"SCRAPER_SLOT_MAX_ACTIVE_SIZE": 1}
    return run_cases(tmp_path_factory.mktemp("crawl"), CASES, settings=in_order)


@pytest.fixture(scope="module")
def drop(crawls) -> Crawl:
    return crawls["drop"]


# ------------------------------------------------------------------------------- the promises


def test_promise_1_nothing_is_lost_every_own_content_is_parsed(drop):
    """Of near-duplicates one is parsed, and every other page is; what the dropped one links to is never requested."""
    assert drop.parsed in ({"/", "/a", "/c"}, {"/", "/b", "/c", "/c?sid=2"})
    assert drop.errors == []
    assert drop.requested.count("/b") == 1
    assert "/c?sid=2" not in drop.requested


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


def test_stats(drop):
    """The stats count what happened."""
    counts = {n: v for n, v in drop.stats.items() if n.startswith("dedup/")}
    assert counts.pop("dedup/cpu_seconds") > 0
    assert drop.stats["item_scraped_count"] == 3
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


def test_start_page_is_never_dropped_but_inserted(drop):
    """A start page is exempt, and an original: its later near-duplicate is dropped."""
    assert (drop.meta("/")["status"], drop.meta("/")["reason"]) == ("exempt", "start")
    assert drop.dropped["/start-copy"]["of"] == f"{drop.url}/"


# ---------------------------------------------------------------------------------- modes


def test_skip_links_parses_but_follows_nothing(crawls):
    """A near-duplicate is parsed and gives its items; it is flagged, and neither an original, nor are its links followed."""
    crawl = crawls["skip"]
    assert crawl.parsed == {"/", "/a", "/b", "/c", "/start-copy"}
    assert crawl.stats["item_scraped_count"] == 5
    assert "/c?sid=2" not in crawl.requested
    assert crawl.event("/b")["flags"] == ["near-duplicate"]
    assert (crawl.meta("/b")["status"], crawl.meta("/b")["of"]) == (
        "near_duplicate",
        f"{crawl.url}/a",
    )
    assert crawl.event("/a")["flags"] == []
    assert crawl.stat("inserted") == crawl.stat("unique") + 1  # the start page
    assert crawl.of("signal") == []


def test_tag_changes_nothing(crawls):
    """In tag every page is parsed and every link followed; flag and meta say what it is, an accepted page's verdict, too."""
    crawl = crawls["tag"]
    assert crawl.parsed == set(TWINS)
    assert crawl.event("/b")["flags"] == ["near-duplicate"]
    assert crawl.meta("/b")["of"] == f"{crawl.url}/a"
    assert crawl.stat("near_duplicate") == 2
    meta = crawl.meta("/a")
    assert (meta["status"], meta["reason"], meta["key"], meta["of"]) == (
        "unique",
        "",
        f"{crawl.url}/a",
        None,
    )
    assert meta["token"]


# -------------------------------------------------------------------------------- on and off


def test_turned_off(crawls):
    """DEDUP_ENABLED = False: as if it were not installed."""
    crawl = crawls["off"]
    assert crawl.parsed == set(TWINS)
    assert {e["dedup"] for e in crawl.of("parsed")} == {None}
    assert not any(name.startswith("dedup/") for name in crawl.stats)


@pytest.mark.parametrize("how", ["manual", "both"])
def test_project_places_the_middlewares(crawls, how):
    """Middlewares that a project placed itself work, with the add-on or without it, once."""
    assert crawls[how].parsed == {"/", "/a", "/c"}
    assert crawls[how].stat("probed") == 5


# ---------------------------------------------------------------------- what pages bring


def items(crawl: Crawl) -> list[tuple[str, str]]:
    """Return the items that came out, but for their addresses."""
    return sorted((item["name"], item["price"]) for item in crawl.items)


@pytest.mark.parametrize("name", ["shop", "no_risk", "fields"])
def test_promise_1_nothing_is_lost_each_item_comes_once(crawls, name):
    """Of copies the items are withheld, or the pages dropped once their pattern was proven by items."""
    crawl = crawls[name]
    assert len(items(crawl)) == len(set(items(crawl))) == 1 + COUNT
    assert {path for path in COPIES if path in crawl.parsed} | set(crawl.dropped) == set(COPIES)
    assert crawl.stat("items/dropped") == crawl.stat("near_duplicate") == len(crawl.dropped)
    assert crawl.stat("checked") == crawl.stat("items/equal") == COUNT - len(crawl.dropped)
    assert crawl.faults == {}


def test_a_checked_page_is_parsed_and_says_so(crawls):
    """The first copy of a pattern is checked: flag and meta say it, and it is no original."""
    crawl = crawls["shop"]
    event = crawl.event("/0?print=1")
    assert event["flags"] == ["near-duplicate-parsed"]
    assert (event["dedup"]["status"], event["dedup"]["reason"]) == ("exempt", "checked")
    assert event["dedup"]["of"] == f"{crawl.url}/0"
    assert crawl.stat("released") == crawl.stat("checked")


def test_risk_says_how_many_are_dropped_between_two_spot_checks(crawls):
    """With the default most copies are dropped, with 0 none is."""
    assert len(crawls["shop"].dropped) > COUNT / 2
    assert crawls["no_risk"].dropped == {}


def test_item_fields_tell_items_apart(crawls):
    """Of DEDUP_ITEM_FIELDS' fields alone items are made equal: another one changes with each page."""
    assert len(crawls["fields"].dropped) > COUNT / 2
    assert crawls["fields"].stat("items/second_fetch") == 0


def test_copies_of_a_spider_that_keeps_pages_are_dropped_unparsed(crawls):
    """Where items hold nothing but the page, and pages are equal but for their template; spot checks bring no item, either."""
    checked = set(COPIES) - set(crawls["keeper"].dropped)
    assert 1 <= len(checked) <= 3
    assert crawls["keeper"].stat("items/withheld") == len(checked)


def test_promise_1_nothing_is_lost_what_is_new_passes(crawls):
    """A near-duplicate's other price, other name and new request come, those after a drop, too."""
    crawl, off = crawls["news"], crawls["news_off"]
    assert set(items(crawl)) == set(items(off))
    assert "/behind" in crawl.parsed


@pytest.mark.parametrize(("name", "as_in"), [("shop_tag", "shop_off"), ("news_tag", "news_off")])
def test_tag_changes_no_request_and_no_item(crawls, name, as_in):
    """In tag all is as without the add-on."""
    crawl, off = crawls[name], crawls[as_in]
    assert crawl.requested == off.requested
    assert crawl.paths("parsed") == off.paths("parsed")
    assert items(crawl) == items(off)


def test_tag_says_what_drop_would_do(crawls):
    """By a ledger as in drop: meta["dedup"]["would"] is what became of the page there."""
    would = {e["path"]: e["dedup"]["would"] for e in crawls["shop_tag"].of("parsed")}
    drop = crawls["shop"]
    assert {path for path, said in would.items() if said == "drop"} == set(drop.dropped)
    assert {path for path, said in would.items() if said == "check"} == drop.parsed & {*COPIES}
    assert set(would.values()) == {"drop", "check", "keep"}
