"""The kind of a page: which callback it is for (dedup/scrapy/responses.py)."""

import pytest
import scrapy
from scrapy.spiders import CrawlSpider, Rule

from dedup.scrapy.page.request import callback_name


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


class Ruled(CrawlSpider):
    name = "ruled"
    rules = [Rule(callback="thing"), Rule(callback="data"), Rule()]

    def thing(self, response, number=0):
        pass

    def data(self, response):
        pass
