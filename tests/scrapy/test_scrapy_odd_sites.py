"""Kinds of sites and spiders on which something was lost, or that did not end. Real crawls, a kind each."""

import json

import pytest
from crawling import WRITES, Case, Page, run_cases, words

SETUP = """
import asyncio
from scrapy.utils.request import fingerprint
class ByLanguage:
    @classmethod
    def from_crawler(cls, crawler):
        return cls()
    def fingerprint(self, request):
        return fingerprint(request, include_headers=["Accept-Language"])
from scrapy.exceptions import DropItem
class OwnAddresses:
    def process_item(self, item, spider=None):
        if "?ref" in item["url"]:
            raise DropItem("a copy's address")
        return item
class Away:
    calls = 0
    def process_item(self, item, spider=None):
        self.calls += 1
        if self.calls <= 10:
            raise DropItem("the database is away")
        return item
"""


def page(number, *links, title="Page", heading="<h1>Page</h1>", more="", text=None, foot=""):
    """Return a page; equal numbers look alike, in whatever else they differ."""
    anchors = "".join(f'<p><a href="{link}">more</a></p>' for link in links)
    text = words(number) if text is None else text
    return Page(
        f"<!doctype html><html><head><title>{title}</title></head><body><main>{heading}"
        f"<p>{text}</p>{more}{anchors}</main><footer>{foot}</footer></body></html>".encode()
    )


def keeps(item, *more, first="yield from response.follow_all(css='main a', callback=self.save)"):
    """Return a spider whose start leads to pages of one item each, which it notes."""
    lines = [f"item = {item}", "self.note('item', item=item)", "yield item", *more]
    body = "\n    ".join(lines)
    return f"def parse(self, response):\n    {first}\ndef save(self, response):\n    {body}"


def start(*links):
    return page(0, *links, title="Start")


def menu():
    """The start has a link to each document, which its callback passes over."""
    found = {"/": start(*(f"/year/{n}" for n in range(12)), *(f"/doc/{n}" for n in range(96)))}
    for n in range(12):
        found[f"/year/{n}"] = page(1, *(f"/doc/{n * 8 + k}" for k in range(8)))
    for n in range(96):
        found[f"/doc/{n}"] = page(2, more=f"<b data-n='{n}'></b>")
    first = "yield from response.follow_all(css='a[href*=year]', callback=self.year)"
    year = "def year(self, response):\n    yield from response.follow_all(css='main a', callback=self.save)\n"
    return Case(found, year + keeps("{'n': response.css('b').attrib['data-n']}", first=first))


def tickets():
    """Each event has one link to its tickets, by `sid`: no session."""
    found = {"/": start(*(f"/event/{n}" for n in range(50)))}
    for n in range(50):
        found[f"/event/{n}"] = page(3, f"/tickets?sid={n}")
        found[f"/tickets?sid={n}"] = page(4, more=f"<b data-n='{n}'></b>")
    first = "yield from response.follow_all(css='main a', callback=self.event)"
    event = "def event(self, response):\n    yield from response.follow_all(css='main a', callback=self.save)\n"
    return Case(found, event + keeps("{'n': response.css('b').attrib['data-n']}", first=first))


def languages():
    """A header tells the requests of a page apart, as the project says."""
    found = {"/": start(*(f"/doc/{n}" for n in range(30)))}
    found |= {f"/doc/{n}": page(5, more=f"<b data-n='{n}'></b>") for n in range(30)}
    body = """
    def parse(self, response):
        yield from response.follow_all(css="main a", callback=self.doc)
    def doc(self, response):
        for language in ("de", "fr"):
            yield scrapy.Request(response.url, self.save, headers={"Accept-Language": language})
    def save(self, response):
        said = response.request.headers["Accept-Language"].decode()
        item = {"n": response.css("b").attrib["data-n"], "language": said}
        self.note("item", item=item)
        yield item
    """
    return Case(found, body, {"REQUEST_FINGERPRINTER_CLASS": "spiders.ByLanguage"})


def flats():
    """Pages without a heading are told apart by their titles."""
    found = {f"/flat/{n}": page(7, title=f"Flat {n}", heading="") for n in range(40)}
    return Case(
        {"/": start(*found)} | found, keeps("{'url': response.url, 'rent': 900, 'city': 'Ulm'}")
    )


def cars():
    """Pages of one heading are told apart by the numbers in their text."""
    found = {f"/car/{n}": page(8, more=f"<p>Driven {n * 1300} km</p>") for n in range(40)}
    return Case(
        {"/": start(*found)} | found, keeps("{'url': response.url, 'price': 9900, 'dealer': 'A'}")
    )


def kept_markup():
    """Pages kept as markup, to take data out of it later, differ in a picture, or in a data attribute."""
    found = {f"/strip/{n}": page(9, more=f"<img src='/img/{n}.png'>") for n in range(25)}
    found |= {f"/map/{n}": page(10, more=f"<p data-place='{n}'></p>") for n in range(25)}
    body = keeps("{'url': response.url, 'html': response.text}")
    return Case({"/": start(*found)} | found, body, {"DEDUP_PROOF": "exact"})


def topics(topic):
    """A list hands its topic over; a later one has articles of an earlier one, under other addresses."""
    found = {"/": start("/all", "/sport")}
    found |= {"/all": page(11, *(f"/all/{n}" for n in range(30)))}
    found |= {"/sport": page(12, *(f"/sport/{n}" for n in range(0, 30, 4)))}
    for n in range(30):
        found[f"/all/{n}"] = found[f"/sport/{n}"] = page(100 + n)
    body = """
    def parse(self, response):
        for place, topic in enumerate(("all", "sport")):
            yield response.follow("/" + topic, self.topic, priority=-place, cb_kwargs={"topic": topic})
    def topic(self, response, topic):
        first = 100 if topic == "all" else -100
        links, over = response.css("main a"), {"item": {"topic": topic}}
        yield from response.follow_all(links, self.save, priority=first, meta=over)
    def save(self, response):
        item = {"url": response.url, "topic": TOPIC, "text": " ".join(response.css("main p::text").getall())}
        self.note("item", item={"topic": item["topic"], "url": response.url})
        yield item
    """
    return Case(found, body.replace("TOPIC", topic))


def sellers():
    """Offers alike share their sellers' pages, each with an item handed over: Scrapy filters no request."""
    found = {"/": start(*(f"/offer/{n}" for n in range(40)))}
    for n in range(40):
        found[f"/offer/{n}"] = page(24, f"/seller/{n % 4}", more=f"<b data-n='{n}'></b>")
    found |= {f"/seller/{n}": page(500 + n) for n in range(4)}
    body = """
    def parse(self, response):
        yield from response.follow_all(css="main a", callback=self.offer)
    def offer(self, response):
        item = {"n": response.css("b").attrib["data-n"]}
        yield from response.follow_all(css="main a", callback=self.seller, cb_kwargs={"item": item})
    def seller(self, response, item):
        self.note("item", item=item)
        yield item
    """
    return Case(found, body, {"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"})


def by_month():
    """Pages are kept, and each has many links, but one to the next month: the spider counts."""
    menu = [f"/doc/{n}" for n in range(14)]
    found = {"/": start(*menu)} | {path: page(520 + n, *menu) for n, path in enumerate(menu)}
    for n in range(30):
        event = f"<p>{words(540 + n, 30)}</p>" if n % 10 == 9 else ""
        found[f"/month?n={n}"] = page(25, *menu, more=event)
    body = """
    def parse(self, response):
        item = {"url": response.url, "html": response.text}
        self.note("item", item={"html": response.text})
        yield item
        yield from response.follow_all(css="main a", callback=self.parse)
        number = int(response.url.partition("n=")[2] or -1) + 1
        if number < 30 and (number or response.url.endswith("/")):
            yield response.follow(f"/month?n={number}", self.parse)
    """
    return Case(found, body)


def motions():
    """Pages are kept; each visit counts, and versions differ in a word."""
    results = ("approved", "rejected", "postponed")
    found = {
        f"/{result}/{n}": [
            page(560 + n, more=f"<p>The motion was {result}.</p><p>{n * 9 + visit} visitors</p>")
            for visit in range(3)
        ]
        for n in range(12)
        for result in results
    }
    found |= {f"/print/{n}": found[f"/approved/{n}"] for n in range(12)}
    body = """
    def parse(self, response):
        yield from response.follow_all(css="main a", callback=self.save)
    def save(self, response):
        said = response.css("main p::text").getall()
        self.note("item", item={"said": said[:2]})
        yield {"url": response.url, "kept": response.text}
    """
    return Case({"/": start(*found)} | found, body)


def directory():
    """Pages of four levels are alike but for their links, and the crawl goes breadth first."""
    found = {}
    levels = [[""]]
    for _ in range(3):
        levels.append([f"{path}/{n}" for path in levels[-1] for n in range(6)])
    for path in (each for level in levels[:3] for each in level):
        found[path or "/"] = page(26, *(f"{path}/{n}" for n in range(6)))
    found |= {path: page(26, f"{path}/it") for path in levels[3]}
    found |= {f"{path}/it": page(600 + n, more="<b></b>") for n, path in enumerate(levels[3])}
    body = """
    def parse(self, response):
        for _ in response.css("b"):
            self.note("item", item={"name": response.css("main p::text").get()})
            yield {"name": response.css("main p::text").get()}
        yield from response.follow_all(css="main a", callback=self.parse)
    """
    queue = "scrapy.squeues.FifoMemoryQueue"
    return Case(found, body, {"DEPTH_PRIORITY": 1, "SCHEDULER_MEMORY_QUEUE": queue})


def last_level():
    """Pages are kept; each is met first where the crawl goes no deeper, then under another address, where it does."""
    pages = range(20)
    found = {"/": start("/old/0", *(f"/doc/{n}?from=start" for n in pages))}
    found |= {"/old/0": page(27, "/old/1"), "/old/1": page(28, *(f"/doc/{n}" for n in pages))}
    for n in pages:
        found[f"/doc/{n}"] = found[f"/doc/{n}?from=start"] = page(850 + n, f"/more/{n}")
    found |= {f"/more/{n}": page(880 + n) for n in pages}
    body = """
    def parse(self, response):
        self.note("item", item={"html": response.text})
        yield {"url": response.url, "html": response.text}
        yield from response.follow_all(reversed(response.css("main a")), self.parse)
    """
    return Case(found, body, {"DEPTH_LIMIT": 3, "CONCURRENT_REQUESTS": 1})


def insists():
    """The errback asks again for each page that failed, without end."""
    links = [f"/doc/{n}?s={s}" for s in range(3) for n in range(20)]
    body = """
    def parse(self, response):
        for place, link in enumerate(response.css("main a")):
            yield response.follow(link, self.save, errback=self.again, priority=-place)
    def save(self, response):
        self.note("item", item={"html": response.text})
        yield {"html": response.text}
    def again(self, failure):
        yield failure.request.replace(dont_filter=True)
    """
    found = {"/": start(*links)} | {link: page(910 + n % 20) for n, link in enumerate(links)}
    return Case(found, body, {"CLOSESPIDER_PAGECOUNT": MOST})


def reused():
    """A callback waits between items, and goes on with the one that it yielded."""
    found = {f"/doc/{n}": page(13, more=f"<b data-n='{n}'></b>") for n in range(30)}
    body = """
    def parse(self, response):
        yield from response.follow_all(css="main a", callback=self.save)
    async def save(self, response):
        item = {"n": response.css("b").attrib["data-n"]}
        for place in range(3):
            item["place"] = place
            yield item
            await asyncio.sleep(0.01)
    """
    return Case({"/": start(*found)} | found, body, WRITES)


def batches():
    """A callback gathers rows over its pages, one of them twice, and yields them by twos."""
    found = {"/": start(*(f"/meter/{n}" for n in range(60)))}
    found |= {f"/meter/{n}": page(17, more=f"<b data-n='{n}'></b>") for n in range(60)}
    body = """
    rows = []
    def parse(self, response):
        yield from response.follow_all(css="main a", callback=self.meter)
    def meter(self, response):
        self.rows.append(response.css("b").attrib["data-n"])
        if len(self.rows) == 2:
            rows, self.rows = self.rows, []
            yield {"rows": rows}
    """
    return Case(found, body, WRITES)


IN_TURN = """
noted = ("n",)
def parse(self, response):
    for place, link in enumerate(response.css("main a")):
        yield response.follow(link, self.save, priority=-place)
def save(self, response):
    found = response.css("b").attrib
    yield {{"url": response.url, "n": found["data-n"], {0}: found["data-" + {0}]}}
"""


def refused(pipeline, *, first):
    """A pipeline refuses items for what they do not say; first: the copies are read first."""
    places = [f"/doc/{n}" for n in range(30)]
    found = {at: page(200 + n, more=f"<b data-n='{n}'></b>") for n, at in enumerate(places)}
    copies = {at + "?ref=x": found[at] for at in places}
    both = copies | found if first else found | copies
    settings = {"ITEM_PIPELINES": {f"spiders.{pipeline}": 1, "crawling.Writes": 2}}
    return Case({"/": start(*both)} | both, IN_TURN.format("'n'"), settings)


def logged_out():
    """A page that is asked for again is a login; every second copy has a value of its own."""
    found = {}
    login = page(18, title="Login", more="<b data-n='0' data-seen=''></b>")
    for n in range(40):
        for at, value in ((f"/doc/{n}", n), (f"/doc/{n}?ref=x", n + 1000 * (n % 2))):
            more = f"<b data-n='{value}' data-seen='{len(found)}'></b>"
            found[at] = [page(300 + n, more=more), login]
    return Case({"/": start(*found)} | found, IN_TURN.format("'seen'"), WRITES)


ROWS = """
def parse(self, response):
    yield from response.follow_all(css="main a", callback=self.save)
def save(self, response):
    for row in response.css("b::text").getall():
        yield {"row": row, "url": response.url}
"""


def rooms():
    """Hotels, each with its heading; only a number says the day. One room changes."""
    found = {}
    for hotel in range(3):
        for day in range(1, 11):
            rows = "".join(
                f"<p><b>{words(400 + (day if k == 5 else -k), 3)}</b></p>" for k in range(6)
            )
            more, heading = f"<p>Rooms for {day} May</p>{rows}", f"<h1>Hotel {words(hotel, 1)}</h1>"
            found[f"/hotel/{hotel}?day={day}"] = page(19, more=more, heading=heading)
    return Case({"/": start(*found)} | found, ROWS, WRITES)


def files():
    """A callback writes its documents to files, and yields nothing."""
    found = {"/": start(*(f"/year/{n}" for n in range(20)))}
    for n in range(20):
        found[f"/year/{n}"] = page(29, *(f"/doc/{n * 8 + k}" for k in range(8)))
    found |= {f"/doc/{n}": Page(b"%%PDF-1.4 %d" % n, "application/pdf") for n in range(160)}
    body = """
    def parse(self, response):
        for link in response.css("main a"):
            yield response.follow(link, self.save if "/doc/" in link.attrib["href"] else self.parse)
    def save(self, response):
        self.note("item", item={"url": response.url})
    """
    return Case(found, body)


def chain():
    """One lot after the other from a list of the spider's own; all pages link to all; one in four was brought before."""
    links = [f"/doc/{n}" for n in range(60)]
    foot = "".join(f'<a href="{link}">lot</a> ' for link in links)
    found = {"/": start(*links)}
    for n, link in enumerate(links):
        found[link] = page(30, more=f'<b data-bid="{n if n % 4 else 0}"></b>', foot=foot)
    body = """
    todo = ()
    def parse(self, response):
        self.todo = response.css("main a::attr(href)").getall()
        yield response.follow(self.todo.pop(0), self.save)
    def save(self, response):
        item = {"bid": response.css("b::attr(data-bid)").get(), "town": "Ulm"}
        self.note("item", item=item)
        yield item
        if self.todo:
            yield response.follow(self.todo.pop(0), self.save)
    """
    return Case(found, body)


MOST = 400  # weeks, which stand for those without end
EACH_WEEK = """
def parse(self, response):
    for dish in response.css("b::text").getall():
        self.note("item", item={"dish": dish})
        yield {"dish": dish}
    yield from response.follow_all(css="main a")
"""


def few_words():
    """Weeks of a canteen, with too few words to be judged; the first ones have dishes."""
    found = {"/": page(0, "/week/0", text="Canteen")}
    for n in range(MOST):
        dish = f"<b>{words(300 + n, 2)}</b>" if n < 4 else "closed"
        found[f"/week/{n}"] = page(0, f"/week/{n + 1}", text=f"Week {n}", more=dish)
    return Case(found, EACH_WEEK)


def data_pages():
    """Sorted lists of a shop, with all data in a script, too."""
    data = f'<script type="application/json">{{"text": "{words(400, 400)}"}}</script>'
    found = {"/": start("/list?sort=0")}
    for n in range(MOST):
        dish = f"<b>{words(300 + n, 2)}</b>" if n < 4 else ""
        found[f"/list?sort={n}"] = page(16, f"/list?sort={n + 1}", more=dish + data)
    return Case(found, EACH_WEEK)


CASES = {
    "menu": (menu, 96),
    "tickets": (tickets, 50),
    "languages": (languages, 60),
    "flats": (flats, 40),
    "cars": (cars, 40),
    "kept_markup": (kept_markup, 50),
    "topics": (lambda: topics("response.meta['item']['topic']"), 38),
    "topics_of_urls": (lambda: topics("response.url.split('/')[3]"), 38),
    "sellers": (sellers, 40),
    "by_month": (by_month, 19),
    "directory": (directory, 216),
    "last_level": (last_level, 43),
    "insists": (insists, 20),
    "motions": (motions, 36),
    "reused": (reused, 90),
    "batches": (batches, 30),
    "copies_refused": (lambda: refused("OwnAddresses", first=True), 30),
    "some_refused": (lambda: refused("Away", first=False), 30),
    "logged_out": (logged_out, 60),
    "rooms": (rooms, 180),
    "few_words": (few_words, 4),
    "data_pages": (data_pages, 4),
    "files": (files, 160),
    "chain": (chain, 46),
}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd_sites")
    cases = {name: made() for name, (made, _) in CASES.items()}
    return run_cases(folder, cases, setup=SETUP)


@pytest.mark.parametrize("name", CASES)
def test_promise_1_nothing_is_lost(crawls, name):
    """Each item of the spider comes."""
    events = [e for e in crawls[name].events if e["event"] == "item"]
    assert len({json.dumps(e["item"], sort_keys=True) for e in events}) == CASES[name][1]
    assert name == "files" or crawls[name].stats["item_scraped_count"] >= CASES[name][1]


@pytest.mark.parametrize("name", ["few_words", "data_pages", "insists"])
def test_pages_that_bring_nothing_new_end(crawls, name):
    """With few words, or with more data than text: their requests cost the budget; asked for again: checked."""
    assert len(crawls[name].requested) < MOST / 2


FULL = """
import dedup.scrapy.page.output as output
output.HELD = 2
def fails(self, passing):
    raise RuntimeError("a fault of ours")
output.CheckedPage._released = fails
"""


def test_promise_1_a_fault_while_all_passes_neither_loses_nor_repeats_an_item(tmp_path):
    """The item that is one too many to hold is among what passes then, once."""
    pages = {f"/{path}": page(1) for path in ("a", "b", "c")}
    body = keeps("{'url': response.url, 'n': 0}", *(f"yield dict(item, n={n})" for n in (1, 2, 3)))
    cases = {"full": Case({"/": start(*pages), **pages}, body, WRITES)}
    crawl = run_cases(tmp_path, cases, setup=FULL)["full"]
    assert crawl.faults
    assert crawl.stats["item_scraped_count"] == 12
