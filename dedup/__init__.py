"""Near-duplicate detection for web crawlers, after Manku, Jain and Das Sarma (WWW 2007).

    page = dedup.fingerprint(html)                   a page becomes a 64-bit simhash
    with dedup.open("store") as detector:            what was seen before
        verdict = detector.reserve(page, key)        unique, near_duplicate, refetch, ...
        ...                                          process the page
        detector.insert(verdict)                     and remember it

dedup.scrapy.Addon does all of this inside a Scrapy crawl. docs/architecture.md shows the house.
"""

from importlib.metadata import version as _version

from dedup.core.bulk.plan import Design, plan
from dedup.core.fingerprint import (
    distance,
    fingerprint,
    fingerprint_text,
    near_duplicate,
    simhash,
    token_hashes,
)
from dedup.core.pairs import find_all, find_clusters
from dedup.core.table import Match, Table
from dedup.detector import AsyncDetector, Detector, open, open_async
from dedup.model.errors import (
    DedupError,
    EventInvalid,
    RecipeMismatch,
    ServiceUnavailable,
    StoreDamaged,
    StoreLocked,
    UsageError,
)
from dedup.model.names import document_key
from dedup.model.recipes import Recipe, recipe_of
from dedup.model.values import Document, Neighbour, PageFingerprint, Verdict

__version__ = _version("crawl-dedup")

__all__ = [
    "AsyncDetector",
    "DedupError",
    "Design",
    "Detector",
    "Document",
    "EventInvalid",
    "Match",
    "Neighbour",
    "PageFingerprint",
    "Recipe",
    "RecipeMismatch",
    "ServiceUnavailable",
    "StoreDamaged",
    "StoreLocked",
    "Table",
    "UsageError",
    "Verdict",
    "distance",
    "document_key",
    "find_all",
    "find_clusters",
    "fingerprint",
    "fingerprint_text",
    "near_duplicate",
    "open",
    "open_async",
    "plan",
    "recipe_of",
    "simhash",
    "token_hashes",
]
