"""How many pages of a crawl would be near-duplicates at another distance: a part of its report.

    near-duplicates by distance (stats), pages that were kept (journal) -> at each distance, how many

The rule kept here: it is said to be an estimate. At a smaller distance fewer pages are dropped, and
those are then originals for later ones; at a larger one, more, and they are not.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dedup.core.table import Table
from dedup.detector.rules import near_duplicates, not_other
from dedup.model.policy import Policy
from dedup.model.report.charts import Column, columns
from dedup.model.report.html import legend, percent, section, table
from dedup.model.report.texts import count
from dedup.model.values import Verdict, accepted_document

__all__ = ["what_if"]

MORE = 4  # bits beyond the distance in force that are looked at
GREATEST = 15  # bits: the greatest DEDUP_DISTANCE
NEAREST = 64  # pages that one is compared with, at most


def _distances(counts: Mapping[str, Any]) -> dict[int, int]:
    """Return how many near-duplicates lay at each distance, in bits; from 0 to the greatest."""
    found = {
        int(name.rpartition("/")[2]): n
        for name, n in counts.items()
        if name.startswith("near_duplicate/distance/")
    }
    return {bits: found.get(bits, 0) for bits in range(max(found, default=-1) + 1)}


def _beyond(kept: Sequence[Verdict], policy: Policy, *, guard: bool) -> Counter[int]:
    """Return how many unique pages have an earlier one alike beyond the policy's distance, by bits.

    kept are the pages that became originals, in their order; guard: other pages of their site by
    title or canonical URL do not count.
    """
    wider = msgspec.structs.replace(policy, distance=min(policy.distance + MORE, GREATEST))
    earlier, found = Table(wider.distance, "compact"), Counter[int]()
    for number, verdict in enumerate(kept):
        page = verdict.page
        if verdict.status == "unique":
            near = [
                (accepted_document(kept[match.document], 0.0), match.distance)
                for match in earlier.probe(page.value, NEAREST)
            ]
            alike = near_duplicates(page, verdict.domain, verdict.key, near, wider, verdict.kind)
            bits = [n.distance for n in (not_other(alike) if guard else alike)]
            if bits and min(bits) > policy.distance:
                found[min(bits)] += 1
        earlier.insert(page.value, number)
    return found


def what_if(
    counts: Mapping[str, Any], kept: Sequence[Verdict], policy: Policy, *, guard: bool, whole: bool
) -> str:
    """Return the section; whole is False where not every page that was kept is in `kept`."""
    found, probed = _distances(counts), counts.get("probed", 0)
    more = _beyond(kept, policy, guard=guard)
    if not found and not more:
        return ""
    now, total, rows, drawn = sum(found.values()), 0, [], []
    for bits in range(min(max([*found, policy.distance]) + MORE, GREATEST) + 1):
        here = found.get(bits, 0) + more[bits]
        total += here
        inside, name = min(total, now), count(bits, "bit")
        told = f"{name}: {count(total, 'near-duplicate')}"
        drawn.append(Column(str(bits), ((inside, "near"), (total - inside, "exempt")), told))
        named = f"{name}, in force" if bits == policy.distance else name
        rows.append(
            (
                named,
                here,
                total,
                percent(total, probed),
                f"{total - now:+,}" if total != now else "0",
            )
        )
    first = "" if whole else f" Of the pages kept, the first {len(kept):,} are looked at."
    return section(
        "What if: other distances",
        columns(
            drawn,
            title="Near-duplicates by DEDUP_DISTANCE",
            across="DEDUP_DISTANCE, bits",
            up="pages",
        ),
        legend(("near", "found in this crawl"), ("exempt", "kept now, and would be found too"))
        if more
        else "",
        table(
            ("distance", "pages at it", "up to it", "share", "change"),
            rows,
        ),
        text="Near-duplicates that this crawl would have found with another distance, all else the "
        "same: those up to it. An estimate: what is kept decides what later pages are compared with."
        + first,
    )
