"""What a page calls itself: a copy's name adds or lacks, and a list may have two."""

import pytest

from dedup.core.fingerprint import read_page
from dedup.scrapy.evidence.callbacks import FEW, CallbackEvidence
from dedup.scrapy.evidence.items import FieldKinds, text_of
from dedup.scrapy.evidence.names import HEADINGS, HEADINGS_BYTES, OWN_BYTES, Names, title_of
from dedup.scrapy.evidence.patterns import Pattern

HOLDS = FieldKinds(holds_page=True, is_text=False, data={})
WITH_TITLE = FieldKinds(holds_page=True, is_text=False, data={}, has_title=True)
PROSE = "<p>" + " ".join(f"word{chr(97 + n % 26)} of the text {n % 7}" for n in range(60)) + "</p>"
ENTRY = "<h2><a href='/post/1'>Water leak</a></h2>"


def page(title: str, heading: str, main: str) -> str:
    return f"<title>{title}</title><main><h1>{heading}</h1>{main}</main>"


def is_copy(
    mine: str, theirs: str, signals: str, before: int = 0, kind: FieldKinds = HOLDS
) -> bool:
    """Whether a page is a copy of another one, after some pages like it."""
    evidence, pattern = CallbackEvidence(), Pattern("parse", "a.example", signals, "/1:w>w")
    for _ in range(FEW):
        evidence.note_items("parse", [kind])
    found = []
    for html in (mine, theirs):
        reading = read_page(html, url="http://a.example/x", links=True, numbers=True)
        found.append((reading, text_of(reading, html)))
    (reading, one), (_, other) = found
    for _ in range(before):
        evidence.note_other(pattern, reading, one, other)
    return evidence.are_copies(pattern, reading, one, other)


@pytest.mark.parametrize(
    ("mine", "theirs", "says"),
    [
        ("<title>March 2016 | Blog</title><h2>Water leak</h2>", "<title>Water leak | Blog</title>", True),
        ("<title>Blog</title><h2>Water leak</h2>", "<title>Blog</title><h1>Water</h1>", True),
        ("<title>Forum</title>", "<title>Forum: log in</title>", False),
        ("<title>Open in Leeds</title>", "<title>Open in York</title>", False),
        ("<title>Open</title><h2>Leeds</h2>", "<title>Open</title><h1>York</h1>", False),
        ("<title></title>", "<title></title>", False),
        (f"<title>{'far too long ' + ' '.join(map(str, range(OWN_BYTES)))}</title>", "<title>Blog</title>", False),
    ],
)  # fmt: skip
def test_names_add_or_lack(mine: str, theirs: str, says: bool) -> None:
    """One page says, in a heading, all that the other calls itself; whichever comes first."""
    assert Names.of(mine).add_or_lack(Names.of(theirs)) == says
    assert Names.of(theirs).add_or_lack(Names.of(mine)) == says


def test_names_are_bounded() -> None:
    """In bytes, whatever is written; what is cut off is not said."""
    found = Names.of("<h2>" + "é" * 3 * HEADINGS_BYTES + "</h2>")
    assert 0 < len(found.headings.encode()) <= HEADINGS_BYTES


def test_a_list_of_one_article_is_a_copy_of_the_article() -> None:
    """The month has a title of its own, and the article's in a heading. Not where items have the title."""
    month, article = page("March | Blog", "", ENTRY + PROSE), page("Water leak | Blog", "", PROSE)
    assert is_copy(month, article, "th")
    assert is_copy(article, month, "th")
    assert not is_copy(month, article, "th", kind=WITH_TITLE)
    aside = f"</main><div>{PROSE.replace('text', 'rest')}</div><div>{PROSE.replace('text', 'end')}</div><main>"
    assert not is_copy(month + aside, article + aside, "th")  # most of it was not read
    assert not is_copy(page("Leeds", "Leeds", PROSE), page("York", "York", PROSE), "th")


def test_a_list_under_two_names_is_a_copy_as_others_of_its_pattern_are() -> None:
    """The same entries, which lead to the same pages, under two tags: from the fourth on."""
    one, other = (page(f"{tag} | Blog", f"Tag {tag}", ENTRY + PROSE) for tag in ("git", "hub"))
    assert not is_copy(one, other, "thw", FEW - 1)
    assert is_copy(one, other, "thw", FEW)
    elsewhere = page("hub | Blog", "Tag hub", ENTRY.replace("/1", "/2") + PROSE)
    assert not is_copy(one, elsewhere, "thw", FEW)
    text = page("hub | Blog", "Tag hub", ENTRY + PROSE.replace("wordb", "else"))
    assert not is_copy(one, text, "thw", FEW)
    assert not is_copy(*(page(f"{town}", town, PROSE) for town in ("Leeds", "York")), "thw", FEW)


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
