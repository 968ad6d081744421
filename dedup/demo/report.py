"""Compares a crawl of the sample site with the crawl without the add-on, and with what the pages really are.

ok, complaints            whether nothing is as it must not be, and what is
fetched, near_duplicates  requests of the crawl with the add-on, and the pages that it dropped
kinds                     by kind of page; example is the least similar page that was dropped
wrong, unreached          dropped pages whose content no parsed page had; other such contents
lost_items                titles of items of the crawl without the add-on that did not pass
"""

from collections import Counter
from typing import Any

import msgspec

from dedup.demo.crawl import DemoCrawl
from dedup.demo.site import KINDS, Site

Report = dict[str, Any]


def compare(site: Site, without: DemoCrawl, crawl: DemoCrawl) -> Report:
    """Report on a crawl with the add-on, beside one without it."""
    parsed = {*crawl.parsed}
    dropped = {page.path: page for page in crawl.dropped if page.path not in parsed}
    contents = {site.truth[path].group for path in parsed}
    missing = {truth.group for truth in site.truth.values()} - contents
    wrong = [page for path, page in dropped.items() if site.truth[path].group in missing]
    fates = {"on_site": site.truth, "fetched": {*crawl.requested}, "parsed": parsed}
    counts = {
        name: Counter(site.truth[path].kind for path in paths)
        for name, paths in (fates | {"dropped": dropped}).items()
    }
    example = {
        site.truth[page.path].kind: page
        for page in sorted(dropped.values(), key=lambda page: -page.similarity)
    }
    report: Report = {
        "urls": len(site.truth),
        "fetched": len(crawl.requested),
        "near_duplicates": len(dropped),
        "without_addon": _totals(without),
        "with_addon": _totals(crawl),
        "kinds": {
            kind: {name: count[kind] for name, count in counts.items()}
            | {"example": example.get(kind)}
            for kind in KINDS
        },
        "wrong": wrong,
        "unreached": sorted(missing - {site.truth[page.path].group for page in wrong}),
        "lost_items": sorted(title for title, _, _ in {*without.items} - {*crawl.items}),
        "failed": without.failed | crawl.failed,
        "errors": without.errors + crawl.errors,
        "faults": {n: int(c) for n, c in crawl.stats.items() if n.startswith("dedup/error/")},
    }
    bad = {
        "pages with their own content were dropped": len(wrong),
        "contents were never reached": len(report["unreached"]),
        "items were lost": len(report["lost_items"]),
        "pages failed": len(report["failed"]),
        "faults of the add-on": sum(report["faults"].values()),
        "errors in Scrapy's log": report["errors"],
    }
    complaints = [f"{number} {what}" for what, number in bad.items() if number]
    found: Report = msgspec.to_builtins({"ok": not complaints, "complaints": complaints} | report)
    return found


def _totals(crawl: DemoCrawl) -> dict[str, float]:
    return {
        "requests": len(crawl.requested),
        "parsed": len({*crawl.parsed}),
        "items": len(crawl.items),
        "different_items": len({*crawl.items}),
        "cpu_milliseconds": round(1000 * crawl.cpu_seconds),
    }
