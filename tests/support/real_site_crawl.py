"""Crawls the real site in a process of its own: real_site_crawl.py URL STORE; JSON on stdout."""

import json
import sys

import scrapy
from scrapy.crawler import CrawlerProcess

outcome: dict[str, dict[str, object]] = {}


class Reader(scrapy.Spider):
    """Reads all pages, the copies after the originals."""

    name = "reader"

    async def start(self):
        yield scrapy.Request(sys.argv[1] + "/", meta={"dont_dedup": True})

    def parse(self, response):
        for number, path in enumerate(response.text.splitlines()):
            yield response.follow(
                path,
                self.parse_page,
                errback=self.dropped,
                priority=-number,
                cb_kwargs={"path": path},
            )

    def parse_page(self, response, path):
        outcome[path] = response.meta["dedup"]
        headings = response.css("h1::text, h2::text, h3::text").getall()
        yield {"url": response.url, "headings": headings}

    def dropped(self, failure):
        verdict = failure.value.verdict
        outcome[failure.request.cb_kwargs["path"]] = {
            "status": verdict.status,
            "of": verdict.of,
            "distance": verdict.distance,
            "similarity": verdict.similarity,
        }


process = CrawlerProcess(
    {
        "ADDONS": {"dedup.scrapy.Addon": 500},
        "DEDUP_PATH": sys.argv[2],
        "LOG_LEVEL": "INFO",
        "TELNETCONSOLE_ENABLED": False,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    }
)
crawler = process.create_crawler(Reader)
process.crawl(crawler)
process.start()
stats = {
    name: value for name, value in crawler.stats.get_stats().items() if name.startswith("dedup/")
}
json.dump({"pages": outcome, "stats": stats}, sys.stdout)
