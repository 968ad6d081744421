"""The page that DEDUP_REPORT asks for: what deduplication did in a crawl, and whether it was right.

    stats, journal -> funnel, savings, groups with their texts, hosts, reasons, advice -> one file

The rule kept here: every number is one of the stats, or counted in the journal; the one that is
estimated says so.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from dedup.report.page import bars, facts, page, section, table, two_texts, warning
from dedup.scrapy.config import Config
from dedup.scrapy.journal import Example, Group, Journal

__all__ = ["crawl_report", "write_report"]

GROUPS_SHOWN = 30
HOSTS_SHOWN = 50
SUSPICIOUS_SHARE = 0.6  # near-duplicates among the judged pages of a host
SUSPICIOUS_PAGES = 20  # judged, at least
CONTEXT = 12  # words around a difference

_BECAME = {
    "drop": "dropped before they were parsed",
    "skip_links": "parsed, but not followed",
    "tag": "marked only",
}
_REASONS = {
    "start": "start requests: always kept",
    "non_html": "no HTML or text",
    "status": "another status than 200",
    "method": "another method than GET",
    "short": "too few distinct words to be judged",
    "too_large": "larger than DEDUP_MAX_BYTES",
    "data_page": "made of inline data",
    "new_links": "alike text, but new links: page 2 of a listing",
    "no_callback": "robots.txt, media, the shell",
    "in_flight": "a near-duplicate was in flight for too long",
}


def write_report(
    path: Path, name: str, stats: Mapping[str, Any], config: Config, journal: Journal
) -> None:
    """Write the report, whole or not at all. Raises OSError with the path."""
    text = crawl_report(name, stats, config, journal)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        Path(made).chmod(0o644)
        Path(made).replace(path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise


def crawl_report(name: str, stats: Mapping[str, Any], config: Config, journal: Journal) -> str:
    """Return the report of the crawl of a spider with this name, from its stats and journal."""
    counts = {stat[6:]: n for stat, n in stats.items() if stat.startswith("dedup/")}
    parts = [
        _headline(counts, config),
        *(warning(text) for text in _warnings(counts, journal)),
        _funnel(stats, counts),
        _savings(counts, config, journal),
        _groups(journal),
        _hosts(journal),
        _reasons(counts),
        _settings(config),
        _advice(counts, config, journal),
    ]
    begun = stats.get("start_time")
    when = f", begun {begun:%Y-%m-%d %H:%M} UTC" if begun is not None else ""
    return page(f"Deduplication of the crawl {name}", parts, f"crawl-dedup, spider {name}{when}")


def _headline(counts: Mapping[str, Any], config: Config) -> str:
    probed, found = counts.get("probed", 0), counts.get("near_duplicate", 0)
    return "\n".join(
        (
            f"<p>{found:,} of {probed:,} judged pages were near-duplicates of pages seen before; "
            f"they were {_BECAME[config.mode]}.</p>",
            facts(
                [
                    ("judged", probed),
                    ("near-duplicates", found),
                    ("share", f"{_percent(found, probed)}"),
                    ("unique", counts.get("unique", 0)),
                    ("fetched again", counts.get("refetch", 0)),
                    ("remembered", counts.get("inserted", 0)),
                ]
            ),
        )
    )


def _warnings(counts: Mapping[str, Any], journal: Journal) -> Iterator[str]:
    errors = {kind[6:]: n for kind, n in counts.items() if kind.startswith("error/")}
    if errors:
        listed = ", ".join(f"{n:,} {kind}" for kind, n in sorted(errors.items()))
        yield f"Deduplication failed at times, and those pages were kept: {listed}. The log says why."
    suspicious = _suspicious(journal)
    if suspicious:
        more = f" and {len(suspicious) - 3:,} more" if len(suspicious) > 3 else ""
        yield (
            f"Over {SUSPICIOUS_SHARE:.0%} of the pages of {', '.join(suspicious[:3])}{more} were "
            "near-duplicates. Look at the examples: an error page under many addresses, a consent "
            "wall and a template with little text look like this."
        )


def _funnel(stats: Mapping[str, Any], counts: Mapping[str, Any]) -> str:
    exempt = sum(n for reason, n in counts.items() if reason.startswith("exempt/"))
    steps = [
        ("requests", stats.get("downloader/request_count", 0)),
        ("responses", stats.get("downloader/response_count", 0)),
        ("judged", counts.get("probed", 0)),
        ("near-duplicates", counts.get("near_duplicate", 0)),
        ("unique", counts.get("unique", 0)),
        ("fetched again", counts.get("refetch", 0)),
        ("exempt", exempt),
        ("parsed to the end and remembered", counts.get("inserted", 0)),
        ("items", stats.get("item_scraped_count", 0)),
    ]
    return section("From request to item", bars(steps))


def _savings(counts: Mapping[str, Any], config: Config, journal: Journal) -> str:
    found = counts.get("near_duplicate", 0) - counts.get("explored", 0)
    each = journal.parsing_seconds / journal.parsed if journal.parsed else 0.0
    rows: list[tuple[str, str | int | float]] = [
        ("pages not parsed", found if config.mode == "drop" else 0),
        ("MB not parsed", journal.dropped_bytes / 1e6 if config.mode == "drop" else 0.0),
        ("links not followed", journal.dropped_links if config.mode != "tag" else 0),
        ("seconds of callbacks saved", found * each if config.mode == "drop" else 0.0),
        ("seconds spent on it", float(counts.get("cpu_seconds", 0.0))),
    ]
    return section(
        "What it saved",
        facts(rows),
        text="Links are those in the main content of near-duplicates, whether or not they lead to "
        "pages that are found otherwise. Saved CPU time is estimated: the mean of the callbacks that "
        "ran, for each page that was not parsed; what lies behind their links comes on top.",
    )


def _groups(journal: Journal) -> str:
    groups = sorted(journal.groups.items(), key=lambda item: (-item[1].count, item[0]))
    shown = "\n".join(_group(key, group) for key, group in groups[:GROUPS_SHOWN])
    more = len(groups) - GROUPS_SHOWN
    text = "The pages with the most near-duplicates, with examples of them."
    if more > 0:
        text += f" {more:,} more have {sum(g.count for _, g in groups[GROUPS_SHOWN:]):,}."
    return section("Groups of near-duplicates", shown or "<p>There are none.</p>", text=text)


def _group(key: str, group: Group) -> str:
    title = f"<h3>{escape(key)}</h3><p>{group.count:,} near-duplicates, among them</p>"
    return title + "\n".join(_example(example) for example in group.examples)


def _example(example: Example) -> str:
    name = escape(f"{example.url} ({example.distance} bits, {example.check_distance} of check)")
    if example.texts is None:
        return f'<p class="pair">{name}</p>'
    shown = two_texts(*example.texts, CONTEXT)
    return f'<details class="pair"><summary>{name}</summary>{shown}</details>'


def _suspicious(journal: Journal) -> list[str]:
    return [
        name
        for name, host in sorted(journal.hosts.items(), key=lambda item: -item[1].near_duplicates)
        if host.judged >= SUSPICIOUS_PAGES and host.near_duplicates > SUSPICIOUS_SHARE * host.judged
    ]


def _hosts(journal: Journal) -> str:
    suspicious = set(_suspicious(journal))
    hosts = sorted(journal.hosts.items(), key=lambda item: (-item[1].near_duplicates, item[0]))
    rows = [
        (
            name or "-",
            host.judged,
            host.near_duplicates,
            _percent(host.near_duplicates, host.judged),
            "look at it" if name in suspicious else "",
        )
        for name, host in hosts[:HOSTS_SHOWN]
    ]
    more = f"{len(hosts) - HOSTS_SHOWN:,} more hosts." if len(hosts) > HOSTS_SHOWN else ""
    headers = ("host", "judged", "near-duplicates", "share", "")
    return section("Hosts", table(headers, rows), text=more)


def _reasons(counts: Mapping[str, Any]) -> str:
    rows = sorted(
        (reason[7:], n) for reason, n in counts.items() if reason.startswith("exempt/") and n
    )
    named = [(f"{reason}: {_REASONS.get(reason, 'kept')}", n) for reason, n in rows]
    distances = sorted(
        (int(name.rpartition("/")[2]), n)
        for name, n in counts.items()
        if name.startswith("near_duplicate/distance/")
    )
    return "\n".join(
        (
            section("Kept without being judged, or all the same", bars(named)) if named else "",
            section(
                "Distances of the near-duplicates",
                bars([(f"{bits} bits", n) for bits, n in distances]),
                text="Many at the greatest distance: more copies may lie beyond it. Few: a smaller "
                "distance would find nearly as many.",
            )
            if distances
            else "",
        )
    )


def _settings(config: Config) -> str:
    rows = []
    for field, value in msgspec.structs.asdict(config).items():
        told = "set" if field == "secret" and value else value
        if isinstance(told, frozenset):
            told = ", ".join(sorted(told))
        elif isinstance(told, tuple):  # in the order of preference
            told = ", ".join(map(_without_token, told))
        rows.append((f"DEDUP_{field.upper()}", "the recipe's" if told is None else str(told)))
    return section("Settings in force", table(("setting", "value"), rows))


def _without_token(url: str) -> str:
    """Return a service's URL without what stands before the host."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _advice(counts: Mapping[str, Any], config: Config, journal: Journal) -> str:
    lines = []
    if _suspicious(journal):
        lines.append("Look at the hosts above with DEDUP_MODE = 'tag' before dropping their pages.")
    if config.mode == "drop" and not config.explore and counts.get("near_duplicate", 0) >= 100:
        lines.append(
            "DEDUP_EXPLORE = 0.05 parses one near-duplicate in twenty: so you keep seeing "
            "what you would miss."
        )
    if counts.get("exempt/in_flight", 0) > 0.01 * counts.get("probed", 0):
        lines.append(
            "Pages were kept because a near-duplicate was in flight for too long: a longer "
            "DEDUP_WAIT_SECONDS lets them wait for it."
        )
    if counts.get("exempt/short", 0) > 0.5 * counts.get("probed", 0) > 0:
        lines.append("Most pages have too few words to be judged: are they made by JavaScript?")
    if counts.get("late_duplicate", 0) > 0.01 * counts.get("inserted", 0):
        lines.append(
            "Near-duplicates were accepted at the same time (late_duplicate): a longer "
            "DEDUP_RESERVATION_SECONDS covers slow callbacks."
        )
    if not lines:
        lines.append("Nothing stands out.")
    return section("What to tune", "<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"
