"""The stats of the Scrapy add-on: each name once, with what it counts. docs/reference/stats.md has them as its table.

Scrapy's stats have them as dedup/NAME. Capitals at the end of a name stand for what differs: a reason, a kind of error,
a number of bits.
"""

STATS = {
    "probed": "pages that were fingerprinted",
    "unique": "pages that resemble no other page",
    "near_duplicate": "copies: dropped unparsed, in the other modes flagged",
    "near_duplicate/distance/N": "those at a distance of N bits",
    "checked": "near-duplicates that were parsed; only their new items and requests passed",
    "refetch": "pages whose document key was inserted before; never dropped",
    "unchanged": "refetches that equal the page of an earlier crawl (`DEDUP_UNCHANGED`)",
    "unchanged_items": "items of pages fetched again that were withheld, because the page gave them before",
    "exempt/REASON": "pages that were not judged, or kept in any case: a reason of `DEDUP_EXEMPT`, "
    "`dont_dedup`, `in_flight`, `expired` or `fault`",
    "items/dropped": "copies that a proven pattern dropped",
    "items/by_text": "copies by their text alone: the callback's items hold only the page, or `DEDUP_PROOF` is set",
    "items/equal": "checked pages that gave seen items, and no new request",
    "items/other": "checked pages that gave new items",
    "items/links": "checked pages that gave no new item, and new requests",
    "items/withheld": "items of checked pages that were withheld, because the crawl has seen them",
    "items/second_fetch": "pages that were fetched a second time, without their callback (`DEDUP_CONTROL`)",
    "items/again": "dropped pages that were fetched again, because a page of their pattern gave something new",
    "items/last_check": "dropped pages that were fetched at the end of the crawl: a last spot check of each pattern",
    "items/forgotten": "dropped pages that can no longer be fetched again, because their pattern dropped too many to remember",
    "requests/withheld": "requests of checked pages that were not sent, although a crawl without dedup sends them",
    "requests/waiting": "requests that wait, because their link budget is spent",
    "requests/again": "waiting requests that were sent later: something new came, or the crawl was idle",
    "requests/not_saved": "dropped pages and waiting requests that the next run of a JOBDIR lacks, because they cannot "
    "be serialised",
    "inserted": "pages remembered: their callback succeeded, and the store or service has them",
    "released": "reservations released: the page gave nothing new, its callback raised or requested it again, or "
    "the page is gone",
    "late_duplicate": "near-duplicates in flight at the same time: both were kept, the second one is counted; a table "
    "service counts its own",
    "error/KIND": "internal errors by kind (`store_locked`, `service_unavailable`, ...), once for each page that was "
    "kept because of it",
    "cpu_seconds": "CPU time of the add-on",
}


def table() -> str:
    """Return the table of docs/reference/stats.md."""
    rows = "".join(f"| `dedup/{name}` | {text} |\n" for name, text in STATS.items())
    return f"| stat | counts |\n|---|---|\n{rows}"
