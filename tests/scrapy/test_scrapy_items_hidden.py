"""What a page brings may be hard to see: it is kept for later, computed, told by a class. Real crawls of pages of one text."""

import hashlib
import json
from collections.abc import Callable

import pytest
from crawling import Answers, Case, Crawl, Page, article, hub, run_case, run_cases, words
from sizes import sized

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
    "hash": YIELDS.replace("{item}", '{"id": hashlib.sha256(value.encode()).hexdigest()}'),
    "classes": YIELDS.replace(
        "{item}", '(Sold if int(response.url.split("/")[-1]) >= 20 else Offered)(town="Ulm")'
    ).replace("dict(item)", "[type(item).__name__]"),
    "writer": "self.note('item', item={'value': value})",
}
IN_ARGUMENTS = """
def parse(self, response):
    self.note("parsed", response)
    yield from self.links(response, callback=self.parse_thing)

def parse_thing(self, response):
    held = {"no": response.url.split("/")[-1], "sizes": {}}
    for size in "SML":
        over = {"held": held, "size": size}
        yield response.follow(f"{response.url}?size={size}", self.parse_size, cb_kwargs=over)

def parse_size(self, response, held, size):
    held["sizes"][size] = response.css("b::attr(data-price)").get()
    if len(held["sizes"]) == 3:
        self.note("item", item=held)
        yield held
"""


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
        pages[f"/page/{n}"] = Page(body)
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
TEXT = YIELDS.replace("{item}", "{'text': ' '.join(response.css('main p ::text').getall())}")
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
    "text": (name_of, TEXT, PAGES),
    "ids": (str, IDS, PAGES),
    "follows": (name_of, FOLLOWS, PAGES),
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


FROM = YIELDS.replace("{item}", "{'from': response.meta['redirect_urls'][0]}")
WIDTH = YIELDS.replace("{item}", "{'width': response.css('rect::attr(width)').get()}")
LISTS = """
    for row in response.css("i"):
        item = dict(row.attrib)
        self.note('item', item=item)
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


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    cases = {name: Case(things(), SPIDER.replace("{bring}", how)) for name, how in BRINGS.items()}
    cases |= {
        name: Case(told(tell), SPIDER.replace("{bring}", how))
        for name, (tell, how, _) in TOLD.items()
    }
    cases |= {
        "arguments": Case(sizes(), IN_ARGUMENTS),
        "lists": Case(lists(), SPIDER.replace("{bring}", LISTS)),
        "relisted": Case(shuffled(), SPIDER.replace("{bring}", STARS)),
        "from": Case(redirected([1] * 30), SPIDER.replace("{bring}", FROM)),
        "redirected": Case(
            redirected([0] * 25 + [*range(1, 40)]),
            SPIDER.replace("{bring}", WIDTH),
        ),
        "narrow": Case(
            narrow(*[(True, 0)] * 20, *((False, n) for n in range(1, 41)), *[(True, 0)] * 20),
            SPIDER.replace("{bring}", WIDTH),
        ),
        "swapped": Case(lists(swapped=True), SPIDER.replace("{bring}", LISTS)),
    }
    return run_cases(tmp_path_factory.mktemp("hidden"), cases, setup=SETUP)


def items(crawl: Crawl) -> list[str]:
    return [json.dumps(e["item"], sort_keys=True) for e in crawl.of("item")]


def test_no_fault(crawls):
    """None of these crawls meets a fault of ours."""
    assert {name: crawl.faults for name, crawl in crawls.items() if crawl.faults} == {}


def test_promise_1_hexadecimal_values_are_data(crawls):
    """Made of a page's data: they are no random ids."""
    crawl = crawls["hash"]
    assert len(set(items(crawl))) == PAGES
    assert not crawl.dropped


def test_promise_1_the_class_of_an_item_is_a_datum(crawls):
    """Where a callback yields items of several classes that are equal in all else: one of each gets through."""
    assert set(items(crawls["classes"])) == {'["Sold"]', '["Offered"]'}
    assert crawls["classes"].stats["item_scraped_count"] > 1


@pytest.mark.parametrize("name", ["writer", "arguments"])
def test_promise_1_what_a_page_brings_may_be_kept(crawls, name):
    """In a file of the spider's own, in an item that many pages fill."""
    crawl = crawls[name]
    assert len(set(items(crawl))) == (PAGES if name in BRINGS else 20)
    assert not crawl.dropped


@pytest.mark.parametrize("name", TOLD)
def test_promise_1_a_form_a_word_and_a_random_id_are_data(crawls, name):
    """How often a value is in a list; one word of a long text, or of a page of seen links; an id that stands in no page."""
    assert len(set(items(crawls[name]))) == TOLD[name][2]


def test_promise_1_a_value_in_a_list_that_is_shuffled_at_each_visit_is_a_datum(crawls):
    """Although two visits of a page differ in that list."""
    found = ("".join(sorted(event["item"]["stars"])) for event in crawls["relisted"].of("item"))
    assert len({*found}) == 60


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


def test_promise_1_where_a_redirect_leads_is_a_datum(crawls):
    """Of two addresses that lead to pages of one text, both are wanted if the item names them."""
    assert len(set(items(crawls["from"]))) == 30


def test_promise_1_a_redirected_page_is_fetched_again_by_way_of_its_redirect(crawls):
    """Its callback finds what it found the first time: after a pattern is disproved."""
    crawl = crawls["redirected"]
    assert len(set(items(crawl))) == 40
    assert crawl.stat("items/again") > 0
    assert not [name for name in crawl.stats if name.startswith("spider_exceptions/")]


# ------------------------------------------------------------------------------------- times

CLOCK = """
import dedup.scrapy.evidence.items, time
class Clock:
    time = staticmethod(lambda: {NOW})
dedup.scrapy.evidence.items.time = Clock
"""


def test_promise_1_a_timetable_is_no_clock(tmp_path):
    """Departures of today, crawled two seconds after a quarter of an hour, as a scheduled crawl begins."""
    noon = 1_800_000_000 // 86400 * 86400 + 12 * 3600
    pages = {
        f"/page/{n}": article(1, text=f"{words(1)}</p><b data-at='{noon + 900 * n}'></b><p>")
        for n in range(4, 44)
    }
    item = "{'line': 'ferry', 'at': int(response.css('b::attr(data-at)').get())}"
    body = SPIDER.replace("{bring}", YIELDS.replace("{item}", item))
    case = Case({"/": hub(*pages)} | pages, body)
    crawl = run_case(tmp_path, case, setup=CLOCK.replace("{NOW}", str(noon + 2)))
    assert len(set(items(crawl))) == 40
    assert not crawl.dropped
    assert not crawl.faults


# ----------------------------------------------------------- patterns whose pages differ in less


def test_promise_1_a_class_with_fewer_differences_has_checks_of_its_own(crawls):
    """Pages that differ in more are copies, those that differ in less are not: what differs stands in no part."""
    crawl = crawls["narrow"]
    assert {int(event["item"]["width"]) for event in crawl.of("item")} == {*range(41)}
    assert crawl.stat("items/dropped") > 20
