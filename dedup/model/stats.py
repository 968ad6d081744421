"""The stats of the Scrapy add-on: each name once, with what it counts. docs/reference/stats.md has them as its table.

Scrapy's stats have them as dedup/NAME. Capitals at the end of a name stand for what differs: a reason, a kind of error,
a number of bits.
"""

STATS = {
    "probed": "pages that were fingerprinted",
    "unique": "pages unlike all others",
    "near_duplicate": "copies: dropped unparsed, or flagged in the modes that drop nothing",
    "near_duplicate/distance/N": "those at a distance of N bits",
    "compared": "pages like an accepted one that were parsed: what is new of them passes",
    "refetch": "pages whose document key was inserted before; never dropped",
    "unchanged": "refetches that are the same as in an earlier crawl (`DEDUP_UNCHANGED`)",
    "unchanged_items": "items of refetches that an earlier crawl brought, and which were withheld",
    "exempt/REASON": "pages that were not judged, or kept whatever they are like: a reason of `DEDUP_EXEMPT`, "
    "`dont_dedup`, `in_flight`, `control`, `expired` or `fault`",
    "items/dropped": "copies whose class was shown to bring nothing new",
    "items/by_text": "copies by their text alone: the callback's items hold nothing but the page, or `DEDUP_PROOF`",
    "items/equal": "compared pages that brought items and nothing new",
    "items/other": "compared pages that brought new items",
    "items/withheld": "items that were withheld, since the crawl or an earlier one has them",
    "items/control": "control visits (`DEDUP_CONTROL`)",
    "items/volatile": "fields that differed between two visits of one URL, and do not count",
    "items/again": "dropped pages that were requested again, since a page of their class brought something new",
    "items/last_look": "dropped pages that were requested again when nothing else was left to do, one of a class",
    "requests/withheld": "requests of compared pages that were not sent: known, or waiting for something new",
    "requests/waiting": "those that wait for something new, since the budget of pages like theirs is spent",
    "requests/forgotten": "the same, beyond the number that can wait",
    "requests/again": "waiting requests that were sent: something new came, or nothing else was left to do",
    "requests/not_saved": "dropped pages and waiting requests that the next run of a JOBDIR lacks: they cannot be "
    "serialised",
    "url_skipped": "requests that were not sent: by the site's rules they lead to a known page",
    "url_would_skip": 'requests that `DEDUP_URLS = "skip"` would not have sent',
    "url_checked": "requests that were sent nevertheless, to check the rules",
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
