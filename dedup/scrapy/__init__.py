"""The Scrapy add-on: drops near-duplicate pages, and their outlinks, before they are parsed.

    ADDONS = {"dedup.scrapy.Addon": 500}

A page takes this way:

    middlewares.py    process_response: the crawl's session judges the page; a near-duplicate is dropped
    crawl_session.py  fingerprint and reserve, for the namespaces of one crawl; counts everything
    kept_pages.py     what is kept all the same, by its links (link_memory.py) and on credit (credit.py)
    middlewares.py    the callback's output passes, and its items come through the pipelines
    in_flight.py      insert when that ended well, release when not
    embedded.py       where the pages are remembered: a store; service_memory.py: a table service

settings.py reads the settings, crawl_memory.py begins with an empty store, responses.py says which pages are
not judged, swallowing.py warns, summary.py says what happened.
"""

from dedup.scrapy.addon import Addon
from dedup.scrapy.crawl_session import forget
from dedup.scrapy.middlewares import (
    CallbackMiddleware,
    DownloaderMiddleware,
    KnownUrl,
    NearDuplicate,
    SpiderMiddleware,
    near_duplicate_dropped,
)

__all__ = [
    "Addon",
    "CallbackMiddleware",
    "DownloaderMiddleware",
    "KnownUrl",
    "NearDuplicate",
    "SpiderMiddleware",
    "forget",
    "near_duplicate_dropped",
]
