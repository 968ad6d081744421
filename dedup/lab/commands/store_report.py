"""`dedup store report`: how the fingerprints of a store are spread, and where many lie together.

The rule kept here: nothing is changed; a bar is as long as its number, the longest fills its room.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import check_html, distance_option, html_option, json_option
from dedup.cli.store.folders import Seen, check_documents, each

if TYPE_CHECKING:
    from dedup.lab.spread.spread import Place, SpreadReport

__all__ = ["report"]

BUCKETS_A_LINE = 64
FEWEST_EXPECTED = 0.5  # an empty row of neighbours is shown if this many were expected
_EIGHTHS = " ▁▂▃▄▅▆▇█"


@click.command(epilog="Example: dedup store report .scrapy/dedup --top 5")
@click.argument("path", type=click.Path())
@distance_option("Distance of neighbours, in bits. [default: the recipe's]")
@click.option(
    "--top",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Number of rows in each list.",
)
@html_option
@json_option()
def report(path: str, distance: int | None, top: int, page: str | None, as_json: bool) -> None:
    """Show how the fingerprints of a store are distributed. Nothing is changed.

    Leading bits and buckets are Figure 2 of Manku, Jain and Das Sarma (WWW 2007): they should look
    random, except for similar pages. Then come the values with the most documents, the most crowded
    neighbourhoods, with example keys and why these pages were stored together, and the domains with
    the most documents.
    """
    from dedup.lab.spread.spread import SpreadReport, report_store

    check_html(page, as_json)

    def look(folder: Path) -> Seen:
        check_documents(folder)
        found = report_store(folder, distance, top, terminal.progress(str(folder)))
        seen: Seen = msgspec.to_builtins(found)
        return seen

    stores, failed = each(path, look)
    reports = [msgspec.convert(s, SpreadReport) for s in stores if "error" not in s]
    if page is not None and reports:
        from dedup.lab.spread.spread_page import store_page

        with click.open_file(page, "wb") as file:
            file.write(store_page(reports).encode("utf-8", "replace"))
    if as_json:
        terminal.out_json({"path": path, "stores": stores})
    elif page != "-":
        for r in reports:
            for line in _lines(r):
                terminal.out(line)
    if failed:
        click.get_current_context().exit(1)


def _lines(r: "SpreadReport") -> Iterator[str]:
    yield f"{r.path}: {terminal.count(r.documents, 'document')} of recipe {r.recipe}"
    yield (
        f"{terminal.count(r.values, 'distinct value')}, {terminal.count(r.domains, 'domain')}; "
        f"{terminal.count(r.crowded, 'document')} with another within "
        f"{terminal.count(r.distance, 'bit')}"
    )
    if not r.documents:
        return
    yield "\nleading bits that neighbours in sorted order share (as many random values: expected)"
    yield _neighbours(r)
    yield "\ndocuments over 128 buckets of the values' range"
    yield from _buckets(r.buckets)
    for title, places in (
        ("values with more than one document", r.hot),
        (f"places with most documents within {terminal.count(r.distance, 'bit')}", r.dense),
    ):
        yield f"\n{title}{'' if places else ': none'}"
        for place in places:
            yield from _place(place)
    yield "\ndomains"
    most = max(r.domain_documents.values())
    rows = [(d or "-", n, terminal.Bar(n, most)) for d, n in r.domain_documents.items()]
    yield terminal.table(("domain", "documents", ""), rows)
    if (more := r.domains - len(r.domain_documents)) > 0:
        yield f"and {more:,} more"


def _neighbours(r: "SpreadReport") -> str:
    most = max(1, *r.neighbours)
    rows = [
        (shared, 63 - shared, seen, round(expected), terminal.Bar(seen, most))
        for shared, (seen, expected) in enumerate(zip(r.neighbours, r.expected, strict=True))
        if seen or expected >= FEWEST_EXPECTED
    ]
    headers = ("bits shared", "leading 1 at bit", "neighbours", "expected", "")
    return terminal.table(headers, rows)


def _buckets(buckets: Sequence[int]) -> Iterator[str]:
    most, mean = max(buckets), sum(buckets) / len(buckets)
    room = (terminal.columns_of_terminal() or 80) - 2
    a_line = next((n for n in (BUCKETS_A_LINE, 32) if n <= room), 16)
    for begin in range(0, len(buckets), a_line):
        part = buckets[begin : begin + a_line]
        yield "  " + "".join(_EIGHTHS[-(-8 * n // most)] for n in part)
    variance = sum((n - mean) ** 2 for n in buckets) / len(buckets)
    yield (
        f"least {min(buckets):,}, mean {mean:,.1f}, most {most:,}; the spread is "
        f"{(variance / mean) ** 0.5:.2f} times that of random values"
    )


def _place(place: "Place") -> Iterator[str]:
    values = "" if place.values == 1 else f" of {place.values:,} values"
    low, high = place.features
    features = terminal.count(high, "feature")
    features = features if low == high else f"{low:,} to {features}"
    yield f"{place.value}: {terminal.count(place.documents, 'document')}{values}, {features}"
    told: dict[str, Any] = {
        "short": place.short,
        "too far from it": place.apart,
        "other pages by title": place.other,
        "alike": place.alike,
    }
    beside = ", ".join(f"{number:,} {name}" for name, number in told.items() if number)
    looked = "" if place.looked_at == place.documents else f" (of the {place.looked_at:,} oldest)"
    yield f"  beside the oldest{looked}: {beside}"
    domains = ", ".join(f"{name or '-'} {number:,}" for name, number in place.domains.items())
    yield f"  domains: {domains}"
    yield from (f"  {key}" for key in place.keys)
