"""The stats of the Scrapy add-on: each name once, with what it counts. docs/reference/stats.md has them as its table.

Scrapy's stats have them as dedup/NAME. Capitals at the end of a name stand for what differs: a reason, a kind of error,
a number of bits.
"""

STATS = {
    "probed": "pages that were fingerprinted",
    "unique": "pages unlike all others",
    "near_duplicate": "copies: dropped unparsed, or flagged in the modes that drop nothing",
    "near_duplicate/distance/N": "those at a distance of N bits",
    "checked": "near-duplicates that were parsed: what is new of them passes",
    "refetch": "pages whose document key was inserted before; never dropped",
    "unchanged": "refetches that are the same as in an earlier crawl (`DEDUP_UNCHANGED`)",
    "unchanged_items": "items of refetches that were brought before, and which were withheld",
    "exempt/REASON": "pages that were not judged, or kept whatever they are like: a reason of `DEDUP_EXEMPT`, "
    "`dont_dedup`, `in_flight`, `expired` or `fault`",
    "items/dropped": "copies whose pattern is proven to bring nothing new",
    "items/by_text": "copies by their text alone: the callback's items hold nothing but the page, or `DEDUP_PROOF`",
    "items/equal": "checked pages that brought items and nothing new",
    "items/other": "checked pages that brought new items",
    "items/links": "checked pages that brought seen items, and new requests",
    "items/withheld": "items of checked pages that were withheld, since the crawl has seen them",
    "items/second_fetch": "pages that were fetched a second time, without their callback (`DEDUP_CONTROL`)",
    "items/again": "dropped pages that were fetched again, since a page of their pattern brought something new",
    "items/last_check": "dropped pages that were fetched again when nothing else was left to do, one of a pattern",
    "items/forgotten": "dropped pages that would not be fetched again any more: their pattern dropped too many",
    "requests/withheld": "requests of checked pages that the crawl without dedup would have sent, and this one did not",
    "requests/waiting": "requests that were put off, since the link budget of near-duplicates like theirs is spent",
    "requests/again": "those that were sent later: something new came, or nothing else was left to do",
    "requests/not_saved": "dropped pages and waiting requests that the next run of a JOBDIR lacks: they cannot be "
    "serialised",
    "inserted": "pages remembered: their callback succeeded, and the store or service has them",
    "released": "reservations released: the page brought nothing new, its callback raised or asked for it again, or "
    "it is gone",
    "late_duplicate": "near-duplicates in flight at once: both were kept, the second is counted; with a table service, "
    "the service counts them",
    "error/KIND": "internal errors by kind (`store_locked`, `service_unavailable`, ...), once for each page that was "
    "kept for it",
    "cpu_seconds": "CPU time of the add-on",
}


def table() -> str:
    """Return the table of docs/reference/stats.md."""
    rows = "".join(f"| `dedup/{name}` | {text} |\n" for name, text in STATS.items())
    return f"| stat | counts |\n|---|---|\n{rows}"
