"""The pairs that figures are counted over: those listed one by one, and all there are.

    values -> every pair within reach (find_all) + every labelled near-duplicate -> Pairs

Invariant: memory grows with the pairs that matter, never with n * n. A pair that is
neither within reach nor labelled a near-duplicate is right at every distance, and is not kept.
"""

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.core.fingerprint import similarities
from dedup.core.numbers import bit_counts
from dedup.core.pairs import find_all
from dedup.lab.evaluate.labels import Labels, Marks, Numbers, Pages, pair_keys
from dedup.lab.evaluate.page_files import Prints
from dedup.model.errors import DedupError
from dedup.model.page import are_copies, are_two_things, identity_of

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
    things      two pages of a site whose structured data names two things
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
        copies[i] = are_copies(prints.page(a[i]), prints.page(b[i]))
    for i in np.flatnonzero((site == 1) & (prints.thing[a] != prints.thing[b])):
        things[i] = are_two_things(prints.page(a[i]), prints.page(b[i]))
    return Pairs(
        a,
        b,
        label,
        value,
        similarity,
        np.minimum(prints.features[a], prints.features[b]),
        site,
        copies,
        things,
        other & (site == 1) & ~((value == 0) & (similarity == 1)),
        kind,
    )


def _similarities(prints: Prints, a: Numbers, b: Numbers) -> npt.NDArray[np.float64]:
    """Return the similarity of each pair, all pairs of one page at once."""
    found = np.empty(len(a))
    order = np.argsort(a, kind="stable")
    pages, begins = np.unique(a[order], return_index=True)
    for page, places in zip(pages.tolist(), np.split(order, begins[1:]), strict=True):
        others = [prints.sketch[i] for i in b[places].tolist()]
        found[places] = similarities(prints.sketch[page], others)
    return found


def _sites(prints: Prints, pages: Pages, a: Numbers, b: Numbers) -> Marks:
    """Return what Pairs.site is. A syndicated copy keeps its original's URL, and is another site."""
    _, number = np.unique(np.array(prints.domains, str), return_inverse=True)
    known = np.array([bool(domain) for domain in prints.domains], bool)
    away = np.isin(np.array(pages.kinds or [""] * len(prints), str), SYNDICATED)
    site = np.where(number[a] == number[b], 1, 0)
    site = np.where(known[a] & known[b], site, -1)
    return np.where(away[a] | away[b], 0, site).astype(np.int8)
