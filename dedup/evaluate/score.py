"""The whole measurement, precision and recall: a set and a policy in, every figure out.

    values -> every pair within reach (find_all) + every labelled near-duplicate -> Pairs
    Pairs, policy -> which are called near-duplicates -> Figures, in all and by kind, language, length
                  -> Intervals: how far the figures would move with other pages
    all pairs, real pages, labelled pairs -> a View each -> Evaluation

Invariants:
  - What is not labelled is not guessed: a set whose list of pairs is not complete has no figures over all pairs.
  - Memory grows with the pairs that matter, never with n * n. A pair that is neither within reach nor
    labelled a near-duplicate is right at every distance, and is not kept.
  - Figures are counts first, and a share of nothing is None. called() decides as near_duplicate() does, for
    many pairs at once (a test holds them together).
  - Chance comes from a seed, and the same seed gives the same intervals.

Pairs come in clusters (one article gives many pairs), so what the bootstrap draws with replacement is groups
of pages, not pairs (a cluster bootstrap: Efron and Tibshirani, An Introduction to the Bootstrap, 1993). A
group drawn w times counts w times within itself, and v * w times with a group drawn v times.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.core.fingerprint import similarities
from dedup.core.numbers import bit_counts
from dedup.core.pairs import find_all
from dedup.evaluate.sets import Labels, Marks, Numbers, Pages, Prints, pair_keys
from dedup.model.errors import DedupError
from dedup.model.page import PICTURE_FEATURES, are_copies, are_two_things, identity_of
from dedup.model.policy import NEVER, Options, Policy
from dedup.model.recipes import Recipe

# -------------------------------------------------------------------------------------------- pairs


PAIRS_LIMIT = 20_000_000  # pairs kept; about 50 bytes each
SAMPLE = 64  # values whose neighbours are counted before all are looked for
ROWS = 1 << 20  # pairs of values unfolded at once
SYNDICATED = ("synd", "syndicated")  # kinds of copies in the shell of another site

Bits = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


class Pairs(msgspec.Struct, frozen=True):
    """m pairs of pages a < b, an array of shape (m,) for each field.

    label       1 near-duplicate, 0 not, -1 left open
    value       distance in bits
    similarity  estimated, of the two texts
    features    of the page with fewer
    site        1 of one registrable domain, 0 of two, -1 not known
    copies      equal in everything, which counts where there is too little text
    things      two pages of a site that are of two things, whatever their texts
    unread      what was read of a page says nothing: only equal texts count
    other       two pages of a site, by their own word, that are not word for word the same
    kind        what the list calls each pair; None for all pairs
    """

    a: Numbers
    b: Numbers
    label: Marks
    value: Bits
    similarity: npt.NDArray[np.float64]
    features: Numbers
    site: Marks
    copies: Mask
    things: Mask
    unread: Mask
    other: Mask
    kind: list[str] | None = None

    def __len__(self) -> int:
        """Return m."""
        return len(self.a)


def listed_pairs(prints: Prints, labels: Labels) -> Pairs | None:
    """Return the pairs that are labelled one by one, or None if there is no list."""
    listed = labels.listed
    if listed is None:
        return None
    return _pairs(prints, labels.pages, listed.a, listed.b, listed.label, listed.kind)


def every_pair(prints: Prints, labels: Labels, distance: int) -> Pairs | None:
    """Return all pairs within a distance of value, and all labelled near-duplicates.

    None if not every pair has a label. Raises DedupError if they are more than PAIRS_LIMIT.
    """
    if labels.every is None:
        return None
    a, b = within(prints.value, distance)
    near_a, near_b = labels.every.near()
    keys = np.unique(
        np.concatenate([pair_keys(*p, len(prints)) for p in ((a, b), (near_a, near_b))])
    )
    a, b = keys // len(prints), keys % len(prints)
    return _pairs(prints, labels.pages, a, b, labels.every.of(a, b), None)


def within(values: npt.NDArray[np.uint64], distance: int) -> tuple[Numbers, Numbers]:
    """Return (a, b) of every pair of values[a], values[b], a < b, within a distance in bits."""
    _check_number(values, distance)
    distinct, place, times = np.unique(values, return_inverse=True, return_counts=True)
    order = np.argsort(place, kind="stable")  # the pages of each distinct value, one after another
    begins = np.cumsum(times) - times
    parts = [np.empty((0, 2), np.int64)]
    kept = 0
    for part in _unfolded(np.searchsorted(distinct, find_all(values, distance)), begins, times):
        kept += len(part)
        if kept > PAIRS_LIMIT:
            raise _too_many(kept, distance)
        parts.append(np.sort(order[part], axis=1))
    ends = np.concatenate(parts)
    return ends[:, 0], ends[:, 1]


def _unfolded(rows: Numbers, begins: Numbers, times: Numbers) -> Iterator[Numbers]:
    """Yield the pairs of places that pairs of distinct values stand for, some at once."""
    first = 0
    sizes = np.cumsum(times[rows[:, 0]] * times[rows[:, 1]])
    while first < len(rows):
        before = int(sizes[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(sizes, before + ROWS)))
        part = rows[first:last]
        ends = sizes[first:last] - before
        row = np.repeat(np.arange(len(part)), np.diff(ends, prepend=0))
        at = np.arange(len(row)) - (np.concatenate([[0], ends[:-1]]))[row]
        x, y = part[row, 0], part[row, 1]
        pairs = np.stack([begins[x] + at // times[y], begins[y] + at % times[y]], axis=1)
        yield pairs[(x != y) | (pairs[:, 0] < pairs[:, 1])]
        first = last


def _check_number(values: npt.NDArray[np.uint64], distance: int) -> None:
    """Raise DedupError if a sample says that far too many pairs lie within a distance."""
    sample = values[:: max(1, len(values) // SAMPLE)]
    near = sum(int((bit_counts(values ^ one) <= distance).sum()) - 1 for one in sample)
    expected = near * len(values) // (2 * max(1, len(sample)))
    if expected > 4 * PAIRS_LIMIT:
        raise _too_many(expected, distance)


def _too_many(number: int, distance: int) -> DedupError:
    return DedupError(
        f"about {number:,} pairs of pages or more lie within distance {distance}, and "
        f"{PAIRS_LIMIT:,} can be looked at: most pages of this set read the same; give a smaller "
        "part of it"
    )


def _pairs(
    prints: Prints, pages: Pages, a: Numbers, b: Numbers, label: Marks, kind: list[str] | None
) -> Pairs:
    value = bit_counts(prints.value[a] ^ prints.value[b])
    similarity = _similarities(prints, a, b)
    site = _sites(prints, pages, a, b)
    said = zip(prints.identity[a].tolist(), prints.identity[b].tolist(), strict=True)
    other = np.array([identity_of(*both) == "other" for both in said], bool)
    copies, things = np.zeros(len(a), bool), np.zeros(len(a), bool)
    for i in np.flatnonzero((value == 0) & (prints.identity[a] == prints.identity[b])):
        copies[i] = are_copies(prints.pages[a[i]], prints.pages[b[i]])
    unread = np.array([page.unread for page in prints.pages], bool)
    features = np.minimum(prints.features[a], prints.features[b])
    little = features < PICTURE_FEATURES
    for i in np.flatnonzero((site == 1) & (little | (prints.thing[a] != prints.thing[b]))):
        things[i] = are_two_things(prints.pages[a[i]], prints.pages[b[i]])
    return Pairs(
        a,
        b,
        label,
        value,
        similarity,
        features,
        site,
        copies,
        things,
        unread[a] | unread[b],
        other & (site == 1) & ~((value == 0) & (similarity == 1)),
        kind,
    )


def _similarities(prints: Prints, a: Numbers, b: Numbers) -> npt.NDArray[np.float64]:
    """Return the similarity of each pair, all pairs of one page at once."""
    found = np.empty(len(a))
    order = np.argsort(a, kind="stable")
    pages, begins = np.unique(a[order], return_index=True)
    for page, places in zip(pages.tolist(), np.split(order, begins[1:]), strict=True):
        others = [prints.pages[i].sketch for i in b[places].tolist()]
        found[places] = similarities(prints.pages[page].sketch, others)
    return found


def _sites(prints: Prints, pages: Pages, a: Numbers, b: Numbers) -> Marks:
    """Return what Pairs.site is. A syndicated copy keeps its original's URL, and is another site."""
    _, number = np.unique(np.array(prints.domains, str), return_inverse=True)
    known = np.array([bool(domain) for domain in prints.domains], bool)
    away = np.isin(np.array(pages.kinds or [""] * len(prints), str), SYNDICATED)
    site = np.where(number[a] == number[b], 1, 0)
    site = np.where(known[a] & known[b], site, -1)
    return np.where(away[a] | away[b], 0, site).astype(np.int8)


# ------------------------------------------------------------------------------------------ figures


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
    least = np.where(pairs.unread, np.maximum(least, 1.0), least)
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


# ---------------------------------------------------------------------------------------- intervals


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


# ------------------------------------------------------------------------------------- all of it


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


class JudgedPairs(NamedTuple):
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
) -> tuple[Evaluation, JudgedPairs]:
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
        judged.append(JudgedPairs(pairs, found))
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
        sum(page.unread for page in prints.pages),
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
