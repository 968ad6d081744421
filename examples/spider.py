"""A spider that keeps each page once: scrapy runspider examples/spider.py -a url=URL

The two settings below are all there is to it; the rest is an ordinary spider.
"""

import sys
from urllib.parse import urlsplit

import scrapy
from scrapy.linkextractors import LinkExtractor


class Pages(scrapy.Spider):
    """Follows every link of one site and keeps its pages."""

    name = "pages"
    url = ""
    custom_settings = {
        "ADDONS": {"dedup.scrapy.Addon": 500},
        "DEDUP_MODE": "drop",  # "tag" changes nothing: the way to start on a new site
    }

    def __init__(self, *args, **kwargs):
        """Take the URL given with -a url=..."""
        super().__init__(*args, **kwargs)
        if not self.url:
            sys.exit("usage: scrapy runspider examples/spider.py -a url=URL")

    async def start(self):
        """Begin at that URL."""
        self.links = LinkExtractor(allow_domains=[urlsplit(self.url).netloc])
        yield scrapy.Request(self.url)

    def parse(self, response):
        """Called for pages that may bring something new."""
        yield {"url": response.url, "html": response.text}
        for link in self.links.extract_links(response):
            yield response.follow(link, self.parse, errback=self.dropped)

    def dropped(self, failure):
        """Called for dropped pages, and for failed downloads as usual."""
        self.logger.info("%s: %s", failure.request.url, failure.value)
