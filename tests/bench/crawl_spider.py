"""One crawl of `python tests/bench crawl`, in a process of its own; the outcome as JSON on stdout.

    python crawl_spider.py START WORK [addon]

    fetch   nothing is done with a page
    scrape  an item of some hundred characters: the title, the heading, the first paragraph
    parse   an item: the title, the links, made absolute, and the visible text

The spider is one that people write, and does as little as such a spider can. Only the pages of the start page's list are
fetched. All are parsed (mode "tag"), whatever they are. Nothing of dedup is imported but by the add-on: what it adds at
the start counts. CPU seconds are those of the process: user and system, all threads.
"""

import json
import secrets
import sys
import time
from tempfile import TemporaryDirectory

import scrapy
from scrapy.crawler import CrawlerProcess


class Bench(scrapy.Spider):
    name = "bench"
    pages = bytes = 0

    def parse(self, response):
        self.started_seconds = time.process_time()
        yield from response.follow_all(css="a", callback=getattr(self, self.work))

    def scrape(self, response):
        self.fetch(response)
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "heading": response.css("h1::text").get(),
            "lead": response.css("p::text").get("")[:300],
        }

    def parse_page(self, response):
        self.fetch(response)
        text = response.xpath("//body//text()[not(parent::script|parent::style)]").getall()
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "links": [response.urljoin(link) for link in response.css("a::attr(href)").getall()],
            "text": " ".join(" ".join(text).split()),
        }

    def fetch(self, response):
        self.pages += 1
        self.bytes += len(response.body)


def crawl(url, work, folder, *addon):
    settings = {
        "LOG_LEVEL": "WARNING",
        "TELNETCONSOLE_ENABLED": False,
        "HTTPPROXY_ENABLED": False,  # the site is on loopback, whatever the environment says
        "DOWNLOAD_MAXSIZE": 0,
    }
    if addon:
        settings |= {
            "ADDONS": {"dedup.scrapy.Addon": 500},
            "DEDUP_MODE": "tag",
            "DEDUP_WAIT_SECONDS": 60,  # what is counted does not depend on how busy the machine is
            "DEDUP_PATH": folder,
            "DEDUP_NAMESPACE": secrets.token_hex(8),
        }
    process = CrawlerProcess(settings)
    crawler = process.create_crawler(Bench)
    process.crawl(crawler, start_urls=[url], work="parse_page" if work == "parse" else work)
    process.start()
    ended_seconds = time.process_time()
    spider, stats = crawler.spider, crawler.stats
    if spider is None or not spider.pages:
        sys.exit(1)  # Scrapy has said why
    return {
        "pages": spider.pages,
        "bytes": spider.bytes,
        "startup_seconds": spider.started_seconds,  # from the start of the process to the start page's callback
        "crawl_seconds": ended_seconds - spider.started_seconds,  # to the end, the store closed
        "whole_seconds": ended_seconds,
        "dedup": {k: v for k, v in stats.get_stats().items() if k.startswith("dedup/")},
    }


if __name__ == "__main__":
    with TemporaryDirectory(prefix="dedup-bench-") as folder:
        outcome = crawl(*sys.argv[1:3], folder, *sys.argv[3:])
    sys.stdout.write(json.dumps(outcome))
