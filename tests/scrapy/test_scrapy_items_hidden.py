"""What a page brings may be hard to see: it is kept for later, or stands where no text shows it. Real crawls of pages of one text."""

import hashlib
import json
from collections.abc import Callable

import pytest
from crawling import Case, Crawl, Page, article, hub, run_cases, words
from sizes import sized

pytestmark = pytest.mark.sized

PAGES = sized(quick=40, full=60)
LONG = 50  # rows of a list, more than are compared one by one

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

WRITER = "self.note('item', item={'value': value})"
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


TEXT = YIELDS.replace("{item}", "{'text': ' '.join(response.css('main p ::text').getall())}")
FOLLOWS = """
    self.note("item", item={"kept": response.css("main p::text").get()})
    yield from self.links(response)
"""
TOLD = {
    "text": (name_of, TEXT, PAGES),
    "follows": (name_of, FOLLOWS, PAGES),
}


def lists() -> dict[str, Page]:
    """Long lists, each under two addresses."""
    pages = {}
    for n in range(1, 26):
        for address in (f"/page/{n}", f"/copy/{n}"):
            rows = "".join(f"<i data-row='{n}-{k}' data-price='{k}'></i>" for k in range(LONG))
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
    cases = {
        name: Case(told(tell), SPIDER.replace("{bring}", how))
        for name, (tell, how, _) in TOLD.items()
    }
    cases |= {
        "writer": Case(things(), SPIDER.replace("{bring}", WRITER)),
        "arguments": Case(sizes(), IN_ARGUMENTS),
        "lists": Case(lists(), SPIDER.replace("{bring}", LISTS)),
        "from": Case(redirected([1] * 30), SPIDER.replace("{bring}", FROM)),
        "redirected": Case(
            redirected([0] * 25 + [*range(1, 40)]),
            SPIDER.replace("{bring}", WIDTH),
        ),
        "narrow": Case(
            narrow(*[(True, 0)] * 20, *((False, n) for n in range(1, 41)), *[(True, 0)] * 20),
            SPIDER.replace("{bring}", WIDTH),
        ),
    }
    return run_cases(tmp_path_factory.mktemp("hidden"), cases)


def items(crawl: Crawl) -> list[str]:
    return [json.dumps(e["item"], sort_keys=True) for e in crawl.of("item")]


def test_no_fault(crawls):
    """None of these crawls meets a fault of ours."""
    assert {name: crawl.faults for name, crawl in crawls.items() if crawl.faults} == {}


@pytest.mark.parametrize("name", ["writer", "arguments"])
def test_promise_1_what_a_page_brings_may_be_kept(crawls, name):
    """In a file of the spider's own, in an item that many pages fill."""
    crawl = crawls[name]
    assert len(set(items(crawl))) == (PAGES if name == "writer" else 20)
    assert not crawl.dropped


@pytest.mark.parametrize("name", TOLD)
def test_promise_1_a_word_is_a_datum(crawls, name):
    """One of a long text, or of a page of seen links."""
    assert len(set(items(crawls[name]))) == TOLD[name][2]


def test_copies_of_long_lists_are_dropped(crawls):
    """Their items are compared all together."""
    crawl = crawls["lists"]
    assert len(set(items(crawl))) == 25 * LONG
    assert len(crawl.dropped) >= 18


def test_promise_1_where_a_redirect_leads_is_a_datum(crawls):
    """Of two addresses that lead to pages of one text, both are wanted if the item names them."""
    assert len(set(items(crawls["from"]))) == 30


def test_promise_1_a_redirected_page_is_fetched_again_by_way_of_its_redirect(crawls):
    """Its callback finds what it found the first time: after a pattern is disproved."""
    crawl = crawls["redirected"]
    assert len(set(items(crawl))) == 40
    assert crawl.stat("items/again") > 0
    assert not [name for name in crawl.stats if name.startswith("spider_exceptions/")]


# ----------------------------------------------------------- patterns whose pages differ in less


def test_promise_1_a_class_with_fewer_differences_has_checks_of_its_own(crawls):
    """Pages that differ in more are copies, those that differ in less are not: what differs stands in no part."""
    crawl = crawls["narrow"]
    assert {int(event["item"]["width"]) for event in crawl.of("item")} == {*range(41)}
    assert crawl.stat("items/dropped") > 20
