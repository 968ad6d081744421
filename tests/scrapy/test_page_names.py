"""What a page calls itself: its title and first headings."""

import pytest

from dedup.scrapy.evidence.names import HEADINGS, Names, title_of


def test_title_and_headings_are_read_in_any_case() -> None:
    """Their words, once each, without markup."""
    page = "<TITLE lang=en>Opening hours &amp; prices</Title><h1 class=a>Leeds <b>hours</b></h1><h2>Monday</h2>"
    assert Names.of(page) == Names("opening hours prices leeds", "monday")
    assert title_of("<p>no title") == ""


@pytest.mark.parametrize("piece", ["<h1>", "<h1", "<h1 <", "<title>", "<title", "<h2><", "<"])
def test_promise_7_any_bytes_are_safe_a_page_of_unfinished_tags_is_read(piece: str) -> None:
    """In linear time: this ends; the headings after the first are not read."""
    found = Names.of(piece * 500_000)
    assert not found.own
    assert found == Names.of(piece * (HEADINGS + 1000))
