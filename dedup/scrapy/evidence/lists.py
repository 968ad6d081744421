"""Lists: pages with several items that have the page's own address.

    a list passed -> rows_of() -> note()
    the next one  -> rows_of() -> seen_rows()

A row was seen if a list of late had it, and the numbers of which one page has more than the other stand in rows of which it
has more. Else a number beside the rows may tell them apart: rooms by day.
"""

import re
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable
from itertools import islice
from typing import NamedTuple

from dedup.core.fingerprint import PageReading, read_page
from dedup.model.recipes import Recipe
from dedup.scrapy.evidence.items import ReadItem
from dedup.scrapy.evidence.page_text import more_numbers, placed

LISTS, LIST = 200, 5000  # how many lists, and numbers and rows of one
COMPARED = 20  # lists with a row of one that are compared with it
HOURS = 24

_NUMBER = re.compile(r"[0-9]{1,50}")


class Rows(NamedTuple):
    """A list.

    title    of the page; numbers: its numbers, each with its place (page_text.placed)
    rows     the hashes of its items; written: the numbers in them
    """

    title: int
    numbers: list[int]
    rows: frozenset[int]
    written: Counter[str]


class Lists:
    """The last lists of one namespace."""

    def __init__(self) -> None:
        """Begin with none."""
        self._known: OrderedDict[str, Rows] = OrderedDict()  # by document key

    def note(self, key: str, found: Rows) -> None:
        """Note a list that passed, as it is now."""
        self._known.pop(key, None)
        if len(found.numbers) + len(found.rows) + len(found.written) <= LIST:
            self._known[key] = found
        if len(self._known) > LISTS:
            self._known.popitem(last=False)

    def seen_rows(
        self, mine: Rows, noisy: Collection[int], recipe: Recipe, *, any_title: bool
    ) -> set[int]:
        """Return which rows of a list were seen; any_title: also in lists with another title."""
        found = set[int]()
        held = (each for each in reversed(self._known.values()) if each.rows & mine.rows)
        for theirs in islice(held, COMPARED):
            if (any_title or mine.title == theirs.title) and all(
                _explains(one, other, noisy, recipe)
                for one, other in ((mine, theirs), (theirs, mine))
            ):
                found |= theirs.rows & mine.rows
        return found


def rows_of(reading: PageReading, items: Iterable[ReadItem | None]) -> Rows:
    """Return the rows of a list."""
    read = [each for each in items if each is not None]
    written = _numbers_of(text for each in read for _, text in each.fields)
    rows = frozenset(each.by_heading for each in read)
    return Rows(reading.fingerprint.title, placed(reading), rows, written)


def _explains(mine: Rows, theirs: Rows, noisy: Collection[int], recipe: Recipe) -> bool:
    """Whether each number that one list has and the other has not stands in its rows, and not in the other's."""
    if not (rest := {*more_numbers(mine.numbers, theirs.numbers, noisy)}):
        return True
    text = f"<main><p>{_forms_of(mine.written - theirs.written)}"
    return rest <= {n & 0xFFFF for n in placed(read_page(text, recipe=recipe, numbers=True))}


def _numbers_of(texts: Iterable[str]) -> Counter[str]:
    """Return the numbers in some texts, each with how often it stands there."""
    return Counter(_NUMBER.findall(" ".join(texts)))


def _forms_of(found: Collection[str]) -> str:
    """Return numbers, and how a page may write them: 4 as 04, an hour as of twelve, a year by its end."""
    small = {int(each) for each in found if len(each) <= len("12")}
    hours = {each % 12 or 12 for each in small if each < HOURS}
    forms = {f"{each:{width}}" for each in small | hours for width in ("", "02")}
    years = {each[2:] for each in found if len(each) == len("2026")}
    halves = {f"{form}{half}" for form in forms for half in ("am", "pm")}
    return " ".join({*found} | forms | years | halves)
