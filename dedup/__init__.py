"""Near-duplicate detection for web crawlers, after Manku, Jain and Das Sarma (WWW 2007).

    page = dedup.fingerprint(html)                   a page becomes a 64-bit simhash
    with dedup.open("store") as detector:            the memory of accepted pages
        verdict = detector.reserve(page, key)        unique, near_duplicate, refetch, ...
        ...                                          process the page
        detector.insert(verdict)                     remember it

dedup.scrapy.Addon does all of this inside a Scrapy crawl. docs/explain/architecture.md describes the code.

A public name is imported on first use (PEP 562), so that the add-on and the command line load only what they
need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dedup.core.arrow import fingerprint_batch
    from dedup.core.bulk.designs import Design, plan
    from dedup.core.fingerprint import (
        Block,
        distance,
        fingerprint,
        fingerprint_text,
        main_text,
        main_words,
        near_duplicate,
    )
    from dedup.core.pairs import find_all, find_clusters
    from dedup.core.simhash import simhash, token_hashes
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
    from dedup.model.page import Document, Neighbour, PageFingerprint, Verdict
    from dedup.model.recipes import Recipe, recipe_of

    __version__: str
else:
    _NAMES = {
        "dedup.core.arrow": ("fingerprint_batch",),
        "dedup.core.bulk.designs": ("Design", "plan"),
        "dedup.core.fingerprint": (
            "Block",
            "distance",
            "fingerprint",
            "fingerprint_text",
            "main_text",
            "main_words",
            "near_duplicate",
        ),
        "dedup.core.pairs": ("find_all", "find_clusters"),
        "dedup.core.simhash": ("simhash", "token_hashes"),
        "dedup.core.table": ("Match", "Table"),
        "dedup.detector": ("AsyncDetector", "Detector", "open", "open_async"),
        "dedup.model.errors": (
            "DedupError",
            "EventInvalid",
            "RecipeMismatch",
            "ServiceUnavailable",
            "StoreDamaged",
            "StoreLocked",
            "UsageError",
        ),
        "dedup.model.names": ("document_key",),
        "dedup.model.recipes": ("Recipe", "recipe_of"),
        "dedup.model.page": ("Document", "Neighbour", "PageFingerprint", "Verdict"),
    }
    _MODULES = {name: module for module, names in _NAMES.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            value = version("crawl-dedup")
        elif name in _MODULES:
            value = getattr(import_module(_MODULES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value  # later uses do not call this function
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "__version__"})


__all__ = [
    "AsyncDetector",
    "Block",
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
    "fingerprint_batch",
    "fingerprint_text",
    "main_text",
    "main_words",
    "near_duplicate",
    "open",
    "open_async",
    "plan",
    "recipe_of",
    "simhash",
    "token_hashes",
]
