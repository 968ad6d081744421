"""Precision and recall: of the pairs found, how many are right; of the right ones, how many found.

    pairs, policy -> which are called near-duplicates -> Figures, in all and by kind, language, length

Invariant: figures are counts first, and a share of nothing is None. called() decides as
near_duplicate() does, for many pairs at once (a test holds them together).
"""

from collections.abc import Callable
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.lab.evaluate.counted_pairs import Pairs
from dedup.lab.evaluate.labels import Numbers, Pages
from dedup.lab.evaluate.page_files import Prints
from dedup.model.policy import NEVER, Policy

Mask = npt.NDArray[np.bool_]

PLAIN = frozenset(("real", "original"))  # kinds of pages that say nothing of a pair
LENGTHS = (60, 100, 300, 1000)  # words; where a slice of lengths ends and the next begins
UNSPACED = ("zh", "ja")  # counted together, too: their words are pairs of characters


class Figures(msgspec.Struct, frozen=True):
    """What was counted, and the shares; None where nothing was there to divide by.

    near_duplicates  pairs labelled so; found: those of them that were found
    wrong            pairs found that are labelled not to be
    """

    near_duplicates: int
    found: int
    wrong: int
    precision: float | None
    recall: float | None
    f1: float | None


def figures(pairs: Pairs, found: Mask, where: Mask | None = None) -> Figures:
    """Count what was found of the pairs, or of those in a mask; pairs left open do not count."""
    near, other = pairs.label == 1, pairs.label == 0
    if where is not None:
        near, other = near & where, other & where
    right = int((found & near).sum())
    return shares(int(near.sum()), right, int((found & other).sum()))


def shares(near: int, right: int, wrong: int) -> Figures:
    """Return figures from their counts."""
    called_near = right + wrong
    return Figures(
        near,
        right,
        wrong,
        right / called_near if called_near else None,
        right / near if near else None,
        2 * right / (called_near + near) if called_near + near else None,
    )


def called(pairs: Pairs, policy: Policy, *, identity: bool = False) -> Mask:
    """Return which pairs a policy calls near-duplicates.

    identity  but for pages that are other pages of their site by title or canonical URL
    """
    full = np.where(pairs.site == 0, policy.similarity_across, policy.similarity)
    short = (pairs.site == 1) & (pairs.features >= policy.min_features)
    few = np.where(short, policy.similarity_short, NEVER)
    least = np.where(pairs.features >= policy.full_features, full, few)
    enough = pairs.features >= policy.min_features
    near = (pairs.value <= policy.distance) & (pairs.similarity >= least)
    found: Mask = np.where(enough, near, pairs.copies) & ~pairs.things
    return found & ~pairs.other if identity else found


def slices(pages: Pages, prints: Prints, pairs: Pairs) -> dict[str, dict[str, Mask]]:
    """Return masks of the pairs, by what they are sorted by: kind, language, length and source.

    A pair of a kind x+y counts under x and under y; one of pages in two languages under "mixed".
    The length is that of the shorter page, in words of the reference text, or else in features.
    """
    by: dict[str, dict[str, Mask]] = {}
    if pairs.kind is not None and any(pairs.kind):
        by["kind"] = _by_parts(pairs.kind)
    elif pages.kinds is not None:
        by["kind"] = _by_page_kinds(pages.kinds, pairs)
    if pages.languages is not None:
        by["language"] = language = _by_page(pages.languages, pairs, "mixed")
        if all(name in language for name in UNSPACED):
            of = [np.isin(np.array(pages.languages)[ends], UNSPACED) for ends in (pairs.a, pairs.b)]
            language["+".join(UNSPACED)] = of[0] & of[1]
    name = "features" if pages.words is None else "words"
    lengths = prints.features if pages.words is None else pages.words
    by[name] = _by_length(np.minimum(lengths[pairs.a], lengths[pairs.b]))
    if pages.sources is not None:
        by["source"] = _by_page(pages.sources, pairs, "mixed")
    return by


def real_pairs(pages: Pages, pairs: Pairs) -> Mask | None:
    """Return the pairs of untouched real pages; None if the set does not tell, or has none."""
    if pages.kinds is None or "real" not in pages.kinds:
        return None
    real: Mask = np.array([kind == "real" for kind in pages.kinds])
    return real[pairs.a] & real[pairs.b]


def _by_parts(kinds: list[str]) -> dict[str, Mask]:
    parts = [kind.split("+") for kind in kinds]
    return _masks(
        {part for some in parts for part in some}, lambda part: [part in p for p in parts]
    )


def _by_page_kinds(kinds: list[str], pairs: Pairs) -> dict[str, Mask]:
    names, number = np.unique(np.array(kinds), return_inverse=True)
    plain = np.isin(names, list(PLAIN))
    both_plain = plain[number[pairs.a]] & plain[number[pairs.b]]
    by = {}
    for i, name in enumerate(names.tolist()):
        either = (number[pairs.a] == i) | (number[pairs.b] == i)
        by[name] = either & both_plain if plain[i] else either
    return by


def _by_page(names: list[str], pairs: Pairs, otherwise: str) -> dict[str, Mask]:
    of = np.array(names)
    a, b = of[pairs.a], of[pairs.b]
    by = _masks(set(names), lambda name: (a == name) & (b == name))
    return by | {otherwise: a != b}


def _by_length(lengths: Numbers) -> dict[str, Mask]:
    place = np.searchsorted(LENGTHS, lengths, side="right")
    names = [f"under {LENGTHS[0]}"]
    names += [f"{low} to {high - 1}" for low, high in pairwise(LENGTHS)]
    names.append(f"{LENGTHS[-1]} and more")
    return {name: place == i for i, name in enumerate(names)}


def _masks(names: set[str], of: Callable[[str], object]) -> dict[str, Mask]:
    return {name: np.asarray(of(name), bool) for name in sorted(names)}
