"""The whole measurement: a set and a rule in, every figure out.

    Source -> Prints, Labels -> pairs -> View (all pairs, real pages, labelled pairs) -> Evaluation

The rule kept here: what is not labelled is not guessed. A set whose list of pairs is not complete
has no figures over all pairs.
"""

from typing import NamedTuple

import msgspec
import numpy as np

from dedup.lab.evaluate.bootstrap import Intervals, bootstrap
from dedup.lab.evaluate.counted_pairs import Pairs, every_pair, listed_pairs, pairs_within
from dedup.lab.evaluate.labels import Labels
from dedup.lab.evaluate.page_files import Prints
from dedup.lab.evaluate.score import (
    Figures,
    Mask,
    Rule,
    called,
    figures,
    kept_by_guard,
    real_pairs,
    slices,
)

__all__ = ["CURVE", "Evaluation", "Judged", "Point", "View", "evaluate", "rule_of"]

CURVE = range(1, 11)  # the distances k that a curve shows


class Point(msgspec.Struct, frozen=True):
    """The figures at one k, with the check fingerprint (the total distance) and without."""

    k: int
    with_check: Figures
    without_check: Figures


class View(msgspec.Struct, frozen=True):
    """The figures over some pairs.

    name       all, all_real, labelled or labelled_real
    figures    at the rule's distances
    intervals  of those; None if no draws were asked for
    curve      a point for each k from 1 to 10
    slices     figures by what the pairs are sorted by, then by slice
    """

    name: str
    figures: Figures
    intervals: Intervals | None
    curve: list[Point]
    slices: dict[str, dict[str, Figures]]


class Evaluation(msgspec.Struct, frozen=True):
    """What measuring a set came to.

    pages          their number; groups: what the bootstrap drew
    recipe         id of the fingerprints' recipe
    kept_by_guard  pages that the listing guard kept; None: it was not asked
    views          all pairs first, if all have labels
    """

    pages: int
    groups: int
    recipe: str
    rule: Rule
    kept_by_guard: int | None
    views: list[View]


class Judged(NamedTuple):
    """Pairs, and which of them the rule calls near-duplicates."""

    pairs: Pairs
    found: Mask


def rule_of(
    prints: Prints, distance: int | None, total_distance: int | None, *, guard: bool
) -> Rule:
    """Return the recipe's rule, or the one with other distances."""
    recipe = prints.recipe
    return Rule(
        recipe.distance if distance is None else distance,
        recipe.total_distance if total_distance is None else total_distance,
        recipe.min_features,
        own=distance is None and total_distance is None,
        guard=guard,
    )


def evaluate(
    prints: Prints, labels: Labels, rule: Rule, draws: int, seed: int
) -> tuple[Evaluation, Judged]:
    """Return all figures, and the pairs they are mainly about: all pairs, or else those listed.

    draws is the number of bootstrap draws, 0 for none. Raises DedupError if too many pairs lie
    within reach.
    """
    reach = max(rule.distance, CURVE[-1])
    every, listed = every_pair(prints, labels, reach), listed_pairs(prints, labels)
    near = every
    if rule.guard and near is None:
        near = pairs_within(prints, reach)
    views, judged = [], []
    for name, pairs in (("all", every), ("labelled", listed)):
        if pairs is None:
            continue
        found = _called(prints, pairs, rule, near)
        judged.append(Judged(pairs, found))
        real = real_pairs(labels.pages, pairs)
        wheres = [(name, None)] + ([] if real is None else [(f"{name}_real", real)])
        masks = slices(labels.pages, prints, pairs)
        curve = [(k, *_at(prints, pairs, rule, k, near)) for k in CURVE]
        for view, where in wheres:
            views.append(
                View(
                    view,
                    figures(pairs, found, where),
                    bootstrap(pairs, found, where, labels.pages.groups, draws, seed)
                    if draws
                    else None,
                    [
                        Point(k, figures(pairs, checked, where), figures(pairs, plain, where))
                        for k, checked, plain in curve
                    ],
                    _sliced(pairs, found, where, masks),
                )
            )
    kept = int(kept_by_guard(prints, near, rule).sum()) if rule.guard and near is not None else None
    groups = len(np.unique(labels.pages.groups))
    recipe = prints.recipe.id
    return Evaluation(len(prints), groups, recipe, rule, kept, views), judged[0]


def _called(prints: Prints, pairs: Pairs, rule: Rule, near: Pairs | None) -> Mask:
    kept = kept_by_guard(prints, near, rule) if rule.guard and near is not None else None
    return called(prints, pairs, rule, kept)


def _at(prints: Prints, pairs: Pairs, rule: Rule, k: int, near: Pairs | None) -> tuple[Mask, Mask]:
    """Return what is called near-duplicate at distance k, with the check fingerprint and without."""
    checked = msgspec.structs.replace(rule, distance=k, own=False)
    plain = msgspec.structs.replace(checked, total_distance=None)
    return _called(prints, pairs, checked, near), _called(prints, pairs, plain, near)


def _sliced(
    pairs: Pairs, found: Mask, where: Mask | None, masks: dict[str, dict[str, Mask]]
) -> dict[str, dict[str, Figures]]:
    """Return the figures of the slices in which anything was counted."""
    by = {}
    for sort, named in masks.items():
        counted = {
            name: figures(pairs, found, mask if where is None else mask & where)
            for name, mask in named.items()
        }
        by[sort] = {n: f for n, f in counted.items() if f.near_duplicates or f.wrong}
    return by
