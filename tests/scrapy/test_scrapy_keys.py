"""Who a page is to the Scrapy add-on: keys, meta, namespaces, scope, and the text of a page."""

import pytest
from crawling import TEXT, Case, Page, article, hub, run_cases

RUSSIAN = " ".join(
    f"{a} {b}" for a in "дом река ветер книга город".split() for b in "новый старый синий".split()
) + " ".join(f"слово{chr(0x430 + n)}{chr(0x44F - n)}" for n in range(30))

COPIES_META = """
def links(self, response):
    return super().links(response, meta=response.meta.copy())

def failed(self, failure):
    super().failed(failure)
    # after a redirect Scrapy 2.13 gives the errback the request before it, later ones the last one
    if failure.request.url.endswith(("/old", "/session-copy")):
        # not yielded: Scrapy 2.13.0 does not run what an errback yields
        meta = failure.request.meta.copy()
        self.crawler.engine.crawl(scrapy.Request(self.base + "/after", meta=meta))
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
    return run_cases(tmp_path_factory.mktemp("keys"), CASES, settings=TEXT)


# ---------------------------------------------------------------------------- keys and meta


def test_redirect_to_a_copy_is_dropped(crawls):
    """A redirect to a copy with a session id is a near-duplicate, under the URL it began with."""
    crawl = crawls["redirected"]
    (verdict,) = crawl.dropped.values()
    assert verdict == crawl.event("/session-copy", "signal")["verdict"]
    assert (verdict["key"], verdict["of"]) == (f"{crawl.url}/old", f"{crawl.url}/moved")


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/landed", "/moved"),  # before a redirect
        ("/child", "/child"),
        ("/child-landed", "/child-moved"),
        ("/grandchild", "/grandchild"),
        ("/after", "/after"),  # by the errback of a dropped page
    ],
)
def test_copied_meta_keeps_keys_right(crawls, path, key):
    """The key is the first URL: response.meta copied to new requests brings no key along, nor that they are a start."""
    crawl = crawls["redirected"]
    assert (crawl.meta(path)["status"], crawl.meta(path)["key"]) == ("unique", f"{crawl.url}{key}")


def test_dont_dedup(crawls):
    """meta["dont_dedup"] keeps a page unjudged."""
    assert crawls["metas"].meta("/free") == {"status": "exempt", "reason": "dont_dedup"}
    assert crawls["metas"].stat("exempt/dont_dedup") == 1


def test_dedup_key(crawls):
    """Pages of one dedup_key are one document: fetched again, never dropped; copied meta does not hand it on."""
    red, blue = (crawls["metas"].meta(f"/product?colour={c}") for c in ("red", "blue"))
    assert red["key"] == blue["key"] == "product"
    assert sorted([red["status"], blue["status"]]) == ["refetch", "unique"]
    assert crawls["metas"].meta("/manual")["key"] == f"{crawls['metas'].url}/manual"


def test_dedup_namespace(crawls):
    """meta["dedup_namespace"] judges a page among those of that namespace only; one that is none keeps it and counts."""
    assert crawls["metas"].meta("/elsewhere")["status"] == "unique"
    assert crawls["metas"].meta("/plain")["status"] == "unique"
    assert "/bad-namespace" in crawls["metas"].parsed
    assert crawls["metas"].faults == {"usage_error": 1}


# ------------------------------------------------------------------------------ scope and text


def test_scope_decides_about_the_copy_on_another_host(crawls):
    """In the scope site a near-duplicate on another host is kept, one on the same is dropped; by default both are."""
    kept, dropped = crawls["site"].event("/copy"), crawls["site"].dropped["/copy"]
    assert "//localhost:" in kept["dedup"]["key"]
    assert dropped["of"] == f"{crawls['site'].url}/a"
    assert crawls["everywhere"].paths("failed") == ["/copy", "/copy"]


def test_two_spiders_share_a_namespace(crawls):
    """Spiders of one process with the same DEDUP_NAMESPACE share the store."""
    shared = [crawls[name] for name in ("first", "second")]
    assert sorted("/shared" in crawl.parsed for crawl in shared) == [False, True]
    assert sum(crawl.stat("near_duplicate") for crawl in shared) == 1


def test_legacy_encoding(crawls):
    """A page in windows-1251, by its header, has the fingerprint of its UTF-8 copy."""
    (dropped,) = crawls["legacy"].dropped.values()
    assert (dropped["distance"], dropped["similarity"]) == (0, 1.0)
