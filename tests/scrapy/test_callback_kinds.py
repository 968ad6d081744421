"""The kind of a page: which callback it is for (dedup/scrapy/responses.py)."""

import pytest
import scrapy
from scrapy.settings import Settings
from scrapy.spiders import CrawlSpider, Rule

from dedup.scrapy.page.request import callback_name, kind_of_page
from dedup.scrapy.settings import Config


@pytest.mark.parametrize(
    ("callback", "meta", "name"),
    [
        (None, {}, "parse"),
        ("thing", {}, "thing"),
        ("_callback", {"rule": 0}, "thing"),
        ("_callback", {"rule": 1}, "data"),
        ("_callback", {"rule": 2}, "rule"),
        ("_callback", {"rule": 9}, "_callback"),
        ("_callback", {}, "_callback"),
    ],
)
def test_the_callback_of_a_page_is_that_of_its_rule(callback, meta, name):
    """A CrawlSpider's pages are for one method of its own; what tells them apart are its rules."""
    assert (
        callback_name(
            scrapy.Request("http://a/", callback and getattr(Ruled(), callback), meta=meta), Ruled()
        )
        == name
    )


class Starting(CrawlSpider):
    name = "starting"
    rules = [Rule(callback="thing"), Rule()]

    def parse_start_url(self, response):
        return self.thing(response)

    def thing(self, response):
        pass


class More(Starting):
    rules = [*Starting.rules, Rule(callback="other")]


class Plain(Starting):
    parse_start_url = CrawlSpider.parse_start_url


@pytest.mark.parametrize(
    ("spider", "settings", "kind"),
    [
        (Starting, {}, "thing"),
        (More, {}, "parse"),
        (Plain, {}, "parse"),
        (scrapy.Spider, {}, "parse"),
        (Starting, {"DEDUP_KINDS": False}, ""),
        (Starting, {"DEDUP_PROOF": "text"}, "parse"),
    ],
)
def test_the_start_page_of_a_crawl_spider_is_compared_with_those_of_its_rules(
    spider, settings, kind
):
    """Where it has items of start pages, and the rules have one callback. Its own name stays."""
    config = Config.from_settings(Settings(settings))
    start = scrapy.Request("http://a/")
    assert kind_of_page(start, "parse", spider(name="a"), config) == kind
    linked = scrapy.Request("http://a/", Starting(name="a").thing)
    assert kind_of_page(linked, "thing", spider(name="a"), config) in {"thing", ""}


class Ruled(CrawlSpider):
    name = "ruled"
    rules = [Rule(callback="thing"), Rule(callback="data"), Rule()]

    def thing(self, response, number=0):
        pass

    def data(self, response):
        pass
