"""Wrappers: a hint on an element that holds most of the page does not count (fingerprint-spec.md).

Invariant: every page is read by the native core and by the oracle, and both keep the same.
"""

import random
import re

import oracle
import pytest
from both_readers import kept_words
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sizes import examples

from dedup.core.fingerprint import fingerprint
from dedup.model.page import PageFingerprint

ENGLISH = (oracle.GOLDEN / "english.html").read_text("utf-8")
NOTICE = (
    "<div><p>We use cookies to measure how our pages are read, and to make them better for all "
)
NOTICE += "who come here. Go on if this is fine with you, or choose what we may store.</p></div>"
WRAPPERS = {
    "a WebForms page": ('<form id="aspnetForm" method="post" action="page.aspx">', "</form>"),
    "a class of comments": ('<div class="site has-comments">', "</div>"),
    "discussion": ('<div id="discussion">', "</div>"),
    "fieldset": ("<fieldset>", "</fieldset>"),
    "a form in a discussion": ('<div id="discussion"><form>', "</form></div>"),
}


def text(prefix: str, count: int) -> str:
    """Return a paragraph of so many different words."""
    return "<p>" + " ".join(f"{prefix}{i}" for i in range(count)) + "</p>"


def kept(html: str) -> str:
    """Return the first letters of the words that are kept, sorted; the oracle must agree."""
    return "".join(sorted({word[0] for word in kept_words(html)}))


def inside(html: str, before: str, after: str, outside: str = "") -> str:
    """Return a page whose whole body stands between two tags, but for what is outside."""
    html = re.sub("<body[^>]*>", lambda body: f"{body[0]}{outside}{before}", html)
    return html.replace("</body>", f"{after}</body>")


@pytest.mark.parametrize("outside", ["", NOTICE], ids=["all of it", "but for a notice"])
@pytest.mark.parametrize(("before", "after"), WRAPPERS.values(), ids=list(WRAPPERS))
def test_a_wrapper_changes_no_fingerprint(before: str, after: str, outside: str) -> None:
    """A page inside of one form, or whatever else, has the fingerprint that it has without, but for its attributes."""
    bare = inside(ENGLISH, "", "", outside)
    wrapped = inside(ENGLISH, before, after, outside)
    assert (outside + before) in wrapped
    assert but_for_attributes(wrapped) == but_for_attributes(bare)


def but_for_attributes(html: str) -> PageFingerprint:
    """Return a page's fingerprint without the hash of its attributes: the wrapper has some."""
    page = fingerprint(html)
    return replace(page, parts=page.parts[:24] + page.parts[28:])


@pytest.mark.parametrize(
    ("html", "letters"),
    [
        # more than twice as many tokens inside as outside
        (text("a", 80) + f"<form>{text('f', 161)}</form>", "af"),
        (text("a", 80) + f"<form>{text('f', 160)}</form>", "a"),
        (text("a", 300) + f"<div class=reply>{text('r', 61)}</div>" * 10, "ar"),
        (text("a", 300) + f"<div class=reply>{text('r', 60)}</div>" * 10, "a"),
        (f"<form>{text('a', 150)}" + f"<b class=reply>{text('r', 9)}</b>" * 2 + "</form>", "ar"),
        # however little text there is: a page to log in differs from another in the sentence above its form, and in it
        (f"<form>{text('f', 30)}</form>", "f"),
        (text("a", 10) + f"<form>{text('f', 20)}</form>", "a"),
        (text("a", 10) + f"<form>{text('f', 21)}</form>", "af"),
        # the buttons of a form are of it, and stay aside where it does
        (text("a", 10) + f"<form>{text('f', 11)}<button>{text('b', 10)}</button></form>", "abf"),
        (text("a", 10) + f"<form>{text('f', 10)}<button>{text('b', 10)}</button></form>", "a"),
        # but what stands aside, or is called a box, is one, if it is beside a text and no page
        (text("a", 3) + f"<aside>{text('s', 156)}</aside>", "a"),
        (text("a", 3) + f"<aside>{text('s', 157)}</aside>", "as"),
        (text("a", 3) + f"<div class=popup>{text('s', 156)}</div>", "a"),
        (text("a", 3) + f"<div class=popup>{text('s', 157)}</div>", "as"),
        (text("a", 80) + f"<div class=related>{text('r', 240)}</div>", "a"),
        (text("a", 80) + f"<div class=related>{text('r', 241)}</div>", "ar"),
        (text("a", 80) + f"<form class=modal>{text('f', 240)}</form>", "a"),
        (text("a", 80) + f"<form class=modal>{text('f', 241)}</form>", "af"),
        (f"<div class=modal>{text('s', 30)}<aside>{text('t', 30)}</aside></div>", "s"),
        (f"<aside class=modal>{text('s', 30)}</aside>", "s"),
        (f"<div class=modal>{text('s', 3)}<div class=reply>{text('r', 156)}</div></div>", "s"),
        (f"<div class=modal>{text('s', 3)}<div class=reply>{text('r', 157)}</div></div>", "rs"),
        (text("a", 3) + f"<div class=reply>{text('r', 30)}</div>", "ar"),
        # comments in a form, a form in comments: neither alone gives anything
        (text("a", 80) + f"<div class=reply><form>{text('r', 161)}</form></div>", "ar"),
        (text("a", 80) + f"<div class=reply><form>{text('r', 160)}</form></div>", "a"),
        # first the form; the comments in it must hold twice as much as it again
        (f"<form>{text('f', 160)}<div class=comments>{text('c', 321)}</div></form>", "cf"),
        (f"<form>{text('f', 160)}<div class=comments>{text('c', 320)}</div></form>", "f"),
        # comments within comments are the content only if they, too, hold most of it
        (f"<div class=comments>{text('a', 50)}<div class=reply>{text('r', 100)}</div>", "a"),
        (f"<div class=comments>{text('a', 50)}<div class=reply>{text('r', 101)}</div>", "ar"),
        # what stands aside, alone or with the others
        (text("a", 80) + f"<aside>{text('s', 240)}</aside>", "a"),
        (text("a", 80) + f"<aside>{text('s', 241)}</aside>", "as"),
        (text("a", 80) + f"<div role=toolbar><form>{text('s', 241)}</form></div>", "as"),
        # navigation and the like is never content
        (text("a", 30) + f"<nav>{text('n', 300)}</nav>", "a"),
        (text("a", 30) + f"<div role=contentinfo>{text('n', 300)}</div>", "a"),
        (text("a", 30) + f"<header>{text('h', 300)}</header>", "a"),
        (f"<form>{text('f', 160)}<nav>{text('n', 40)}</nav><label>lab</label></form>", "f"),
        # nothing but links inside: no text
        (text("a", 30) + f"<form><a href=/x>{text('l', 99)}</a></form>", "a"),
    ],
)
def test_what_is_inside_is_kept_when_it_is_most_of_the_page(html: str, letters: str) -> None:
    """Each limit of the rule, from both sides."""
    assert kept(html) == letters


@pytest.mark.parametrize(
    ("html", "letters"),
    [
        # most of the text, in blocks: a page whose scripts ask for its data says it to those who have none
        (f"<div id=app></div><noscript><div>{text('n', 80)}</div></noscript>", "n"),
        (f"<p>a1 a2<noscript>{text('n', 80)}</noscript>", "an"),
        # a notice that scripts are needed, or what is said elsewhere, too
        (f"<div id=app></div><noscript><div>{text('n', 79)}</div></noscript>", ""),
        (text("a", 40) + f"<noscript>{text('n', 80)}</noscript>", "a"),
        (text("a", 40) + f"<noscript>{text('n', 81)}</noscript>", "an"),
        (
            text("a", 3) + f"<noscript>{text('n', 40)}</noscript><div hidden>{text('h', 40)}</div>",
            "ahn",
        ),
        # what stands in it without a block, or in what holds no text
        (f"<noscript>{text('n', 99)[3:-4]}</noscript>" + text("a", 9), "a"),
        (f"<template><noscript>{text('n', 99)}</noscript></template>" + text("a", 9), "a"),
        (f"<noscript><svg><foreignObject>{text('n', 99)}</svg></noscript>" + text("a", 9), "a"),
        # where nothing is read, neither an attribute within a line nor a meta says anything
        (text("a", 40) + f"<noscript><b role=navigation>{text('n', 81)}</b></noscript>", "an"),
        (text("a", 40) + "<noscript><meta name=a content=b></noscript>", "a"),
    ],
)
def test_what_is_for_browsers_without_scripts_is_read_where_it_is_most_of_the_page(
    html: str, letters: str
) -> None:
    """A forum that is a program gives its posts in noscript; other pages ask there for scripts, or count visitors."""
    assert kept(html) == letters


OPEN = """form|div class=comments|div id=post-reply|nav|aside|header|div role=dialog|main|article|div
section|footer|p|ul|li|table|tr|td|label|span class=comment|form class=respond|div hidden|h2
b|noscript|span hidden|my-app hidden|svg hidden|div role=toolbar|i|button|span role=navigation|b role=main class=x
meta content=a|meta property=og:url content=/b|img src=c alt=d
a href=/1|a class=comments href=/2|a href=/3|div class=popup|section id=signup|div class=modal|form class=related""".replace(
    "\n", "|"
).split("|")


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
