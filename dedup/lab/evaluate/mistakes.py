"""The pairs that were judged wrongly, with both texts, to be looked at.

    judged pairs -> wrong and missed ones, of every kind in turn -> the pages again -> their words

The rule kept here: which mistakes are shown is not chance. Kinds take turns, so that the commonest
does not hide the others; within a kind the worst come first.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from typing import Literal

import msgspec
import numpy as np

from dedup.core.fingerprint import main_words
from dedup.lab.evaluate.counted_pairs import Pairs
from dedup.lab.evaluate.evaluation import Judged
from dedup.lab.evaluate.labels import Numbers, Pages
from dedup.lab.evaluate.page_files import Page, Prints

__all__ = ["Mistake", "MistakenPage", "mistakes"]


class MistakenPage(msgspec.Struct, frozen=True):
    """A page of a mistake; words are those the reader kept, in order."""

    id: str
    url: str
    kind: str
    features: int
    words: list[str]


class Mistake(msgspec.Struct, frozen=True):
    """A pair judged wrongly; distances in bits.

    what  "wrong": called near-duplicates and are not; "missed": are and were not called so
    kind  the pair's, as in the slices
    """

    what: Literal["wrong", "missed"]
    kind: str
    distance: int
    check_distance: int
    a: MistakenPage
    b: MistakenPage


def mistakes(
    prints: Prints, facts: Pages, judged: Judged, pages: Iterable[Page], count: int
) -> list[Mistake]:
    """Return up to `count` wrong pairs and as many missed ones.

    pages is the set once more: the few that are needed are read from it.
    """
    pairs, found = judged
    total = pairs.value.astype(np.int64) + pairs.check
    wrong = np.flatnonzero((pairs.label == 0) & found)
    missed = np.flatnonzero((pairs.label == 1) & ~found)
    chosen = [
        ("wrong", _in_turn(pairs, facts, wrong[np.argsort(total[wrong], kind="stable")], count)),
        (
            "missed",
            _in_turn(pairs, facts, missed[np.argsort(-total[missed], kind="stable")], count),
        ),
    ]
    wanted = {int(end[i]) for _, places in chosen for i in places for end in (pairs.a, pairs.b)}
    read = _read(prints, facts, pages, wanted)
    return [
        Mistake(
            "wrong" if what == "wrong" else "missed",
            _kind(pairs, facts, i),
            int(pairs.value[i]),
            int(pairs.check[i]),
            read[int(pairs.a[i])],
            read[int(pairs.b[i])],
        )
        for what, places in chosen
        for i in places
    ]


def _in_turn(pairs: Pairs, facts: Pages, places: Numbers, count: int) -> list[int]:
    """Return some places, one of each kind after the other."""
    by_kind: dict[str, list[int]] = {}
    for i in places.tolist():
        of_kind = by_kind.setdefault(_kind(pairs, facts, i), [])
        if len(of_kind) < count:
            of_kind.append(i)
    turns: Iterator[int | None] = chain.from_iterable(zip_longest(*by_kind.values()))
    return [i for i in turns if i is not None][:count]


def _kind(pairs: Pairs, facts: Pages, i: int) -> str:
    if pairs.kind is not None:
        return pairs.kind[i]
    if facts.kinds is None:
        return ""
    return " and ".join(sorted({facts.kinds[pairs.a[i]], facts.kinds[pairs.b[i]]}))


def _read(
    prints: Prints, facts: Pages, pages: Iterable[Page], wanted: set[int]
) -> dict[int, MistakenPage]:
    read: dict[int, MistakenPage] = {}
    for number, page in enumerate(pages) if wanted else ():
        if number in wanted:
            blocks = main_words(page.html, recipe=prints.recipe)
            words = [token for block in blocks for token in block.tokens]
            kind = "" if facts.kinds is None else facts.kinds[number]
            read[number] = MistakenPage(
                page.id, page.url, kind, int(prints.features[number]), words
            )
            if len(read) == len(wanted):
                break
    return read
