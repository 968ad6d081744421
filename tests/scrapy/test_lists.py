"""The numbers of lists: which ones new rows explain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.core.fingerprint import number_runs, read_page
from dedup.scrapy.evidence import lists as module
from dedup.scrapy.evidence.digest import Digester, Names, Page, Rules
from dedup.scrapy.evidence.lists import Lists, Numbers, numbers_of_list


def numbers(said: str, *rows: str) -> Numbers:
    """Return the numbers of a page that says something, and of its rows."""

    def reading(text):
        return read_page(f"<main><p>{text}", numbers=True)

    read = reading(said)
    digester = Digester(Page(("http://a.example/",), lambda: "", 0, lambda: read), Rules(Names()))
    for row in rows:
        digester.add({"row": row})
    return numbers_of_list(read.numbers, digester.numbers(), lambda text: reading(text).numbers)


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


@given(st.lists(st.text(), max_size=5))
def test_each_number_of_an_item_has_its_token(values):
    """Whatever an item says; so a page is explained by the numbers that it says, whatever stands between them."""
    text = " ".join(values)
    read = read_page("", numbers=True)
    digester = Digester(Page(("http://a.example/",), lambda: "", 0, lambda: read), Rules(Names()))
    digester.add({"row": text})
    said = set(digester.numbers())
    found = read_page(f"<main><p>{' '.join(said)}", numbers=True).numbers
    assert sum(len(run) for _, *run in number_runs(found)) == len(said)
