"""The numbers of lists: which ones new rows explain."""

import pytest

from dedup.core.fingerprint import read_page
from dedup.scrapy.evidence import lists as module
from dedup.scrapy.evidence.digest import Digester, Names, Page, Rules
from dedup.scrapy.evidence.lists import Lists, Numbers


def numbers(said: str, *rows: str) -> Numbers:
    """Return the numbers of a page that says something, and of its rows."""
    read = read_page(f"<main><p>{said}</p></main>", numbers=True)
    digester = Digester(Page(("http://a.example/",), lambda: "", 0, lambda: read), Rules(Names()))
    for row in rows:
        digester.add({"row": row})
    found = (
        read_page(f"<main><p>{each}</p></main>", numbers=True).numbers
        for each in digester.numbers()
    )
    return Numbers(read.numbers, *found)


@pytest.mark.parametrize(
    ("mine", "theirs", "explained"),
    [
        (("room 1 for 80", "room 1 for 80"), ("room 1 for 90", "room 1 for 90"), True),
        (("3 May, film 7", "film 7"), ("4 May, film 8", "film 8"), False),
        (("7 May, film 7", "film 7"), ("4 May, film 8", "film 8"), False),  # a number stands there twice
        (("film 7 of 1999", "film 7"), ("film 8", "film 8"), False),
        (("film 8", "film 8"), ("film 7 of 1999", "film 7"), False),
        (("4 March at 1:30 PM", "2020-03-04 13:30"), ("5 March at 2:45 PM", "2020-03-05 14:45"), True),
        (("12 AM", "00:00"), ("12 PM", "12:00"), True),
        (("8 May at 20:15", "20:15"), ("9 May at 21:00", "21:00"), False),  # 20 is not 8 beside
        (("5 May at 7:05", "7:05"), ("6 May at 7:06", "7:06"), False),
        (("act 152A", "act 152A"), ("act 252B", "act 252B"), True),
        (("5 of 9", "a"), ("5 of 9", "b"), True),
    ],
)  # fmt: skip
def test_numbers_are_explained_where_the_rows_differ_by_them(mine, theirs, explained):
    """By each of them, as often as the pages do; whatever else the rows say."""
    lists = Lists()
    for key, said in (("mine", mine), ("theirs", theirs)):
        lists.note(key, numbers(*said))
    assert lists.explain("mine", "theirs") is explained
    assert lists.explain("theirs", "mine") is explained


def test_what_is_forgotten_explains_nothing(monkeypatch):
    """Nor does a list that is too large; one that is read again is as it is now, and the last."""
    monkeypatch.setattr(module, "LISTS", 2)
    monkeypatch.setattr(module, "LIST_BYTES", 200)
    lists = Lists()
    for key in ("a", "b", "a", "c"):
        lists.note(key, numbers("film 7", "film 7"))
    assert lists.explain("a", "c")
    assert not lists.explain("a", "b")
    lists.note("a", numbers("film 7 1999", "film 7"))
    assert not lists.explain("a", "c")
    lists.note("c", numbers(" ".join(map(str, range(100))), "film 7"))
    assert not lists.explain("c", "c")
