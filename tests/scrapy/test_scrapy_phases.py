"""The two phases in real crawls: pages in flight, callbacks that end well, and those that do not."""

from threading import Barrier

import pytest
from crawling import TEXT, Case, Page, article, hub, run_case, run_cases, words

PAIRS = 100

RAISES = """
def links(self, response):
    for way in ("sync_early", "sync_late", "async_early", "async_late", "request"):
        for copy in ("", "/copy"):
            yield scrapy.Request(
                f"{self.base}/{way}{copy}", getattr(self, way), errback=self.failed, priority=-1
            )

def breaks(self, response):
    self.note("parsed", response)
    # the first one of each pair, whichever that is
    seen = self.__dict__.setdefault("seen", set())
    kind = response.url.removesuffix("/copy")
    if kind not in seen:
        seen.add(kind)
        raise ValueError("the callback is broken")

def sync_early(self, response):
    self.breaks(response)
    return [{"url": response.url}]

def sync_late(self, response):
    yield {"url": response.url}
    self.breaks(response)

async def async_early(self, response):
    self.breaks(response)
    return [{"url": response.url}]

async def async_late(self, response):
    yield {"url": response.url}
    self.breaks(response)

def request(self, response):
    yield scrapy.Request(self.base + "/elsewhere", self.parse)
    self.breaks(response)
"""
WAYS = ["sync_early", "sync_late", "async_early", "async_late", "request"]
COPIES = {
    f"/{way}{copy}": article(40 + n, frame=copy)
    for n, way in enumerate(WAYS)
    for copy in ("", "/copy")
}

PIPELINE = """
class Broken:
    async def process_item(self, item, spider=None):
        import asyncio
        if "/late" in item["url"]:
            await asyncio.sleep(0.3)
        if item["url"].endswith("broken"):
            raise ValueError("the pipeline is broken")
        return item
"""
RECOVERS = """
class Recovers:
    def process_spider_exception(self, response, exception):
        return [{"url": "made up for"}]
"""

# Each copy is asked for once the pipeline has failed on its original.
AFTER_ITEM_ERROR = """
@classmethod
def from_crawler(cls, crawler, *args, **kwargs):
    spider = super().from_crawler(crawler, *args, **kwargs)
    crawler.signals.connect(spider.item_failed, signal=scrapy.signals.item_error)
    return spider

def item_failed(self, item, response, spider, failure):
    self.note("item_error", response)
    copy = response.url.replace("broken", "copy")
    self.crawler.engine.crawl(scrapy.Request(copy, self.parse, errback=self.failed))

async def parse(self, response):
    import asyncio
    self.note("parsed", response)
    yield {"url": response.url, "colour": response.url.split("/")[3]}
    if "/early" in response.url:
        await asyncio.sleep(0.3)
    for request in self.links(response):
        yield request
"""

BANNED = """
def parse(self, response):
    self.note("parsed", response)
    if b"BANNED" in response.body:
        yield response.request.replace(dont_filter=True)
    elif "/ban" in response.url or "/landed" in response.url:
        # only now: the retry was released before it
        yield response.follow("/" + ("ban" if "/ban" in response.url else "landed") + "-copy",
            self.parse, errback=self.failed)
    else:
        yield from self.links(response)
"""


def ban(number: int) -> Page:
    return article(number, frame="BANNED")


SLOW = """
parsed = 0

async def parse(self, response):
    import asyncio
    self.note("parsed", response)
    for request in self.links(response):
        yield request
    self.parsed += 1
    if WAITS:
        while self.parsed < 3:
            await asyncio.sleep(0.02)
    elif not response.url.endswith("/"):
        await asyncio.sleep(0.3)
    self.note("ended", response)
    yield {"url": response.url}
"""


def slow(*, waits: bool, **settings: object) -> Case:
    """Two near-duplicates at once, whose callbacks take their time.

    waits: the callback of the first one waits for that of the second one.
    """
    barrier = Barrier(2)
    pages = {
        "/": hub("/a", "/b"),
        "/a": article(1, before=lambda: barrier.wait(120)),
        "/b": article(1, frame="b", before=lambda: barrier.wait(120)),
    }
    body = SLOW.replace("WAITS", f'{waits} and not response.url.endswith("/")')
    return Case(pages, body, settings | {"CONCURRENT_REQUESTS": 2})


CASES = {
    "raises": Case({"/": hub(), "/elsewhere": article(49)} | COPIES, RAISES),
    "recovered": Case(
        {"/": hub()} | COPIES, RAISES, {"SPIDER_MIDDLEWARES": {"spiders.Recovers": 543}}
    ),
    "gone": Case(
        {"/": hub("/gone"), "/gone": article(48, status=404), "/back": article(48)},
        """

        def links(self, response):
            self.crawler.signals.connect(self.idle, signal=scrapy.signals.spider_idle)
            yield scrapy.Request(self.base + "/gone", self.parse)

        def idle(self):
            if not self.__dict__.setdefault("asked", False):
                self.asked = True
                request = scrapy.Request(self.base + "/back", self.parse, errback=self.failed)
                self.crawler.engine.crawl(request)
                raise scrapy.exceptions.DontCloseSpider
        """,
        {"DEDUP_EXEMPT": ["start"]},
    ),
    "items": Case(
        {
            "/": hub("/early/broken", "/late/broken", "/fine"),
            "/early/broken": article(50),
            "/early/copy": article(50, frame="copy"),
            "/late/broken": article(51),
            "/late/copy": article(51, frame="copy"),
            "/fine": article(52, "/fine/copy"),
            "/fine/copy": article(52, frame="copy"),
        },
        AFTER_ITEM_ERROR,
        {"ITEM_PIPELINES": {"spiders.Broken": 1}},
    ),
    "colours": Case(
        {
            "/": hub("/blue", "/red/broken"),
            "/blue": article(55, title="Blue"),
            "/red/broken": article(55, title="Red", text=f"{words(55)} red"),
            "/red/copy": article(55, title="Red", text=f"{words(55)} red", frame="copy"),
        },
        AFTER_ITEM_ERROR,
        {"ITEM_PIPELINES": {"spiders.Broken": 1}, "DEDUP_CONTROL": 0},
    ),
    "bans": Case(
        {
            "/": hub("/ban", "/moved"),
            "/ban": [ban(60), ban(60), article(61)],
            "/ban-copy": article(60, frame="no ban"),
            "/moved": Page(b"", status=302, headers={"Location": "/landed"}),
            "/landed": [ban(62), article(63)],
            "/landed-copy": article(62, frame="no ban"),
        },
        BANNED,
    ),
    "self": Case(
        {"/": hub("/page"), "/page": article(70, "/page", "/copy"), "/copy": article(70)},
    ),
    "patient": slow(waits=False, DEDUP_WAIT_SECONDS=60),
    "overtime": slow(waits=True, DEDUP_WAIT_SECONDS=0.2),
}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    return run_cases(
        tmp_path_factory.mktemp("phases"), CASES, setup=PIPELINE + RECOVERS, settings=TEXT
    )


def test_promise_3_two_phases_a_callback_that_raises_gives_its_page_back(crawls):
    """A callback that raises, at once or half way, releases its page, which is counted: a near-duplicate is parsed."""
    crawl = crawls["raises"]
    assert crawl.parsed == {"/", "/elsewhere", *COPIES}
    assert crawl.stats["spider_exceptions/ValueError"] == len(WAYS)
    assert crawl.stat("released") == len(WAYS)
    assert crawl.stat("inserted") == 2 + len(WAYS)  # start page, /elsewhere, and the copies


def test_callback_that_raises_gives_its_page_back_even_if_another_middleware_recovers(crawls):
    """A middleware that makes up for the exception does not make the page an original."""
    crawl = crawls["recovered"]
    assert crawl.stats["item_scraped_count"] > len(WAYS)
    assert crawl.parsed == {"/", *COPIES}


def test_page_that_scrapy_keeps_from_the_callback_is_no_original(crawls):
    """With "status" judged, a 404 that no callback sees (HttpError) does not cost its copy."""
    assert crawls["gone"].stat("probed") == 3
    assert crawls["gone"].parsed == {"/", "/back"}


def test_item_error_forgets(crawls):
    """A page whose item fails in a pipeline, in flight or inserted, does not cost its copy; that of another page is dropped."""
    crawl = crawls["items"]
    assert sorted(crawl.paths("item_error")) == ["/early/broken", "/late/broken"]
    assert {"/early/copy", "/late/copy"} <= crawl.parsed
    assert set(crawl.dropped) == {"/fine/copy"}
    assert crawl.stat("released") == 2


def test_promise_1_nothing_is_lost_of_an_item_that_failed(crawls):
    """An equal item of a copy passes, although the copy looks like a third page."""
    crawl = crawls["colours"]
    assert crawl.paths("item_error") == ["/red/broken"]
    assert crawl.meta("/red/copy")["reason"] == "checked"
    assert crawl.stats["item_scraped_count"] == 3  # of /, /blue and /red/copy


def test_ban_retry_releases(crawls):
    """A callback that asks for its own page again gives it back: the ban page is no original.

    The retry of a redirected page is still the page that was requested first.
    """
    crawl = crawls["bans"]
    assert crawl.paths("parsed").count("/ban") == 3
    assert {"/ban-copy", "/landed-copy"} <= crawl.parsed
    assert crawl.stat("released") == 3  # and one of /landed
    keys = {e["dedup"]["key"] for e in crawl.of("parsed") if e["path"] == "/landed"}
    assert keys == {f"{crawl.url}/moved"}


def test_link_to_itself_does_not_release(crawls):
    """A page that links to itself is inserted all the same, and its copy is dropped."""
    assert set(crawls["self"].dropped) == {"/copy"}
    assert crawls["self"].stat("released") == 0


def test_in_flight_waits_and_is_then_dropped(crawls):
    """A near-duplicate of a page in flight waits for that page's callback, and is then dropped."""
    crawl = crawls["patient"]
    order = [(e["event"], e["path"]) for e in crawl.events]
    (original,), (copy,) = crawl.parsed - {"/"}, crawl.dropped
    assert {original, copy} == {"/a", "/b"}
    assert order.index(("ended", original)) < order.index(("failed", copy))


def test_in_flight_too_long_is_kept(crawls):
    """When DEDUP_WAIT_SECONDS are over the second page is kept as exempt/in_flight, with its item."""
    crawl = crawls["overtime"]
    assert crawl.parsed == {"/", "/a", "/b"}
    assert {crawl.meta(path)["reason"] for path in ("/a", "/b")} == {"", "in_flight"}
    assert crawl.stat("exempt/in_flight") == 1
    assert crawl.stat("inserted") == crawl.stats["item_scraped_count"] == 3


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    def twin(number: int) -> dict[str, Page]:
        barrier = Barrier(2)  # neither is answered before both are asked for
        return {
            f"/{number}/{side}": article(
                1000 + number, frame=side, before=lambda: barrier.wait(120)
            )
            for side in ("left", "right")
        }

    pages = {path: page for number in range(PAIRS) for path, page in twin(number).items()}
    settings = {
        "CONCURRENT_REQUESTS": 16,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
        "DEDUP_WAIT_SECONDS": 60,
    }
    case = Case({"/": hub(*pages)} | pages, settings=settings)
    return run_case(tmp_path_factory.mktemp("pairs"), case, settings=TEXT)


def test_promise_3_two_phases_of_two_at_once_one_is_parsed(pairs):
    """Of two near-duplicates in flight at once exactly one is parsed, 100 times."""
    sides = ("left", "right")
    parsed = [sum(f"/{n}/{s}" in pairs.parsed for s in sides) for n in range(PAIRS)]
    assert parsed == [1] * PAIRS
    assert len(pairs.requested) == 1 + 2 * PAIRS


def test_promise_1_nothing_is_lost_of_two_at_once(pairs):
    """Each of those drops names the other page of the pair."""
    assert len(pairs.dropped) == PAIRS
    for path, verdict in pairs.dropped.items():
        pair = path.rpartition("/")[0]
        assert {pairs.url + path, verdict["of"]} == {
            f"{pairs.url}{pair}/{s}" for s in ("left", "right")
        }


# Parsed pages would be inserted together after ten minutes, if nobody asked for them.
PATIENT = """
import dedup.detector, dedup.scrapy.page.in_flight

dedup.scrapy.page.in_flight.COMMIT_SECONDS = 600

real = dedup.detector.EmbeddedDetector.insert_many
def insert_many(self, verdicts):
    if self.info()["namespace"] == "refused" and len(verdicts) > 1:
        raise OSError("too many at once")
    return real(self, verdicts)
dedup.detector.EmbeddedDetector.insert_many = insert_many
"""
MANY = {f"/{n}": article(3000 + n) for n in range(40)}


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    pages = {"/": hub("/a", "/b"), "/a": article(1), "/b": article(1, frame="copy")}
    cases = {
        "asked": Case(pages, settings={"DEDUP_WAIT_SECONDS": 60}),
        "refused": Case({"/": hub(*MANY), **MANY}),
    }
    return run_cases(tmp_path_factory.mktemp("together"), cases, setup=PATIENT, settings=TEXT)


def test_a_parsed_page_is_inserted_as_soon_as_a_near_duplicate_asks(together):
    """No near-duplicate waits, or is kept, because its original was to be inserted with others."""
    assert set(together["asked"].dropped) == {"/b"}
    assert together["asked"].stat("exempt/in_flight") == 0


def test_pages_that_cannot_be_inserted_together_are_inserted_one_by_one(together):
    """A fault that touches pages only together costs none of them its place in the store."""
    assert together["refused"].stat("inserted") == len(MANY) + 1
    assert together["refused"].faults == {}
