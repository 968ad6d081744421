"""The labels of a set's pages and pairs, from any source: a folder, a file, a generator.

    labels -> is this pair of near-duplicates? 1 yes, 0 no, -1 left open

Invariant: pages are their numbers, 0 to n - 1, and a pair (a, b) has a < b.
"""

import msgspec
import numpy as np
import numpy.typing as npt

OPEN = -1

Numbers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.int8]


class Listed(msgspec.Struct, frozen=True):
    """m pairs labelled one by one: a, b and label of shape (m,); their kinds ("" if none is told)."""

    a: Numbers
    b: Numbers
    label: Marks
    kind: list[str]


class Every(msgspec.Struct, frozen=True):
    """A label for every pair of n pages, without n * n numbers.

    keys, label  the pairs that are near-duplicates or left open, by rising pair_keys(); any other
                 is neither
    apart        pages of which two are left open unless a key says otherwise (soft 404 pages of
                 two sites: it cannot be told); a mask of shape (n,)
    """

    keys: Numbers
    label: Marks
    apart: npt.NDArray[np.bool_]

    def of(self, a: Numbers, b: Numbers) -> Marks:
        """Return the labels of pairs a < b."""
        label = np.where(self.apart[a] & self.apart[b], np.int8(OPEN), np.int8(0))
        if len(self.keys):
            keys = pair_keys(a, b, len(self.apart))
            at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            label = np.where(self.keys[at] == keys, self.label[at], label)
        return label.astype(np.int8)

    def near(self) -> tuple[Numbers, Numbers]:
        """Return (a, b) of every pair that is labelled a near-duplicate."""
        keys = self.keys[self.label == 1]
        return keys // len(self.apart), keys % len(self.apart)


class Pages(msgspec.Struct, frozen=True):
    """What sorts the figures: a list of n for each, None where nothing is told.

    kinds      "real" is a page as its site gave it, anything else is made
    groups     pages that hang together, by number: what the bootstrap draws
    words      length of the reference text
    """

    groups: Numbers
    kinds: list[str] | None = None
    languages: list[str] | None = None
    sources: list[str] | None = None
    words: Numbers | None = None


class Labels(msgspec.Struct, frozen=True):
    """All that is known of a set; listed or every may be None, not both."""

    pages: Pages
    listed: Listed | None
    every: Every | None


def pair_keys(a: Numbers, b: Numbers, n: int) -> Numbers:
    """Return one number for each pair a < b of n pages, rising by a, then b."""
    return a.astype(np.int64) * n + b


def clusters(a: Numbers, b: Numbers, n: int) -> Numbers:
    """Return for each of n pages the number of the cluster that the pairs connect it to."""
    root = list(range(n))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = i = root[root[i]]
        return i

    for i, j in zip(a.tolist(), b.tolist(), strict=True):
        root[find(j)] = find(i)
    return np.array([find(i) for i in range(n)], np.int64)
