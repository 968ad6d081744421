"""What two visits of one URL show: noise of fields, and of parts of a page."""

from typing import Any

import pytest

from dedup.core.fingerprint import read_page
from dedup.scrapy.evidence import visits as module
from dedup.scrapy.evidence.digest import Digest
from dedup.scrapy.evidence.ledger import Class
from dedup.scrapy.evidence.visits import Visit, Visits

NAME = Class("parse", "a.example", "n", "?+ref")
TEXT = " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(100))


def page(number: int) -> Any:
    return read_page(f"<html><body><p>{TEXT} seen {number} times</p></body></html>").fingerprint


def digest(holders: frozenset[int] = frozenset(), number: int = 1, **fields: int) -> Digest:
    named = {int(name[1:]): value for name, value in fields.items()}
    return Digest(number, says=True, fields=named, holders=holders)


def visited(first: Digest, second: Digest | None, visits: Visits | None = None) -> Any:
    visits = visits or Visits(3)
    visits.begin("key", Visit(NAME, first, page(1)))
    return visits.ended("key", second, page(2)), visits


def test_what_two_visits_differ_in_is_volatile() -> None:
    """Fields by callback, and the parts of the page that differ."""
    noise, visits = visited(digest(f1=1, f2=5), digest(f1=1, f2=6))
    assert noise == (NAME, {2}, "wn")
    assert visits.volatile("parse") == {2}
    assert visits.volatile("another") == frozenset()


def test_a_field_that_holds_the_page_is_never_volatile() -> None:
    """It would hide every other page."""
    noise, _ = visited(digest(f1=1, f2=5), digest(frozenset([2]), f1=2, f2=6))
    assert noise.fields == {1}


@pytest.mark.parametrize(
    ("first", "second"),
    [(digest(f1=1), None), (digest(f1=1), digest(number=2, f1=2)), (Digest(0), Digest(0))],
    ids=["unreadable", "another number of items", "no items"],
)
def test_visits_that_cannot_be_compared_show_nothing(first: Digest, second: Digest | None) -> None:
    """And an end without a beginning, or a second end, neither."""
    noise, visits = visited(first, second)
    assert noise is None
    assert not visits.volatile("parse")
    assert visits.ended("key", digest(f1=2), page(2)) is None


def test_visits_and_what_waits_for_them_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """So are the fields of a callback: where all change, none does."""
    visits = Visits(2)
    for key in "ab":
        assert visits.wants("parse")
        visits.begin(key, Visit(NAME, digest(f1=1), page(1)))
    assert not visits.wants("parse")
    assert visits.wants("another")
    monkeypatch.setattr(module, "WAITING", 1)
    visits.begin("c", Visit(NAME, digest(f1=1), page(1)))
    assert visits.ended("a", digest(f1=2), page(2)) is None
    assert visits.ended("c", digest(f1=2), page(2)) is not None
    monkeypatch.setattr(module, "VOLATILE", 2)
    noise, _ = visited(digest(f3=1, f4=1), digest(f3=2, f4=2), visits)
    assert noise.fields == frozenset()
    assert visits.volatile("parse") == {1}
    assert not Visits(0).wants("parse")
