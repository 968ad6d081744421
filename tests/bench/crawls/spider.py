"""One crawl in a process of its own: spider.py JOB, a JSON file; the result lies beside it.

    job: {"starts", "proxy", "spider", "config", "packages", "real"}
    result: {"asked", "parsed", "items", "stats", "summary", "listed", "cpu_seconds", "peak_mb", "finish"}

The Python that runs it is that of the add-on to be measured. It may lack what only the spiders here need:
`packages` is where that is found, too. Of this project nothing is imported but what ADDONS names.

Spiders: html, text, meta, graph. Configurations: none; drop; text (DEDUP_PROOF = "text"); and pipelines instead of the
add-on: hash (of the text), minhash (J >= .9 of main content), url (an item equal to an earlier one but for its url).
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
for name in ("no_proxy", "NO_PROXY"):
    os.environ.pop(name, None)
sys.path += job["packages"]

import scrapy
from scrapy import signals
from scrapy.crawler import CrawlerProcess
from scrapy.exceptions import DropItem
from scrapy.linkextractors import LinkExtractor
from scrapy.logformatter import LogFormatter
from scrapy.spiders import CrawlSpider, Rule
from w3lib.url import canonicalize_url

LISTED = ("urls", "requests", "waiting")  # lists of URLs in a line of DEDUP_DROPPED


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
        yield self.item(response)

    def item(self, response):
        return {"url": response.url, "html": response.text}


class Text(Html):
    """A corpus builder that keeps the main content."""

    name = "text"

    def item(self, response):
        title = response.css("title::text").get()
        return {"url": response.url, "title": title, "text": main_content(response.text)}


class Meta(scrapy.Spider):
    """A spider for metadata."""

    name = "meta"
    start_urls, allowed_domains = Html.start_urls, Html.allowed_domains

    def parse(self, response):
        parsed.append(response.url)
        paragraphs = (" ".join(p.css("::text").getall()).split() for p in response.css("p"))
        date = "time::attr(datetime), meta[property='article:published_time']::attr(content)"
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "h1": " ".join(response.css("h1 ::text").getall()).strip(),
            "first": next((" ".join(words) for words in paragraphs if len(words) > 8), None),
            "date": response.css(date).get(),
        }
        for link in LinkExtractor().extract_links(response):
            yield response.follow(link, self.parse)


class Graph(scrapy.Spider):
    """A spider for the link graph."""

    name = "graph"
    start_urls, allowed_domains = Html.start_urls, Html.allowed_domains

    def parse(self, response):
        parsed.append(response.url)
        links = [link.url for link in LinkExtractor().extract_links(response)]
        yield {"url": response.url, "out_links": links}
        for url in links:
            yield scrapy.Request(url, self.parse)


def real(module, folder):
    """Return a public spider that begins at the hub, under a host that it allows."""
    sys.path.append(folder)
    logging.getLogger("scrapy").setLevel(logging.ERROR)
    found = vars(importlib.import_module(module)).values()
    (base, *_) = [
        each
        for each in found
        if isinstance(each, type) and issubclass(each, scrapy.Spider) and each.__module__ == module
    ]

    class Real(base):
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


class Hash:
    """Drops an item whose normalised text an earlier one had."""

    def __init__(self):
        self.seen = set()

    def process_item(self, item):
        text = item.get("text")
        if text is None:
            import lxml.html

            parser = lxml.html.HTMLParser(encoding="utf8", huge_tree=True)
            tree = lxml.html.document_fromstring(item["html"].encode("utf8", "replace"), parser)
            text = " ".join(tree.xpath("//body//text()[not(parent::script or parent::style)]"))
        digest = hashlib.sha1(" ".join(text.lower().split()).encode("utf8", "replace")).digest()
        if text.strip() and digest in self.seen:
            raise DropItem
        self.seen.add(digest)
        return item


class MinHashes:
    """Drops an item whose main content is like an earlier one's."""

    def __init__(self):
        from datasketch import MinHashLSH

        self.index, self.number = MinHashLSH(threshold=0.9, num_perm=128), 0

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
            self.index.insert(str(self.number), signature)
            self.number += 1
        return item


class ButForUrl:
    """Drops an item that is equal to an earlier one but for its url."""

    def __init__(self):
        self.seen = set()

    def process_item(self, item):
        rest = {name: value for name, value in dict(item).items() if name not in ("url", "source")}
        key = json.dumps(rest, sort_keys=True, default=str)
        if key in self.seen:
            raise DropItem
        self.seen.add(key)
        return item


PIPELINES = {"hash": Hash, "minhash": MinHashes, "url": ButForUrl}
parsed, asked, summary = [], [], []


class Summary(logging.Handler):
    """Keeps the lines that the add-on writes at the end."""

    def emit(self, record):
        if record.name.startswith("dedup"):
            summary.append(record.getMessage())


def peak_bytes():
    """Return the most memory of this process; what it was forked from does not count."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def listed(file):
    """Return the reason of each URL that a crawl names as not asked, or not parsed."""
    found = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        entry = json.loads(line)
        reason = next((entry[n] for n in ("rule", "reason", "action") if entry.get(n)), "?")
        named = [entry.get("url")] + [url for n in LISTED for url in as_list(entry.get(n))]
        found |= {canonicalize_url(url): str(reason) for url in named if url}
    return found


def items_of(file):
    """Yield each item without the page: its url, and what else it has."""
    with file.open() as lines:
        for line in lines:
            item = json.loads(line)
            url, source = item.pop("url", None), item.pop("source", None)
            yield url or source, {} if job["spider"] in ("html", "text") else item
    file.unlink()


def as_list(value):
    return value if isinstance(value, list) else []


def run(spider):
    folder = job_file.parent
    settings = {
        "LOG_LEVEL": "INFO",
        "LOG_FILE": str(folder / "log"),
        "TELNETCONSOLE_ENABLED": False,
        "DOWNLOAD_TIMEOUT": 120,
        "RETRY_TIMES": 5,
        "FEEDS": {str(folder / "items.jsonl"): {"format": "jsonlines", "encoding": "utf8"}},
        "LOG_FORMATTER": "__main__.Quiet",
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "DOWNLOAD_DELAY": 0,
    }
    if job["config"] in PIPELINES:
        settings["ITEM_PIPELINES"] = {PIPELINES[job["config"]]: 300}
    elif job["config"] != "none":
        dropped = str(folder / "dropped.jsonl")
        settings |= {"ADDONS": {"dedup.scrapy.Addon": 500}, "DEDUP_DROPPED": dropped}
        settings |= {"DEDUP_PATH": str(folder / "store")}
        settings |= {"DEDUP_PROOF": "text"} if job["config"] == "text" else {}
    process = CrawlerProcess(settings)
    logging.getLogger("dedup").addHandler(Summary())
    crawler = process.create_crawler(spider)
    crawler.signals.connect(
        lambda request, spider: asked.append(canonicalize_url(request.url)),
        signals.request_reached_downloader,
        weak=False,
    )
    process.crawl(crawler)
    process.start()
    used = resource.getrusage(resource.RUSAGE_SELF)
    stats = crawler.stats.get_stats()
    return {
        "asked": asked,
        "parsed": len(parsed),
        "items": list(items_of(folder / "items.jsonl")),
        "stats": {n: v for n, v in stats.items() if isinstance(v, (int, float, str))},
        "summary": summary,
        "listed": listed(folder / "dropped.jsonl"),
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mb": peak_bytes() / 2**20,
    }


class Quiet(LogFormatter):
    """Writes no line for an item that a pipeline dropped."""

    def dropped(self, item, exception, response, spider):
        return None


if __name__ == "__main__":
    spiders = {each.name: each for each in (Html, Text, Meta, Graph)}
    chosen = real(*job["real"]) if "real" in job else spiders[job["spider"]]
    (job_file.parent / "result.json").write_text(json.dumps(run(chosen)))
