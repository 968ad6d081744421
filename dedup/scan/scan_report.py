"""A short report of a scan, for a person (HTML) or a program (JSON).

    verdicts -> the greatest clusters and the hosts with most duplicates -> with the summary, a page

The rule kept here: memory is bounded. With more clusters or hosts than are counted at once, small
ones are forgotten on the way and the counts that remain are lower bounds, which the report says.
"""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from dedup.model.errors import UsageError
from dedup.model.report.html import Bar, bars, facts, page, percent, section, table
from dedup.model.report.texts import count
from dedup.scan.scan_values import Row, Summary

__all__ = ["check_report", "make_report", "write_report"]

COUNTED = 100_000  # names counted at once
SHOWN = 20


class Count(msgspec.Struct, frozen=True):
    """How many near-duplicates one page, or one host, has."""

    name: str
    near_duplicates: int


class Report(msgspec.Struct, frozen=True):
    """What a report shows; exact is false where the counts are lower bounds."""

    summary: Summary
    clusters: list[Count]
    hosts: list[Count]
    exact: bool


class _Most:
    """The names that occur most often, in bounded memory."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.exact = True

    def add(self, name: str) -> None:
        self._counts[name] = self._counts.get(name, 0) + 1
        if len(self._counts) > 2 * COUNTED:
            self._counts = dict(self._ordered()[:COUNTED])
            self.exact = False

    def most(self) -> list[Count]:
        return [Count(name, count) for name, count in self._ordered()[:SHOWN]]

    def _ordered(self) -> list[tuple[str, int]]:
        return sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))


def check_report(path: str) -> None:
    """Raise UsageError for a report whose name says neither HTML nor JSON."""
    if not path.lower().endswith((".html", ".htm", ".json")):
        raise UsageError(f"{path}: a report is written to a file named .html or .json")


def make_report(summary: Summary, rows: Iterable[Row]) -> Report:
    """Return the report on a scan's verdicts."""
    clusters, hosts = _Most(), _Most()
    for row in rows:
        if row.status == "near_duplicate":
            clusters.add(row.cluster)
            hosts.add(_host(row.key))
    exact = clusters.exact and hosts.exact
    return Report(summary, clusters.most(), hosts.most(), exact)


def write_report(report: Report, path: str) -> None:
    """Write a report. Raises OSError."""
    if path.lower().endswith(".json"):
        Path(path).write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    else:
        Path(path).write_text(_html(report), encoding="utf-8")


def _host(key: str) -> str:
    try:
        return urlsplit(key).netloc or "-"
    except ValueError:
        return "-"


def _html(report: Report) -> str:
    s = report.summary
    judged: list[Bar] = [
        ("pages", s.pages),
        (" unique", s.unique, "unique"),
        (" near-duplicates", s.near_duplicate, "near"),
        (" seen again under their own key", s.refetch, "refetch"),
        *((f" kept: {reason}", n, "exempt") for reason, n in sorted(s.exempt.items())),
    ]
    aside = [*((f"no page: {reason}", n) for reason, n in sorted(s.skipped.items()))]
    aside += [("broken", s.broken)] if s.broken else []
    least = "" if report.exact else "There are too many to count them all: these are lower bounds."
    parts = [
        facts([("pages", s.pages), ("unique", s.unique), ("near-duplicates", s.near_duplicate)]),
        section("What became of the pages", bars(judged)),
        section("Other records", bars(aside)) if aside else "",
        section(
            "Near-duplicates by similarity",
            bars([(f"{share} %", n, "near") for share, n in sorted(s.similarities.items())]),
            text="The estimated share of the word triples of both texts that are in both.",
        ),
        _distances(s),
        section("Pages with most near-duplicates", _most("page", report.clusters), text=least),
        section("Hosts with most near-duplicates", _most("host", report.hosts), text=least),
    ]
    if s.faults:
        rows = [(fault.path, fault.place, fault.reason) for fault in s.faults]
        told = f"The first {len(rows)} of {s.broken:,}." if s.broken > len(rows) else ""
        faults = table(("file", "place", "what is wrong"), rows)
        parts.append(section("Broken records", faults, text=told))
    return page("Near-duplicates of a scan", parts, "crawl-dedup, dedup scan")


def _distances(s: Summary) -> str:
    """Return how many near-duplicates each distance finds; all within it are found, too."""
    total, rows = 0, []
    for bits in range(max(s.distances, default=-1) + 1):
        total += (here := s.distances.get(bits, 0))
        rows.append((count(bits, "bit"), here, total, percent(total, s.pages)))
    if not rows:
        return ""
    return section(
        "What if: a smaller distance",
        table(("distance", "pages at it", "up to it", "share"), rows),
        text="What a scan with --distance would find: those up to it. An estimate: what is kept decides what later pages are compared with.",
    )


def _most(what: str, counts: list[Count]) -> str:
    return table((what, "near-duplicates"), [(c.name, c.near_duplicates) for c in counts])
