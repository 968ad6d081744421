"""What two visits of one URL show: volatile fields, numbers, and parts of a page."""

from typing import Any

import pytest

from dedup.core.fingerprint import read_page
from dedup.scrapy.evidence import visits as module
from dedup.scrapy.evidence.digest import Digest
from dedup.scrapy.evidence.ledger import Class
from dedup.scrapy.evidence.visits import Found, Visit, Visits, Volatile

NAME = Class("parse", "a.example", "n", "?+ref")
TEXT = " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(100))


def page(number: int) -> Any:
    return read_page(f"<html><body><p>{TEXT} seen {number} times</p></body></html>").fingerprint


def digest(
    holders: frozenset[int] = frozenset(),
    number: int = 1,
    numbers: frozenset[int] = frozenset(),
    **fields: int,
) -> Digest:
    named = {int(name[1:]): value for name, value in fields.items()}
    holds = bool(numbers)
    return Digest(number, says=True, fields=named, numbers=numbers, holds=holds, holders=holders)


def at(*numbers: tuple[int, int]) -> frozenset[int]:
    """Return numbers of a page by their places: Digest.numbers."""
    return frozenset(place << 16 | value for place, value in numbers)


def visited(first: Digest, second: Digest | None, visits: Visits | None = None) -> Any:
    visits = visits or Visits(3)
    visits.begin("key", Visit(NAME, first, page(1), until=9.0))
    return visits.ended("key", second, page(2)), visits


def test_what_two_visits_differ_in_is_volatile() -> None:
    """Fields and places of numbers by callback; the parts of the page that differ, of pages whose URLs differ so."""
    first = digest(f1=1, f2=5, numbers=at((7, 1), (8, 2)))
    found, visits = visited(first, digest(f1=1, f2=6, numbers=at((7, 1), (8, 3))))
    assert found == Found("parse", frozenset([2]), is_same=True)
    known = visits.of("parse")
    assert (known.fields, known.places) == ({2}, {8})
    assert known.parts_of(NAME.shape) == {"n"}  # words are not
    assert known.parts_of("?+sid") == frozenset()
    assert visits.of("another") == Volatile()


def test_of_a_list_numbers_are_volatile_if_its_rows_are_the_same() -> None:
    """By the word before them; no field is."""
    ours, theirs = (
        read_page(f"<main><p>{TEXT} seen {n} times, room 7</p></main>", numbers=True)
        for n in (1, 2)
    )
    beside = frozenset([9])
    for row, same in ((1, True), (2, False)):
        visits = Visits(3)
        first, second = digest(number=2, f1=1, f9=5), digest(number=2, f1=row, f9=6)
        visits.begin("key", Visit(NAME, first, page(1), 9.0, ours.numbers, beside))
        found = visits.ended("key", second, page(2), theirs.numbers)
        assert found == Found("parse", frozenset(), is_same=same)
        assert len(visits.of("parse").places) == same


def test_a_field_that_holds_the_page_is_never_volatile() -> None:
    """It would hide every other page."""
    found, _ = visited(digest(f1=1, f2=5), digest(frozenset([2]), f1=2, f2=6))
    assert found.fields == {1}


def test_numbers_are_equal_but_at_volatile_places() -> None:
    """Another number at another place is another page."""
    first = digest(numbers=at((7, 1), (8, 2)))
    _, visits = visited(first, digest(numbers=at((7, 1), (8, 3))))
    known = visits.of("parse")
    assert known.are_equal(NAME, first, digest(numbers=at((7, 1), (8, 9))))
    assert not known.are_equal(NAME, first, digest(numbers=at((7, 2), (8, 2))))
    assert not known.are_equal(NAME, first, digest(numbers=at((8, 2))))


def test_a_number_that_all_pages_of_a_class_add_says_nothing() -> None:
    """The date of a print copy, once FEW pages had it; what one of them does not add still counts."""
    visits, date = Visits(3), (7, 26)
    for n in range(module.FEW):
        mine, theirs = digest(numbers=at((9, n), date)), digest(numbers=at((9, n)))
        assert not visits.of("parse").are_equal(NAME, mine, theirs)
        visits.note(NAME, mine, theirs)
    known = visits.of("parse")
    assert known.are_equal(NAME, mine, theirs)
    assert not known.are_equal(NAME._replace(shape="?+sid"), mine, theirs)
    assert not known.are_equal(NAME, digest(numbers=at((9, 77), date)), theirs)
    visits.note(NAME, digest(numbers=at((9, 5))), theirs)
    assert not known.are_equal(NAME, mine, theirs)


def test_words_that_all_pages_of_a_class_add_say_nothing() -> None:
    """Those beside such a date. Other ones, or the same in another order, are another edition."""
    visits, none = Visits(3), digest(numbers=at((9, 1)))
    pages = [
        (none._replace(others=(n, n + 5)), none._replace(others=(n + 99, n))) for n in range(9)
    ]
    for mine, theirs in pages[: module.FEW]:
        assert not visits.of("parse").are_equal(NAME, mine, theirs)
        visits.note(NAME, mine, theirs)
    known = visits.of("parse")
    mine, theirs = pages[-1]
    assert known.are_equal(NAME, mine, theirs)
    assert known.are_equal(NAME, theirs, mine)
    assert not known.are_equal(NAME, mine._replace(others=(1, mine.others[1] + 1)), theirs)
    visits.note(NAME, theirs, theirs)
    assert not known.are_equal(NAME, mine, theirs)
    for _ in range(module.FEW):
        visits.note(NAME._replace(shape="?+sid"), mine, mine)
    ordered = mine._replace(others=(1, mine.others[1]))
    assert not known.are_equal(NAME._replace(shape="?+sid"), mine, ordered)


@pytest.mark.parametrize(
    ("first", "second"),
    [(digest(f1=1), None), (digest(f1=1), digest(number=2, f1=2)), (Digest(0), Digest(0))],
    ids=["unreadable", "another number of items", "no items"],
)
def test_visits_that_cannot_be_compared_show_nothing(first: Digest, second: Digest | None) -> None:
    """And an end without a beginning, or a second end, neither."""
    found, visits = visited(first, second)
    assert found is None
    assert visits.of("parse") == Volatile(visits=[NAME.shape])
    assert visits.ended("key", digest(f1=2), page(2)) is None


def test_visits_and_what_waits_for_them_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each way in which URLs differ. So are the fields of a callback: where all change, none does."""
    visits = Visits(2)
    names = [NAME._replace(shape=shape) for shape in ("a", "b", "c")]
    for name in names[:2]:
        assert visits.wants(name)
        visits.begin(name.shape, Visit(name, digest(f1=1), page(1), until=9.0))
        assert not visits.wants(name)
    assert not visits.wants(names[2])
    assert visits.wants(NAME._replace(callback="another"))
    monkeypatch.setattr(module, "WAITING", 1)
    visits.begin("c", Visit(names[2], digest(f1=1), page(1), until=9.0))
    assert visits.ended("a", digest(f1=2), page(2)) is None
    assert visits.ended("c", digest(f1=2), page(2)) is not None
    monkeypatch.setattr(module, "VOLATILE", 2)
    found, _ = visited(digest(f3=1, f4=1), digest(f3=2, f4=2), visits)
    assert found.fields == frozenset()
    assert visits.of("parse").fields == {1}
    assert not Visits(0).wants(NAME)
