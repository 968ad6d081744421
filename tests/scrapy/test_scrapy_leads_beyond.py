"""Pages of one text whose callbacks ask for what they do not link to: data interfaces, frames, forms. Real crawls."""

import json

import pytest
from crawling import Case, Crawl, Page, article, hub, run_case, run_cases

FOLLOWS = """
def parse(self, response):
    self.note("parsed", response)
    if "/page/" not in response.url:
        yield from self.links(response)
        return
    {first}
    yield response.follow({where}, self.parse_data)

def parse_data(self, response):
    data = json.loads(response.text)
    self.note("item", item=data)
    yield data
"""
BY_URL = '"/data/" + response.url.split("/")[-1].split("?")[0]'
BY_DATA = 'response.css("[data-to]").attrib["data-to"]'
SAYS_NOTHING = 'yield {"url": response.url}'
SAYS_THE_SAME = 'yield {"brand": response.css("title::text").get()}'
PAGES = 60
# Scrapy 2.13 downloads ahead of its callbacks; copies that are judged before these have run are kept.
UNHURRIED = {"DOWNLOAD_DELAY": 0.02}


def spider(first: str = "pass", where: str = BY_URL) -> str:
    return FOLLOWS.replace("{first}", first).replace("{where}", where)


def data(number: int) -> Page:
    return Page(json.dumps({"number": number}).encode(), content_type="application/json")


def shells() -> dict[str, Page]:
    """One page for all addresses, as single-page applications answer; the data at an address of their own."""
    pages = {f"/page/{n}": article(1) for n in range(PAGES)}
    return {"/": hub(*pages)} | pages | {f"/data/{n}": data(n) for n in range(PAGES)}


def frames() -> dict[str, Page]:
    """Pages that differ in the address of what they show."""
    pages = {
        f"/page/{n}": article(1, text=f"{article(2).body.decode()}<b data-to='/data/{n}'></b>")
        for n in range(PAGES)
    }
    return {"/": hub(*pages)} | pages | {f"/data/{n}": data(n) for n in range(PAGES)}


def late() -> dict[str, Page]:
    """Most of the pages lead to what is known; the last ones do not."""

    def to(n: int) -> int:
        return n if n >= PAGES else 0

    pages = {
        f"/page/{n}": article(
            1, text=f"{article(2).body.decode()}<b data-n='{n}' data-to='/data/{to(n)}'></b>"
        )
        for n in range(PAGES + 40)
    }
    return {"/": hub(*pages)} | pages | {f"/data/{to(n)}": data(to(n)) for n in range(len(pages))}


def copies() -> dict[str, Page]:
    """Pages that ask for data, each under a second address."""
    pages = {f"/page/{n}{q}": article(n) for q in ("", "?ref=mail") for n in range(1, PAGES + 1)}
    return {"/": hub(*pages)} | pages | {f"/data/{n}": data(n) for n in range(1, PAGES + 1)}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    cases = {
        "shells": Case(shells(), spider()),
        "silent": Case(shells(), spider(SAYS_NOTHING)),
        "same": Case(shells(), spider(SAYS_THE_SAME)),
        "frames": Case(frames(), spider(where=BY_DATA)),
        "late": Case(late(), spider(where=BY_DATA)),
        "copies": Case(copies(), spider(), UNHURRIED),
        "copies_same": Case(copies(), spider(SAYS_THE_SAME), UNHURRIED),
    }
    return run_cases(tmp_path_factory.mktemp("beyond"), cases, setup="import json\n")


def numbers(crawl: Crawl) -> set[int]:
    return {each["item"]["number"] for each in crawl.of("item")}


def test_no_fault(crawls):
    """None of these crawls meets a fault of ours."""
    assert {name: crawl.faults for name, crawl in crawls.items() if crawl.faults} == {}


@pytest.mark.parametrize("name", ["shells", "silent", "same", "frames"])
def test_promise_1_pages_that_ask_for_data_of_their_own_are_kept(crawls, name):
    """Whether they bring no item, one that says nothing, or the same one each: their requests tell them apart."""
    assert numbers(crawls[name]) == set(range(PAGES))


def test_promise_1_a_class_falls_when_a_page_of_it_leads_to_something_new(crawls):
    """What was dropped of it is fetched again."""
    crawl = crawls["late"]
    assert numbers(crawl) == {0, *range(PAGES, PAGES + 40)}
    assert crawl.stat("items/dropped") > 0
    assert crawl.stat("items/again") > 0


@pytest.mark.parametrize("name", ["copies", "copies_same"])
def test_copies_that_ask_for_known_data_are_dropped(crawls, name):
    """Their requests were made before: they bring nothing."""
    assert numbers(crawls[name]) == set(range(1, PAGES + 1))
    assert len(crawls[name].dropped) >= 0.6 * PAGES


SLOW = 300  # pages, more than a class can send again
OPEN = 20  # pages that are parsed when the class of their copies is proven
HELD = """
def parse(self, response):
    self.note("parsed", response)
    if "/page/" not in response.url:
        yield from self.links(response)
        return
    yield response.follow(response.css("[data-to]").attrib["data-to"], self.parse_data, priority=-10**6)

def parse_data(self, response):
    data = json.loads(response.text)
    self.note("item", item=data)
    yield data
"""
LINGERS = """
open = ended = 0

async def parse(self, response):
    self.note("parsed", response)
    if "/page/" not in response.url:
        for request in self.links(response):
            yield request
        return
    shown = int(response.css("[data-to]").attrib["data-to"].split("/")[-1])
    if shown:
        self.ended = {OPEN}  # all of them may end
    if 0 < int(response.url.split("/")[-1]) <= {OPEN}:
        self.open += 1
        mine = self.open
        while self.open < {OPEN} or mine > max(3, self.ended):  # three, and one more for each page dropped
            await asyncio.sleep(0.001)
    yield {"brand": "one", "number": shown}

def dropped(self, **kwargs):
    self.ended += 1
    super().dropped(**kwargs)
""".replace("{OPEN}", str(OPEN))


def led(*to: int) -> dict[str, Page]:
    """Pages of one text, each with the number of what it leads to, or shows."""
    pages = {
        f"/page/{n}": article(
            1, text=f"{article(2).body.decode()}<b data-n='{n}' data-to='/data/{d}'></b>"
        )
        for n, d in enumerate(to)
    }
    return {"/": hub(*pages)} | pages | {f"/data/{d}": data(d) for d in to}


@pytest.mark.parametrize("known", [30, 1], ids=["a class", "credit"])
def test_promise_1_what_is_dropped_can_be_sent_again_however_late_it_proves_otherwise(
    tmp_path, known
):
    """By a class before its check is known, and for want of credit: what the pages lead to comes last of all."""
    numbered = (*[0] * known, *range(1, SLOW + 1))
    setup = "import json\nfrom dedup.scrapy import credit\ncredit.OWN_COST = 2\n"
    crawl = run_case(tmp_path, Case(led(*numbered), HELD), setup=setup)
    assert numbers(crawl) == {*numbered}
    assert crawl.stat("credit/again") > 0
    assert bool(crawl.stat("items/again")) == (known > 1)
    assert not crawl.faults


def test_promise_1_pages_judged_before_the_proof_put_off_no_check(tmp_path):
    """However late their callbacks end; the last pages of the class are others."""
    numbered = (*[0] * (OPEN + 4), *range(1, OPEN + 1))
    case = Case(
        led(*numbered), LINGERS, {"DEDUP_WAIT_SECONDS": 0, "ITEM_PIPELINES": {"spiders.Note": 1}}
    )
    note = """
class Note:
    @classmethod
    def from_crawler(cls, crawler):
        self = cls()
        self.crawler = crawler
        return self
    def process_item(self, item, spider=None):
        self.crawler.spider.note("item", item=item)
        return item
"""
    crawl = run_case(tmp_path, case, setup="import asyncio, json\n" + note)
    assert {e["item"]["number"] for e in crawl.of("item")} == {*numbered}
    assert not crawl.faults


def test_promise_1_a_page_with_requests_of_its_own_is_another_original(tmp_path):
    """What copies of one page show says nothing of pages that are like another one, in URLs of the same shape."""
    known, own = 60, 12
    text = article(2).body.decode()
    where = [(f"/page/0/{n}", 0) for n in range(known)] + [
        (f"/page/1/{1000 + n}", n) for n in range(1, own + 1)
    ]
    pages = {
        path: article(1, text=f"{text}<b data-n='{path}' data-to='/data/{d}'></b>")
        for path, d in where
    }
    site = {"/": hub(*pages)} | pages | {f"/data/{n}": data(n) for n in range(own + 1)}
    crawl = run_case(tmp_path, Case(site, spider(where=BY_DATA)), setup="import json\n")
    assert numbers(crawl) == {*range(own + 1)}
    assert crawl.stat("items/dropped") > 40
    assert not crawl.faults
