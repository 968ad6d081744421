"""The HTML page of `dedup store report --html`: what the stores know, drawn.

The rule kept here: nothing that the text of the command does not say as well.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dedup.model.report.charts import Column, columns
from dedup.model.report.html import bars, facts, folded, link, page, section, table
from dedup.model.report.texts import count

if TYPE_CHECKING:
    from dedup.lab.spread.spread import Place, SpreadReport

__all__ = ["store_page"]


def store_page(reports: Sequence["SpreadReport"]) -> str:
    """Return the page on these stores."""
    parts = [part for report in reports for part in _store(report, alone=len(reports) == 1)]
    one = len(reports) == 1
    what = f"the store “{reports[0].namespace}”" if one else f"{len(reports)} stores"
    below = f"{reports[0].path}, recipe {reports[0].recipe}" if one else ""
    title = f"Fingerprints of {what}"
    return page(title, parts, "crawl-dedup, dedup store report", head=(title, below))


def _store(r: "SpreadReport", *, alone: bool) -> Iterator[str]:
    known = facts(
        [
            ("documents", r.documents),
            ("distinct values", r.values),
            ("domains", r.domains),
            (f"with another within {count(r.distance, 'bit')}", r.crowded),
        ]
    )
    if alone:
        yield known
    else:
        yield section(f"Namespace {r.namespace}", known, text=f"{r.path}, recipe {r.recipe}")
    if not r.documents:
        return
    rows = [(name or "-", number) for name, number in r.domain_documents.items()]
    more = r.domains - len(rows)
    left_out = f"{count(more, 'more domain')} not shown." if more > 0 else ""
    yield section("Domains", bars(rows), text=left_out)
    yield section(
        "Values with more than one document",
        *map(_place, r.hot),
        text="Pages that read alike to the last bit, and why they are kept beside each other."
        if r.hot
        else "There are none.",
    )
    yield section(
        f"Places with most documents within {count(r.distance, 'bit')}",
        *map(_place, r.dense),
        text="Pages that read nearly alike, and why they are kept beside each other."
        if r.dense
        else "There are none.",
    )
    yield section(
        "Documents over the range of values",
        _buckets(r.buckets),
        text="128 equal parts of the range. Even, but for pages that are alike: so it should be.",
    )
    last = max(
        (i for i, (n, e) in enumerate(zip(r.neighbours, r.expected, strict=True)) if n or e >= 0.5),
        default=0,
    )
    yield section(
        "Leading bits that neighbours in sorted order share",
        folded(
            "The numbers",
            table(
                ("bits", "neighbours", "as many random values"),
                [(n, r.neighbours[n], f"{r.expected[n]:,.1f}") for n in range(last + 1)],
            ),
        ),
        text="Tables find pages by leading bits: these should look random.",
    )


def _buckets(buckets: Sequence[int]) -> str:
    drawn = [
        Column(str(part), ((n, ""),), f"part {part}: {count(n, 'document')}")
        for part, n in enumerate(buckets, 1)
    ]
    title = f"Documents in {len(buckets)} parts of the range of values"
    chart = columns(drawn, title=title, across=f"part of {len(buckets)}", up="documents")
    return chart + folded("The numbers", table(("part", "documents"), enumerate(buckets, 1)))


def _place(place: "Place") -> str:
    low, high = place.features
    features = count(high, "feature")
    features = features if low == high else f"{low:,} to {features}"
    of = "" if place.values == 1 else f" of {place.values:,} values"
    why = {
        "short": place.short,
        "too far from it": place.apart,
        "other pages by title": place.other,
        "alike": place.alike,
    }
    beside = ", ".join(f"{number:,} {name}" for name, number in why.items() if number)
    keys = "".join(f'<p class="pair">{link(key)}</p>' for key in place.keys)
    return (
        f"<h3><code>{place.value}</code></h3><p>{count(place.documents, 'document')}{of}, "
        f"{features}; beside the oldest: {beside or 'nothing'}</p>{keys}"
    )
