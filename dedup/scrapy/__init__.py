"""The Scrapy add-on: of a near-duplicate only what is new passes, and copies are dropped unparsed.

    ADDONS = {"dedup.scrapy.Addon": 500}

The way of a page:

    addon.py        puts the middlewares in place; settings.py reads the settings
    middlewares.py  Scrapy's calls, behind the guard (guard.py): a fault of ours never costs an item
    page/           request -> judge -> output -> in flight
    evidence/       what the spider's items have proven: patterns, digests of items
    memory/         a store, or a table service; what is kept between runs
    report/         what a person reads of a crawl
"""

from dedup.scrapy.addon import Addon
from dedup.scrapy.exceptions import NearDuplicate, near_duplicate_dropped
from dedup.scrapy.middlewares import CallbackMiddleware, DownloaderMiddleware, SpiderMiddleware
from dedup.scrapy.page.session import forget

__all__ = [
    "Addon",
    "CallbackMiddleware",
    "DownloaderMiddleware",
    "NearDuplicate",
    "SpiderMiddleware",
    "forget",
    "near_duplicate_dropped",
]
