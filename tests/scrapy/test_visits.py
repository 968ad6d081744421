"""What two visits of one URL show: volatile fields, numbers, and parts of a page."""

from typing import Any

import pytest

from dedup.core.fingerprint import read_page
from dedup.scrapy.evidence import visits as module
from dedup.scrapy.evidence.departures import BESIDE_TEXT, Departures, Side, departures
from dedup.scrapy.evidence.digest import Digest, held_by
from dedup.scrapy.evidence.enough import FEW
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


def side(found: Digest, numbers: str = "") -> Side:
    """Return a page whose items have this digest."""
    html = f"<html><body><nav>{numbers}</nav><p>{TEXT}</p></body></html>"
    return Side("key", read_page(html).fingerprint, found)


def departs(mine: Digest, theirs: Digest) -> Departures:
    return departures(side(mine), side(theirs), BESIDE_TEXT)


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
    assert known.says_nothing(NAME, departs(first, digest(numbers=at((7, 1), (8, 9)))))
    assert not known.says_nothing(NAME, departs(first, digest(numbers=at((7, 2), (8, 2)))))
    assert not known.says_nothing(NAME, departs(first, digest(numbers=at((8, 2)))))


def test_a_number_that_all_pages_of_a_class_add_says_nothing() -> None:
    """The date of a print copy, once FEW pages had it; what one of them does not add still counts."""
    visits, date = Visits(3), (7, 26)
    for n in range(FEW):
        mine, theirs = digest(numbers=at((9, n), date)), digest(numbers=at((9, n)))
        found = departs(mine, theirs)
        assert not visits.of("parse").says_nothing(NAME, found)
        assert not visits.note(NAME, side(mine), side(theirs))
    known = visits.of("parse")
    assert known.says_nothing(NAME, found)
    assert not known.says_nothing(NAME._replace(shape="?+sid"), found)
    assert not known.says_nothing(NAME, departs(digest(numbers=at((9, 77), date)), theirs))
    assert visits.note(NAME, side(digest(numbers=at((9, 5)))), side(theirs)) == found.added
    assert not known.says_nothing(NAME, found)


def test_a_number_in_place_of_another_one_is_another_edition() -> None:
    """Of sizes 38 and 40, too, where all pages of a class have the same two."""
    visits = Visits(3)
    mine, theirs = digest(numbers=at((7, 38), (9, 1))), digest(numbers=at((7, 40), (9, 1)))
    for _ in range(FEW + 1):
        visits.note(NAME, side(mine), side(theirs))
    assert not visits.of("parse").says_nothing(NAME, departs(mine, theirs))


def test_words_that_all_pages_of_a_class_add_say_nothing() -> None:
    """A banner of print copies. Words in place of others, or the same in another order, are another edition."""
    visits, none = Visits(3), digest(numbers=at((9, 1)))
    added = [
        (none._replace(others=(n, n + 5, 91)), none._replace(others=(n + 99, n, 90)))
        for n in range(9)
    ]
    for mine, theirs in added[:FEW]:
        assert not visits.of("parse").says_nothing(NAME, departs(mine, theirs))
        visits.note(NAME, side(mine), side(theirs))
    known = visits.of("parse")
    mine, theirs = added[-1]
    assert known.says_nothing(NAME, departs(mine, theirs))
    assert known.says_nothing(NAME, departs(theirs, mine))
    other = mine._replace(others=(1, mine.others[1] + 1, 91))
    assert not known.says_nothing(NAME, departs(other, theirs))
    replaced = NAME._replace(shape="?~strength")
    for n in range(9):
        mine, theirs = (none._replace(others=(n * 7 + k, n + k * 5, 90)) for k in (0, 1))
        visits.note(replaced, side(mine), side(theirs))
        assert not known.says_nothing(replaced, departs(mine, theirs))


def test_a_part_in_which_all_pages_of_a_class_differ_alike_says_nothing() -> None:
    """Menu and footer of print copies; not where each has its own."""
    found = digest(numbers=at((9, 1)))
    for own, says in ((False, False), (True, True)):
        visits = Visits(3)
        for n in range(FEW + 1):
            mine, theirs = side(found, f"print {n * own}"), side(found, "menu")
            odd = departures(mine, theirs, BESIDE_TEXT)
            assert odd.added
            known = visits.of("parse").says_nothing(NAME, odd)
            visits.note(NAME, mine, theirs)
        assert known is not says


def test_pages_are_read_again_once_what_all_of_a_class_had_is_gone() -> None:
    """A clock that went on is volatile then; a page with other words, a login, shows nothing."""
    html = "<html><body><main><p>{} at 10:{}</p></main></body></html>".format
    before, now, login = (
        read_page(html(words, minute), numbers=True)
        for words, minute in ((TEXT, 41), (TEXT, 42), (TEXT[9:], 43))
    )
    first = Side("one", before.fingerprint, held_by(Digest(1), before))
    other = Side("two", now.fingerprint, held_by(Digest(1), now))
    plain = side(held_by(Digest(1), read_page(html(TEXT, ""), numbers=True)))
    visits = Visits(2)
    assert not visits.note(NAME, plain, first)
    gone = visits.note(NAME, plain, other)
    assert gone
    assert visits.to_read(NAME, other, gone) == [first, other]
    visits.read_again("parse", first, login)
    assert not visits.of("parse").places
    visits.read_again("parse", first, now)
    assert visits.of("parse").says_nothing(NAME, departures(plain, other, ()))
    assert not visits.to_read(NAME, other, gone)  # its place is known, and two pages were read


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
