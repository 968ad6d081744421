"""The Scrapy add-on: drops near-duplicate pages, and their outlinks, before they are parsed.

    ADDONS = {"dedup.scrapy.Addon": 500}

The steps of a page:

    middlewares.py    process_response: the crawl's session judges the page; a near-duplicate is dropped
    crawl_session.py  fingerprint and reserve, for the namespaces of one crawl; counts everything; near-duplicates
                      that are kept: by their links, on credit (credit.py), by their items (proof.py)
    middlewares.py    the callback's output passes, and its items go through the pipelines
    in_flight.py      insert when that succeeded, release when not; the links of accepted pages
    memory.py         the memory: a store, emptied as DEDUP_MEMORY says; service_memory.py: a table service

The spider's items: items.py makes their digests, evidence.py the classes that these prove, and control.py knows what
differs between two visits of one page.

request_filter.py is the filter of requests.

settings.py reads the settings, responses.py decides which pages are not judged,
summary.py warns and writes the summary.
"""

from typing import TYPE_CHECKING, Any

from dedup.scrapy.crawl_session import forget
from dedup.scrapy.middlewares import (
    Addon,
    CallbackMiddleware,
    DownloaderMiddleware,
    KnownUrl,
    NearDuplicate,
    SpiderMiddleware,
    near_duplicate_dropped,
)

if TYPE_CHECKING:
    from dedup.scrapy.request_filter import RequestFilter

__all__ = [
    "Addon",
    "CallbackMiddleware",
    "DownloaderMiddleware",
    "KnownUrl",
    "NearDuplicate",
    "RequestFilter",
    "SpiderMiddleware",
    "forget",
    "near_duplicate_dropped",
]


def __getattr__(name: str) -> Any:
    """Import the request filter when a setting names it: a crawl without it loads nothing of it."""
    if name == "RequestFilter":
        from dedup.scrapy.request_filter import RequestFilter

        return RequestFilter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
