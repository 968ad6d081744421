"""The summary of a crawl's deduplication, in a few readable lines for the log."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dedup.report.texts import count
from dedup.scrapy.settings import Config

if TYPE_CHECKING:
    from dedup.scrapy.journal import HeldRule

__all__ = ["summary"]

RULES_NAMED = 5

_WHAT_BECAME = {
    "drop": "dropped before parsing",
    "skip_links": "parsed, their links not followed",
    "tag": "flagged only",
}


def summary(
    stats: Mapping[str, Any],
    config: Config,
    remembered: str,
    warnings: Sequence[str] = (),
    rules: "Sequence[HeldRule]" = (),
    proved: Sequence[str] = (),
) -> str:
    """Return the summary of a crawl from its stats; remembered says what is stored, and where.

    rules  the rules about its URLs that hold
    """
    counts = {name[6:]: value for name, value in stats.items() if name.startswith("dedup/")}
    probed, found = counts.get("probed", 0), counts.get("near_duplicate", 0)
    share = f" ({100 * found / probed:.0f} %)" if probed else ""
    lines = [
        f"dedup: {count(probed, 'page')} judged: {counts.get('unique', 0):,} unique, "
        f"{count(found, 'near-duplicate')}"
        f"{share} {_WHAT_BECAME[config.mode]}, {_fetched_again(counts)}",
        f"  kept, by reason: {_listed(counts, 'exempt/')}",
        f"  distances of near-duplicates: {_distances(counts)}",
        f"  faults of dedup: {_listed(counts, 'error/')}",
        f"  remembered {counts.get('inserted', 0):,}, released {counts.get('released', 0):,}; "
        f"{remembered}",
    ]
    if rules:
        named = ", ".join(rule.rule for rule in rules[:RULES_NAMED])
        more = ", ..." if len(rules) > RULES_NAMED else ""
        lines.append(f"  URLs: {_saved(counts)} by {count(len(rules), 'rule')}: {named}{more}")
    lines += [f"dedup: {line}." for line in proved]
    if probed:
        lines.append(f"  CPU: {1e6 * counts.get('cpu_seconds', 0.0) / probed:.0f} us a page")
    lines += [f"  look at this: {warning}" for warning in warnings]
    by_text = found - counts.get("items/dropped", 0)  # the others are proven by items
    if probed >= 100 and by_text > 0.6 * probed:
        how = "" if config.mode == "tag" else " (DEDUP_MODE = 'tag')"
        lines.append(f"  over 60 % are near-duplicates: look at some{how} before trusting it")
    return "\n".join(lines)


def _saved(counts: Mapping[str, Any]) -> str:
    if "url_skipped" in counts:
        return f"{count(counts['url_skipped'], 'request')} not sent"
    saved = counts.get("url_would_skip", 0)
    return f"{count(saved, 'request')} could be saved (DEDUP_URLS = 'skip')"


def _fetched_again(counts: Mapping[str, Any]) -> str:
    again = f"{counts.get('refetch', 0):,} fetched again"
    if not counts.get("unchanged"):
        return again
    items = count(counts.get("unchanged_items", 0), "item")
    return f"{again}, {counts['unchanged']:,} of them unchanged ({items} not brought again)"


def _listed(counts: Mapping[str, Any], prefix: str) -> str:
    found = sorted(
        (name[len(prefix) :], value) for name, value in counts.items() if name.startswith(prefix)
    )
    return ", ".join(f"{name} ({value:,})" for name, value in found) or "none"


def _distances(counts: Mapping[str, Any]) -> str:
    begin = "near_duplicate/distance/"
    found = sorted(
        (int(name[len(begin) :]), n) for name, n in counts.items() if name.startswith(begin)
    )
    return ", ".join(f"{n:,} at {bits}" for bits, n in found) + " bits" if found else "none"
