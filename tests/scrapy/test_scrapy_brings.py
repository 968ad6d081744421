"""What a page brought decides what of others passes: sites on which ordinary spiders lost items.

Each site is small, and has the kind of trouble that its test names; the spiders are as people write them.
"""

import pytest
from crawling import TEXT, Case, Crawl, Page, article, hub, run_cases

COUNT = 12  # of contents on most sites


def versions(number: int) -> dict[str, Page]:
    """One text at four addresses; only the last one names what the spider wants."""
    named = f'<b data-item="no {number}">by somebody</b>'
    return {
        f"/print/{number}": article(number, frame="print"),
        f"/amp/{number}": article(number, frame="amp"),
        f"/full/{number}?utm_source=x": article(number, frame=named),
        f"/full/{number}": article(number, frame=named),
    }


def site(*parts: dict[str, Page]) -> dict[str, Page]:
    pages = {path: page for part in parts for path, page in part.items()}
    return {"/": hub(*pages)} | pages


WANTED = """
def parse(self, response):
    self.note("parsed", response)
    for number in response.css("nav [data-item]::attr(data-item)").getall():
        yield {"item": number}
    yield from self.links(response)
"""
LINKS_ONLY = """
def parse(self, response):
    self.note("parsed", response)
    yield from self.links(response)
"""
INCOMPLETE = """
def parse(self, response):
    self.note("parsed", response)
    yield {"item": response.css("[data-item]::attr(data-item)").get(), "url": response.url}
    yield from self.links(response)
"""
PIPELINES = """
from scrapy.exceptions import DropItem

class Complete:
    async def process_item(self, item, spider=None):
        import asyncio
        await asyncio.sleep(0.02)  # as a data base takes
        if item["item"] is None:
            raise DropItem("incomplete")
        return item
"""
TWO_CALLBACKS = """
def parse(self, response):
    for position, a in enumerate(response.css("a")):
        yield response.follow(a, self.thing, errback=self.failed, priority=-position)

def thing(self, response):
    self.note("parsed", response)
    yield {"item": "number " + response.url.split("/")[4]}
    if "/copy" not in response.url:
        yield response.follow(response.url.replace("/thing", "/data"), self.data)

def data(self, response):
    self.note("parsed", response)
    yield {"item": "number " + response.url.split("/")[4]}
"""
CAPTCHA = """
def parse(self, response):
    self.note("parsed", response)
    if "robot" in response.text:
        yield scrapy.Request(response.url + "?again=1", self.parse, errback=self.failed)
    else:
        yield {"item": response.url}
        yield from self.links(response)
"""
FORGETS = """
def parse(self, response):
    self.note("parsed", response)
    if "robot" in response.text:
        from dedup.scrapy import forget
        forget(response)
        forget(response)
    else:
        yield {"item": response.url}
    yield from self.links(response)
"""
INLINE = """
async def parse(self, response):
    self.note("parsed", response)
    if response.url.endswith("/"):
        for request in self.links(response):
            yield request
        return
    data = await self.crawler.engine.download_async(
        scrapy.Request(response.url.replace("/thing", "/data"), meta=response.meta)
    )
    self.note("inline", data)
    yield {"item": response.url}
"""
GATE = """
def parse(self, response):
    self.note("parsed", response)
    if response.url.endswith("/"):
        for n in range(6):
            url = f"{self.base}/{n}"
            yield scrapy.Request(url, self.page, dont_filter=True, errback=self.failed)

def page(self, response):
    self.note("parsed", response)
    if "/gate" in response.url:
        yield scrapy.Request(response.meta["redirect_urls"][0], self.page, errback=self.failed)
    else:
        yield {"item": response.url}
"""
ROBOT = article(500, text="Are you a robot " * 3 + " ".join(f"prove{n}" for n in range(60)))
DEAD = {
    f"/dead/{n}": article(77, f"/dead/{n + 1}", frame="This page is not here", title="Not found")
    for n in range(300)
}
THINGS = {
    f"/{kind}/{n}": article(n, frame=kind) for n in range(COUNT) for kind in ("thing", "data")
}

CASES = {
    "versions": Case(site(*map(versions, range(COUNT))), WANTED),
    "incomplete": Case(
        site(
            *(
                {
                    f"/m/{n}": article(n, frame="mobile"),
                    f"/i/{n}": article(n, frame=f'<b data-item="no {n}"></b>'),
                    f"/i/{n}?s=1": article(n, frame=f'<b data-item="no {n}"></b>'),
                }
                for n in range(COUNT)
            )
        ),
        INCOMPLETE,
        {"ITEM_PIPELINES": {"spiders.Complete": 1}, "DEDUP_WAIT_SECONDS": 60},
    ),
    "links": Case(
        site(
            {f"/{n}": article(n) for n in range(40)},
            {f"/copy/{n}": article(n, frame="copy") for n in range(40)},
        ),
        LINKS_ONLY,
    ),
    "dead": Case({"/": hub("/thing", "/dead/0"), "/thing": article(1)} | DEAD, LINKS_ONLY),
    "callbacks": Case(
        {"/": hub(*(f"/thing/{n}" for n in range(COUNT)), "/thing/1/copy")}
        | THINGS
        | {"/thing/1/copy": article(1, frame="copy")},
        TWO_CALLBACKS,
    ),
    "kinds_off": Case(
        {"/": hub(*(f"/thing/{n}" for n in range(COUNT)))} | THINGS,
        TWO_CALLBACKS,
        {"DEDUP_KINDS": False},
    ),
    "captcha": Case(
        {"/": hub(*(f"/{n}" for n in range(20)))}
        | {f"/{n}": ROBOT for n in range(20)}
        | {f"/{n}?again=1": article(n) for n in range(20)},
        CAPTCHA,
    ),
    "forgets": Case(
        {"/": hub(*(f"/{n}" for n in range(20)), "/a", "/b")}
        | {f"/{n}": ROBOT for n in range(20)}
        | {"/a": article(1), "/b": article(1, frame="copy")},
        FORGETS,
        TEXT,
    ),
    "gate": Case(
        {"/": hub(), "/gate": article(600)}
        | {
            f"/{n}": [Page(b"", status=302, headers={"Location": "/gate"}), article(n)]
            for n in range(6)
        },
        GATE,
    ),
    "inline": Case(site({f"/thing/{n}": article(n) for n in range(COUNT)}) | THINGS, INLINE),
}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Crawl]:
    return run_cases(tmp_path_factory.mktemp("brings"), CASES, setup=PIPELINES)


def scraped(crawl: Crawl) -> int:
    return int(crawl.stats.get("item_scraped_count", 0))


def test_no_fault(crawls):
    """None of these crawls meets a fault of ours."""
    assert {name: crawl.faults for name, crawl in crawls.items() if crawl.faults} == {}


@pytest.mark.parametrize("name", ["versions", "incomplete"])
def test_promise_1_the_version_with_an_item_is_found(crawls, name):
    """Versions that bring nothing, or an item that a pipeline drops, shut out none; an equal item is withheld."""
    crawl = crawls[name]
    assert scraped(crawl) == COUNT
    assert crawl.stat("items/withheld") + len(crawl.dropped) == COUNT
    assert crawl.stat("exempt/in_flight") == 0


def test_silence_is_no_evidence(crawls):
    """The copies of a spider without items are checked, all of them."""
    crawl = crawls["links"]
    assert crawl.dropped == {}
    assert crawl.stat("checked") == 40


def test_dead_pages_without_end_come_to_an_end(crawls):
    """Soft 404s that link to each other bring nothing new: their requests have a budget."""
    crawl = crawls["dead"]
    assert "/thing" in crawl.parsed
    assert len(crawl.requested) < 100
    assert crawl.stat("requests/waiting") > 0


def test_promise_1_pages_of_another_callback_are_no_copies(crawls):
    """An item's page and its data page have one text, and both are wanted; a copy is not: its item is withheld."""
    crawl = crawls["callbacks"]
    assert scraped(crawl) == 2 * COUNT
    assert crawl.stat("items/withheld") == 1
    assert scraped(crawls["kinds_off"]) == COUNT


def test_a_page_that_asks_for_what_was_wanted_is_no_original(crawls):
    """What stands between, by a redirect, is parsed each time, and what was wanted comes."""
    crawl = crawls["gate"]
    assert crawl.requested.count("/gate") == 6
    assert crawl.dropped == {}
    assert scraped(crawl) == 6


def test_promise_1_pages_that_lead_to_items_go_on(crawls):
    """A robot check is as often answered as it comes, since what it leads to is wanted."""
    crawl = crawls["captcha"]
    assert scraped(crawl) == 20 + 1
    assert crawl.dropped == {}


def test_forget_gives_a_page_back(crawls):
    """What a callback forgets is never an original, whatever else it brought; others are."""
    crawl = crawls["forgets"]
    assert len(crawl.parsed) == 22
    assert set(crawl.dropped) == {"/b"}


def test_pages_that_a_callback_waits_for_are_exempt(crawls):
    """A download inside a callback is not judged, even with meta of a judged page."""
    crawl = crawls["inline"]
    assert scraped(crawl) == COUNT
    assert crawl.stat("exempt/inline") == COUNT
    assert sorted(crawl.paths("inline")) == sorted(f"/data/{n}" for n in range(COUNT))


# ------------------------------------------------------------------------- what it says


SAID = {
    "urls": ({"DEDUP_URLS": "skip"}, "the setting DEDUP_URLS has no effect: `dedup urls"),
    "paper": ({"DEDUP_SIMILARITY": "paper", "DEDUP_DISTANCE": 8}, "compares no texts"),
    "unknown": (
        {"DEDUP_MEMROY": "ever"},
        "there is no setting DEDUP_MEMROY; DEDUP_MEMORY was meant?",
    ),
}


def test_settings_that_do_not_work_together_and_unknown_ones_are_named(tmp_path):
    """A warning says what does nothing, and what was meant; each alone is allowed. A 404 of robots.txt asks for no memory."""
    more = {"ROBOTSTXT_OBEY": True, "DEDUP_EXEMPT": []}
    cases = {name: Case({"/": hub()}, settings=more | given) for name, (given, _) in SAID.items()}
    cases["alone"] = Case({"/": hub()}, settings=more | {"DEDUP_SIMILARITY": "paper"})
    for crawl in run_cases(tmp_path, cases).values():
        for warned in {said for _, said in SAID.values()}:
            assert crawl.log.count(warned) == 1  # of the spider that has it
        assert "/robots.txt" in crawl.requested
        assert crawl.faults == {}
