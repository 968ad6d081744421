"""Where the pages of a crawl went, and when: parts of its report.

    stats, timeline -> funnel, reasons, times

The rule kept here: the sums add up. The parts of a row, indented below it, are all that it counts.
"""

from collections.abc import Mapping
from typing import Any

from dedup.model.report.charts import Column, columns
from dedup.model.report.html import Bar, bars, legend, section
from dedup.model.report.texts import count
from dedup.scrapy.journal import Timeline

__all__ = ["exempt", "funnel", "reasons", "times"]

_REASONS = {
    "start": "start requests, always kept",
    "non_html": "no HTML or text",
    "status": "another status than 200",
    "method": "another method than GET",
    "short": "too few distinct words to be judged",
    "too_large": "larger than DEDUP_MAX_BYTES",
    "data_page": "made of inline data",
    "new_links": "alike text, but a link that no page had before",
    "other_title": "alike text, but another page by its title or canonical URL",
    "unread": "too little of the page was read",
    "no_callback": "robots.txt, media, the shell",
    "inline": "downloaded by a callback, not by the scheduler",
    "barren": "alike text, but pages like it brought no item yet",
    "expired": "its reservation had expired",
    "in_flight": "a near-duplicate was in flight for too long",
    "dont_dedup": "left out by request.meta",
    "fault": "no table service answered",
}
_UNJUDGED = {  # no look was taken at the text
    "dont_dedup", "inline", "method", "no_callback", "non_html", "status", "too_large",
}  # fmt: skip


def exempt(counts: Mapping[str, Any], *, judged: bool | None = None) -> dict[str, int]:
    """Return the pages that were kept, by reason: those that were judged, or those that were not."""
    found = {name[7:]: n for name, n in counts.items() if name.startswith("exempt/") and n}
    return {r: n for r, n in found.items() if judged is None or judged == (r not in _UNJUDGED)}


def funnel(stats: Mapping[str, Any], counts: Mapping[str, Any]) -> str:
    """Return the way of the pages: the parts of a row, indented below it, add up to it."""
    responses, judged = stats.get("downloader/response_count", 0), counts.get("probed", 0)
    unjudged = sum(exempt(counts, judged=False).values())
    kept = sum(exempt(counts, judged=True).values())
    unique, near, again = (counts.get(w, 0) for w in ("unique", "near_duplicate", "refetch"))
    steps: list[Bar] = [
        ("requests", stats.get("downloader/request_count", 0)),
        ("responses", responses),
        *([(" judged", judged)] if responses != judged else []),
        (" kept without being judged", unjudged, "exempt"),
        (" redirects, retries, errors", responses - judged - unjudged),
        ("judged", judged),
        (" unique", unique, "unique"),
        (" near-duplicates", near, "near"),
        (" fetched again", again, "refetch"),
        (" kept all the same", kept, "exempt"),
        (" a fault of ours, kept", judged - unique - near - again - kept),
        ("remembered: parsed to the end", counts.get("inserted", 0)),
        ("given back: a callback or an item failed", counts.get("released", 0)),
        ("items", stats.get("item_scraped_count", 0)),
    ]
    always = ("requests", "responses", "judged", " unique", " near-duplicates", "items")
    shown = [step for step in steps if step[1] > 0 or step[0] in always]
    return section("From request to item", bars(shown))


def times(stats: Mapping[str, Any], line: Timeline) -> str:
    """Return when the crawl was, and what it judged meanwhile."""
    if sum(judged for judged, _ in line.spans) == 0:
        return ""
    drawn = []
    for number, (judged, copies) in enumerate(line.spans):
        at = _clock(number * line.seconds)
        parts = ((copies, "near"), (judged - copies, "unique"))
        told = f"from {at}: {judged:,} judged, {count(copies, 'near-duplicate')}"
        drawn.append(Column(at, parts, told))
    begun = stats.get("start_time")
    when = f"From {begun:%Y-%m-%d %H:%M:%S} UTC on." if begun is not None else ""
    return section(
        "Over the crawl's time",
        columns(
            drawn,
            title="Pages judged over the crawl's time",
            across="time since the first page, h:min:s",
            up=f"pages in {count(line.seconds, 'second')}",
        ),
        legend(("near", "near-duplicates"), ("unique", "other pages that were judged")),
        text=when,
    )


def _clock(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def reasons(counts: Mapping[str, Any]) -> str:
    """Return the reasons for which pages were kept."""
    rows = sorted(exempt(counts).items(), key=lambda item: (-item[1], item[0]))
    named = [(f"{_REASONS.get(reason, 'kept')} ({reason})", n, "exempt") for reason, n in rows]
    return section("Kept without being judged, or all the same", bars(named)) if named else ""
