"""The numbers of lists: which ones new rows explain."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.core.fingerprint import PageReading, number_runs, read_page
from dedup.scrapy.evidence import lists as module
from dedup.scrapy.evidence.digest import Digester, Names, Page, Rules, placed
from dedup.scrapy.evidence.lists import Lists, Numbers, numbers_of_rows


def reading(text: str) -> PageReading:
    return read_page(f"<main><p>{text}", numbers=True)


def said_in(*rows: str) -> list[str]:
    """Return the numbers that items say."""
    page = Page(("http://a.example/",), lambda: "", 0, lambda: reading(""))
    digester = Digester(page, Rules(Names()))
    for row in rows:
        digester.add({"row": row})
    return digester.numbers()


def numbers(said: str, *rows: str) -> Numbers:
    """Return the numbers of a page that says something, and of its rows."""
    found = numbers_of_rows(said_in(*rows), lambda text: reading(text).numbers)
    return Numbers(reading(said).numbers, *found, frozenset(map(str.encode, rows)))


@pytest.mark.parametrize(
    ("mine", "theirs", "explained"),
    [
        (("room 1 for 80", "room 1 for 80"), ("room 1 for 90", "room 1 for 90"), True),
        (("3 May, film 7", "film 7"), ("4 May, film 8", "film 8"), False),
        (("7 May, film 7", "film 7"), ("4 May, film 8", "film 8"), False),  # a number stands there twice
        (("film 7 of 1999", "film 7"), ("film 8", "film 8"), False),
        (("film 8", "film 8"), ("film 7 of 1999", "film 7"), False),
        (("4 March at 1:30 PM", "2020-03-04 13:30"), ("5 March at 2:45 PM", "2020-03-05 14:45"), True),
        (("3 May, film at 03:00", "film at 03:00"), ("4 May, film at 04:00", "film at 04:00"), False),
        (("1 May, film at 13", "film at 13"), ("2 May, film at 14", "film at 14"), False),
        (("4 March at 09:00PM", "2020-03-04 21:00"), ("5 March at 10:30AM", "2020-03-05 10:30"), True),
        (("12 AM", "00:00"), ("12 PM", "12:00"), True),
        (("8 May at 20:15", "20:15"), ("9 May at 21:00", "21:00"), False),  # 20 is not 8 beside
        (("5 May at 7:05", "7:05"), ("6 May at 7:06", "7:06"), False),
        (("10/04/17", "2017-10-04"), ("10/04/18", "2018-10-04"), True),
        (("lot 17", "film 1217"), ("lot 18", "film 1218"), False),
        (("act 152A", "act 152A"), ("act 252B", "act 252B"), True),
        (("5 of 9", "a"), ("5 of 9", "b"), True),
    ],
)  # fmt: skip
def test_numbers_are_explained_where_the_rows_differ_by_them(mine, theirs, explained):
    """By each of them, as often as the pages do; whatever else the rows say."""
    for one, other in ((mine, theirs), (theirs, mine)):
        assert known(numbers(*one), numbers(*other)) == (rows(*other[1:]) if explained else set())


def rows(*said: str) -> frozenset[bytes]:
    return frozenset(map(str.encode, said))


def known(mine: Numbers, *others: Numbers, **options: Any) -> frozenset[bytes]:
    """Return which rows of the other lists explain themselves in a list."""
    lists = Lists()
    for place, other in enumerate(others):
        lists.note(str(place), other)
    every = frozenset().union(*(other.items for other in others))
    return lists.explained(mine, every, **({"volatile": frozenset(), "titles": True} | options))


def test_numbers_at_volatile_places_do_not_count():
    """A counter, by the word before it."""
    mine, copy, other = (
        numbers(f"{day} May seen {times} times", "film 7")
        for day, times in ((8, 5), (8, 7), (9, 7))
    )
    changed = frozenset(place for place, _ in placed(numbers("seen 5 times").page))
    assert not known(mine, copy, other)
    assert known(mine, copy, volatile=changed) == rows("film 7")
    assert not known(mine, other, volatile=changed)


def test_rows_of_all_lists_of_a_page_are_known_and_no_others():
    """Those of a page with another title only where titles say nothing."""
    mine, one, two = (numbers("8 May", f"film {n}") for n in (1, 2, 3))
    another = numbers("9 May", "film 4")._replace(title=9)
    assert known(mine, one, another, two) == rows("film 2", "film 3")
    titled = one._replace(title=9)
    assert not known(mine, titled)
    assert known(mine, titled, titles=False) == rows("film 2")


def test_what_is_forgotten_explains_nothing(monkeypatch):
    """Nor does a list that is too large; one that is read again is as it is now, and the last."""
    monkeypatch.setattr(module, "LISTS", 2)
    monkeypatch.setattr(module, "LIST_BYTES", 200)
    lists = Lists()

    def films() -> set[bytes]:
        wanted = rows("film 1", "film 2", "film 3")
        return lists.explained(numbers(""), wanted, frozenset(), titles=True)

    for key, film in (("a", "film 1"), ("b", "film 2"), ("a", "film 1"), ("c", "film 3")):
        lists.note(key, numbers("", film))
    assert films() == rows("film 1", "film 3")
    lists.note("a", numbers("1999", "film 1"))
    assert films() == rows("film 3")
    lists.note("c", numbers(" ".join(map(str, range(100))), "film 3"))
    assert not films()


@given(st.lists(st.text(), max_size=5))
def test_each_number_of_an_item_has_its_token(values):
    """Whatever an item says; so a page is explained by the numbers that it says, whatever stands between them."""
    said = set(said_in(" ".join(values)))
    found = number_runs(reading(" ".join(said)).numbers)
    assert sum(len(run) for _, *run in found) == len(said)
