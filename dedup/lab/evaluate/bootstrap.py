"""How far the figures would move with other pages: the bootstrap over groups of pages.

Pairs come in clusters (one article gives many pairs), so what is drawn with replacement is groups of
pages, not pairs (a cluster bootstrap: Efron and Tibshirani, An Introduction to the Bootstrap, 1993).
A group drawn w times counts w times within itself, and v * w times with a group drawn v times.

Invariant: chance comes from a seed, and the same seed gives the same intervals.
"""

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.lab.evaluate.counted_pairs import Pairs
from dedup.lab.evaluate.labels import Numbers
from dedup.lab.evaluate.score import Mask

SHARE = (2.5, 97.5)  # percent

Interval = tuple[float, float]


class Intervals(msgspec.Struct, frozen=True):
    """The middle 95 % of each figure over the draws; None where most draws gave no such figure."""

    precision: Interval | None
    recall: Interval | None
    f1: Interval | None


def bootstrap(
    pairs: Pairs, found: Mask, where: Mask | None, groups: Numbers, draws: int, seed: int
) -> Intervals:
    """Return the intervals of the figures of pairs (in a mask).

    groups  the group of each page, (n,)
    draws   how often all groups are drawn, 1 or more
    """
    rng = np.random.default_rng(seed)
    count = len(np.unique(groups))
    _, group = np.unique(groups, return_inverse=True)
    counted = (pairs.label == 1) | ((pairs.label == 0) & found)
    if where is not None:
        counted &= where
    first, second = group[pairs.a[counted]], group[pairs.b[counted]]
    near, right = pairs.label[counted] == 1, found[counted]
    cells, cell = np.unique(first * count + second, return_inverse=True)
    first, second = cells // count, cells % count
    sums = np.stack(
        [np.bincount(cell, weights=w, minlength=len(cells)) for w in (near, near & right, ~near)]
    )
    drawn = np.empty((draws, 3))
    for i in range(draws):
        times = np.bincount(rng.integers(0, count, count), minlength=count)
        weight = np.where(first == second, times[first], times[first] * times[second])
        drawn[i] = sums @ weight
    labelled, got, wrong = drawn.T
    return Intervals(
        _middle(got, got + wrong), _middle(got, labelled), _middle(2 * got, got + wrong + labelled)
    )


def _middle(above: npt.NDArray[np.float64], below: npt.NDArray[np.float64]) -> Interval | None:
    there = below > 0
    if there.sum() * 2 <= len(below):
        return None
    low, high = np.percentile(above[there] / below[there], SHARE)
    return float(low), float(high)
