"""Callbacks whose items hold nothing but the page."""

import pytest

from dedup.scrapy.evidence import keeping as module
from dedup.scrapy.evidence.digest import Shown
from dedup.scrapy.evidence.keeping import FEW, LOOKED, Keeping

HOLDS = Shown(holds=True)
NOTHING = Shown()


def datum(value: bytes, *, holds: bool = True) -> Shown:
    return Shown(holds=holds, says=True, data={"source": value})


def noted(*pages: list[Shown]) -> Keeping:
    keeping = Keeping()
    for items in pages:
        keeping.note("parse", items)
    return keeping


@pytest.mark.parametrize(
    "page",
    [[HOLDS], [NOTHING], [HOLDS, NOTHING], [datum(b"docs")]],
    ids=["the page", "its address", "both", "a constant"],
)
def test_items_that_hold_nothing_but_the_page(page: list[Shown]) -> None:
    """A corpus builder, a link collector; shown by some pages, not by the first one."""
    assert not noted(*[page] * (FEW - 1)).keeps("parse")
    assert noted(*[page] * FEW).keeps("parse")
    assert not noted(*[page] * FEW).keeps("another")
    assert noted(*[page] * FEW).keeps_all("parse") == (not page[0].data)


@pytest.mark.parametrize(
    "pages",
    [
        [[datum(b"1")], [datum(b"2")]],
        [[HOLDS], [datum(b"1")]],
        [[datum(b"True", holds=False)]],
        [[HOLDS, datum(b"1")]],
        [[], [], []],
    ],
    ids=["another value", "a field more", "a monitor's truth value", "in one of two", "silence"],
)
def test_one_datum_is_enough_to_end_it(pages: list[list[Shown]]) -> None:
    """For ever: pages that show nothing else do not bring it back."""
    assert not noted(*pages, *[[HOLDS]] * (FEW - 1)).keeps("parse")
    if any(pages):
        assert not noted(*pages, *[[HOLDS]] * 50).keeps("parse")


def test_a_callback_that_asks_for_more_than_links_keeps_no_pages() -> None:
    """However its items look; once known it is looked at no longer."""
    keeping = noted(*[[HOLDS]] * FEW)
    keeping.note_request("parse", linked=True)
    assert keeping.keeps("parse")
    keeping.note_request("parse", linked=False)
    assert not keeping.keeps("parse")
    assert keeping.looks_at_requests("parse")  # of a page without items: it shows nothing then
    assert not keeping.looks_at_requests("parse", has_items=True)
    for _ in range(LOOKED):
        assert keeping.looks_at_requests("linked")
        keeping.note_request("linked", linked=True)
    assert not keeping.looks_at_requests("linked")


def test_callbacks_beyond_the_bound_keep_no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is dropped for want of memory."""
    monkeypatch.setattr(module, "CALLBACKS", 1)
    keeping = noted(*[[HOLDS]] * FEW)
    for _ in range(FEW):
        keeping.note("another", [HOLDS])
    assert keeping.keeps("parse")
    assert not keeping.keeps("another")
