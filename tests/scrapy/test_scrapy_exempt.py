"""Pages that the Scrapy add-on keeps unjudged, each for its reason, which is counted."""

import dataclasses
import gzip

import pytest
from crawling import TEXT, Case, Page, article, hub, run_cases
from crawling import words as words_of

MOST = 30_000  # DEDUP_MAX_BYTES


def sized(number: int, size: int, *, packed: bool = False) -> Page:
    """An article of exactly so many bytes, as the spider gets it; packed is compressed on its way."""
    page = article(number)
    page = dataclasses.replace(page, body=page.body + b" " * (size - len(page.body)))
    zipped = gzip.compress(page.body)
    return Page(zipped, headers={"Content-Encoding": "gzip"}) if packed else page


JSON = Page(f'{{"text": "{words_of(1)}"}}'.encode(), "application/json")
BINARY = Page(bytes(range(256)) + words_of(3).encode(), "application/octet-stream")
DATA = f'<script type="application/json">{{"text": "{words_of(4)}"}}</script>'

# Each page of a kind is there twice, under /kind and /kind/copy; in ALMOST those of little text differ a little.
KINDS = {
    "json": JSON,
    "binary": BINARY,
    "missing": article(10, status=404),
    "post": article(11),
    "short": article(12, count=5),
    "large": sized(13, MOST + 1),
    "packedlarge": sized(18, MOST + 1, packed=True),
    "most": sized(19, MOST),
    "packed": sized(22, MOST, packed=True),
    "data": article(14, text=words_of(14, 60) + DATA),
    "menu": Page(f"<header>{'menu ' * 600}</header><p>{words_of(17, 40)}</p>".encode()),
}
PAGES = {
    "/": hub(*(f"/{kind}{copy}" for kind in KINDS for copy in ("", "/copy"))),
    **{f"/{kind}": page for kind, page in KINDS.items()},
    **{f"/{kind}/copy": page for kind, page in KINDS.items()},
    "/robots.txt": article(16, text="User-agent: nobody"),
    "/file": article(15),
    "/file/copy": article(15),
}
ALMOST = PAGES | {
    "/short/copy": Page(KINDS["short"].body + b" "),
    "/menu/copy": Page(KINDS["menu"].body + b"more"),
}
BODY = """
handle_httpstatus_list = [404]

def parse(self, response):
    self.note("parsed", response)
    is_start = response.url.endswith("/")
    yield {"file_urls": [self.base + "/file", self.base + "/file/copy"] * is_start}
    if is_start:
        for request in self.links(response):
            yield request.replace(method="POST" if "/post" in request.url else "GET")
"""
SETTINGS = {"ROBOTSTXT_OBEY": True, "DEDUP_MAX_BYTES": MOST}
PIPELINE = {"ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}}

STARTS = {
    "/": article(20, "/one", "/two"),
    "/start": article(20, "/one", "/two", frame="another start"),
    "/one": article(21),
    "/two": article(21, frame="two"),
}
TWO_STARTS = """
async def start(self):
    yield scrapy.Request(self.base + "/", dont_filter=True)
    yield scrapy.Request(self.base + "/start", errback=self.failed, dont_filter=True)
"""


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exempt")
    files = {"FILES_STORE": str(folder / "files")} | PIPELINE
    return run_cases(
        folder,
        {
            "exempt": Case(ALMOST, BODY, SETTINGS | files),
            "judged": Case(PAGES, BODY, SETTINGS | files | {"DEDUP_EXEMPT": []}),
            "starts": Case(STARTS, TWO_STARTS),
            "judgedstarts": Case(STARTS, TWO_STARTS, {"DEDUP_EXEMPT": "-start"}),
        },
        settings=TEXT,
    )


REASONS = [
    ("json", "non_html"),
    ("binary", "non_html"),
    ("missing", "status"),
    ("post", "method"),
    ("short", "short"),
    ("large", "too_large"),
    ("packedlarge", "too_large"),
    ("menu", "unread"),
]


@pytest.mark.parametrize(("kind", "reason"), REASONS)
def test_exempt(crawls, kind, reason):
    """A page of this kind is parsed like its copy before it, and says why it was not judged."""
    for path in (f"/{kind}", f"/{kind}/copy"):
        meta = crawls["exempt"].meta(path)
        assert (meta["status"], meta["reason"]) == ("exempt", reason)


@pytest.mark.parametrize("kind", ["most", "packed"])
def test_a_page_of_the_greatest_size_is_judged(crawls, kind):
    """At exactly DEDUP_MAX_BYTES, as the spider gets it, a copy is dropped."""
    assert f"/{kind}" in crawls["exempt"].parsed
    assert f"/{kind}/copy" in crawls["exempt"].dropped


def test_exempt_is_counted(crawls):
    """Each reason is a stat; robots.txt and the files of a media pipeline are nobody's pages, and come through.

    Pages of little text become originals, for copies of theirs, and the first of data; not the start page, which asks by POST.
    """
    kinds = [reason for _, reason in REASONS]
    counts = {reason: 2 * kinds.count(reason) for reason in kinds}
    counts |= {"start": 1, "no_callback": 3}
    assert counts == {
        name.removeprefix("dedup/exempt/"): value
        for name, value in crawls["exempt"].stats.items()
        if name.startswith("dedup/exempt/")
    }
    assert crawls["exempt"].stat("inserted") == 7
    assert "/robots.txt" in crawls["exempt"].requested
    assert crawls["exempt"].stats["file_status_count/downloaded"] == 2


@pytest.mark.parametrize("kind", ["missing", "post", "short", "large", "data", "json"])
def test_exemption_is_turned_off(crawls, kind):
    """With an empty DEDUP_EXEMPT such a page is judged, and the second is dropped; bytes that are no text stay exempt."""
    crawl = crawls["judged"]
    pair = {f"/{kind}", f"/{kind}/copy"}
    assert len(pair & crawl.parsed) == len(pair & set(crawl.dropped)) == 1
    assert {"/binary", "/binary/copy"} <= crawl.parsed
    assert crawl.stat("exempt/non_html") == 2


def test_exempt_start(crawls):
    """Two start pages of the same content are both parsed; with "-start" in DEDUP_EXEMPT one is."""
    assert {"/", "/start"} <= crawls["starts"].parsed
    assert crawls["starts"].stat("exempt/start") == 2
    assert len({"/", "/start"} & crawls["judgedstarts"].parsed) == 1
    assert crawls["judgedstarts"].stat("near_duplicate") == 2
