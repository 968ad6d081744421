"""The set that comes with the package: the pages of the demo site, whose truth is known.

Invariant: pages of one group have the same main content and are near-duplicates; variants
of one product are left open (they are alike by the paper's definition, and not the same); all
other pairs are none.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from dedup.lab.demo.site.site import Site
from dedup.lab.evaluate.labels import OPEN, Every, Labels, Pages, pair_keys
from dedup.lab.evaluate.page_files import Page, Progress
from dedup.lab.evaluate.sets import count_words

STEP = 16  # pages between two calls of progress


class GeneratedSet:
    """The demo site with a number of pages. Raises UsageError if they are fewer than it needs."""

    def __init__(self, pages: int, seed: int = 1) -> None:
        self.name = f"generated site, {pages} pages, seed {seed}"
        self._site = Site(pages, seed)

    def pages(self, progress: Progress | None = None) -> Iterator[Page]:
        """Yield the pages, each as its first request gets it."""
        total = len(self._site.truth)
        for number, path in enumerate(self._site.truth):
            if progress and number % STEP == 0:
                progress(number, total)
            _, _, body = self._site.render(path, number)
            yield Page(path, body.decode(), f"http://localhost{path}")
        if progress:
            progress(total, total)

    def labels(self, ids: list[str]) -> Labels:
        """Return what the site knows of its pages."""
        truths = [self._site.truth[path] for path in ids]
        members: dict[str, list[int]] = {}
        families: dict[str, list[int]] = {}
        for number, truth in enumerate(truths):
            members.setdefault(truth.group, []).append(number)
            if truth.family:
                families.setdefault(truth.family, []).append(number)
        marks = {pair: OPEN for family in families.values() for pair in combinations(family, 2)}
        marks |= {pair: 1 for group in members.values() for pair in combinations(group, 2)}
        ends = np.array(sorted(marks), np.int64).reshape(-1, 2)
        every = Every(
            pair_keys(ends[:, 0], ends[:, 1], len(ids)),
            np.array([marks[pair] for pair in sorted(marks)], np.int8),
            np.zeros(len(ids), bool),
        )
        together = [truth.family or truth.group for truth in truths]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(together))}
        pages = Pages(
            np.array([numbers[name] for name in together], np.int64),
            ["original" if truth.kind == "article" else truth.kind for truth in truths],
            [truth.language for truth in truths],
            None,
            np.array([count_words(self._site.text(path)) for path in ids], np.int64),
        )
        return Labels(pages, None, every)
