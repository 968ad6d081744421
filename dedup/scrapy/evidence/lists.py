"""The numbers of a crawl's last lists: whether new rows explain that a page has other numbers than the one it is like.

    the rows of a page passed -> note(); of another they are not known with its numbers -> explained(): some are, all the same

Rows without an address of their own are told apart by their page, too: rooms by day. But a new row changes the numbers of
its page. It explains them if each number by which two pages differ stands in what their rows differ by: 20:15 as 20 or as 8,
not as both.

Invariants:
  - A number outside of the rows is never explained by rows that are the same in both.
  - Memory is bounded: LISTS of at most LIST_BYTES, in this process only. What is forgotten explains nothing: its rows pass.
"""

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from dedup.scrapy.evidence.digest import placed

LISTS = 200
LIST_BYTES = 64 << 10
COMPARED = 20  # lists with a row of one that are compared with it, the last ones
HOURS = 24

_YEAR = re.compile("(?:19|20)[0-9]{2}")


class Numbers(NamedTuple):
    """The numbers in a page's main text and those in its rows, as PageReading.numbers.

    forms  some numbers of rows, each with another form that a page may have of it behind it
    items  the rows, by Hashes.apart
    title  of the page
    """

    page: bytes
    rows: bytes
    forms: bytes
    items: frozenset[bytes] = frozenset()
    title: int = 0


def numbers_of_rows(said: Sequence[str], read: Callable[[str], bytes]) -> tuple[bytes, bytes]:
    """Return the numbers of a page's rows, and their forms (Numbers); read returns the numbers in a text."""
    forms = (f"{each} {form}" for each in {*said} for form in _other_forms(each))
    return read(" ".join(said)), read(" ".join(forms))


def _other_forms(number: str) -> set[str]:
    """Return how a page may write a number of an item: 4 as 04, an hour as of twelve, as 30pm, a year by its end."""
    if not number.isdigit():
        return set()
    if len(number) > len("12"):
        return {number[2:]} if _YEAR.fullmatch(number) else {number.lstrip("0")} - {number, ""}
    value = int(number)
    values = {value, value % 12 or 12} if value < HOURS else {value}
    forms = {form for each in values for form in (f"{each}", f"{each:02}")}
    return {f"{form}{half}" for form in forms for half in ("", "am", "pm")} - {number}


class Lists:
    """The lists that were read last, by their keys."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lists: OrderedDict[str, Numbers] = OrderedDict()

    def note(self, key: str, numbers: Numbers) -> None:
        """Note a list, as it is now."""
        self._lists.pop(key, None)
        if sum(map(len, numbers[:3])) + 8 * len(numbers.items) <= LIST_BYTES:
            self._lists[key] = numbers
            if len(self._lists) > LISTS:
                self._lists.popitem(last=False)

    def explained(
        self, mine: Numbers, wanted: frozenset[bytes], volatile: frozenset[int], *, titles: bool
    ) -> frozenset[bytes]:
        """Return which rows of a list are known: lists had them whose pages are the same but for what rows explain.

        volatile  places of numbers that do not count; titles: whether titles do
        """
        found = frozenset[bytes]()
        held = (each for each in reversed(self._lists.values()) if each.items & (wanted - found))
        for theirs in islice(held, COMPARED):
            if (mine.title == theirs.title or not titles) and _are_same(mine, theirs, volatile):
                found |= theirs.items & wanted
                if found == wanted:
                    break
        return found


def _are_same(mine: Numbers, theirs: Numbers, volatile: frozenset[int]) -> bool:
    """Whether rows differ by all by which the numbers of two pages do."""
    rows, their_rows = Counter(_tokens(mine.rows)), Counter(_tokens(theirs.rows))
    page, their_page = (
        Counter(token for place, token in placed(each) if place not in volatile)
        for each in (mine.page, theirs.page)
    )
    forms = {*_pairs(mine.forms), *_pairs(theirs.forms)}
    return _have(rows - their_rows, page - their_page, forms) and _have(
        their_rows - rows, their_page - page, forms
    )


def _have(rows: Counter[int], page: Counter[int], forms: set[tuple[int, int]]) -> bool:
    """Whether rows have the numbers of a page, each as it is or in another form."""
    rest, spare = page - rows, rows - page
    for number, form in forms:
        both = min(spare[number], rest[form])
        spare[number] -= both
        rest[form] -= both
    return not any(rest.values())


def _pairs(numbers: bytes) -> Iterator[tuple[int, int]]:
    found = _tokens(numbers)
    return zip(found, found, strict=True)


def _tokens(numbers: bytes) -> Iterator[int]:
    """Yield each token with digits."""
    return (token for _, token in placed(numbers))
