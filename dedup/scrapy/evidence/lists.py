"""The numbers of a crawl's last lists: whether new rows explain that a page has other numbers than the one it is like.

    a page with several items was read -> note(); it is like another, and has new rows -> explain(): its other rows are known

Rows without an address of their own are told apart by their page, too: rooms by day. But a new row changes the numbers of
its page. It explains them if each number by which two pages differ stands in what their rows differ by.

Invariants:
  - A number outside of the rows is never explained by rows that are the same in both.
  - Memory is bounded: LISTS of at most LIST_BYTES, in this process only. What is forgotten explains nothing: its rows pass.
"""

from array import array
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from dedup.core.fingerprint import number_runs

LISTS = 200
LIST_BYTES = 64 << 10
HOURS = 24


class Numbers(NamedTuple):
    """The numbers in a page's main text, and those in its rows: 8 bytes each, as often as they stand there."""

    page: bytes
    rows: bytes


def numbers_of_list(numbers: bytes, said: Iterable[str], read: Callable[[str], bytes]) -> Numbers:
    """Return the numbers of a page and of its rows.

    numbers  of the page (PageReading.numbers)
    said     the numbers in its rows; those that the page lacks may stand there in another form, too
    read     returns the numbers in a text
    """
    page, counts = Counter(_tokens(numbers)), Counter(said)
    rows, forms = Counter[int](), Counter[str]()
    for (number, count), token in _with_tokens(counts, read):
        rows[token] += count
        if count > page[token]:
            forms.update(dict.fromkeys(_other_forms(number), count - page[token]))
    for (_, count), token in _with_tokens(forms, read):
        rows[token] += count
    return Numbers(_packed(page), _packed(rows))


def _with_tokens(
    counts: Counter[str], read: Callable[[str], bytes]
) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield each number, how often it stands there, and its token; nothing if a text has others than its words."""
    tokens = [*_tokens(read(" ".join(counts)))]
    return zip(counts.items(), tokens if len(tokens) == len(counts) else (), strict=False)


def _other_forms(number: str) -> set[str]:
    """Return how a page may write a number of an item: with a zero before it or none, as an hour of twelve, as 30pm."""
    if len(number) > len("12") or not number.isdigit():
        return {number.lstrip("0")} - {number, ""}
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
        page, rows, their_page, their_rows = map(_unpacked, (*mine, *theirs))
        return page - their_page <= rows - their_rows and their_page - page <= their_rows - rows


def _tokens(numbers: bytes) -> Iterator[int]:
    """Yield each token with digits."""
    return (each for _, *run in number_runs(numbers) for each in run)


def _packed(numbers: Counter[int]) -> bytes:
    return array("Q", numbers.elements()).tobytes()


def _unpacked(numbers: bytes) -> Counter[int]:
    return Counter(memoryview(numbers).cast("Q"))
