"""Judges a crawl of the demo site by the site's truth, and shows the judgement as a table.

    truth + crawl -> judge -> Report -> show (a person) or as_json (a program)

Rule: the judge believes the truth, the spider's outcomes and the server's log; it computes no
fingerprint. A near-duplicate is right where the page named in its verdict was accepted and has the
same content (truth.group). Counted apart, neither wrong nor missed: product variants (truth.family),
which are near-duplicates by the paper's definition, and pages of one archive, which have the same text
and are wrong where a link is lost. Anything else is a wrong drop.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from dedup.cli.terminal import table
from dedup.lab.demo.crawl import Crawl, Mode, Outcome
from dedup.lab.demo.site.page_kinds import Kind, Truth
from dedup.model.report.texts import alike

__all__ = ["COPIES", "KindCount", "Known", "Miss", "Pair", "Report", "as_json", "judge", "show"]

# What each kind of planted near-duplicate is, in words.
COPIES: dict[Kind, str] = {
    "session": "same page, session id",
    "print": "same page, print version",
    "stamp": "same page, other time and counter",
    "related": "same page, other related links",
    "syndicated": "syndicated in another shell",
    "soft404": '"not found", said with status 200',
}


class Known(Protocol):
    """What the judge knows of a site; Site is one."""

    @property
    def truth(self) -> Mapping[str, Truth]:
        """What each page is, by path."""

    def links(self, path: str) -> Sequence[str]:
        """Return the paths that a page links to."""


class Pair(msgspec.Struct, frozen=True):
    """A near-duplicate and the page it was found to be one of; the distance is in bits."""

    path: str
    of: str
    distance: int
    similarity: float


class Miss(msgspec.Struct, frozen=True):
    """A planted near-duplicate that was kept: as unique, or exempt for that reason."""

    path: str
    kind: Kind
    reason: str


class KindCount(msgspec.Struct, frozen=True):
    """What became of one kind of planted near-duplicates.

    found    near-duplicates by their verdict
    missed   kept as unique
    exempt   kept for a reason
    example  of those found the least similar pair, None if none was found
    """

    found: int
    missed: int
    exempt: int
    example: Pair | None


class Report(msgspec.Struct, frozen=True):
    """What a crawl of the demo site came to.

    urls                      on the site
    fetched                   pages judged by a verdict, or not judged
    accepted                  pages parsed as anything but a near-duplicate
    items                     the spider yielded, one for each page it parsed
    near_duplicates           pages that were not (mode drop: dropped before they were parsed)
    parsed_near_duplicates    those of them that the spider saw all the same (mode drop: 0)
    refetches                 pages met again under their own key
    exempt                    pages kept by reason
    kinds                     the planted near-duplicates, by kind
    found_percent             share found of those fetched; None if there were none
    misses                    those not found
    variants                  the product variants, example and all; missed are those kept
    listings                  pages of an archive that were near-duplicates of others of it
    wrong                     near-duplicates that are none, or of a page that was not accepted
    outlinks_never_requested  URLs linked from near-duplicates that the server never saw
    lost_links                originals on a listing that the server never saw, by listing
    unreached                 all originals that the server never saw, nor a copy of them that was accepted
    failed                    pages that could not be fetched, with the reason
    errors                    errors that Scrapy logged
    faults                    the add-on's faults, by kind
    cpu_seconds, wall_seconds of the crawl; dedup_ is the add-on's part of the CPU time
    """

    mode: Mode
    urls: int
    fetched: int
    accepted: int
    items: int
    near_duplicates: int
    parsed_near_duplicates: int
    refetches: int
    exempt: dict[str, int]
    kinds: dict[Kind, KindCount]
    found_percent: float | None
    misses: tuple[Miss, ...]
    variants: KindCount
    listings: int
    wrong: tuple[Pair, ...]
    outlinks_never_requested: int
    lost_links: dict[str, list[str]]
    unreached: tuple[str, ...]
    failed: dict[str, str]
    errors: int
    faults: dict[str, int]
    cpu_seconds: float
    wall_seconds: float
    dedup_cpu_seconds: float
    dedup_microseconds_per_page: float
    dedup_cpu_percent: float

    @property
    def complaints(self) -> list[str]:
        """What must not be, in words; none in a good crawl."""
        found = {
            "pages with their own content were dropped": len(self.wrong),
            "listings lost new links": len(self.lost_links),
            "pages with their own content were never requested": len(self.unreached),
            "dropped pages were parsed": self.mode == "drop" and self.parsed_near_duplicates,
            "pages failed": len(self.failed),
            "faults of the add-on": sum(self.faults.values()),
            "errors in Scrapy's log": self.errors,
        }
        return [f"{number} {what}" for what, number in found.items() if number]


# Judging


def judge(site: Known, crawl: Crawl) -> Report:
    """Compare a crawl with the truth about its site."""
    truth = site.truth
    failed = {o.path: o.reason for o in crawl.outcomes if o.status == "failed"}
    pages = [o for o in crawl.outcomes if o.status != "failed"]
    accepted = {o.path: o for o in pages if o.status != "near_duplicate"}
    found: defaultdict[Kind, list[Pair]] = defaultdict(list)
    variants: list[Pair] = []
    archives: list[Pair] = []
    wrong: list[Pair] = []
    near = [o for o in pages if o.status == "near_duplicate"]
    for outcome in near:
        pair = _pair(outcome)
        own, of = truth[pair.path], truth.get(pair.of)
        if of is None or pair.of not in accepted:
            wrong.append(pair)
        elif own.group == of.group:
            found[_kind(own, of)].append(pair)
        elif own.family and own.family == of.family:
            variants.append(pair)
        elif own.kind == of.kind == "listing" and _archive(own) == _archive(of):
            archives.append(pair)
        else:
            wrong.append(pair)

    misses = list(_misses(truth, accepted.values()))
    kinds = {
        kind: _count(found[kind], [miss for miss in misses if miss.kind == kind]) for kind in COPIES
    }
    planted = sum(len(pairs) for pairs in found.values()) + len(misses)
    originals = {path for path, page in truth.items() if page.kind not in COPIES}
    # under whatever URL they came
    held = {truth[path].group for path in accepted if path in truth and path in crawl.requested}
    unreached = {p for p in originals - crawl.requested if truth[p].group not in held}
    listings = [path for path, page in truth.items() if page.kind == "listing"]
    lost = {path: sorted(unreached.intersection(site.links(path))) for path in listings}
    outlinks = {link for outcome in near for link in site.links(outcome.path)}
    dedup_cpu_seconds = crawl.stats.get("dedup/cpu_seconds", 0.0)
    return Report(
        mode=crawl.mode,
        urls=len(truth),
        fetched=len(pages),
        accepted=len(accepted),
        items=crawl.items,
        near_duplicates=len(near),
        parsed_near_duplicates=sum(o.parsed or o.path in accepted for o in near),
        refetches=sum(o.status == "refetch" for o in pages),
        exempt=dict(Counter(o.reason for o in pages if o.status == "exempt").most_common()),
        kinds=kinds,
        found_percent=100 * (planted - len(misses)) / planted if planted else None,
        misses=tuple(misses),
        variants=KindCount(
            found=len(variants),
            missed=sum(truth[path].kind == "variant" for path in accepted),
            exempt=0,
            example=_least_alike(variants),
        ),
        listings=len(archives),
        wrong=tuple(wrong),
        outlinks_never_requested=len(outlinks - crawl.requested),
        lost_links={path: links for path, links in lost.items() if links},
        unreached=tuple(sorted(unreached)),
        failed=failed,
        errors=crawl.errors,
        faults={
            name.removeprefix("dedup/error/"): int(count)
            for name, count in crawl.stats.items()
            if name.startswith("dedup/error/")
        },
        cpu_seconds=crawl.cpu_seconds,
        wall_seconds=crawl.wall_seconds,
        dedup_cpu_seconds=dedup_cpu_seconds,
        dedup_microseconds_per_page=1e6 * dedup_cpu_seconds / max(1, len(pages)),
        dedup_cpu_percent=100 * dedup_cpu_seconds / crawl.cpu_seconds if crawl.cpu_seconds else 0.0,
    )


def _pair(outcome: Outcome) -> Pair:
    return Pair(outcome.path, outcome.of or "", outcome.distance or 0, outcome.similarity or 0.0)


def _archive(listing: Truth) -> str:
    """Return the path of the archive that a listing is a page of."""
    return listing.path.partition("?")[0]


def _kind(*pages: Truth) -> Kind:
    """Return why pages of one group are near-duplicates: the kind of the copy among them."""
    return next((page.kind for page in pages if page.kind in COPIES), pages[0].kind)


def _misses(truth: Mapping[str, Truth], accepted: Iterable[Outcome]) -> Iterable[Miss]:
    """Give the accepted pages whose group had an accepted page before them."""
    first: dict[str, Truth] = {}
    for outcome in accepted:
        page = truth[outcome.path]
        earlier = first.setdefault(page.group, page)
        if earlier is not page and outcome.status != "refetch":
            yield Miss(page.path, _kind(page, earlier), outcome.reason or outcome.status)


def _count(found: Sequence[Pair], misses: Sequence[Miss]) -> KindCount:
    missed = sum(miss.reason == "unique" for miss in misses)
    return KindCount(len(found), missed, len(misses) - missed, _least_alike(found))


def _least_alike(pairs: Sequence[Pair]) -> Pair | None:
    return min(pairs, key=lambda pair: (pair.similarity, -pair.distance), default=None)


# Showing


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain values for JSON, the verdict on the crawl among them."""
    plain: dict[str, Any] = msgspec.to_builtins(report)
    return plain | {"ok": not report.complaints, "complaints": report.complaints}


_BECAME: dict[Mode, str] = {
    "drop": "dropped before parsing",
    "skip_links": "parsed, their links not followed",
    "tag": "tagged and kept",
}
_LONGEST_LIST = 5


def show(report: Report, say: Callable[[str], None]) -> None:
    """Say the report line by line: tables, examples and a sentence."""
    say(f"\nNear-duplicates {_BECAME[report.mode]}, and why")
    say(_kinds_table(report))
    say("\nThe least similar pair of each kind:")
    for name, count in (*_named(report), ("product variant", report.variants)):
        if count.example is not None:
            say(f"  {name}: {_likeness(count.example)}")
            say(f"    {count.example.path}\n    of {count.example.of}")
    say(f"\n{_totals_table(report)}\n")
    for pair in report.wrong[:_LONGEST_LIST]:
        say(f"wrong drop: {pair.path} of {pair.of}, {_likeness(pair)}")
    for path, links in list(report.lost_links.items())[:_LONGEST_LIST]:
        say(f"lost from {path}: {', '.join(links[:_LONGEST_LIST])}")
    for path, reason in list(report.failed.items())[:_LONGEST_LIST]:
        say(f"failed: {path}: {reason}")
    say(_sentence(report))
    if not report.complaints:
        say(_NEXT)


def _named(report: Report) -> list[tuple[str, KindCount]]:
    return [(COPIES.get(kind, kind), count) for kind, count in report.kinds.items()]


def _likeness(pair: Pair) -> str:
    return f"{alike(pair.similarity)}, distance {pair.distance}"


def _kinds_table(report: Report) -> str:
    counts = report.kinds.values()
    found, missed, exempt = (
        sum(getattr(c, n) for c in counts) for n in ("found", "missed", "exempt")
    )
    return table(
        ("why", "found", "missed", "kept exempt"),
        [
            *((name, c.found, c.missed, c.exempt) for name, c in _named(report)),
            ("all planted near-duplicates fetched", found, missed, exempt),
            ("product variants (neither wrong nor missed)", report.variants.found, "", ""),
        ],
    )


def _totals_table(report: Report) -> str:
    rows: list[tuple[str, object, str]] = []

    def row(name: str, value: object, note: str = "") -> None:
        rows.append((name, value, note))

    row("URLs on the site", report.urls)
    row("pages fetched", report.fetched)
    row("  accepted and parsed", report.accepted)
    row(f"  near-duplicates {_BECAME[report.mode]}", report.near_duplicates)
    row("  refetches (same key, never dropped)", report.refetches)
    row("  kept as exempt", sum(report.exempt.values()), _listed(report.exempt))
    row("outlinks never requested", report.outlinks_never_requested, "linked from near-duplicates")
    if report.found_percent is not None:
        missed = Counter(miss.kind for miss in report.misses)
        row("planted near-duplicates found", f"{report.found_percent:.1f} %")
        row("  misses", len(report.misses), _listed(missed))
    variants = report.variants
    row("product variants found", variants.found, f"of {variants.found + variants.missed} fetched")
    row("pages of an archive without new links", report.listings, "neither wrong nor missed")
    row("wrong drops (must be 0)", len(report.wrong))
    row("listings that lost new links (must be 0)", len(report.lost_links))
    if report.unreached:
        row("pages with own content never requested", len(report.unreached))
    if report.failed or report.errors:
        row("failed pages, logged errors", f"{len(report.failed)}, {report.errors}")
    if report.faults:
        row("faults of the add-on", sum(report.faults.values()), _listed(report.faults))
    row("CPU of the crawl", f"{report.cpu_seconds:.2f} s", f"wall {report.wall_seconds:.2f} s")
    row(
        "CPU for deduplication",
        f"{report.dedup_microseconds_per_page:.0f} us a page",
        f"{report.dedup_cpu_percent:.1f} % of the crawl's, its start included",
    )
    width = max(len(str(value)) for _, value, _ in rows)
    return table(
        ("", "", ""), [(name, str(value).rjust(width), note) for name, value, note in rows]
    )


def _listed(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())


def _sentence(report: Report) -> str:
    if report.complaints:
        return f"This must not be: {'; '.join(report.complaints)}."
    became = _BECAME[report.mode]
    return (
        f"Scrapy fetched {report.fetched} of {report.urls} URLs; {report.near_duplicates} of them "
        f"were near-duplicates ({became}), {report.outlinks_never_requested} URLs that they link "
        "to were never requested, and nothing with content of its own was lost."
    )


_NEXT = """\
Look at the site with `dedup demo --site-only`. In a project of your own two lines in settings.py do:
    ADDONS = {"dedup.scrapy.Addon": 500}
    DEDUP_MODE = "tag"  # only says so, changes nothing; without this line it drops"""
