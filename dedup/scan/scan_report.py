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
from dedup.model.report.html import bars, facts, page, section, table
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
    aside = [
        ("seen again under their own key", s.refetch),
        *((f"kept: {reason}", n) for reason, n in sorted(s.exempt.items())),
        *((f"no page: {reason}", n) for reason, n in sorted(s.skipped.items())),
        ("broken", s.broken),
    ]
    least = "" if report.exact else "There are too many to count them all: these are lower bounds."
    parts = [
        facts([("pages", s.pages), ("unique", s.unique), ("near-duplicates", s.near_duplicate)]),
        section("Other records", bars(aside)),
        section(
            "Near-duplicates by similarity",
            bars([(f"{share} %", n, "near") for share, n in sorted(s.similarities.items())]),
            text="The estimated share of the word triples of both texts that are in both.",
        ),
        section(
            "Near-duplicates by distance",
            bars([(count(bits, "bit"), n, "near") for bits, n in sorted(s.distances.items())]),
        ),
        section("Pages with most near-duplicates", bars(_pairs(report.clusters)), text=least),
        section("Hosts with most near-duplicates", bars(_pairs(report.hosts)), text=least),
    ]
    if s.faults:
        rows = [(fault.path, fault.place, fault.reason) for fault in s.faults]
        told = f"The first {len(rows)} of {s.broken:,}." if s.broken > len(rows) else ""
        faults = table(("file", "place", "what is wrong"), rows)
        parts.append(section("Broken records", faults, text=told))
    return page("Scan", parts)


def _pairs(counts: list[Count]) -> list[tuple[str, int]]:
    return [(count.name, count.near_duplicates) for count in counts]
