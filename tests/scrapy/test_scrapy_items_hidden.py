"""What a page brings may be hard to see: it is kept for later, computed, told by a class. Real crawls of pages of one text."""

import hashlib
import json
from collections.abc import Callable
from itertools import permutations

import pytest
from crawling import Answers, Case, Crawl, Page, article, hub, run_case, run_cases, words
from sizes import FULL, sized

pytestmark = pytest.mark.sized

PAGES = sized(quick=40, full=60)
LONG = 50  # rows of a list, more than are compared one by one

SETUP = """
import csv, hashlib, json, random, uuid
import scrapy
class Sold(scrapy.Item):
    town = scrapy.Field()
class Offered(scrapy.Item):
    town = scrapy.Field()
"""
# How the callback ends a page; {bring} has the page's value as `value`.
SPIDER = """
rows = []
def parse(self, response):
    self.note("parsed", response)
    if "/page/" not in response.url and "/copy/" not in response.url:
        yield from self.links(response)
        return
    value = response.css("[data-value]::attr(data-value)").get()
    {bring}
"""
YIELDS = "item = {item}\n    self.note('item', item=dict(item))\n    yield item"

BRINGS = {
    "header": YIELDS.replace("{item}", '{"sum": response.headers["X-Sum"].decode()}'),
    "guid": YIELDS.replace("{item}", '{"id": value.lower().replace("-", "")}'),
    "hash": YIELDS.replace("{item}", '{"id": hashlib.sha256(value.encode()).hexdigest()}'),
    "classes": YIELDS.replace(
        "{item}", '(Sold if int(response.url.split("/")[-1]) >= 20 else Offered)(town="Ulm")'
    ).replace("dict(item)", "[type(item).__name__]"),
    "writer": "self.note('item', item={'value': value})",
    "batches": """
    self.rows.append(value)
    if len(self.rows) == 10:
        for each in self.rows:
            self.note('item', item={'value': each})
            yield {'value': each}
        self.rows.clear()
""",
}
PARTS = """
def parse(self, response):
    self.note("parsed", response)
    yield from self.links(response, callback=self.parse_thing)

def parse_thing(self, response):
    held = {"no": response.url.split("/")[-1], "sizes": {}}
    for size in "SML":
        yield response.follow(f"{response.url}?size={size}", self.parse_size, {passed})

def parse_size(self, response{argument}):
    held, size = {read}
    held["sizes"][size] = response.css("b::attr(data-price)").get()
    if len(held["sizes"]) == 3:
        self.note("item", item=held)
        yield held
"""
IN_ARGUMENTS = (
    PARTS.replace("{passed}", "cb_kwargs={'held': held, 'size': size}")
    .replace("{argument}", ", held, size")
    .replace("{read}", "held, size")
)
IN_META = (
    PARTS.replace("{passed}", "meta={'held': held, 'size': size}")
    .replace("{argument}", "")
    .replace("{read}", "response.meta['held'], response.meta['size']")
)


def name_of(number: int) -> str:
    """Return a word, without a number."""
    return f"town{chr(97 + number % 26)}{chr(97 + number // 26)}"


def value(number: int) -> str:
    """Return a GUID as a page shows it; none is random by its form."""
    digits = hashlib.md5(b"%d" % number, usedforsecurity=False).hexdigest().upper()
    return f"{digits[:8]}-{digits[8:12]}-1{digits[13:16]}-{digits[16:20]}-{digits[20:]}"


def things() -> dict[str, Page]:
    pages = {}
    for n in range(PAGES):
        body = article(1).body.replace(b"<main>", f"<main data-value='{value(n)}'>".encode())
        total = hashlib.md5(b"sum %d" % n, usedforsecurity=False).hexdigest()
        pages[f"/page/{n}"] = Page(body, headers={"X-Sum": total})
    return {"/": hub(*pages)} | pages


def sizes() -> dict[str, Page]:
    """Things whose sizes are pages of one text, with few prices between them."""
    pages = {f"/page/{n}": article(n) for n in range(1, 21)}
    links = hub(*pages)
    for n in range(1, 21):
        for k, size in enumerate("SML"):
            price = f"<b data-price='{(n + k) % 7}'></b>"
            pages[f"/page/{n}?size={size}"] = article(0, text=f"{words(99)}</p>{price}<p>")
    return {"/": links} | pages


def told(tell: Callable[[int], str]) -> dict[str, Page]:
    """Pages of one text, each with a piece of markup of its own in it."""
    first, last = words(1, 120), words(2, 40)
    pages = {
        f"/page/{n}": article(1, "/page/0", text=f"{first} {tell(n)} {last}") for n in range(PAGES)
    }
    return {"/": hub(*pages)} | pages


def rated(n: int) -> str:
    """Three to five stars of nine: the same values of a list, in other numbers."""
    return "<i data-star='full'></i>" * (n % 3 + 3) + "<i data-star='none'></i>" * (6 - n % 3)


def ranked(n: int) -> str:
    """Six orders of the same values."""
    return "".join(f"<i data-star='{who}'></i>" for who in list(permutations("abc"))[n % 6])


def equipped(n: int) -> str:
    """Many fields, of which one and another one are set."""
    return "".join(f"<i data-has='{k in (50, 60 + n % 40)}'></i>" for k in range(100))


def shuffled() -> dict[str, Answers]:
    """Pages under two addresses, with a list that is in another order at each visit, and a value of its own."""
    site: dict[str, Answers] = {}
    for n in range(1, 31):
        for address in (f"/page/{n}", f"/copy/{n}"):
            listed = ["a", "b", "c", address]
            site[address] = [
                article(n, text=f"{words(n)} {''.join(f'<i data-star={v}></i>' for v in order)}")
                for order in (listed, listed[::-1], listed[1:] + listed[:1])
            ]
    return {"/": hub(*site)} | site


STARS = YIELDS.replace("{item}", "{'stars': response.css('i::attr(data-star)').getall()}")
FLAGS = YIELDS.replace(
    "{item}",
    "{f'f{k}': v == 'True' for k, v in enumerate(response.css('i::attr(data-has)').getall())}",
)
TEXT = YIELDS.replace("{item}", "{'text': ' '.join(response.css('main p ::text').getall())}")
MARKUP = YIELDS.replace("{item}", "{'main': response.css('main').get()}")
IDS = """
    item = {"id": str(uuid.UUID(int=random.Random(response.url).getrandbits(128), version=4))}
    self.note("item", item=item)
    yield item
"""
FOLLOWS = """
    self.note("item", item={"kept": response.css("main p::text").get()})
    yield from self.links(response)
"""
TOLD = {
    "stars": (rated, STARS, 3),
    "ranking": (ranked, STARS, 6),
    "flags": (equipped, FLAGS, 40),
    "text": (name_of, TEXT, PAGES),
    "markup": (name_of, MARKUP, PAGES),
    "ids": (str, IDS, PAGES),
    "follows": (name_of, FOLLOWS, PAGES),
    "numbers": (lambda n: f"{n}", FOLLOWS, PAGES),
}


def lists(*, swapped: bool = False) -> dict[str, Page]:
    """Long lists, each under two addresses; the copies with the values of two rows swapped."""
    pages = {}
    for n in range(1, 26):
        for address in (f"/page/{n}", f"/copy/{n}"):
            prices = list(range(LONG))
            if swapped and address[1] == "c":
                prices[3], prices[4] = prices[4], prices[3]
            rows = "".join(
                f"<i data-row='{n}-{k}' data-price='{p}'></i>" for k, p in enumerate(prices)
            )
            pages[address] = article(n, text=f"{words(n)}</p>{rows}<p>")
    return {"/": hub(*pages)} | pages


LISTS = """
    for row in response.css("i"):
        item = dict(row.attrib)
        self.note('item', item=item)
        yield item
"""


# Variants of others, in test-long.
LATER = ("header", "guid", "writer", "meta", "ranking", "flags", "markup", "numbers")


def named(*names: str) -> list[object]:
    """Return the parameters of a test."""
    return [pytest.param(n, marks=pytest.mark.long if n in LATER else ()) for n in names]


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    cases = {name: Case(things(), SPIDER.replace("{bring}", how)) for name, how in BRINGS.items()}
    cases |= {
        name: Case(told(tell), SPIDER.replace("{bring}", how))
        for name, (tell, how, _) in TOLD.items()
    }
    cases |= {
        "arguments": Case(sizes(), IN_ARGUMENTS),
        "meta": Case(sizes(), IN_META),
        "lists": Case(lists(), SPIDER.replace("{bring}", LISTS)),
        "relisted": Case(shuffled(), SPIDER.replace("{bring}", STARS)),
        "swapped": Case(lists(swapped=True), SPIDER.replace("{bring}", LISTS)),
    }
    cases = {name: case for name, case in cases.items() if FULL or name not in LATER}
    return run_cases(tmp_path_factory.mktemp("hidden"), cases, setup=SETUP)


def items(crawl: Crawl) -> list[str]:
    return [json.dumps(e["item"], sort_keys=True) for e in crawl.of("item")]


def test_no_fault(crawls):
    """None of these crawls meets a fault of ours."""
    assert {name: crawl.faults for name, crawl in crawls.items() if crawl.faults} == {}


@pytest.mark.parametrize("name", named("header", "guid", "hash"))
def test_promise_1_hexadecimal_values_are_data(crawls, name):
    """From a header, from the page in another form, or made of its data: they are no random ids."""
    crawl = crawls[name]
    assert len(set(items(crawl))) == PAGES
    assert not crawl.dropped


def test_promise_1_the_class_of_an_item_is_a_datum(crawls):
    """Where a callback yields items of several classes that are equal in all else: one of each gets through."""
    assert set(items(crawls["classes"])) == {'["Sold"]', '["Offered"]'}
    assert crawls["classes"].stats["item_scraped_count"] > 1


@pytest.mark.parametrize("name", named("writer", "batches", "arguments", "meta"))
def test_promise_1_what_a_page_brings_may_be_kept(crawls, name):
    """In a file of the spider's own, for a later page, in an item that many pages fill."""
    crawl = crawls[name]
    assert len(set(items(crawl))) == (PAGES if name in BRINGS else 20)
    assert not crawl.dropped


@pytest.mark.parametrize("name", named(*TOLD))
def test_promise_1_a_form_a_word_and_a_random_id_are_data(crawls, name):
    """How often a value is in a list, and in which order; one word of a long text; an id that stands in no page.

    And a word or number of a page that brings nothing but links to known pages.
    """
    crawl = crawls[name]
    assert len(set(items(crawl))) == TOLD[name][2]


def test_promise_1_a_value_in_a_list_that_is_shuffled_at_each_visit_is_a_datum(crawls):
    """Although two visits of a page differ in that list."""
    assert len(set(map(sorted_stars, crawls["relisted"].of("item")))) == 60


def sorted_stars(event) -> str:
    return "".join(sorted(event["item"]["stars"]))


def test_copies_of_long_lists_are_dropped(crawls):
    """Their items are compared all together."""
    crawl = crawls["lists"]
    assert len(set(items(crawl))) == 25 * LONG
    assert len(crawl.dropped) >= 18


def test_promise_1_values_swapped_in_a_long_list_are_other_items(crawls):
    """Although each field has the same values."""
    crawl = crawls["swapped"]
    assert len(set(items(crawl))) == 25 * (LONG + 2)
    assert not crawl.dropped


# ------------------------------------------------------------------------- redirected pages

READS_REDIRECTS = """
def parse(self, response):
    self.note("parsed", response)
    if "/page/" not in response.url:
        yield from self.links(response)
        return
    item = {"from": response.meta["redirect_urls"][0], "shown": response.css("rect::attr(width)").get()}
    item = {name: item[name] for name in {FIELDS}}
    self.note("item", item=item)
    yield item
"""


def redirected(shown: list[int]) -> dict[str, Page]:
    """Short addresses, each of which leads to a page of one text that shows a number, where no part of a page holds it."""
    goes = {
        f"/go/{n}": Page(b"", status=302, headers={"Location": f"/page/{n}"})
        for n in range(len(shown))
    }
    pages = {
        f"/page/{n}": article(1, text=f"{words(1)}</p><svg><rect width='{number}'/></svg><p>")
        for n, number in enumerate(shown)
    }
    return {"/": hub(*goes)} | goes | pages


def test_promise_1_where_a_redirect_leads_is_a_datum(tmp_path):
    """Of two addresses that lead to pages of one text, both are wanted if the item names them."""
    body = READS_REDIRECTS.replace("{FIELDS}", '("from",)')
    crawl = run_case(tmp_path, Case(redirected([1] * 30), body))
    assert len(set(items(crawl))) == 30
    assert not crawl.faults


def test_promise_1_a_redirected_page_is_fetched_again_by_way_of_its_redirect(tmp_path):
    """Its callback finds what it found the first time: after a class falls, and in a control visit."""
    body = READS_REDIRECTS.replace("{FIELDS}", '("shown",)')
    numbers = [0] * 25 + list(range(1, 40))
    crawl = run_case(tmp_path, Case(redirected(numbers), body))
    assert len(set(items(crawl))) == 40
    assert crawl.stat("items/again") > 0
    assert crawl.stat("items/control") > 0
    assert not [name for name in crawl.stats if name.startswith("spider_exceptions/")]
    assert not crawl.faults


# ------------------------------------------------------------------------------------- times

CLOCK = """
import dedup.scrapy.evidence.digest, time
class Clock:
    time = staticmethod(lambda: {NOW})
dedup.scrapy.evidence.digest.time = Clock
"""


def test_promise_1_a_timetable_is_no_clock(tmp_path):
    """Departures of today, crawled two seconds after a quarter of an hour, as a scheduled crawl begins."""
    noon = 1_800_000_000 // 86400 * 86400 + 12 * 3600
    pages = {
        f"/page/{n}": article(1, text=f"{words(1)}</p><b data-at='{noon + 900 * n}'></b><p>")
        for n in range(4, 44)
    }
    body = """
def parse(self, response):
    self.note("parsed", response)
    if "/page/" not in response.url:
        yield from self.links(response)
        return
    item = {"line": "ferry", "at": int(response.css("b::attr(data-at)").get())}
    self.note("item", item=item)
    yield item
"""
    case = Case({"/": hub(*pages)} | pages, body)
    crawl = run_case(tmp_path, case, setup=CLOCK.replace("{NOW}", str(noon + 2)))
    assert len(set(items(crawl))) == 40
    assert not crawl.dropped
    assert not crawl.faults


# ----------------------------------------------------------- classes whose pages differ in less

READS_SVG = """
def parse(self, response):
    self.note("parsed", response)
    if "/page/" not in response.url:
        yield from self.links(response)
        return
    item = {"width": response.css("rect::attr(width)").get()}
    self.note("item", item=item)
    yield item
"""


def narrow(*copies: tuple[bool, int]) -> dict[str, Page]:
    """A page and near-duplicates of it: whether the numbers of the text differ, or but its frame; and what they show.

    That stands where no part of a page holds it.
    """

    def made(number: str, width: int, frame: str) -> Page:
        text = f"{words(1)} {number}</p><svg><rect width='{width}'/></svg><p>"
        return article(1, text=text, frame=frame)

    pages = {"/page/1": made("10", 0, "")}
    for n, (wide, width) in enumerate(copies):
        pages[f"/page/1?ref=r{n}"] = made(f"2{n}" if wide else "10", width, f"frame r{n}")
    return {"/": hub(*pages)} | pages


def widths(crawl: Crawl) -> set[int]:
    return {int(e["item"]["width"]) for e in crawl.of("item")}


def test_promise_1_a_class_with_fewer_differences_has_checks_of_its_own(tmp_path):
    """Pages that differ in more are copies, those that differ in less are not: what differs stands in no part."""
    copies = [(True, 0)] * 20 + [(False, n) for n in range(1, 41)] + [(True, 0)] * 20
    crawl = run_case(tmp_path, Case(narrow(*copies), READS_SVG))
    assert widths(crawl) == set(range(41))
    assert crawl.stat("items/dropped") > 20
    assert not crawl.faults
