"""Of a near-duplicate what is new passes, what is seen is withheld. Real crawls, a kind each."""

import json
import random
from collections.abc import Callable, Iterable

import pytest
from crawling import (
    WRITES,
    Case,
    Crawl,
    Page,
    article,
    hub,
    linked,
    run_cases,
    words,
)

PAGES = 60
LATE = 100  # pages that are more than a pattern drops between two spot checks
LAST, GAP = 120, range(30, 95)  # days, and those without a record
DEEP = 6  # folders in which paths can grow
UNHURRIED = {"DOWNLOAD_DELAY": 0.02}  # Scrapy 2.13 downloads ahead of its callbacks

SPIDER = """
def parse(self, response):
    self.note("parsed", response)
    if response.url.count("/") < 4:
        yield from self.links(response)
        return
    value = response.css("main [data-value]::attr(data-value), main i::attr(lang)").get()
    body = " ".join(response.css("main ::text").getall())
    {bring}
"""
FOLLOWS = "yield from self.links(response)"


def yields(item: str, *more: str) -> str:
    """Return a spider whose pages bring an item."""
    return SPIDER.replace("{bring}", "\n    ".join([f"yield {item}", *more]))


def page(number: int, value: object, *links: str, frame: str = "") -> Page:
    """Return a page with a value that neither its text nor its parts have."""
    marked = f"<main><i lang='{value}'></i>".encode()
    return Page(article(number, *links, frame=frame).body.replace(b"<main>", marked))


def values(crawl: Crawl, field: str = "value") -> set[object]:
    return {item[field] for item in crawl.items}


# --------------------------------------------------------------------------------- the sites


def late_change(since: int, count: int) -> dict[str, Page]:
    """Copies, of which those from `since` on have another value."""
    pages = {f"/a/{n}": page(n, n) for n in range(count)}
    pages |= {f"/a/{n}?ref=x": page(n, n if n < since else 1000 + n) for n in range(count)}
    return linked(pages)


def same_text(value: Callable[[int], object] = lambda n: n, count: int = PAGES) -> dict[str, Page]:
    """Pages of one text, each with its value."""
    return linked({f"/a/{n}": page(1, value(n)) for n in range(count)})


def copies_of_variants() -> dict[str, Page]:
    """Pages of one text, each with its value, the first ones after a copy that says some words more."""
    pages = {"/a/0": page(1, 0)}
    for n in range(1, 20):
        longer = page(1, n).body.replace(b"</main>", f"<p>{words(2, 8)}</p></main>".encode())
        pages |= {f"/a/{n}?ref=x": Page(longer), f"/a/{n}": page(1, n)}
    return linked(pages | {f"/a/{n}": page(1, n) for n in range(20, 24)})


def lists(rows: Callable[[int], list[str]], above: str = "List number {}") -> dict[str, Page]:
    """Lists with one heading, and their number above the rows."""
    pages: dict[str, Page] = {}
    for n in range(12):
        text = "".join(f"</p><p><b>{row}</b> {words(k, 12)}" for k, row in enumerate(rows(n)))
        pages[f"/a/{n}"] = article(1, text=f"{above.format(n)} {text}", title="Lists")
    return {"/": hub(*pages)} | pages


def one_row_of_its_own(n: int) -> list[str]:
    """Return the rows of a list, of which one is its own."""
    return [f"row {k} of {90 + n if k == n else 10}" for k in range(12)]


def sections(count: int) -> dict[str, Page]:
    """Articles under three sections, whose links keep the section; a print page each."""
    kinds = ("sport", "city", "latest")
    pages: dict[str, Page] = {
        f"/{kind}": article(0, *(f"/{kind}/{n}" for n in range(count)), text=words(900 + k, 60))
        for k, kind in enumerate(kinds)
    }
    for kind in kinds:
        for n in range(count):
            links = (f"/{kind}/{(n * 7 + 1) % count}", f"/{kind}/{(n * 7 + 5) % count}")
            pages[f"/{kind}/{n}"] = page(n, n, *links, f"/{kind}/{n}/amp", frame=kind)
            pages[f"/{kind}/{n}/amp"] = page(n, n, frame=f"amp {kind}")
    return {"/": hub(*(f"/{kind}" for kind in kinds))} | pages


def calendar(last: int) -> dict[str, Page]:
    """A month for ever: pages of one text, each with a link to the next one."""
    pages = {
        f"/month/{n}": article(1, f"/month/{n + 1}", text=f"{words(1)} month {n}", title="Calendar")
        for n in range(last)
    }
    return {
        "/": hub("/month/0", "/text/1", "/text/2"),
        "/text/1": article(5),
        "/text/2": article(6),
    } | pages


def few_words(count: int, text: str, links: Callable[[int], Iterable[int]]) -> dict[str, Page]:
    """Pages with too few words to be compared."""

    def few(n: int) -> Page:
        head = f"<title>{text.format(n)}</title><meta name='description' content='{'-' * 200}'>"
        to = "".join(f"<a href='/{each}'>next</a>" for each in links(n) if each < count)
        return Page(f"<html>{head}<main><h1>{text.format(n)}</h1>{to}</main></html>".encode())

    return {"/": hub("/0")} | {f"/{n}": few(n) for n in range(count)}


THINGS = """
def parse(self, response):
    yield {"name": response.css("title::text").get()}
    yield from self.links(response)
"""


DAYS = f"""
def parse(self, response):
    yield response.follow("/day/0", self.parse_day, cb_kwargs={{"day": 0}})

def parse_day(self, response, day):
    self.note("parsed", response)
    record = response.css("b::text").get()
    if record:
        self.note("item", response)
        yield {{"day": day, "record": record}}
    if day < {LAST}:
        yield response.follow(f"/day/{{day + 1}}", self.parse_day, cb_kwargs={{"day": day + 1}})
"""


def days() -> dict[str, Page]:
    """A page for each day, without a link to another; for most of them it says that there is nothing."""
    pages = {
        f"/day/{n}": article(
            1,
            text=f"{words(1)}</p><p>{'no record' if n in GAP else f'<b>{words(n + 100, 3)}</b>'}</p><p>",
        )
        for n in range(LAST + 1)
    }
    return {"/": hub("/day/0")} | pages


def growing() -> dict[str, Page]:
    """Three pages with links that are relative to them: paths grow without end, and so far as they are served here."""
    names = ("first/one", "second/two", "third/three")
    paths, alike = [""], [article(n, *names) for n in range(4)]
    pages: dict[str, Page] = {"/": alike[0]}
    for _ in range(DEEP):
        paths = [f"{path}/{name.split('/')[0]}" for path in paths for name in names]
        for path in paths:
            for n, name in enumerate(names, 1):
                pages[f"{path}/{name.split('/')[1]}"] = alike[n]
    return pages


ASKS_AT_IDLE = """
blocked = []
@classmethod
def from_crawler(cls, crawler, *args, **kwargs):
    spider = super().from_crawler(crawler, *args, **kwargs)
    crawler.signals.connect(spider.again, signal=scrapy.signals.spider_idle)
    return spider

def again(self):
    waiting, self.blocked = self.blocked, []
    for url in waiting:
        self.crawler.engine.crawl(scrapy.Request(url, self.parse, dont_filter=True))
    if waiting:
        raise scrapy.exceptions.DontCloseSpider

def parse(self, response):
    self.note("parsed", response)
    if response.url.endswith("/"):
        yield from self.links(response)
    elif value := response.css("main [data-value]::attr(data-value), main i::attr(lang)").get():
        yield {"value": value}
    else:
        self.blocked.append(response.url)
"""


def blocked() -> dict[str, object]:
    """Each page first is the same ban, without a value; then it is itself."""
    ban = article(99, text=words(99))
    pages = {f"/a/{n}": [ban, page(n, n)] for n in range(40)}
    return {"/": hub(*pages)} | pages


def free_nights() -> dict[str, Page]:
    """Few of the pages of one text bring an item."""
    return same_text(lambda n: n if n % 25 == 24 else "", 100)


def asked_for(to: Callable[[int], int], count: int = PAGES) -> dict[str, Page]:
    """Pages of one text; what each asks for stands in an attribute, or is made of its address."""
    pages = {f"/a/{n}": page(1, f"/data/{to(n)}") for n in range(count)}
    data = {
        f"/data/{to(n)}": Page(json.dumps({"value": to(n)}).encode(), "application/json")
        for n in range(count)
    }
    return linked(pages) | data


ASKS = """
def parse(self, response):
    self.note("parsed", response)
    if response.url.endswith("/"):
        yield from self.links(response)
        return
    yield response.follow({where}, self.parse_data)

def parse_data(self, response):
    yield response.json()
"""
BY_DATA = 'response.css("main [data-value]::attr(data-value), main i::attr(lang)").get()'
BY_URL = '"/data/" + response.url.split("/")[-1]'
FEW_HELD = "import dedup.scrapy.page.output\ndedup.scrapy.page.output.HELD = 200\n"
SLOW = """
import asyncio
import crawling

class Slow(crawling.Writes):  # so that other callbacks end while the items of one still pass
    async def process_item(self, item, spider=None):
        await asyncio.sleep(0.02)
        return super().process_item(item)
"""
ROWS = 220
MANY = """
def parse(self, response):
    self.note("parsed", response)
    if response.url.endswith("/"):
        yield from self.links(response)
        return
    yield response.follow({BY_DATA}, self.parse_data)
    for n in range({ROWS}):
        yield {"value": f"{response.url.split('/')[-1]} {n}"}

def parse_data(self, response):
    yield response.json()
""".replace("{ROWS}", str(ROWS)).replace("{BY_DATA}", BY_DATA)

ROWS_OF = """
def parse(self, response):
    self.note("parsed", response)
    yield from self.links(response)
    for row in response.css("b::text").getall():
        yield {"value": row, "source": response.url}
"""

ONE_BY_ONE = {
    "ITEM_PIPELINES": {"spiders.Slow": 1},
    "CONCURRENT_ITEMS": 1,
    "DEDUP_WAIT_SECONDS": 600,
}

KEEPS = yields('{"url": response.url, "html": response.text}', FOLLOWS)
CASES = {
    "late_change": Case(late_change(25, 80), yields('{"name": 1, "value": value}'), WRITES | UNHURRIED),
    "end": Case(late_change(12, 31), yields('{"name": 1, "value": value}'), WRITES | UNHURRIED | {"DEDUP_RISK": 0.99}),
    "variants": Case(copies_of_variants(), yields('{"value": value}'), WRITES | UNHURRIED),
    "lists": Case(lists(one_row_of_its_own, above="All of them"), ROWS_OF, WRITES | UNHURRIED),
    "overlapping": Case(lists(one_row_of_its_own, above="All of them"), ROWS_OF, ONE_BY_ONE),
    "days_of": Case(lists(lambda n: [f"room {k}" for k in range(12)]), ROWS_OF, WRITES | UNHURRIED),
    "programme": Case(lists(one_row_of_its_own, above="{} May"), ROWS_OF, WRITES | UNHURRIED),
    "sections": Case(sections(24), yields('{"value": value, "url": response.url}', FOLLOWS), WRITES | UNHURRIED),
    "calendar": Case(calendar(600), KEEPS, WRITES),
    "gallery": Case(few_words(300, "Photo {0}<img src='/{0}.jpg'>", lambda n: range(3 * n + 1, 3 * n + 4)), KEEPS, WRITES),
    "empty_days": Case(few_words(600, "Day {0}, no events", lambda n: [n + 1]), KEEPS, WRITES),
    "idle": Case(blocked(), ASKS_AT_IDLE, WRITES),
    "nights": Case(free_nights(), SPIDER.replace("{bring}", 'if value: yield {"value": value}'), WRITES),
    "days": Case(days(), DAYS),
    "growing": Case(growing(), THINGS),
    "many": Case(asked_for(lambda n: n, 3), MANY, WRITES),
    "shells": Case(asked_for(lambda n: n), ASKS.replace("{where}", BY_URL), WRITES),
    "led_late": Case(asked_for(lambda n: n if n >= PAGES else 0, PAGES + LATE), ASKS.replace("{where}", BY_DATA), WRITES),
}  # fmt: skip


# How many items each of these brings, and what it would be lost by.
WANTED = {
    "variants": 24,  # that a page's own copy brought its item says nothing of the page that it looks like
    "days_of": 12 * 12,  # of a list only a number of its page says the day, and it has no heading
    "programme": 12 * 12,
    "idle": 40,  # silence is no evidence: of a page that is asked for again later
    "nights": 4,  # and of few that bring an item
    "shells": PAGES,  # pages without items ask for data of their own
    "led_late": 1 + LATE,  # most pages ask for what is known, the last ones do not
    "sections": 24,  # the links of each copy keep its section, and are new: here no item comes twice
}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    return run_cases(tmp_path_factory.mktemp("kinds"), CASES, setup=FEW_HELD + SLOW)


def test_no_fault(crawls):
    """None of these crawls meets a fault of ours."""
    assert {name: crawl.faults for name, crawl in crawls.items() if crawl.faults} == {}


def test_promise_1_what_a_class_dropped_comes_again_once_it_proves_otherwise(crawls):
    """However late; a page that was sent again is not dropped another time."""
    for name, since, count in (("late_change", 25, 80), ("end", 12, 31)):
        crawl = crawls[name]
        changed = {str(1000 + n) for n in range(since, count)}
        assert values(crawl) >= {str(n) for n in range(count)} | changed
        assert crawl.dropped
        assert crawl.stat("items/again") >= 1


@pytest.mark.parametrize("name", WANTED)
def test_promise_1_nothing_is_lost(crawls, name):
    """Each item comes; but for what is blocked at first, once."""
    found = [json.dumps(item, sort_keys=True) for item in crawls[name].items]
    assert len({*found}) == WANTED[name]
    assert len(found) == WANTED[name] or name == "idle"


def test_the_rows_of_a_list_come_once_each_also_where_they_have_its_address(crawls):
    """Although a number of the page is another: it stands in a new row. Also where the items of one list are still in
    the pipelines when the next one is checked.
    """
    for name in ("lists", "overlapping"):
        found = [item["value"] for item in crawls[name].items]
        assert sorted(found) == sorted(f"row {k} of {v}" for k in range(12) for v in (10, 90 + k))


def test_an_endless_calendar_ends_for_a_spider_that_keeps_pages_too(crawls):
    """Its budget pays for no further month, and what else there is comes."""
    crawl = crawls["calendar"]
    assert 5 < len(crawl.requested) < 300
    assert {"/text/1", "/text/2"} <= crawl.parsed


def test_promise_1_pages_with_few_words_are_crawled_as_long_as_they_show_something_new(crawls):
    """Each of a gallery has another picture; empty days differ in numbers alone, and end."""
    assert len(crawls["gallery"].requested) >= 301
    assert 80 < len(crawls["empty_days"].requested) < 150


def test_promise_1_what_is_behind_a_gap_that_the_spider_counts_over_is_wanted(crawls):
    """A chain of requests that the spider makes itself goes on for a year of pages without news."""
    found = {int(path.rsplit("/", 1)[1]) for path in crawls["days"].paths("item")}
    assert found == set(range(LAST + 1)) - set(GAP)


def test_paths_that_grow_without_end_are_one_difference(crawls):
    """Links that are relative to their page make ever longer paths; a budget for each word would not end."""
    assert len(crawls["growing"].requested) < len(growing()) / 4


def test_promise_1_a_page_with_very_many_items_keeps_their_order(crawls):
    """More than are held back, a request among the first of them."""
    crawl = crawls["many"]
    for n in range(3):
        found = [v for item in crawl.items if (v := str(item["value"])).startswith(f"{n} ")]
        assert found == [f"{n} {k}" for k in range(ROWS)]
    assert set(range(3)) <= values(crawl)


# ------------------------------------------------------------------------------ any site


def random_site(seed: int) -> tuple[dict[str, Page], set[str]]:
    """Return pages of random parts: copies and variants of few texts, under random addresses, in random order."""
    dice = random.Random(seed)
    pages: dict[str, Page] = {}
    for n in range(dice.randint(3, 15)):
        for k in range(dice.randint(1, 8)):
            query = dice.choice(
                ["", f"?ref=r{k}", f"?v={k}", f"?utm_source=m{k}", f"/{k}", f"?p={dice.random()}"]
            )
            parts = {
                "frame": dice.choice(["", "mail", f"visitor {dice.randint(1, 10**6)}"]),
                "title": dice.choice([None, None, f"Title {k}"]),
                "text": words(n)
                + dice.choice(["", "", f" {dice.randint(1, 5)} euro", f" {words(k, 2)}"]),
            }
            value = f"{n}" if dice.random() < 0.6 else f"{n}-{dice.randint(1, 9)}"
            links = [f"/a/{dice.randint(0, n)}" for _ in range(dice.randint(0, 2))]
            made = article(n, *links, **parts)
            place = dice.choice(
                [
                    "<b data-value='{}'></b>",
                    "<input type=hidden data-value='{}'>",
                    "<p><span data-value='{}'>x</span></p>",
                ]
            )
            pages[f"/a/{n}{query}"] = Page(
                made.body.replace(b"<main>", b"<main>" + place.format(value).encode())
            )
    listed = [*pages]
    dice.shuffle(listed)
    return {"/": hub(*listed)} | pages, {
        f"{made.body.decode().split('data-value=')[1][1:].partition(chr(39))[0]}" for made in pages.values()
    }  # fmt: skip


ITEMS = {
    "value": '{"value": value}',
    "more": '{"value": value, "url": response.url, "title": response.css("title::text").get()}',
    "text": '{"value": value, "text": body}',
    "html": '{"value": value, "html": response.text, "url": response.url}',
}


def random_crawls(folder, seeds: range) -> float:
    """Crawl random sites with random spiders; return how many pages were dropped for one that was parsed."""
    cases, wanted = {}, {}
    for seed in seeds:
        pages, wanted[f"s{seed}"] = random_site(seed)
        dice = random.Random(seed)
        body = yields(ITEMS[dice.choice([*ITEMS])], *[FOLLOWS] * dice.randint(0, 1))
        settings = WRITES | {
            "CONCURRENT_REQUESTS": dice.choice([1, 1, 4, 8]),
            # every near-duplicate is checked: what is dropped unparsed is a bet, and may lose its page
            "DEDUP_RISK": 0.0001,
        }
        cases[f"s{seed}"] = Case(pages, body.replace("def parse", dice.choice(["def parse", "async def parse"]), 1)
                                 .replace("yield from self.links(response)", "for each in self.links(response): yield each"), settings)  # fmt: skip
    found = run_cases(folder, cases)
    for name, crawl in found.items():
        assert not crawl.faults, name
        assert values(crawl) == wanted[name], name
    return sum(crawl.stat("items/withheld") for crawl in found.values())


def test_promise_1_no_random_spider_misses_an_item(tmp_path):
    """Whatever the parts, the order and the concurrency: every item of the spider without the add-on comes."""
    assert random_crawls(tmp_path, range(8)) > 0


@pytest.mark.long
def test_promise_1_no_random_spider_of_many_misses_an_item(tmp_path):
    """The same, of many sites."""
    for first in range(100, 300, 40):
        assert random_crawls(tmp_path / f"{first}", range(first, first + 40)) > 0
