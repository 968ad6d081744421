"""The report of a scan, for a person (HTML) or a program (JSON).

    verdicts -> the greatest clusters and the hosts with most duplicates -> with the summary, a page

Invariants: memory is bounded. With more clusters or hosts than are counted at once, small ones are
evicted and the remaining counts are lower bounds, which the report says.
"""

from collections.abc import Iterable, Iterator
from heapq import nlargest
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from dedup.model.errors import UsageError
from dedup.model.names import count
from dedup.report.parts import (
    Bar,
    Bars,
    Entry,
    Figures,
    Folded,
    Link,
    Part,
    Section,
    Table,
    percent,
)
from dedup.report.parts import Report as Shown
from dedup.report.texts import alike
from dedup.scan.values import Row, Summary

COUNTED = 100_000  # names counted at once
EXEMPLIFIED = 10_000  # names of which examples are kept
SHOWN = 20
EXAMPLES = 5  # near-duplicates of a page that are named


class Example(msgspec.Struct, frozen=True):
    """A near-duplicate of a page."""

    key: str
    similarity: float | None


class Count(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many near-duplicates one page, or one host, has; of a page the least similar ones."""

    name: str
    near_duplicates: int
    examples: list[Example] = []


class Report(msgspec.Struct, frozen=True):
    """The summary, the greatest clusters and hosts; exact is false where counts are lower bounds."""

    summary: Summary
    clusters: list[Count]
    hosts: list[Count]
    exact: bool


class _Most:
    """Counts names in bounded memory, and keeps a few examples of the most frequent ones."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[Example]] = {}
        self.exact = True

    def add(self, name: str, example: Example | None = None) -> None:
        self._counts[name] = self._counts.get(name, 0) + 1
        if example is not None:
            of_name = self._examples.setdefault(name, [])
            of_name.append(example)
            of_name.sort(key=_by_risk)
            del of_name[EXAMPLES:]
            if len(self._examples) > EXEMPLIFIED:
                most = nlargest(EXEMPLIFIED // 2, self._examples, key=lambda n: self._counts[n])
                self._examples = {n: self._examples[n] for n in most}
        if len(self._counts) > 2 * COUNTED:
            self._counts = dict(self._ordered()[:COUNTED])
            self._examples = {n: e for n, e in self._examples.items() if n in self._counts}
            self.exact = False

    def most(self) -> list[Count]:
        return [
            Count(name, count, self._examples.get(name, []))
            for name, count in self._ordered()[:SHOWN]
        ]

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
            clusters.add(row.cluster, Example(row.key, row.similarity))
            hosts.add(_host(row.key))
    exact = clusters.exact and hosts.exact
    return Report(summary, clusters.most(), hosts.most(), exact)


def write_report(report: Report, path: str) -> None:
    """Write a report. Raises OSError."""
    if path.lower().endswith(".json"):
        Path(path).write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    else:
        from dedup.report.html import html_page

        Path(path).write_text(html_page(_shown(report)), "utf-8", "replace")


def _host(key: str) -> str:
    try:
        return urlsplit(key).netloc or "-"
    except ValueError:
        return "-"


def _by_risk(example: Example) -> tuple[float, str]:
    return (example.similarity or 0.0, example.key)


def _shown(report: Report) -> Shown:
    s = report.summary
    judged = [
        Bar("pages", s.pages),
        Bar("unique", s.unique, "unique", True),
        Bar("near-duplicates", s.near_duplicate, "near", True),
        Bar("fetched again, under the same key", s.refetch, "refetch", True),
        *(Bar(f"exempt: {reason}", n, "exempt", True) for reason, n in sorted(s.exempt.items())),
    ]
    aside = [Bar(f"not a page: {reason}", n) for reason, n in sorted(s.skipped.items())]
    aside += [Bar("broken", s.broken)] if s.broken else []
    least = "" if report.exact else "There are too many to count them all: these are lower bounds."
    similarities = [Bar(f"{share} %", n, "near") for share, n in sorted(s.similarities.items())]
    hosts = Table(
        ("host", "near-duplicates"), [(host.name, host.near_duplicates) for host in report.hosts]
    )
    parts: list[Part] = [
        Figures([("pages", s.pages), ("unique", s.unique), ("near-duplicates", s.near_duplicate)]),
        Section("Verdicts", [Bars(judged)]),
        *([Section("Other records", [Bars(aside)])] if aside else []),
        Section(
            "Near-duplicates by similarity",
            [Bars(similarities)],
            "The estimated share of the word triples of both texts that are in both.",
        ),
        *_distances(s),
        Section("Pages with most near-duplicates", _clusters(report.clusters), least),
        Section("Hosts with most near-duplicates", [hosts], least),
    ]
    if s.faults:
        rows = [(fault.path, fault.place, fault.reason) for fault in s.faults]
        text = f"The first {len(rows)} of {s.broken:,}." if s.broken > len(rows) else ""
        faults = Table(("file", "place", "what is wrong"), rows)
        parts.append(Section("Broken records", [faults], text))
    return Shown("Near-duplicates of a scan", parts, "crawl-dedup, dedup scan")


def _clusters(clusters: list[Count]) -> list[Part]:
    """Return the pages with their near-duplicates, the least similar ones by name."""
    parts: list[Part] = [
        Table(
            ("page", "near-duplicates"),
            [(Link(page.name), page.near_duplicates) for page in clusters],
        )
    ]
    for page in clusters:
        named = [Entry(each.key, _share(each)) for each in page.examples]
        which = "" if len(named) == page.near_duplicates else f", the {len(named)} least similar"
        parts.append(Folded(f"near-duplicates of {page.name}{which}", named, small=True))
    return parts


def _share(example: Example) -> str:
    return "" if example.similarity is None else alike(example.similarity)


def _distances(s: Summary) -> Iterator[Section]:
    """Yield how many near-duplicates a scan at each smaller distance would find."""
    total, rows = 0, []
    for bits in range(max(s.distances, default=-1) + 1):
        total += (here := s.distances.get(bits, 0))
        rows.append((count(bits, "bit"), here, total, percent(total, s.pages)))
    if rows:
        yield Section(
            "What if: a smaller distance",
            [Table(("distance", "pages at it", "up to it", "share"), rows)],
            "Near-duplicates that a scan with --distance would find: those up to it. An estimate: "
            "what is kept decides what later pages are compared with.",
        )
