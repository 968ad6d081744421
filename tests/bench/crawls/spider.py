"""One crawl in a process of its own: spider.py JOB, a JSON file; result.json lies beside it then.

    job: starts, proxy, spider (html, text, meta, graph), config, packages, real (module and folder of a public spider)
    result: asked, parsed, items (url, and what else the item has but for the page), stats, summary, listed,
            cpu_seconds, peak_mb

Configurations: none; drop; text (DEDUP_PROOF = "text"); and pipelines instead of the add-on: hash (of the normalised
text), minhash (J >= .9 of main content), url (an item equal to an earlier one but for its url is dropped).

The Python that runs it is that of the add-on to be measured. It may lack what only the spiders here need: `packages` is
where that is found, too. Of this project nothing is imported but what ADDONS names.
"""

import hashlib
import importlib
import json
import logging
import os
import re
import resource
import sys
from pathlib import Path
from urllib.parse import urlsplit

job_file = Path(sys.argv[1])
job = json.loads(job_file.read_text())
os.environ["http_proxy"] = job["proxy"]
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ""
sys.path += job["packages"]

import scrapy
from scrapy import signals
from scrapy.crawler import CrawlerProcess
from scrapy.exceptions import DropItem
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from w3lib.url import canonicalize_url

LISTS = ("urls", "requests", "waiting")  # in a line of DEDUP_DROPPED
asked, parsed, summary = [], [], []


class Html(CrawlSpider):
    """A corpus builder that keeps the page."""

    name = "html"
    start_urls = job["starts"]
    allowed_domains = sorted({urlsplit(url).hostname.removeprefix("www.") for url in start_urls})
    rules = (Rule(LinkExtractor(), callback="parse_item", follow=True),)

    def parse_start_url(self, response):
        return self.parse_item(response)

    def parse_item(self, response):
        parsed.append(response.url)
        yield {"url": response.url} | self.fields(response)

    def fields(self, response):
        return {"html": response.text}


class Text(Html):
    """A corpus builder that keeps the main content."""

    name = "text"

    def fields(self, response):
        return {"title": response.css("title::text").get(), "text": main_content(response.text)}


class Meta(scrapy.Spider):
    """A spider for metadata."""

    name = "meta"
    start_urls, allowed_domains = Html.start_urls, Html.allowed_domains

    def parse(self, response):
        parsed.append(response.url)
        links = [link.url for link in LinkExtractor().extract_links(response)]
        yield {"url": response.url} | self.fields(response, links)
        for url in links:
            yield scrapy.Request(url, self.parse)

    def fields(self, response, links):
        paragraphs = (" ".join(p.css("::text").getall()).split() for p in response.css("p"))
        date = "time::attr(datetime), meta[property='article:published_time']::attr(content)"
        return {
            "title": response.css("title::text").get(),
            "h1": " ".join(response.css("h1 ::text").getall()).strip(),
            "first": next((" ".join(words) for words in paragraphs if len(words) > 8), None),
            "date": response.css(date).get(),
        }


class Graph(Meta):
    """A spider for the link graph."""

    name = "graph"

    def fields(self, response, links):
        return {"out_links": links}


def real(module, folder):
    """Return a public spider that begins at the hub, under a host that it allows."""
    sys.path.append(folder)
    found = vars(importlib.import_module(module)).values()
    classes = (each for each in found if isinstance(each, type) and each.__module__ == module)

    class Real(next(each for each in classes if issubclass(each, scrapy.Spider))):
        custom_settings = {}

        async def start(self):
            allowed = getattr(self, "allowed_domains", None) or ["real.example"]
            yield scrapy.Request(f"http://{allowed[0]}/", self.hub)

        def hub(self, response):
            for path in response.css("a::attr(href)").getall():
                yield response.follow(path, self.parse)

        def parse(self, response):
            parsed.append(response.url)
            yield from super().parse(response) or ()

    return Real


def main_content(html):
    from resiliparse.extract.html2text import extract_plain_text

    return extract_plain_text(html, main_content=True)


# ------------------------------------------------------------------ pipelines beside the add-on


class ButForUrl:
    """Drops an item that is equal to an earlier one but for its url."""

    def __init__(self):
        self.seen = set()

    def process_item(self, item):
        if (key := self.key(item)) in self.seen:
            raise DropItem
        self.seen.add(key)
        return item

    def key(self, item):
        rest = {name: value for name, value in dict(item).items() if name not in ("url", "source")}
        return json.dumps(rest, sort_keys=True, default=str)


class Hash(ButForUrl):
    """Drops an item whose normalised text an earlier one had."""

    def key(self, item):
        text = item.get("text")
        if text is None:
            import lxml.html

            parser = lxml.html.HTMLParser(encoding="utf8", huge_tree=True)
            tree = lxml.html.document_fromstring(item["html"].encode("utf8", "replace"), parser)
            text = " ".join(tree.xpath("//body//text()[not(parent::script or parent::style)]"))
        text = " ".join(text.lower().split()) or item["url"]
        return hashlib.sha1(text.encode("utf8", "replace")).digest()


class MinHashes:
    """Drops an item whose main content is like an earlier one's."""

    def __init__(self):
        from datasketch import MinHashLSH

        self.index = MinHashLSH(threshold=0.9, num_perm=128)

    def process_item(self, item):
        from datasketch import MinHash

        text = item["text"] if "text" in item else main_content(item["html"])
        words = re.findall(r"\w+", text.lower())
        shingles = {" ".join(words[n : n + 3]).encode() for n in range(len(words) - 2)}
        if len(words) >= 20:
            signature = MinHash(128)
            signature.update_batch(list(shingles))
            if self.index.query(signature):
                raise DropItem
            self.index.insert(item["url"], signature, check_duplication=False)
        return item


PIPELINES = {"hash": Hash, "minhash": MinHashes, "url": ButForUrl}


# --------------------------------------------------------------------------------- the crawl


class Summary(logging.Handler):
    """Keeps the lines that the add-on writes."""

    def emit(self, record):
        summary.append(record.getMessage())


def listed(file):
    """Return the reason of each URL that a crawl names as dropped, withheld, or not asked."""
    found = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        entry = json.loads(line)
        reason = next((entry[n] for n in ("rule", "reason", "action") if entry.get(n)), "?")
        lists = [entry[name] for name in LISTS if isinstance(entry.get(name), list)]
        for url in filter(None, [entry.get("url"), *(url for each in lists for url in each)]):
            found[canonicalize_url(url)] = str(reason)
    return found


def items_of(file):
    """Yield the URL of each item, and what else it has but for the page."""
    for line in file.open() if file.exists() else ():
        item = json.loads(line)
        url, source = item.pop("url", None), item.pop("source", None)
        yield url or source, {} if job["spider"] in ("html", "text") else item


def run(spider, folder):
    """Crawl, and return what there is to say of it."""
    items, dropped = folder / "items.jsonl", folder / "dropped.jsonl"
    settings = {
        "LOG_FILE": str(folder / "log"),
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        "DOWNLOAD_TIMEOUT": 120,
        "FEEDS": {str(items): {"format": "jsonlines", "encoding": "utf8"}},
    }
    if job["config"] in PIPELINES:
        settings["ITEM_PIPELINES"] = {PIPELINES[job["config"]]: 300}
    elif job["config"] != "none":
        settings |= {"ADDONS": {"dedup.scrapy.Addon": 500}, "DEDUP_PATH": str(folder / "store")}
        settings |= {"DEDUP_DROPPED": str(dropped)}
        settings |= {"DEDUP_PROOF": "text"} if job["config"] == "text" else {}
    process = CrawlerProcess(settings)
    logging.getLogger("dedup").addHandler(Summary(logging.INFO))
    crawler = process.create_crawler(spider)

    def ask(request, spider):
        asked.append(canonicalize_url(request.url))

    crawler.signals.connect(ask, signals.request_reached_downloader)
    process.crawl(crawler)
    process.start()
    used, stats = resource.getrusage(resource.RUSAGE_SELF), crawler.stats.get_stats()
    status = Path("/proc/self/status").read_text()  # what it was forked from does not count
    return {
        "asked": asked,
        "parsed": len(parsed),
        "items": list(items_of(items)),
        "stats": {n: v for n, v in stats.items() if isinstance(v, (int, float, str))},
        "summary": summary,
        "listed": listed(dropped),
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mb": int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024,
    }


if __name__ == "__main__":
    spiders = {each.name: each for each in (Html, Text, Meta, Graph)}
    chosen = real(*job["real"]) if job["real"] else spiders[job["spider"]]
    job_file.with_name("result.json").write_text(json.dumps(run(chosen, job_file.parent)))
