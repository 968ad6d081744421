"""An audit in words, and as a report."""

from collections.abc import Iterator

from dedup.model.names import count
from dedup.report.parts import (
    FigureRow,
    Lines,
    ListEntry,
    Part,
    ReportPage,
    Section,
    TablePart,
    Text,
    Warned,
)
from dedup.scan.audit.judging import Audit, CopyShare, Interval

SHARE_HEADERS = ("", "pairs", "no copy", "95 % interval", "not by our verdict", "95 % interval")


def sentences(audit: Audit) -> Iterator[str]:
    """Yield the result, a sentence a line."""
    a = audit
    yield (
        f"{a.tool}: {count(a.removed, 'removed document')} in {count(a.groups, 'group')}; "
        f"{count(a.judged, 'pair')} judged of {a.drawn:,} drawn"
    )
    if a.not_found:
        yield f"{count(a.not_found, 'pair')} left out: a document of it is not in the {count(a.documents, 'document')} read"
    yield (
        f"no copies (Jaccard of 3-token shingles under {a.threshold:g}): {_shown(a.whole.no_copy)}"
    )
    yield f"no near-duplicates by our verdict: {_shown(a.whole.no_near_duplicate)}"
    if a.superseded:
        yield f"{count(a.superseded, 'removed document')} in favour of one that was removed, too"
    if a.lost:
        examples = f", for example {', '.join(a.lost_examples[:3])}" if a.lost_examples else ""
        yield f"{count(a.lost, 'group')} lost all members{examples}"
    else:
        yield "no group lost all members"
    yield (
        f"chains (A near B near C, A far from C): in {a.chained:,} of {count(a.groups_looked_into, 'group')} of three "
        "and more that were looked into"
    )


def rows(shares: list[CopyShare]) -> list[tuple[str | int, ...]]:
    """Return the rows of a table with SHARE_HEADERS."""
    return [(s.name, s.pairs, *_cells(s.no_copy), *_cells(s.no_near_duplicate)) for s in shares]


def tables(audit: Audit) -> list[tuple[str, list[CopyShare]]]:
    """Return the tables with their titles; empty ones are left out."""
    named = [
        ("by size of group", audit.by_group_size),
        ("by words of the removed document", audit.by_length),
        ("by host of the removed document", audit.by_host),
    ]
    return [(title, shares) for title, shares in named if shares]


def shown(audit: Audit) -> ReportPage:
    """Return the report."""
    a = audit
    parts: list[Part] = [
        FigureRow(
            [("removed", a.removed), ("judged", a.judged), ("no copies", _percent(a.whole.no_copy))]
        ),
        Lines(list(sentences(a))),
        *([Warned("Few pairs were judged: the intervals are wide.")] if a.judged < 100 else []),
    ]
    parts += [Section(t.capitalize(), [TablePart(SHARE_HEADERS, rows(s))]) for t, s in tables(a)]
    if a.chains:
        chains = [
            (chain.first, chain.middle, chain.last, *chain.near, chain.far, chain.group_size)
            for chain in a.chains
        ]
        headers = ("A", "B", "C", "A and B", "B and C", "A and C", "members of the group")
        parts.append(
            Section("Chains", [TablePart(headers, chains)], "The Jaccard similarity of each two.")
        )
    if a.worst:
        entries = [
            ListEntry(
                each.removed,
                f"Jaccard {each.jaccard:.2f}, {'near-duplicate' if each.near_duplicate else 'no near-duplicate'} by our verdict",
                [Text(f"removed in favour of {each.kept}"), Lines(each.differs)],
            )
            for each in a.worst
        ]
        text = "[-words of the kept document only-] {+words of the removed document only+}"
        parts.append(Section("Least similar pairs", entries, text))
    return ReportPage(f"Audit of {a.tool}", parts, "crawl-dedup, dedup audit")


def _shown(interval: Interval) -> str:
    return f"{_percent(interval)} ({interval.count:,}; 95 % interval {_range(interval)})"


def _percent(interval: Interval) -> str:
    return f"{100 * interval.share:.1f} %"


def _range(interval: Interval) -> str:
    return f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %"


def _cells(interval: Interval) -> tuple[str, str]:
    return _percent(interval), _range(interval)
