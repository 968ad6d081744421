"""Two items that differ in a field that counts are never both withheld: any schema, and each page of a site first."""

import html
import json
import random

import pytest
from crawling import Case, Crawl, Page, article, hub, run_cases, words
from seeds import seed_of

BODY = """
def parse(self, response):
    import json
    self.note("parsed", response)
    data = response.css("main i::attr(data-item)").get()
    if data:
        item = json.loads(data)
        if item.pop("long", None):
            item["text"] = " ".join(response.css("main ::text").getall())
        if item.pop("kept", None):
            item["html"] = response.text
        self.note("item", item={k: v for k, v in item.items()}, path=response.url)
        yield {"url": response.url} | item
    yield from self.links(response)
"""
WRITES = {"ITEM_PIPELINES": {"spiders.Write": 1}, "CONCURRENT_REQUESTS": 1}
SETUP = """
class Write:
    @classmethod
    def from_crawler(cls, crawler):
        self = cls()
        self.crawler = crawler
        return self

    def process_item(self, item, spider=None):
        self.crawler.spider.note("passed", item={k: v for k, v in item.items() if k != "url"})
        return item
"""
FIELDS = ("sku", "price", "tags", "in_stock", "long", "kept", "more")
PAGES = 7


def value(chance: random.Random, field: str) -> object:
    """Return a value of a field; few ones, so that items are equal at times."""
    number = chance.randrange(3)
    return {
        "sku": f"s{number}",
        "tags": [f"t{number}", "t9"],
        "in_stock": number > 0,
        "long": True,
        "kept": True,
        "more": {"n": number},
    }.get(field, number)


def site(seed: int) -> dict[str, Page]:
    """Return pages of one text, of a word more, or of another one, whose items have fields of one schema, or one less."""
    chance = random.Random(seed)
    schema = chance.sample(FIELDS, chance.randrange(1, 5))
    pages = {}
    for n in range(PAGES):
        fields = schema if chance.random() < 0.7 else schema[:-1]
        item = {field: value(chance, field) for field in fields}
        said = html.escape(json.dumps(item), quote=True)
        extra = chance.choice(["", "", " vegan", " 12"])
        text = words(chance.choice([1, 1, 1, 2])) + extra
        body = article(1, text=f"{text}<i data-item='{said}'></i>").body
        pages[f"/p/{n}"] = Page(body.replace(b"&quot;", b"&#34;"))
    return pages


def turned(pages: dict[str, Page], first: int) -> dict[str, Page]:
    """Return a site whose start page asks for one of its pages first."""
    order = [*pages]
    return {"/": hub(*order[first:], *order[:first])} | pages


@pytest.fixture(scope="module")
def crawls(tmp_path_factory, tell):
    """Each site once for each page that may come first, and once without the add-on."""
    seed, cases = seed_of("ORDERS"), {}
    tell(f"sites of ORDERS_SEED={seed} to {seed + 2}")
    for number in range(seed, seed + 3):
        pages = site(number)
        for first in range(PAGES):
            cases[f"s{number}_{first}"] = Case(turned(pages, first), BODY, WRITES)
        cases[f"s{number}_without"] = Case(
            turned(pages, 0), BODY, WRITES | {"DEDUP_ENABLED": False}
        )
    return run_cases(tmp_path_factory.mktemp("orders"), cases, setup=SETUP, in_turn=True)


def passed(crawl: Crawl) -> set[str]:
    """Return the distinct items, without what holds the page, whose text decides about copies."""
    items = [event["item"] for event in crawl.of("passed")]
    return {json.dumps({k: v for k, v in e.items() if k != "html"}, sort_keys=True) for e in items}


def test_promise_1_items_that_differ_in_a_field_all_pass_whichever_page_comes_first(crawls):
    """Each distinct item of the crawl without the add-on, in every order."""
    for name, crawl in crawls.items():
        number, _, first = name.partition("_")
        if first != "without":
            assert passed(crawl) == passed(crawls[f"{number}_without"]), name
            assert not crawl.faults
