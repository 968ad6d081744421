"""The whole measurement: a set and a policy in, every figure out.

    Source -> Prints, Labels -> pairs -> View (all pairs, real pages, labelled pairs) -> Evaluation

Invariant: what is not labelled is not guessed. A set whose list of pairs is not complete
has no figures over all pairs.
"""

from typing import NamedTuple

import msgspec
import numpy as np

from dedup.lab.evaluate.page_files import Prints
from dedup.lab.evaluate.score import (
    Figures,
    Intervals,
    Mask,
    Pairs,
    bootstrap,
    called,
    every_pair,
    figures,
    listed_pairs,
    real_pairs,
    slices,
)
from dedup.lab.evaluate.sets import Labels
from dedup.model.policy import Options, Policy
from dedup.model.recipes import Recipe

CURVE = range(1, 11)  # the distances k that a curve shows
SIMILARITIES = (
    0.5,
    0.6,
    0.7,
    0.75,
    0.8,
    0.82,
    0.84,
    0.86,
    0.875,
    0.89,
    0.91,
    0.93,
    0.95,
    0.97,
    0.99,
)


class Point(msgspec.Struct, frozen=True):
    """The figures at one k: with the similarity asked for, and of the simhash alone."""

    k: int
    confirmed: Figures
    alone: Figures


class Threshold(msgspec.Struct, frozen=True):
    """The figures at one similarity, asked of pages of one site (at_similarity())."""

    similarity: float
    figures: Figures


class View(msgspec.Struct, frozen=True):
    """The figures over some pairs.

    name        all, all_real, labelled or labelled_real
    figures     by the policy
    paper       by the preset "paper": k = 3, the simhash alone
    intervals   of figures; None if no draws were asked for
    curve       a point for each k from 1 to 10
    thresholds  a point for each of SIMILARITIES
    slices      figures by what the pairs are sorted by, then by slice
    """

    name: str
    figures: Figures
    paper: Figures
    intervals: Intervals | None
    curve: list[Point]
    thresholds: list[Threshold]
    slices: dict[str, dict[str, Figures]]


class Evaluation(msgspec.Struct, frozen=True):
    """What measuring a set came to.

    pages     their number, unread ones among them; groups: what the bootstrap drew
    recipe    id of the fingerprints' recipe
    identity  pages that are other pages by their own word did not count as near-duplicates
    views     all pairs first, if all have labels
    """

    pages: int
    unread: int
    groups: int
    recipe: str
    policy: Policy
    identity: bool
    views: list[View]


class Judged(NamedTuple):
    """Pairs, and which of them the policy calls near-duplicates."""

    pairs: Pairs
    found: Mask


def at_similarity(policy: Policy, recipe: Recipe, similarity: float) -> Policy:
    """Return a policy that asks another similarity of pages of one site.

    Of two sites it asks less, by as much as the recipe does.
    """
    return msgspec.structs.replace(
        policy,
        similarity=similarity,
        similarity_across=similarity - recipe.similarity + recipe.similarity_across,
        similarity_short=max(similarity, recipe.similarity_short),
    )


def evaluate(
    prints: Prints, labels: Labels, policy: Policy, draws: int, seed: int, *, identity: bool = False
) -> tuple[Evaluation, Judged]:
    """Return all figures, and the pairs they are mainly about: all pairs, or else those listed.

    draws is the number of bootstrap draws, 0 for none. Raises DedupError if too many pairs lie
    within reach.
    """
    reach = max(policy.distance, CURVE[-1])
    views, judged = [], []
    for name, pairs in (
        ("all", every_pair(prints, labels, reach)),
        ("labelled", listed_pairs(prints, labels)),
    ):
        if pairs is None:
            continue
        found = called(pairs, policy, identity=identity)
        judged.append(Judged(pairs, found))
        real = real_pairs(labels.pages, pairs)
        wheres = [(name, None)] + ([] if real is None else [(f"{name}_real", real)])
        masks = slices(labels.pages, prints, pairs)
        curve = [(k, *_at_distance(pairs, prints.recipe, policy, k, identity)) for k in CURVE]
        at = {
            s: called(pairs, at_similarity(policy, prints.recipe, s), identity=identity)
            for s in SIMILARITIES
        }
        paper = called(pairs, Options(similarity="paper").policy(prints.recipe))
        for view, where in wheres:
            views.append(
                View(
                    view,
                    figures(pairs, found, where),
                    figures(pairs, paper, where),
                    bootstrap(pairs, found, where, labels.pages.groups, draws, seed)
                    if draws
                    else None,
                    [
                        Point(k, figures(pairs, with_, where), figures(pairs, alone, where))
                        for k, with_, alone in curve
                    ],
                    [Threshold(s, figures(pairs, met, where)) for s, met in at.items()],
                    _sliced(pairs, found, where, masks),
                )
            )
    evaluation = Evaluation(
        len(prints),
        int(prints.unread.sum()),
        len(np.unique(labels.pages.groups)),
        prints.recipe.id,
        policy,
        identity,
        views,
    )
    return evaluation, judged[0]


def _at_distance(
    pairs: Pairs, recipe: Recipe, policy: Policy, k: int, identity: bool
) -> tuple[Mask, Mask]:
    """Return what is near-duplicate at distance k: by the policy else, and by the simhash alone."""
    alone = Options(distance=k, similarity="paper").policy(recipe)
    confirmed = msgspec.structs.replace(policy, distance=k)
    return called(pairs, confirmed, identity=identity), called(pairs, alone)


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
