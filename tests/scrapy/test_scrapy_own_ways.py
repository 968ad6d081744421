"""Spiders that keep what they find by ways of their own, on pages that look alike. Real crawls; nothing may be lost."""

import json

import pytest
from crawling import Case, Page, article, hub, run_cases, words

TOWNS, EACH = 20, 8
FOLLOW = """
def parse(self, response):
    self.note("parsed", response)
    for link in response.css("main a::attr(href)").getall():
        callback = self.save if "/doc/" in link else self.parse
        yield response.follow(link, callback)
"""
SAVES = "def save(self, response):\n    self.note('item', item={'id': response.url.split('/doc/')[1]})\n"
YIELDS = (
    "def save(self, response):\n    item = %s\n    self.note('item', item=item)\n    yield item\n"
)


def page(number, *links, head="", heading="", more="", foot=""):
    """A page; equal numbers look alike, in whatever else they differ."""
    anchors = "".join(f'<p><a href="{link}">more</a></p>' for link in links)
    text = (
        f"<!doctype html><html><head><title>Papers</title>{head}</head><body><main><h1>{heading}</h1>"
        f"<p>{words(number)}</p>{more}{anchors}</main><footer>{foot}</footer></body></html>"
    )
    return Page(text.encode())


def hubs(address):
    """Pages that look alike, of links to documents, and a start."""
    found = {"/": hub(*(f"/year/{n}" for n in range(TOWNS)))}
    for n in range(TOWNS):
        found[f"/year/{n}"] = page(1, *(address(n * EACH + k) for k in range(EACH)))
    return found


def files():
    """Documents that a callback writes to files: it yields nothing."""
    pdf = {f"/doc/{n}": Page(b"%%PDF-1.4 %d" % n, "application/pdf") for n in range(TOWNS * EACH)}
    return Case(hubs(lambda n: f"/doc/{n}") | pdf, FOLLOW + SAVES)


def stations():
    """`sid` is a station here, not a session."""
    found = hubs(lambda n: f"/doc/?sid={n}")
    for n in range(TOWNS * EACH):
        found[f"/doc/?sid={n}"] = page(2, more=f"<p>{n * 7} {words(100 + n, 3)}</p>")
    return Case(found, FOLLOW + YIELDS % "{'id': response.url.split('sid=')[1]}")


def chain():
    """One lot after the other from a list of the spider's own; all pages link to all; one in four was brought before."""
    links = [f"/doc/{n}" for n in range(60)]
    foot = "".join(f'<a href="{link}">lot</a> ' for link in links)
    lots = {
        link: page(3, more=f'<b data-bid="{n if n % 4 else 0}"></b>', foot=foot)
        for n, link in enumerate(links)
    }
    body = """
    todo = ()
    def parse(self, response):
        self.note("parsed", response)
        self.todo = response.css("main a::attr(href)").getall()
        yield response.follow(self.todo.pop(0), self.save)
    def save(self, response):
        item = {"bid": response.css("b::attr(data-bid)").get(), "town": "Ulm"}
        self.note("item", item=item)
        yield item
        if self.todo:
            yield response.follow(self.todo.pop(0), self.save)
    """
    return Case({"/": article(0, *links, text="Start")} | lots, body)


def addresses():
    """Items of address and price: flats of one house, told by their headings."""
    found = {f"/doc/{n}": page(4, heading=f"Flat {n}", more="<b>900</b>") for n in range(60)}
    item = "{'url': response.url, 'rent': response.css('b::text').get()}"
    return Case({"/": hub(*found)} | found, FOLLOW + YIELDS % item)


def prices():
    """A corpus builder's pages, which differ in their structured data alone."""
    found = {}
    for n in range(40):
        data = json.dumps({"@type": "Offer", "price": 2 * n + 1})
        found[f"/doc/{n}"] = page(5, head=f'<script type="application/ld+json">{data}</script>')
    return Case(
        {"/": hub(*found)} | found, FOLLOW + YIELDS % "{'url': response.url, 'html': response.text}"
    )


def draws():
    """Each visit brings another number and name: these are all that tells the items apart."""
    found = {
        f"/doc/{n}": [
            page(6, more=f"<b>{n * 100 + k}</b> <i>{words(n * 100 + k, 2)}</i>") for k in range(2)
        ]
        for n in range(40)
    }
    item = "{'number': response.css('b::text').get(), 'who': response.css('i::text').get(), 'from': 'draw'}"
    return Case({"/": hub(*found)} | found, FOLLOW + YIELDS % item)


CASES = {
    "files": (files, TOWNS * EACH),
    "stations": (stations, TOWNS * EACH),
    "chain": (chain, 46),
    "addresses": (addresses, 60),
    "prices": (prices, 40),
    "draws": (draws, 40),
}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own_ways")
    return run_cases(folder, {name: made() for name, (made, _) in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_lost(crawls, name):
    """What the callbacks of all pages keep or yield comes out, whatever else the pages share."""
    seen = {
        json.dumps(e["item"], sort_keys=True) for e in crawls[name].events if e["event"] == "item"
    }
    assert len(seen) >= CASES[name][1]
    passed = crawls[name].stats.get("item_scraped_count", 0)
    assert name == "files" or passed >= CASES[name][1]
