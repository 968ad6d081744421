"""The numbers of a crawl's last lists: whether new rows explain that a page has other numbers than the one it is like.

    a page with several items was read -> note(); it is like another, and has new rows -> explain(): its other rows are known

Rows without an address of their own are told apart by their page, too: rooms by day. But a new row changes the numbers of
its page. It explains them if each number by which two pages differ stands in what their rows differ by.

Invariants:
  - A number outside of the rows is never explained by rows that are the same in both.
  - Memory is bounded: LISTS of at most LIST_BYTES, in this process only. What is forgotten explains nothing: its rows pass.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from dedup.core.fingerprint import number_runs

LISTS = 200
LIST_BYTES = 64 << 10


class Numbers(NamedTuple):
    """The numbers in a page's main text and those in its rows, as PageReading.numbers."""

    page: bytes
    rows: bytes


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
        page, rows, their_page, their_rows = map(_counted, (*mine, *theirs))
        return page - their_page <= rows - their_rows and their_page - page <= their_rows - rows


def _counted(numbers: bytes) -> Counter[int]:
    return Counter(_tokens(numbers))


def _tokens(numbers: bytes) -> Iterator[int]:
    """Yield each token with digits."""
    return (each for _, *run in number_runs(numbers) for each in run)
