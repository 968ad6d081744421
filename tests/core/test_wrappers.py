"""Wrappers: a hint on an element that holds most of the page does not count (fingerprint-spec.md).

The rule kept here: every page is read by the native core and by the oracle, and both keep the same.
"""

import random
import re

import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from dedup.core.fingerprint import fingerprint, main_words, near_duplicate

ENGLISH = (oracle.GOLDEN / "english.html").read_text("utf-8")
NOTICE = (
    "<div><p>We use cookies to measure how our pages are read, and to make them better for all "
)
NOTICE += "who come here. Go on if this is fine with you, or choose what we may store.</p></div>"
WRAPPERS = {
    "a WebForms page": ('<form id="aspnetForm" method="post" action="page.aspx">', "</form>"),
    "role form": ('<div role="form">', "</div>"),
    "a class of comments": ('<div class="site has-comments">', "</div>"),
    "discussion": ('<div id="discussion">', "</div>"),
    "aside": ("<aside>", "</aside>"),
    "nav": ("<nav>", "</nav>"),
    "header": ("<header>", "</header>"),
    "fieldset": ("<fieldset>", "</fieldset>"),
    "dialog": ('<div role="dialog">', "</div>"),
}


def text(prefix: str, count: int) -> str:
    """Return a paragraph of so many different words."""
    return "<p>" + " ".join(f"{prefix}{i}" for i in range(count)) + "</p>"


def kept(html: str) -> str:
    """Return the first letters of the words that are kept, sorted; the oracle must agree."""
    page = oracle.read_html(html.encode())
    found = main_words(html)
    assert [oracle.Block(*block) for block in found] == page.blocks
    made = fingerprint(html)
    assert (made.value, made.check, made.links) == (page.value, page.check, page.links)
    assert (made.features, made.link_count) == (page.features, page.link_count)
    return "".join(sorted({word[0] for block in found for word in block.tokens}))


def inside(html: str, before: str, after: str, outside: str = "") -> str:
    """Return a page whose whole body stands between two tags, but for what is outside."""
    html = re.sub("<body[^>]*>", lambda body: f"{body[0]}{outside}{before}", html)
    return html.replace("</body>", f"{after}</body>")


@pytest.mark.parametrize("outside", ["", NOTICE], ids=["all of it", "but for a notice"])
@pytest.mark.parametrize(("before", "after"), WRAPPERS.values(), ids=list(WRAPPERS))
def test_a_wrapper_changes_no_fingerprint(before: str, after: str, outside: str) -> None:
    """A page inside of one form, or whatever else, has the fingerprint that it has without."""
    bare = inside(ENGLISH, "", "", outside)
    wrapped = inside(ENGLISH, before, after, outside)
    assert (outside + before) in wrapped
    assert fingerprint(wrapped) == fingerprint(bare)


def test_two_pages_of_a_site_of_forms_are_told_apart() -> None:
    """What they share outside of the form is not all that is read of them."""
    before, after = WRAPPERS["a WebForms page"]
    other = (oracle.GOLDEN / "russian.html").read_text("utf-8")
    pages = [fingerprint(inside(page, before, after, NOTICE)) for page in (ENGLISH, other)]
    assert not near_duplicate(*pages)


@pytest.mark.parametrize(
    ("html", "letters"),
    [
        # a form: more text inside than outside, and more than half of the page
        (text("a", 30) + f"<form>{text('f', 31)}</form>", "af"),
        (text("a", 100) + f"<form>{text('f', 101)}</form>", "af"),
        (text("a", 100) + f"<form>{text('f', 100)}</form>", "a"),
        (text("a", 30) + f"<nav>{text('n', 70)}</nav><form>{text('f', 100)}</form>", "a"),
        (text("a", 30) + f"<nav>{text('n', 70)}</nav><form>{text('f', 101)}</form>", "af"),
        # anything else: fewer than 80 tokens outside, and more than three quarters of the page
        (text("a", 79) + f"<aside>{text('s', 300)}</aside>", "as"),
        (text("a", 80) + f"<aside>{text('s', 300)}</aside>", "a"),
        (text("a", 30) + f"<nav>{text('n', 70)}</nav><aside>{text('s', 300)}</aside>", "a"),
        (text("a", 30) + f"<nav>{text('n', 70)}</nav><aside>{text('s', 301)}</aside>", "as"),
        (text("a", 79) + f"<header>{text('h', 300)}</header>", "ah"),
        (text("a", 80) + f"<header>{text('h', 300)}</header>", "a"),
        # what has a hint of its own inside of a wrapper stays out
        (f"<form>{text('f', 50)}<div class=comments>{text('c', 49)}</div></form>", "f"),
        (f"<form>{text('f', 50)}<nav>{text('n', 40)}</nav><label>lab</label></form>", "f"),
        (f"<header>{text('h', 50)}<header>{text('x', 40)}</header></header>", "h"),
        (f"<aside>{text('s', 50)}<aside>{text('x', 40)}</aside></aside>", "s"),
        # the comments of a forum: many elements, fewer than 80 tokens outside, over half of the page
        (text("a", 30) + f"<div class=reply>{text('r', 40)}</div>" * 3, "ar"),
        (text("a", 79) + f"<div class=reply>{text('r', 50)}<div id=comment>{text('q', 50)}", "aqr"),
        (text("a", 80) + f"<div class=reply>{text('r', 60)}</div>" * 5, "a"),
        (
            text("a", 30)
            + f"<nav>{text('n', 70)}</nav>"
            + f"<div class=reply>{text('r', 50)}</div>" * 2,
            "a",
        ),
        (
            text("a", 30)
            + f"<nav>{text('n', 69)}</nav>"
            + f"<div class=reply>{text('r', 50)}</div>" * 2,
            "ar",
        ),
        (f"<form>{text('a', 30)}" + f"<b class=reply>{text('r', 50)}</b>" * 2 + "</form>", "ar"),
        # of two that are as large the first
        (text("a", 20) + f"<form>{text('f', 30)}</form><form>{text('g', 30)}</form>", "a"),
        # nothing but links inside: no text
        (text("a", 30) + f"<form><a href=/x>{text('l', 99)}</a></form>", "a"),
    ],
)
def test_what_is_inside_is_kept_when_it_is_most_of_the_page(html: str, letters: str) -> None:
    """Each limit of the rule, from both sides."""
    assert kept(html) == letters


def test_links_in_a_wrapper_count() -> None:
    """Those of its menus do not, as on the page without it."""
    body = f"<nav><a href=/m>m</a></nav>{text('a', 50)}<a href=/1>one</a> <a href=/2>two</a>"
    wrapped = fingerprint(f"<form>{body}</form>")
    assert wrapped == fingerprint(body)
    assert wrapped.link_count == 2


OPEN = """form|div class=comments|div id=post-reply|nav|aside|header|div role=dialog|main|article|div
section|footer|p|ul|li|table|tr|td|label|span class=comment|form class=respond|div hidden|h2
a href=/1|a class=comments href=/2|a href=/3""".replace("\n", "|").split("|")


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_pages_of_wrappers_equal_the_oracle(seed: int) -> None:
    """Whatever stands in whatever, the native core keeps what the specification says."""
    numbers = random.Random(seed)
    parts: list[str] = []
    opened: list[str] = []
    for _ in range(numbers.randrange(25)):
        which = numbers.random()
        if which < 0.45:
            opened.append(numbers.choice(OPEN))
            parts.append(f"<{opened[-1]}>")
        elif which < 0.7 and opened:
            parts.append(f"</{opened.pop().split()[0]}>")
        else:
            count = numbers.choice((1, 3, 15, 40, 90, 160, 300))
            words = (f"w{numbers.randrange(400)}" for _ in range(count))
            parts.append(numbers.choice(("<p>", " ")) + " ".join(words))
    kept("".join(parts))
