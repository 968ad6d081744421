"""The Scrapy add-on: drops near-duplicate pages, and their outlinks, before they are parsed.

    ADDONS = {"dedup.scrapy.Addon": 500}

A page takes this way:

    middlewares.py  process_response: the crawl's session judges the page; a near-duplicate is dropped
    session.py      fingerprint and reserve, for the namespaces of one crawl; counts everything
    middlewares.py  the callback's output passes: insert when it ended well, release when not
    embedded.py     where the pages are remembered: a store; remote.py: a table service

settings.py reads the settings, responses.py says which pages are not judged, summary.py what happened.
"""

from dedup.scrapy.addon import Addon
from dedup.scrapy.middlewares import (
    CallbackMiddleware,
    DownloaderMiddleware,
    NearDuplicate,
    SpiderMiddleware,
    near_duplicate_dropped,
)

__all__ = [
    "Addon",
    "CallbackMiddleware",
    "DownloaderMiddleware",
    "NearDuplicate",
    "SpiderMiddleware",
    "near_duplicate_dropped",
]
