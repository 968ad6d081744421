"""The summary of a crawl: one log record, at most eight lines that add up, each with [dedup], none of them for zero."""

from collections.abc import Iterator, Mapping

from dedup.model.names import count
from dedup.report.crawl import Crawl

NAMED = 5  # of a list
NOTHING = 0.9  # of the pages were not judged, for reasons of the site
_SITES = {  # these reasons
    "short": "have too few distinct words to be judged",
    "unread": "were read only in part, or have only the template of their site",
    "non_html": "are no HTML or text",
}

_STATUSES = (
    ("unique", "unique"),
    ("checked", "checked"),
    ("near_duplicate", "dropped"),
    ("refetch", "seen URLs fetched again"),
)
_GAINS = ("near_duplicate", "items/withheld", "requests/withheld", "unchanged_items")
_COPIES = {
    "drop": "dropped {} unparsed",
    "skip_links": "parsed {} without following links",
    "tag": 'DEDUP_MODE = "tag" changes nothing; "drop" would drop {} unparsed',
}


def summary(crawl: Crawl, remembered: str) -> str:
    """Return the summary; remembered says what is stored, and where."""
    return "\n".join(f"[dedup] {line}" for line in _lines(crawl, remembered))


def _lines(crawl: Crawl, remembered: str) -> Iterator[str]:
    said = [f"{crawl.stat(status):,} {name}" for status, name in _STATUSES if crawl.stat(status)]
    if exempt := crawl.exempt:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in exempt.items())
        said.append(f"{sum(exempt.values()):,} exempt ({reasons})")
    if crawl.mode != "drop":
        said = [part.replace(" dropped", " copies") for part in said]
    yield f"{count(crawl.decided, 'page')}{': ' if said else ''}{' + '.join(said)}"
    if copies := crawl.stat("near_duplicate"):
        line = _COPIES[crawl.mode].format(count(copies, "copy", "copies"))
        by_text = crawl.stat("items/by_text")
        alone = f"; {by_text:,} by their text alone" if by_text else ""
        yield f"{line}: {_most(crawl.differences)}{alone}"
    elif not crawl.stat("checked") and (reason := _nothing(crawl)):
        of = f"{exempt[reason]:,} of {count(crawl.decided, 'page')}"
        yield f"nothing to do on this site: {of} {_SITES[reason]} ({reason})"
    if line := _checked(crawl):
        yield line
    yield from _again(crawl)
    if waiting := sum(crawl.waiting.values()):
        wait = count(waiting, "request waits", "requests wait")
        yield f"the link budget is spent: {wait} for something new: {_most(crawl.waiting)}"
    if errors := {n[6:]: number for n, number in crawl.stats.items() if n.startswith("error/")}:
        yield f"dedup failed at times, and those pages were kept: {_most(errors)}"
    yield _last(crawl, remembered)


def _again(crawl: Crawl) -> Iterator[str]:
    if unchanged := crawl.stat("unchanged_items"):
        yield f"{count(unchanged, 'item')} of pages fetched again withheld: the page gave them before"
    if again := crawl.stat("items/again"):
        names = {each["name"]: each["again"] for each in crawl.patterns if each["again"]}
        yield (
            f"{count(again, 'dropped page')} fetched again, because a page of their pattern gave something "
            f"new{f': {_most(names)}' if names else ''}"
        )


def _last(crawl: Crawl, remembered: str) -> str:
    inserted, probed = crawl.stat("inserted"), crawl.stat("probed")
    new = f"{count(inserted, 'page')} remembered: " if inserted else ""
    cpu = f"; CPU {1e6 * crawl.stats['cpu_seconds'] / probed:.0f} us a page" if probed else ""
    if probed and crawl.mode == "drop" and not any(map(crawl.stat, _GAINS)):
        cpu = f"; nothing gained on this site{cpu.replace(';', ',')}"
    if crawl.mode == "tag" and crawl.stat("near_duplicate"):
        cpu += "; the number of drops holds within some 5 %, the list depends on the order of responses"
    return f"{new}{remembered}{cpu}"


def _checked(crawl: Crawl) -> str:
    """Return what near-duplicates that were parsed have brought."""
    pages, equal, other = map(crawl.stat, ("checked", "items/equal", "items/other"))
    if not pages:
        return ""
    links, none = crawl.stat("items/links"), pages - equal - other - crawl.stat("items/links")
    brought = {"gave nothing new": equal, "gave new items": other, "gave only new links": links}
    brought["gave nothing to compare"] = max(0, none)
    said = ", ".join(f"{n:,} {what}" for what, n in brought.items() if n)
    withheld, would = crawl.stat("items/withheld"), "would be " if crawl.mode == "tag" else ""
    end = f"; {count(withheld, 'item')} {would}withheld" if withheld else ""
    return f"{count(pages, 'near-duplicate was', 'near-duplicates were')} checked: {said}{end}"


def _nothing(crawl: Crawl) -> str:
    """Return the reason for which nearly all pages of a site are not judged, or ""."""
    concerned = {reason: crawl.exempt.get(reason, 0) for reason in _SITES}
    nearly_all = crawl.decided and sum(concerned.values()) >= NOTHING * crawl.decided
    return max(concerned, key=concerned.__getitem__) if nearly_all else ""


def _most(found: Mapping[str, int]) -> str:
    """Return the most frequent with their numbers, and how many others there are."""
    most = sorted(found.items(), key=lambda each: -each[1])
    others = sum(n for _, n in most[NAMED:])
    named = [f"{name} ({n:,})" for name, n in most[:NAMED]]
    return ", ".join([*named, f"others ({others:,})"] if others else named)
