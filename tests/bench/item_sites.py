"""What the spider's items decide, on generated sites whose copies and variants are known.

    sites -> a crawl each, with the add-on -> copies dropped, pages parsed as evidence, items lost

Every page is one of three: an original, a copy (its item is its original's), or a variant (its text is another
page's, its item is not). All crawls run as the defaults have it, but for the banner's control visits.

    copies       originals with a print copy, an AMP copy and a campaign's parameter each
    shop         products, each with a variant that has a SKU of its own, and a copy
    rare         copies of which 3 % have another price, in inline data
    late         variants that come after all copies
    print        documentation, a part of which has a print copy, whose banner has today's date and a counter;
    print, html  the same, by a spider that keeps the page

`--without RULE` crawls with one rule of the add-on switched off (WITHOUT): what it is for is what changes then.
Last come the calls of Python functions and files of the add-on that a page goes through: a unique one, a copy that is
dropped, and one that is compared.
"""

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import NamedTuple

from crawling import Answers, Case, Page, article, hub, run_case
from house_trace import page_traces
from runner import Bench, Progress, Round

from dedup.core.fingerprint import read_page
from dedup.core.numbers import HashSet
from dedup.model.errors import DedupError
from dedup.scrapy.evidence.digest import Digester, Names, Rules, encode
from dedup.scrapy.evidence.digest import Page as Read

SETUP = """
import json

class Note:
    @classmethod
    def from_crawler(cls, crawler):
        self = cls()
        self.crawler = crawler
        return self

    def process_item(self, item):
        self.crawler.spider.note("item", None, item=[item.get(n) for n in ("title", "sku", "price")])
        return item
"""
SPIDER = """
def parse(self, response):
    name = response.css("title::text").get()
    data = json.loads(response.css("script::text").get("null")) or {{}}
    sku = response.css("main [data-sku]::attr(data-sku)").get()
    if sku or data:
        yield {fields}
    yield from self.links(response)
"""
DATA = SPIDER.format(fields='{"title": name, "sku": sku, "url": response.url} | data')
TITLE = SPIDER.format(fields='{"title": name, "url": response.url}')
HTML = SPIDER.format(fields='{"title": name, "url": response.url, "html": response.text}')


# A rule's name, and what switches it off in the crawl's process.
WITHOUT = {
    "": "",
    "dropping": "Ledger.may_drop = lambda self, name: False",
    "looks": "Record.risk = property(lambda self: 1e-9)",
    "parts": "judge.letters = lambda *pages, **options: ''",
    "new links": "Met.is_new = lambda self, links: False",
    "text decides": "Keeping.keeps = lambda self, callback: False",
    "visits": "Visits.wants = lambda self, callback: False",
    "known items": "Met.has_item = lambda self, callback, item: False",
    "known requests": "Requests.has = lambda self, url: False",
    "budget": "Ledger.afford = lambda self, account: 1",
    "coming back": "Ledger.new = lambda self, *given, real=Ledger.new: real(self, *given) and []",
    "own address": "digest.Digester._own_addresses = lambda self: []",
    "own requests": "Keeping.note_request = lambda self, callback, linked: None",
}
PATCHED = """
from dedup.scrapy.evidence import digest
from dedup.scrapy.evidence.keeping import Keeping
from dedup.scrapy.evidence.ledger import Ledger, Record
from dedup.scrapy.evidence.met import Met, Requests
from dedup.scrapy.evidence.visits import Visits
from dedup.scrapy.page import judge
"""


class SiteOf(NamedTuple):
    """A generated site: its pages, how many are copies, and the spider that crawls it."""

    pages: dict[str, Answers]
    copies: int
    spider: str


@contextmanager
def open_case(pages: int, without: str = "", progress: Progress | None = None) -> Iterator[Bench]:
    """Crawl each site once a round; the greatest has this number of pages."""
    patch = PATCHED + WITHOUT[without] if without else ""
    sites: dict[str, Callable[[], SiteOf]] = {
        "copies": lambda: copies(pages // 4),
        "shop": lambda: shop(pages * 120 // 2000),
        "rare": lambda: rare(pages * 800 // 2000),
        "late": lambda: late(pages * 400 // 2000),
        "print": lambda: printed(pages * 23 // 20, pages * 3 // 20, TITLE),
        "print, html": lambda: printed(pages * 23 // 20, pages * 3 // 20, HTML),
    }

    def measure() -> Round:
        rows: Round = {}
        for done, (name, make) in enumerate(sites.items()):
            rows = {**rows, name: _crawled(make(), patch)}
            if progress:
                progress(done + 1, len(sites))
        traces = {f"a page, {n}": t._asdict() for n, t in page_traces().items()}
        return {**rows, **_sizes(), **({} if without else traces)}

    yield Bench({"without": without} if without else {}, measure, packages=("scrapy",))


def _crawled(site: SiteOf, patch: str) -> dict[str, float]:
    settings = {
        "CONCURRENT_REQUESTS": 16,
        "LOG_LEVEL": "WARNING",
        "ITEM_PIPELINES": {"spiders.Note": 1},
    }
    with tempfile.TemporaryDirectory(prefix="dedup-bench-") as folder:
        crawl = run_case(Path(folder), Case(site.pages, site.spider, settings), setup=patch + SETUP)
    if crawl.faults:
        raise DedupError(f"the add-on met faults ({', '.join(crawl.faults)})")
    got = {tuple(e["item"]) for e in crawl.of("item")}
    return {
        "pages": len(site.pages) - 1,
        "copies": site.copies,
        "dropped": crawl.stat("items/dropped") - crawl.stat("items/again"),
        "% of copies": 100 * crawl.stat("items/dropped") / max(site.copies, 1),
        "compared": crawl.stat("compared"),
        "copies left": max(0, len(crawl.of("item")) - len(got)),
        "fetched again": crawl.stat("items/again") + crawl.stat("items/control"),
        "items lost": len(_wanted(site) - got),
    }


# ------------------------------------------------------------------------------------ the sites


def product(number: int, sku: str = "", price: int | None = None, frame: str = "") -> Page:
    """Return a page whose data are not in its text."""
    data = f"<span data-sku='{sku}'></span>" if sku else ""
    if price is not None:
        data += f'<script type="application/ld+json">{{"price": {price}}}</script>'
    body = article(number, frame=frame).body
    return Page(body.replace(b"</main>", data.encode() + b"</main>"))


def copies(count: int) -> SiteOf:
    """Each original in three further ways."""
    pages: dict[str, Answers] = {}
    for n in range(count):
        pages[f"/r/{n}"] = product(n, f"{n}")
        pages[f"/r/{n}/print"] = product(n, f"{n}", frame="print")
        pages[f"/amp/r/{n}"] = product(n, f"{n}", frame="amp")
        pages[f"/r/{n}?utm_source=mail"] = product(n, f"{n}", frame="mail")
    return _site(pages, 3 * count, DATA)


def shop(count: int) -> SiteOf:
    """Products, each with a variant and a copy."""
    pages: dict[str, Answers] = {}
    for n in range(count):
        pages[f"/p/{n}"] = product(n, f"{n}")
        pages[f"/p/{n}?variant=2"] = product(n, f"{n}-2")
        pages[f"/p/{n}?utm_source=mail"] = product(n, f"{n}", frame="mail")
    return _site(pages, count, DATA)


def rare(count: int) -> SiteOf:
    """Twenty copies of each product, 3 in 100 of them with another price."""
    pages: dict[str, Answers] = {f"/p/{n}": product(n, price=n) for n in range(count // 20)}
    variants = 0
    for number in range(count - len(pages)):
        n, other = number % (count // 20), number % 100 in (17, 53, 89)
        variants += other
        price = 100_000 + number if other else n
        pages[f"/p/{n}?ref=r{number}"] = product(n, price=price)
    return _site(pages, count - count // 20 - variants, DATA)


def late(count: int) -> SiteOf:
    """Originals and copies, and at the end variants whose address looks like a copy's."""
    pages: dict[str, Answers] = {}
    for n in range(count):
        pages[f"/p/{n}"] = product(n, price=n)
        if n < count * 5 // 6:
            pages[f"/p/{n}?ref=x"] = product(n, price=n, frame="copy")
    for n in range(count * 5 // 6, count):
        pages[f"/p/{n}?ref=x"] = product(n, price=100_000 + n)
    return SiteOf({"/": hub(*pages)} | pages, count * 5 // 6, DATA)


def printed(count: int, copied: int, spider: str) -> SiteOf:
    """Documentation with print copies; each visit of one has another number."""
    pages: dict[str, Answers] = {f"/d/{n}": product(n, f"{n}") for n in range(count)}
    for n in range(copied):
        visits = []
        for visit in range(3):
            counter = 12_000 + 3 * n + visit
            banner = f"<main><p>Printed on {date.today()}, visitor {counter}</p>"
            visits.append(Page(product(n, f"{n}").body.replace(b"<main>", banner.encode())))
        pages[f"/print/d/{n}"] = visits
    return _site(pages, copied, spider)


def _site(pages: dict[str, Answers], planted: int, spider: str) -> SiteOf:
    paths = list(pages)
    random.Random(27).shuffle(paths)
    return SiteOf({"/": hub(*paths)} | pages, planted, spider)


def _wanted(site: SiteOf) -> set[tuple[str, str | None, int | None]]:
    """Return what the spider yields without the add-on: title, sku and price of each page."""
    found = set()
    for path, answers in site.pages.items():
        body = (answers if isinstance(answers, Page) else next(iter(answers))).body.decode()
        title = body.partition("<title>")[2].partition("<")[0]
        sku = body.partition("data-sku='")[2].partition("'")[0] or None
        price = body.partition('"price": ')[2].partition("}")[0]
        if path != "/" and site.spider is DATA:
            found.add((title, sku, int(price) if price else None))
        elif path != "/":
            found.add((title, None, None))
    return found


# --------------------------------------------------------------------------------------- sizes


def _sizes() -> Round:
    """Return the bytes of digests, as they are kept with documents, and of what a crawl holds in memory."""
    text = " ".join(f"word{n}" for n in range(300))
    items: dict[str, dict[str, object]] = {
        "digest, 3 fields": {"url": "http://a.example/1", "title": "A title", "sku": "1"},
        "digest, 12 fields": {f"field{n}": f"value {n}" for n in range(12)},
        "digest, 5 fields and a long text": {f"f{n}": n for n in range(5)} | {"text": text},
        "digest, 3 fields and the page": {"title": "A", "sku": "1", "html": f"<p>{text}</p>" * 4},
    }
    rows: dict[str, dict[str, float]] = {}
    for name, item in items.items():
        html = f"<p>{text}</p>"
        reading = read_page(html, links=True)
        page = Read(
            urls=("http://a.example/1",),
            text=lambda body=html: body,
            size=2500,
            reading=lambda found=reading: found,
        )
        digester = Digester(page, Rules(Names()))
        digester.add(item)
        digest = digester.digest()
        assert digest is not None
        rows[name] = {"bytes": len(encode(digest))}
    held, million = HashSet(2_000_000), 1_000_000
    for n in range(million):
        held.add((n * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little"))
    rows["memory, an item or a request"] = {"bytes": held.memory_bytes / million}
    return rows
