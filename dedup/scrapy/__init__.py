"""The Scrapy add-on: drops near-duplicate pages, and their outlinks, before they are parsed.

    ADDONS = {"dedup.scrapy.Addon": 500}

A page takes this way:

    downloader.py   process_response: the crawl's session judges the page; a near-duplicate goes
    session.py      fingerprint and reserve, for the namespaces of one crawl; counts everything
    spider.py       the callback's output passes: insert when it ended well, release when not

config.py reads the settings, pages.py says which pages are not judged, summary.py what happened.
"""

from dedup.scrapy.addon import Addon
from dedup.scrapy.downloader import DownloaderMiddleware
from dedup.scrapy.signals import NearDuplicate, near_duplicate_dropped
from dedup.scrapy.spider import CallbackMiddleware, SpiderMiddleware

__all__ = [
    "Addon",
    "CallbackMiddleware",
    "DownloaderMiddleware",
    "NearDuplicate",
    "SpiderMiddleware",
    "near_duplicate_dropped",
]
