"""The headline: what stands above the heading that says the title is no content (fingerprint-spec.md).

Invariant: every page is read by the native core and by the oracle, and both keep the same.
"""

import pytest
from both_readers import kept_words
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from dedup.core.fingerprint import read_page

SEARCH = "<div><p>" + " ".join(f"search{i}" for i in range(75)) + "</p></div>"
COLUMN = "<div>" + "".join(f"<p><a href={i}>name{i} entry</a></p>" for i in range(300)) + "</div>"


def kept(html: str) -> set[str]:
    """Return the words that are kept, less the digits at their ends; the oracle must agree."""
    return {word.rstrip("0123456789") for word in kept_words(html)}


def page(title: str, above: str, heading: str, words: int = 30, tag: str = "h1") -> str:
    """Return a page with so many words below its heading."""
    text = " ".join(f"text{i}" for i in range(words))
    return f"<title>{title}</title>{above}<{tag}>{heading}</{tag}><p>{text}</p>"


@pytest.mark.parametrize("above", [SEARCH, COLUMN], ids=["a notice", "a column of links"])
def test_what_stands_above_the_headline_is_not_kept(above: str) -> None:
    """A box above the heading that says the title is of the site, whatever it is."""
    assert kept(page("Kilns - Site", above, "Kilns")) == {"kilns", "text"}


@pytest.mark.parametrize(
    ("title", "heading", "tag"),
    [
        ("Kilns - Site", "Ovens", "h1"),
        ("Kilns - Site", "Kilns and what more there is", "h1"),
        ("", "Kilns", "h1"),
        ("Kilns - Site", "Kilns", "h2"),
    ],
    ids=["another heading", "a heading that says more", "no title", "a heading below the first"],
)
def test_only_a_first_heading_that_says_the_title_is_a_headline(
    title: str, heading: str, tag: str
) -> None:
    """Elsewhere what stands above counts as before."""
    assert "search" in kept(page(title, SEARCH, heading, tag=tag))


def test_the_heading_that_says_most_of_the_title_is_the_headline() -> None:
    """The site's own heading says less of it."""
    html = page("Red kilns - The site", "<h1>The site</h1>" + SEARCH, "Red kilns: how")
    assert "search" not in kept(html.replace("Red kilns -", "Red kilns: how -"))


def test_of_headings_that_say_as_much_the_first_is_the_headline() -> None:
    """A heading that comes again, as of a list of what is related, begins nothing."""
    html = page("Red kilns", "<h1>Red kilns</h1>" + SEARCH, "Red kilns")
    assert "search" in kept(html)


@pytest.mark.parametrize(
    ("above", "below", "counts"),
    [(80, 10, False), (81, 30, True), (300, 298, True), (300, 299, False), (81, 80, False)],
)
def test_a_heading_below_most_of_the_text_begins_nothing(
    above: int, below: int, counts: bool
) -> None:
    """More than 80 words above are only left out beside as many from the heading on."""
    article = "<p>" + " ".join(f"article{i}" for i in range(above)) + "</p>"
    assert ("article" in kept(page("Kilns", article, "Kilns", below))) == counts


def test_what_stands_above_counts_among_the_words() -> None:
    """It is seen, though it is not read."""
    reading = read_page(page("Kilns", SEARCH, "Kilns", 100))
    assert (reading.words, reading.words_read) == (176, 101)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.text("ab <c", max_size=40),
    st.lists(
        st.tuples(
            st.sampled_from(["h1", "h2", "p", "a", "nav", "main"]), st.text("ab ", max_size=90)
        ),
        max_size=9,
    ),
)
def test_pages_of_headings_equal_the_oracle(title: str, parts: list[tuple[str, str]]) -> None:
    """Titles and headings of few letters share runs of all lengths."""
    kept(f"<title>{title}</title>" + "".join(f"<{tag}>{text}</{tag}>" for tag, text in parts))
