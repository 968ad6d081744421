"""The Scrapy add-on in real crawls: what is dropped, what is kept, and what is said about it."""

import pytest
from crawling import Case, Crawl, Page, article, hub, run_cases

TWINS = {
    "/": article(100, "/a", "/b", "/c", "/start-copy"),
    "/a": article(1),
    "/b": article(1, "/outlink", frame="another shell"),
    "/c": article(2),
    "/start-copy": article(100, frame="copied"),
    "/outlink": article(3),
}
BOTH = ("dedup.scrapy.DownloaderMiddleware", "dedup.scrapy.SpiderMiddleware")


def listing(*links: str, **answer) -> Page:
    """A page of a listing: the same text every time, with other links."""
    return article(7, *links, **answer)


LISTING = {
    "/": hub("/list?page=1", "/list?page=2", "/list?page=1&sid=5"),
    "/list?page=1": listing(*(f"/item/{n}" for n in range(10))),
    "/list?page=2": listing(*(f"/item/{n}" for n in range(10, 20))),
    "/list?page=1&sid=5": listing(*(f"/item/{n}" for n in range(10)), frame="again"),
}
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

RUSSIAN = " ".join(
    f"{a} {b}" for a in "дом река ветер книга город".split() for b in "новый старый синий".split()
) + " ".join(f"слово{chr(0x430 + n)}{chr(0x44F - n)}" for n in range(30))

COPIES_META = """
def links(self, response):
    return super().links(response, meta=response.meta.copy())

def failed(self, failure):
    super().failed(failure)
    if failure.request.url.endswith("/session-copy"):
        yield scrapy.Request(self.base + "/after", meta=failure.request.meta.copy())
"""
OWN_META = """
METAS = {
    "/free": {"dont_dedup": True},
    "/elsewhere": {"dedup_namespace": "elsewhere"},
    "/product?colour=red": {"dedup_key": "product"},
    "/product?colour=blue": {"dedup_key": "product"},
    "/bad-namespace": {"dedup_namespace": "../up"},
}

def links(self, response):
    for request in super().links(response):
        meta = self.METAS.get(request.url.removeprefix(self.base), {})
        yield request.replace(meta=response.meta | meta)
"""

TWO_HOSTS = {"/": hub("/a"), "/a": article(1), "/copy": article(1, frame="copy")}
OTHER_HOST = """
def links(self, response):
    yield from super().links(response)
    if response.url == self.base + "/a":
        for base in (self.base.replace("127.0.0.1", "localhost"), self.base):
            yield scrapy.Request(base + "/copy", self.parse, errback=self.failed)
"""

CASES = {
    "drop": Case(TWINS),
    "bare": Case(TWINS, "def links(self, r): return super().links(r, errback=None)"),
    "skip": Case(TWINS, settings={"DEDUP_MODE": "skip_links"}),
    "tag": Case(TWINS, settings={"DEDUP_MODE": "tag"}),
    "off": Case(TWINS, settings={"DEDUP_ENABLED": False}),
    "removed": Case(
        TWINS,
        settings={
            "DOWNLOADER_MIDDLEWARES": {BOTH[0]: None},
            "SPIDER_MIDDLEWARES": {BOTH[1]: None},
        },
    ),
    "manual": Case(
        TWINS,
        settings={
            "ADDONS": {},
            "DOWNLOADER_MIDDLEWARES": {BOTH[0]: 545},
            "SPIDER_MIDDLEWARES": {BOTH[1]: 11},
        },
    ),
    "both": Case(TWINS, settings={"DOWNLOADER_MIDDLEWARES": {BOTH[0]: 545}}),
    "guarded": Case(LISTING),
    "unguarded": Case(LISTING, settings={"DEDUP_EXEMPT": ALL_BUT_NEW_LINKS}),
    "redirected": Case(
        {
            "/": hub("/moved", "/old", "/kept"),
            "/moved": Page(b"", status=302, headers={"Location": "/landed"}),
            "/landed": article(3, "/child", "/child-moved"),
            "/child": article(4),
            "/child-moved": Page(b"", status=302, headers={"Location": "/child-landed"}),
            "/child-landed": article(5, "/grandchild"),
            "/grandchild": article(6),
            "/kept": article(8, "/old"),
            "/old": Page(b"", status=302, headers={"Location": "/session-copy"}),
            "/session-copy": article(3, frame="session 99"),
            "/after": article(9),
        },
        COPIES_META,
        {"CONCURRENT_REQUESTS": 1},
    ),
    "metas": Case(
        {
            "/": hub(
                "/plain",
                "/free",
                "/elsewhere",
                "/product?colour=red",
                "/product?colour=blue",
                "/bad-namespace",
            ),
            "/plain": article(1),
            "/free": article(1, frame="free"),
            "/elsewhere": article(1, frame="elsewhere"),
            "/bad-namespace": article(1, frame="bad"),
            "/product?colour=red": article(2, "/manual"),
            "/product?colour=blue": article(2, frame="blue"),
            "/manual": article(11),
        },
        OWN_META,
    ),
    "legacy": Case(
        {
            "/": hub("/utf-8", "/1251"),
            "/utf-8": article(0, text=RUSSIAN),
            "/1251": article(
                0,
                text=RUSSIAN,
                encoding="windows-1251",
                content_type="text/html; charset=windows-1251",
            ),
        }
    ),
    "site": Case(TWO_HOSTS, OTHER_HOST, {"DEDUP_SCOPE": "site"}),
    "everywhere": Case(TWO_HOSTS, OTHER_HOST),
    "first": Case(
        {"/": hub("/shared"), "/shared": article(80)}, settings={"DEDUP_NAMESPACE": "common"}
    ),
    "second": Case(
        {"/": hub("/shared"), "/shared": article(80)}, settings={"DEDUP_NAMESPACE": "common"}
    ),
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
    assert drop.parsed in ({"/", "/a", "/c"}, {"/", "/b", "/c", "/outlink"})
    assert not drop.faults


def test_promise_1_nothing_is_lost_and_every_drop_is_explained(drop):
    """The errback gets NearDuplicate with the page it resembles and both distances."""
    verdict = drop.dropped["/b"]
    assert verdict["status"] == "near_duplicate"
    assert verdict["of"] == f"{drop.url}/a"
    assert 0 <= verdict["distance"] <= verdict["distance"] + verdict["check_distance"] <= 18
    assert drop.event("/b", "failed")["message"] == (
        f"near-duplicate of {drop.url}/a (distance {verdict['distance']}, "
        f"check {verdict['check_distance']})"
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
    assert "/outlink" not in drop.requested


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


def test_no_error_is_logged(crawls):
    """Nothing that these spiders do is logged as an error, but the namespace that is none."""
    assert [e for e in crawls["drop"].errors if "../up" not in e] == []


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
        "parsing, 0 fetched again\n  kept unjudged or exempt: 1 start\n" in drop.log
    )
    assert "\n  faults of dedup: none\n  remembered 3, given back 0; 3 documents in " in drop.log


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
        "check_distance": None,
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
    assert "/outlink" not in crawl.requested


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
    """DEDUP_ENABLED = False, or None for both middlewares: as if it were not installed."""
    crawl = crawls[how]
    assert crawl.parsed == set(TWINS)
    assert {e["dedup"] for e in crawl.of("parsed")} == {None}
    assert not any(name.startswith("dedup/") for name in crawl.stats)


@pytest.mark.parametrize("how", ["manual", "both"])
def test_project_places_the_middlewares(crawls, how):
    """Middlewares that a project placed itself work, with the add-on or without it, once."""
    assert crawls[how].parsed == {"/", "/a", "/c"}
    assert crawls[how].stat("probed") == 5


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


# ---------------------------------------------------------------------------- keys and meta


def test_redirect_key_is_the_first_url(crawls):
    """The document key is the URL that was requested before a redirect."""
    crawl = crawls["redirected"]
    assert crawl.meta("/landed")["key"] == f"{crawl.url}/moved"


def test_redirect_to_a_copy_is_dropped(crawls):
    """A redirect to a copy with a session id is a near-duplicate, under the URL it began with."""
    crawl = crawls["redirected"]
    assert crawl.dropped["/session-copy"]["key"] == f"{crawl.url}/old"
    assert crawl.dropped["/session-copy"]["of"] == f"{crawl.url}/moved"


@pytest.mark.parametrize(
    ("path", "key"),
    [("/child", "/child"), ("/child-landed", "/child-moved"), ("/grandchild", "/grandchild")],
)
def test_copied_meta_keeps_keys_right(crawls, path, key):
    """A spider that copies response.meta to new requests copies no key, not even after redirects."""
    crawl = crawls["redirected"]
    assert crawl.meta(path)["key"] == f"{crawl.url}{key}"


def test_copied_meta_is_no_start_request(crawls):
    """A page whose request carries the meta of a start page is judged like any other."""
    crawl = crawls["redirected"]
    assert crawl.meta("/landed")["status"] == "unique"
    assert crawl.stat("exempt/start") == 1


def test_meta_copied_in_an_errback_keeps_keys_right(crawls):
    """The meta of a dropped page, copied by its errback, gives no key and no verdict along."""
    crawl = crawls["redirected"]
    assert (crawl.meta("/after")["status"], crawl.meta("/after")["key"]) == (
        "unique",
        f"{crawl.url}/after",
    )


def test_dont_dedup(crawls):
    """meta["dont_dedup"] keeps a page unjudged."""
    assert crawls["metas"].meta("/free") == {"status": "exempt", "reason": "dont_dedup"}
    assert crawls["metas"].stat("exempt/dont_dedup") == 1


def test_dedup_key(crawls):
    """Pages that a spider gives the same dedup_key are one document: fetched again, never dropped."""
    red, blue = (crawls["metas"].meta(f"/product?colour={c}") for c in ("red", "blue"))
    assert red["key"] == blue["key"] == "product"
    assert sorted([red["status"], blue["status"]]) == ["refetch", "unique"]


def test_copied_dedup_key_is_not_inherited(crawls):
    """A dedup_key that came along with copied meta is not the new page's."""
    assert crawls["metas"].meta("/manual")["key"] == f"{crawls['metas'].url}/manual"


def test_dedup_namespace(crawls):
    """meta["dedup_namespace"] judges a page among those of that namespace only."""
    assert crawls["metas"].meta("/elsewhere")["status"] == "unique"
    assert crawls["metas"].meta("/plain")["status"] == "unique"


def test_namespace_that_is_none_keeps_the_page(crawls):
    """A dedup_namespace outside what is allowed keeps the page and counts it."""
    assert "/bad-namespace" in crawls["metas"].parsed
    assert crawls["metas"].faults == {"usage_error": 1}


# ------------------------------------------------------------------------------ scope and text


def test_scope_site_keeps_the_copy_on_another_host(crawls):
    """In the scope site a near-duplicate on another host is kept, one on the same is dropped."""
    kept, dropped = crawls["site"].event("/copy"), crawls["site"].dropped["/copy"]
    assert "//localhost:" in kept["dedup"]["key"]
    assert dropped["of"] == f"{crawls['site'].url}/a"


def test_scope_global_drops_the_copy_on_another_host(crawls):
    """By default a near-duplicate is dropped on whatever host it is."""
    assert crawls["everywhere"].paths("failed") == ["/copy", "/copy"]


def test_two_spiders_share_a_namespace(crawls):
    """Spiders of one process with the same DEDUP_NAMESPACE share the store."""
    shared = [crawls[name] for name in ("first", "second")]
    assert sorted("/shared" in crawl.parsed for crawl in shared) == [False, True]
    assert sum(crawl.stat("near_duplicate") for crawl in shared) == 1


def test_spiders_of_other_names_do_not_meet(crawls):
    """The namespace is the spider's name: what another spider saw is no original."""
    assert all("/c" in crawls[name].parsed for name in ("drop", "bare", "manual"))


def test_legacy_encoding(crawls):
    """A page in windows-1251, by its header, has the fingerprint of its UTF-8 copy."""
    (dropped,) = crawls["legacy"].dropped.values()
    assert (dropped["distance"], dropped["check_distance"]) == (0, 0)
