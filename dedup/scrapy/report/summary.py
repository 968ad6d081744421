"""The summary of a crawl: one log record, at most eight lines that add up, each with [dedup], none of them for zero."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dedup.model.names import count
from dedup.scrapy.evidence.difference import in_words
from dedup.scrapy.evidence.ledger import Class, Record
from dedup.scrapy.settings import Config

NAMED = 5  # of a list
NOTHING = 0.9  # of the pages were not judged, for reasons of the site
_SITES = {  # these reasons
    "data_page": "are made of inline data",
    "short": "have too few distinct words to be judged",
    "unread": "have more text than was read of them",
    "non_html": "are no HTML or text",
}

_STATUSES = {
    "unique": "unique",
    "compared": "compared",
    "near_duplicate": "dropped",
    "refetch": "known URLs fetched again",
}
_COPIES = {
    "drop": "dropped {} unparsed",
    "skip_links": "parsed {} without following links",
    "tag": 'DEDUP_MODE = "tag" changes nothing; "drop" would drop {} unparsed',
}


class Found(NamedTuple):
    """What a crawl found.

    counts   stats, without their prefix
    shapes   copies, by how their URLs differ from their originals'
    classes  of pages that look like accepted ones
    waiting  requests that wait for something new, by what differs in their URLs
    rules    the rules about URLs in force
    """

    counts: Mapping[str, Any]
    shapes: "Counter[str]"
    classes: Sequence[tuple[Class, Record]]
    waiting: "Counter[str]"
    rules: Sequence[Any]


def summary(found: Found, config: Config, remembered: str) -> str:
    """Return the summary; remembered says what is stored, and where."""
    return "\n".join(f"[dedup] {line}" for line in _lines(found, config, remembered))


def _lines(found: Found, config: Config, remembered: str) -> Iterator[str]:
    counts = Counter({name: n for name, n in found.counts.items() if n})
    exempt, errors = _listed(counts, "exempt/"), _listed(counts, "error/")
    parts = {name: counts[status] for status, name in _STATUSES.items()}
    total = sum(parts.values()) + exempt.total()
    said = [f"{n:,} {name}" for name, n in parts.items() if n]
    if exempt:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in exempt.most_common())
        said.append(f"{exempt.total():,} exempt ({reasons})")
    if config.mode != "drop":
        said = [part.replace(" dropped", " copies") for part in said]
    yield f"{count(total, 'page')}: {' + '.join(said)}" if said else "0 pages"
    if line := _copies(found, counts, config):
        yield line
    elif not counts["compared"] and (reason := _nothing(exempt, total)):
        yield f"nothing to do on this site: {exempt[reason]:,} of {count(total, 'page')} {_SITES[reason]} ({reason})"
    if line := _compared(counts, config):
        yield line
    if counts["items/again"]:
        names = Counter({str(name): record.again for name, record in found.classes if record.again})
        yield (
            f"{count(counts['items/again'], 'dropped page')} requested again, since one like them brought something "
            f"new{f': {_most(names)}' if names else ''}"
        )
    if found.waiting:
        waiting = found.waiting.total()
        wait = count(waiting, "request waits", "requests wait")
        yield f"the budget is spent: {wait} for something new: {_most(found.waiting)}"
    if line := _urls(found, counts):
        yield line
    if errors:
        yield f"faults of dedup, what they concerned was kept: {_most(errors)}"
    cpu = f"; CPU {1e6 * counts['cpu_seconds'] / counts['probed']:.0f} us a page"
    new = count(counts["inserted"], "page") + " remembered: "
    yield f"{new if counts['inserted'] else ''}{remembered}{cpu if counts['probed'] else ''}"


def _copies(found: Found, counts: Mapping[str, Any], config: Config) -> str:
    copies = counts["near_duplicate"]
    if not copies:
        return ""
    shapes = Counter[str]()
    for shape, n in found.shapes.items():
        shapes[in_words(shape)] += n
    line = f"{_COPIES[config.mode].format(count(copies, 'copy', 'copies'))}: {_most(shapes)}"
    by_text = counts["items/by_text"]
    return f"{line}; {by_text:,} by their text alone" if by_text else line


def _compared(counts: Mapping[str, Any], config: Config) -> str:
    equal, other = counts["items/equal"], counts["items/other"]
    pages = max(counts["compared"], equal + other)
    if not pages:
        return ""
    brought = {"nothing new": equal, "new items": other}
    brought["new requests, or no items"] = pages - equal - other
    said = ", ".join(f"{n:,} brought {what}" for what, n in brought.items() if n)
    numbers = {what: counts[f"{what}s/withheld"] for what in ("item", "request")}
    withheld = " and ".join(count(n, what) for what, n in numbers.items() if n)
    would = "would be " if config.mode == "tag" else ""
    return f"{count(pages, 'compared page')}: {said}{f'; {withheld} {would}withheld' if withheld else ''}"


def _urls(found: Found, counts: Mapping[str, Any]) -> str:
    said = []
    if counts["url_skipped"]:
        said.append(f"{count(counts['url_skipped'], 'request')} not sent")
    if counts["url_would_skip"]:
        saved = count(counts["url_would_skip"], "request")
        said.append(f"{saved} would not be sent with DEDUP_URLS = 'skip'")
    if not said:
        return ""
    rules = [rule.rule for rule in found.rules]
    more = ", ..." if len(rules) > NAMED else ""
    by = f", by {count(len(rules), 'rule')}: {', '.join(rules[:NAMED])}{more}" if rules else ""
    return f"URLs: {', '.join(said)}{by}"


def _nothing(exempt: "Counter[str]", total: int) -> str:
    """Return the reason for which nearly all pages of a site are not judged, or ""."""
    concerned = Counter({reason: exempt[reason] for reason in _SITES})
    return concerned.most_common(1)[0][0] if total and concerned.total() >= NOTHING * total else ""


def _listed(counts: Mapping[str, Any], prefix: str) -> "Counter[str]":
    found = {name[len(prefix) :]: n for name, n in counts.items() if name.startswith(prefix)}
    return Counter(found)


def _most(found: "Counter[str]") -> str:
    """Return the most frequent with their numbers, and how many others there are."""
    named = [f"{name} ({n:,})" for name, n in found.most_common(NAMED)]
    others = found.total() - sum(n for _, n in found.most_common(NAMED))
    return ", ".join([*named, f"others ({others:,})"] if others else named)
