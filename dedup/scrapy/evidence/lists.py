"""The numbers of a crawl's last lists: whether new rows explain that a page has other numbers than the one it is like.

    a page with several items was read -> note(); it is like another, and has new rows -> explain(): its other rows are known

Rows without an address of their own are told apart by their page, too: rooms by day. But a new row changes the numbers of
its page. It explains them if each number by which two pages differ stands in what their rows differ by: 20:15 as 20 or as
8, not as both.

Invariants:
  - A number outside of the rows is never explained by rows that are the same in both.
  - Memory is bounded: LISTS of at most LIST_BYTES, in this process only. What is forgotten explains nothing: its rows pass.
"""

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dedup.core.fingerprint import number_runs

LISTS = 200
LIST_BYTES = 64 << 10
HOURS = 24

_YEAR = re.compile("(?:19|20)[0-9]{2}")


class Numbers(NamedTuple):
    """The numbers in a page's main text and those in its rows, as PageReading.numbers.

    forms  each number of the rows that a page may write in another form, and that form behind it
    """

    page: bytes
    rows: bytes
    forms: bytes


def numbers_of_list(page: bytes, said: Sequence[str], read: Callable[[str], bytes]) -> Numbers:
    """Return the numbers of a page and of its rows; read returns those in a text."""
    forms = (f"{each} {form}" for each in {*said} for form in _other_forms(each))
    return Numbers(page, read(" ".join(said)), read(" ".join(forms)))


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
        if sum(map(len, numbers)) <= LIST_BYTES:
            self._lists[key] = numbers
            if len(self._lists) > LISTS:
                self._lists.popitem(last=False)

    def explain(self, key: str, other: str) -> bool:
        """Whether the rows of a list differ from those of another by all by which the numbers of the two pages differ."""
        mine, theirs = self._lists.get(key), self._lists.get(other)
        if mine is None or theirs is None:
            return False
        forms = {*_pairs(mine.forms), *_pairs(theirs.forms)}
        page, rows = _counted(mine.page), _counted(mine.rows)
        their_page, their_rows = _counted(theirs.page), _counted(theirs.rows)
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


def _counted(numbers: bytes) -> Counter[int]:
    return Counter(_tokens(numbers))


def _tokens(numbers: bytes) -> Iterator[int]:
    """Yield each token with digits."""
    return (each for _, *run in number_runs(numbers) for each in run)
