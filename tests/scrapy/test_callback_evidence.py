"""Callbacks whose items hold nothing but the page."""

import pytest

from dedup.core.fingerprint import read_page
from dedup.scrapy.evidence import callbacks as module
from dedup.scrapy.evidence.callbacks import EXAMINED, FEW, CallbackEvidence
from dedup.scrapy.evidence.items import ReadItem
from dedup.scrapy.evidence.patterns import Pattern

HOLDS = ReadItem(holds_page=True)
NOTHING = ReadItem()


def datum(value: str, *, holds: bool = True) -> ReadItem:
    return ReadItem(holds_page=holds, data={"source": value})


def noted(*pages: list[ReadItem]) -> CallbackEvidence:
    evidence = CallbackEvidence()
    for items in pages:
        evidence.note_items("parse", items)
    return evidence


@pytest.mark.parametrize(
    "page",
    [[HOLDS], [NOTHING], [HOLDS, NOTHING], [datum("docs")]],
    ids=["the page", "its address", "both", "a constant"],
)
def test_items_that_hold_nothing_but_the_page(page: list[ReadItem]) -> None:
    """A corpus builder, a link collector; shown by some pages, not by the first one."""
    assert not noted(*[page] * (FEW - 1)).stores_pages("parse")
    assert noted(*[page] * FEW).stores_pages("parse")
    assert not noted(*[page] * FEW).stores_pages("another")
    assert noted(*[page] * FEW).stores_pages("parse", only=True) == (not page[0].data)


@pytest.mark.parametrize(
    "pages",
    [
        [[datum("1")], [datum("2")]],
        [[HOLDS], [datum("1")]],
        [[datum("True", holds=False)]],
        [[HOLDS, datum("1")]],
        [[], [], []],
    ],
    ids=["another value", "a field more", "a monitor's truth value", "in one of two", "silence"],
)
def test_one_datum_is_enough_to_end_it(pages: list[list[ReadItem]]) -> None:
    """For ever: pages that show nothing else do not bring it back."""
    assert not noted(*pages, *[[HOLDS]] * (FEW - 1)).stores_pages("parse")
    if any(pages):
        assert not noted(*pages, *[[HOLDS]] * 50).stores_pages("parse")


def test_a_callback_that_asks_for_more_than_links_keeps_no_pages() -> None:
    """Whatever its items hold; once that is known its requests are not examined any more."""
    evidence = noted(*[[HOLDS]] * FEW)
    evidence.note_request("parse", linked=True)
    assert evidence.stores_pages("parse")
    evidence.note_request("parse", linked=False)
    assert not evidence.stores_pages("parse")
    assert evidence.examines_requests("parse")  # of a page without items: it shows nothing then
    assert not evidence.examines_requests("parse", has_items=True)
    for _ in range(EXAMINED):
        assert evidence.examines_requests("linked")
        evidence.note_request("linked", linked=True)
    assert not evidence.examines_requests("linked")


def test_callbacks_beyond_the_bound_keep_no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is dropped for want of memory."""
    monkeypatch.setattr(module, "CALLBACKS", 1)
    evidence = noted(*[[HOLDS]] * FEW)
    for _ in range(FEW):
        evidence.note_items("another", [HOLDS])
    assert evidence.stores_pages("parse")
    assert not evidence.stores_pages("another")
    markup = read_page("<main><p>text<img src='/a.jpg'>")
    for callback in ("parse", "another"):
        other_picture = Pattern(callback, "a.example", "s", "=")
        is_copy = evidence.are_copies(other_picture, markup, None, None)
        assert is_copy == (callback == "parse")
