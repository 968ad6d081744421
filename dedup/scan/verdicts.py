"""Verdicts on pages: made by a detector, counted, written as JSON lines or Parquet, and summed up in a report.

    results, in their order -> ScanJudge -> Row -> Summary, lines -> the output
    rows -> the greatest clusters and the hosts with most duplicates -> with the summary, HTML or JSON

Invariants: the detector decides, as in a crawl; every page is inserted at once, so that the next one is
compared with it. An output appears atomically. Memory is bounded: with more clusters or hosts than a report
counts at once, small ones are evicted and the remaining counts are lower bounds, which it says.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import msgspec

from dedup.core.files import replacing
from dedup.detector import EmbeddedDetector
from dedup.model.errors import UsageError
from dedup.model.forms import to_columns
from dedup.model.page import ReserveOptions, Verdict, hex_fingerprint
from dedup.report.file import check_report, write_report
from dedup.report.parts import (
    Bar,
    Bars,
    FigureRow,
    Folded,
    Link,
    ListEntry,
    Part,
    ReportPage,
    Section,
    TablePart,
)
from dedup.report.texts import alike
from dedup.scan.reading import learned
from dedup.scan.values import (
    BROKEN_KEPT,
    Broken,
    BrokenRecord,
    Large,
    PageToJudge,
    Result,
    Row,
    Skipped,
    Summary,
)


class ScanJudge:
    """Judges results in their order and counts them in a summary."""

    def __init__(
        self,
        detector: EmbeddedDetector,
        identity: bool,
        summary: Summary,
        fault: Callable[[BrokenRecord], None] | None = None,
    ) -> None:
        """Continue a summary; identity is as in Job; call fault for every broken record."""
        self.summary = summary
        self._detector, self._identity, self._fault = detector, identity, fault

    def learned(self, result: Result) -> Result:
        """Return what is to be judged of a result: a page's blocks are counted, and its fingerprint says what they tell."""
        if not isinstance(result, PageToJudge):
            return result
        page = learned(result, self._detector.templates)
        return msgspec.structs.replace(result, page=page, blocks=b"")

    def take(self, result: Result) -> Row | None:
        """Return the verdict on what learned() returned; None for what is no page. Raises what the store raises."""
        if isinstance(result, PageToJudge):
            asked = options_of(result, self._identity)
            row = verdict_row(self._detector.accept(result.page, result.key, asked))
        elif isinstance(result, Large):
            row = large_row(result.key)
        else:
            count_other(self.summary, result, self._fault)
            return None
        count_row(self.summary, row)
        return row


def options_of(found: PageToJudge, identity: bool) -> ReserveOptions:
    """Return how a page is judged; identity is as in Job."""
    return ReserveOptions(domain=found.domain, guard=identity or found.page.partly)


def count_row(summary: Summary, row: Row) -> None:
    """Count a verdict."""
    summary.pages += 1
    match row.status:
        case "unique":
            summary.unique += 1
        case "refetch":
            summary.refetch += 1
        case "near_duplicate":
            assert row.distance is not None
            assert row.similarity is not None
            summary.near_duplicate += 1
            _add(summary.distances, row.distance)
            _add(summary.similarities, int(100 * row.similarity))
        case _:
            _add(summary.exempt, row.reason)


def count_other(
    summary: Summary, result: Skipped | Broken, fault: Callable[[BrokenRecord], None] | None = None
) -> None:
    """Count a result that is not a page; call `fault` for a broken record."""
    if isinstance(result, Skipped):
        _add(summary.skipped, result.reason)
        return
    found = BrokenRecord(result.path, result.place, result.reason)
    summary.broken += 1
    summary.unread_files += result.rest
    if len(summary.faults) < BROKEN_KEPT:
        summary.faults.append(found)
    if fault:
        fault(found)


def large_row(key: str) -> Row:
    """Return the verdict on a page that was too large to be read."""
    return Row(key, None, None, None, "exempt", "too_large", None, None, None, None, key)


def verdict_row(verdict: Verdict) -> Row:
    """Return a verdict as a row of the output."""
    page = verdict.page
    return Row(
        verdict.key,
        hex_fingerprint(page.value),
        page.sketch.hex(),
        page.features,
        *to_columns(verdict),
    )


def _add(counts: dict[Any, int], name: object) -> None:
    counts[name] = counts.get(name, 0) + 1


ROWS_AT_ONCE = 1 << 15
_TEXT = ("key", "value", "sketch", "status", "reason", "of", "identity", "cluster")
_SUFFIXES = (".jsonl", ".ndjson", ".parquet")

_encode = msgspec.json.Encoder().encode


def check_outputs(output: str | None, report: str | None) -> None:
    """Raise UsageError for a name of the verdicts, or of the report, that says no format; or that is no file's."""
    if output is not None and not output.lower().endswith(_SUFFIXES):
        raise UsageError(f"{output}: verdicts are written to a file named {', '.join(_SUFFIXES)}")
    if output is not None and Path(output).exists() and not Path(output).is_file():
        raise UsageError(f"{output}: not a regular file; give the name of a new one")
    check_report(report)


def to_line(row: Row) -> bytes:
    """Return a verdict as a line of JSON."""
    return _encode(row) + b"\n"


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the verdicts of a file of JSON lines."""
    decode = msgspec.json.Decoder(Row).decode
    with path.open("rb") as file:
        for line in file:
            yield decode(line)


def finish(summary: Summary, lines: Path, output: str | None, report: str | None) -> None:
    """Write the report on a file of verdicts, and bring these, which may move, to the output.

    Doing it once more changes nothing. Raises OSError.
    """
    if report is not None and lines.exists():  # else an earlier attempt has moved them
        made = make_report(summary, read_rows(lines))
        write_report(report, made, _shown(made))
    if output is None:
        return
    target = Path(output)
    if output.lower().endswith(".parquet"):
        with replacing(target) as file:
            _write_parquet(lines, file)
    elif lines.exists():
        _flush(lines)
        lines.replace(target)


def _write_parquet(lines: Path, file: IO[bytes]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    types: dict[str, Any] = {
        name: pa.string() if name in _TEXT else pa.int64() for name in Row.__struct_fields__
    }
    types["similarity"] = pa.float64()
    schema = pa.schema(list(types.items()))
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        rows = read_rows(lines)
        while some := list(islice(rows, ROWS_AT_ONCE)):
            columns = [[getattr(row, name) for row in some] for name in types]
            arrays = [pa.array(c, t) for c, t in zip(columns, types.values(), strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# ------------------------------------------------------------------------------------- the report

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


class ScanReport(msgspec.Struct, frozen=True):
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


def make_report(summary: Summary, rows: Iterable[Row]) -> ScanReport:
    """Return the report on a scan's verdicts."""
    clusters, hosts = _Most(), _Most()
    for row in rows:
        if row.status == "near_duplicate":
            clusters.add(row.cluster, Example(row.key, row.similarity))
            hosts.add(_host(row.key))
    exact = clusters.exact and hosts.exact
    return ScanReport(summary, clusters.most(), hosts.most(), exact)


def _host(key: str) -> str:
    try:
        return urlsplit(key).netloc or "-"
    except ValueError:
        return "-"


def _by_risk(example: Example) -> tuple[float, str]:
    return (example.similarity or 0.0, example.key)


def _shown(report: ScanReport) -> ReportPage:
    s = report.summary
    judged = [
        Bar("pages", s.pages),
        Bar("unique", s.unique, "unique", True),
        Bar("near-duplicates", s.near_duplicate, "near", True),
        Bar("with a repeated URL", s.refetch, "refetch", True),
        *(Bar(f"exempt: {reason}", n, "exempt", True) for reason, n in sorted(s.exempt.items())),
    ]
    aside = [Bar(f"not a page: {reason}", n) for reason, n in sorted(s.skipped.items())]
    aside += [Bar("broken", s.broken)] if s.broken else []
    least = "" if report.exact else "There are too many to count them all: these are lower bounds."
    similarities = [Bar(f"{share} %", n, "near") for share, n in sorted(s.similarities.items())]
    hosts = TablePart(
        ("host", "near-duplicates"), [(host.name, host.near_duplicates) for host in report.hosts]
    )
    parts: list[Part] = [
        FigureRow(
            [("pages", s.pages), ("unique", s.unique), ("near-duplicates", s.near_duplicate)]
        ),
        Section("Verdicts", [Bars(judged)]),
        *([Section("Other records", [Bars(aside)])] if aside else []),
        Section(
            "Near-duplicates by similarity",
            [Bars(similarities)],
            "The estimated share of all word triples that both texts have.",
        ),
        Section("Pages with most near-duplicates", _clusters(report.clusters), least),
        Section("Hosts with most near-duplicates", [hosts], least),
    ]
    if s.faults:
        rows = [(fault.path, fault.place, fault.reason) for fault in s.faults]
        text = f"The first {len(rows)} of {s.broken:,}." if s.broken > len(rows) else ""
        faults = TablePart(("file", "place", "what is wrong"), rows)
        parts.append(Section("Broken records", [faults], text))
    return ReportPage("Near-duplicates of a scan", parts, "crawl-dedup, dedup scan")


def _clusters(clusters: list[Count]) -> list[Part]:
    """Return the pages with their near-duplicates, the least similar ones by name."""
    parts: list[Part] = [
        TablePart(
            ("page", "near-duplicates"),
            [(Link(page.name), page.near_duplicates) for page in clusters],
        )
    ]
    for page in clusters:
        named = [ListEntry(each.key, _share(each)) for each in page.examples]
        which = "" if len(named) == page.near_duplicates else f", the {len(named)} least similar"
        parts.append(Folded(f"near-duplicates of {page.name}{which}", named, small=True))
    return parts


def _share(example: Example) -> str:
    return "" if example.similarity is None else alike(example.similarity)
