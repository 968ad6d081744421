"""Judges a crawl of the demo site by the site's truth, and shows the judgement as a table.

    truth + crawl -> judge -> Report -> show (a person) or as_json (a program)

Invariant: the judge believes the truth, the spider's outcomes and the server's log; it computes no
fingerprint. A near-duplicate is right where the page named in its verdict was accepted and has the
same content (truth.group). Counted apart, neither wrong nor missed: product variants (truth.family),
which are near-duplicates by the paper's definition, and pages of one archive, which have the same text
and are wrong where a link is lost. Anything else is a wrong drop.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dedup.demo.crawl import DemoCrawl, Outcome
from dedup.demo.plan import Kind, Truth
from dedup.demo.site import Site
from dedup.model.policy import Mode

# The reasons of near-duplicates that are parsed before any of their class is dropped, or once more to see
# what differs between two visits.
EVIDENCE = frozenset(("compared", "control"))

# What each kind of planted near-duplicate is, in words.
COPIES: dict[Kind, str] = {
    "session": "same page, session id",
    "print": "same page, print version",
    "stamp": "same page, other time and counter",
    "related": "same page, other related links",
    "syndicated": "syndicated in another shell",
    "soft404": '"not found", said with status 200',
}


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


class DemoReport(msgspec.Struct, frozen=True):
    """What a crawl of the demo site came to.

    urls                      on the site
    fetched                   pages judged by a verdict, or not judged
    accepted                  pages parsed as anything but a near-duplicate
    items                     the spider yielded, one for each page it parsed
    near_duplicates           pages that were not (mode drop: dropped before they were parsed)
    parsed_near_duplicates    those of them that the spider saw all the same (mode drop: 0)
    looked_again              dropped pages that were fetched again before the crawl ended, and parsed
    refetches                 pages met again under their own key
    exempt                    pages kept by reason
    kinds                     the planted near-duplicates, by kind
    found_percent             share found of those fetched; None if there were none
    misses                    those not found
    evidence                  those compared: their callback ran, and only what is new passed
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
    looked_again: int
    refetches: int
    exempt: dict[str, int]
    kinds: dict[Kind, KindCount]
    found_percent: float | None
    misses: tuple[Miss, ...]
    evidence: int
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


def judge(site: Site, crawl: DemoCrawl) -> DemoReport:
    """Compare a crawl with the truth about its site."""
    truth = site.truth
    failed = {o.path: o.reason for o in crawl.outcomes if o.status == "failed"}
    pages = [o for o in crawl.outcomes if o.status != "failed"]
    accepted = {o.path: o for o in pages if o.status != "near_duplicate"}
    found: defaultdict[Kind, list[Pair]] = defaultdict(list)
    variants: list[Pair] = []
    archives: list[Pair] = []
    wrong: list[Pair] = []
    looked_at = {path for path, o in accepted.items() if o.reason in EVIDENCE}
    dropped = [o for o in pages if o.status == "near_duplicate"]
    near = [o for o in dropped if o.path not in looked_at]
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

    kept = list(_misses(truth, accepted.values()))
    misses = [miss for miss in kept if miss.reason not in EVIDENCE]
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
    return DemoReport(
        mode=crawl.mode,
        urls=len(truth),
        fetched=len(pages),
        accepted=len(accepted),
        items=crawl.items,
        near_duplicates=len(near),
        parsed_near_duplicates=sum(o.parsed or o.path in accepted for o in near),
        looked_again=len(dropped) - len(near),
        refetches=sum(o.status == "refetch" for o in pages),
        exempt=dict(Counter(o.reason for o in pages if o.status == "exempt").most_common()),
        kinds=kinds,
        found_percent=100 * (planted - len(misses)) / planted if planted else None,
        misses=tuple(misses),
        evidence=len(kept) - len(misses),
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


def as_json(report: DemoReport) -> dict[str, Any]:
    """Return the report as plain values for JSON, the verdict on the crawl among them."""
    plain: dict[str, Any] = msgspec.to_builtins(report)
    return plain | {"ok": not report.complaints, "complaints": report.complaints}
