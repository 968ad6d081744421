"""Precision and recall: every pair within reach, every labelled pair -> near_duplicate() -> counts by distance.

A pair out of reach that is labelled as none is right at every distance, and is not looked at: memory grows with the
pairs that matter. What is not labelled is not guessed, and what is left open counts neither way.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations, product
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dedup.core.fingerprint import distance, fingerprint, near_duplicate
from dedup.core.pairs import find_all
from dedup.evaluate.sets import Label, Labels, Pair, SetPage
from dedup.model.errors import DedupError
from dedup.model.names import registrable_domain
from dedup.model.page import PageFingerprint
from dedup.model.policy import Options, Policy
from dedup.model.recipes import recipe_of

CURVE = range(1, 11)  # the distances k that a curve shows
PAIRS_LIMIT = 5_000_000
SYNDICATED = {
    "synd",
    "syndicated",
}  # copies that keep their original's URL, and are of another site


class MeasuredPage(NamedTuple):
    """A page of a set: its id, domain ("" without a URL) and fingerprint."""

    id: str
    domain: str
    print: PageFingerprint


def measure(pages: Iterable[SetPage]) -> list[MeasuredPage]:
    """Fingerprint every page."""
    return [
        MeasuredPage(
            p.id, registrable_domain(p.url) if p.url else "", fingerprint(p.html, url=p.url or None)
        )
        for p in pages
    ]


def evaluate(
    pages: list[MeasuredPage], labels: Labels, policy: Policy
) -> dict[str, dict[str, Any]]:
    """Return the figures over "all" pairs, if all have labels, and the "labelled" ones; "_real" of real pages only.

    Each has near_duplicates, found, wrong, precision, recall and f1 at the policy's distance (None where there is
    nothing to divide by), and a curve: for each k the same "confirmed" by similarity, and of the simhash "alone".
    Raises DedupError if too many pairs lie within reach.
    """
    reach = max(policy.distance, CURVE[-1])
    all_pairs = (
        None
        if labels.every is None
        else _all_pairs([page.print for page in pages], labels.every, reach)
    )
    kinds = [page.kind for page in labels.pages or ()] or [""] * len(pages)
    views: dict[str, dict[str, Any]] = {}
    for name, labelled in (("all", all_pairs), ("labelled", labels.listed)):
        if labelled is not None:
            pairs, rows = _judged(pages, kinds, labelled, policy, reach)
            views[name] = _view(rows, policy.distance)
            if "real" in kinds:
                real = [kinds[a] == kinds[b] == "real" for a, b in pairs]
                views[f"{name}_real"] = _view(rows[real], policy.distance)
    return views


def _all_pairs(
    prints: list[PageFingerprint], every: Mapping[Pair, Label], reach: int
) -> dict[Pair, Label]:
    """Return the label of every pair within reach, and of every near-duplicate."""
    pages_of: defaultdict[int, list[int]] = defaultdict(list)
    for number, page in enumerate(prints):
        pages_of[page.value].append(number)
    labelled: dict[Pair, Label] = {pair: label for pair, label in every.items() if label == 1}
    for x, y in find_all(np.array([page.value for page in prints], np.uint64), reach).tolist():
        one, other = pages_of[x], pages_of[y]
        for a, b in combinations(one, 2) if x == y else product(one, other):
            pair = min(a, b), max(a, b)
            labelled[pair] = every.get(pair, 0)
        if len(labelled) > PAIRS_LIMIT:
            fault = f"more than {PAIRS_LIMIT:,} pairs of pages lie within distance {reach}"
            raise DedupError(f"{fault}: most of them read the same; give a smaller set")
    return labelled


def _judged(
    pages: list[MeasuredPage],
    kinds: list[str],
    labelled: Mapping[Pair, Label],
    policy: Policy,
    reach: int,
) -> tuple[list[Pair], Any]:
    """Return the pairs that count, and for each: label, distance, near_duplicate() within reach, by the simhash alone."""
    confirmed = msgspec.structs.replace(policy, distance=reach)
    alone = Options(distance=reach, similarity="paper").policy(recipe_of())
    pairs = [pair for pair, label in labelled.items() if label is not None]
    rows = []
    for a, b in pairs:
        one, other = pages[a], pages[b]
        same_site = one.domain == other.domain if one.domain and other.domain else None
        if SYNDICATED & {kinds[a], kinds[b]}:
            same_site = False
        near, near_alone = (
            near_duplicate(one.print, other.print, same_site=same_site, policy=asked)
            for asked in (confirmed, alone)
        )
        bits = distance(one.print.value, other.print.value)
        rows.append((labelled[a, b], bits, near, near_alone))
    return pairs, np.array(rows, np.int64).reshape(-1, 4)


def _view(rows: Any, k: int) -> dict[str, Any]:
    label, bits, confirmed, alone = rows.T

    def at(k: int, called: Any) -> dict[str, Any]:
        total, found = int((label == 1).sum()), (called == 1) & (bits <= k)
        right, wrong = (int((found & (label == each)).sum()) for each in (1, 0))
        return {
            "near_duplicates": total,
            "found": right,
            "wrong": wrong,
            "precision": _share(right, right + wrong),
            "recall": _share(right, total),
            "f1": _share(2 * right, right + wrong + total),
        }

    curve = [{"k": k, "confirmed": at(k, confirmed), "alone": at(k, alone)} for k in CURVE]
    return at(k, confirmed) | {"curve": curve}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
