"""How two URLs differ, without their values; and which parts of two pages do."""

from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.core.fingerprint import read_page
from dedup.model.differences import (
    CHARACTERS,
    difference,
    differences,
    in_words,
    signals,
    undirected,
)

HOST = "http://www.a.example"
CASES = {
    ("/a/5", "/a/5"): "=",
    ("/a/5", "/a/5?utm_source=mail"): "?+utm_source",
    ("/a?x=1&y=2", "/a?y=3"): "?-x ?~y",
    ("/a/5", "/a/6"): "/1:#>#",
    ("/a/tea", "/a/5-cups"): "/1:w>x",
    ("/a/tea", "/a/th%C3%A9"): "/1:w>w",
    ("/print/a/5", "/a/5"): "print>",
    ("/a/5", "/a/5/amp"): ">amp",
    ("/a/5", "/a/5/1/2/3"): "longer",
    ("/a/b/c/d/5", "/a"): "shorter",
    ("/a", "/a/"): "slash",
    ("/a", "http://m.a.example/a"): "host:www>m",
    ("/a", "https://www.a.example/a"): "http:>https:",
    ("/a", "http://b.test/a"): "host",
    ("http://[", "/a"): "?",
}


def full(url: str) -> str:
    return url if ":" in url else HOST + url


@pytest.mark.parametrize(("urls", "expected"), CASES.items(), ids=CASES.values())
def test_a_difference_names_what_differs(urls: tuple[str, str], expected: str) -> None:
    """In its direction, and for people without an empty word; undirected both ways are one."""
    one, two = map(full, urls)
    assert difference(one, two) == expected
    assert undirected(difference(one, two)) == undirected(difference(two, one))
    assert in_words(expected).strip(" ,`")


words = st.text("abcdefgh", min_size=1, max_size=6)
numbers = st.integers(0, 10**6).map(str)


@given(words, numbers, numbers, st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8))
def test_a_difference_has_no_values(path: str, one: str, two: str, a: str, b: str) -> None:
    """So pages of one kind have one shape: another number in the path, another value of a parameter."""
    mine, other = (f"{HOST}/{path}/{n}" for n in (one, two))
    assert difference(mine, other) == ("=" if one == two else "/1:#>#")
    mine, other = (f"{HOST}/{path}?q={quote(value)}" for value in (a, b))
    assert difference(mine, other) == ("=" if a == b else "?~q")


@given(st.text(max_size=60), st.text(max_size=300))
def test_any_two_texts_have_a_difference(one: str, two: str) -> None:
    """Within its length, and never empty."""
    for a, b in ((one, two), (HOST + "/" + one, HOST + "/" + two)):
        assert 0 < len(difference(a, b)) <= CHARACTERS
        assert isinstance(differences(a, b), tuple)
        undirected(difference(a, b))
        in_words(difference(a, b))


def test_letters_name_the_parts_of_pages_that_differ() -> None:
    """Words, numbers, title; a page without parts is not known."""
    text = " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(80))

    def page(words: str) -> object:
        return read_page(f"<html><body><main><p>{words}</p></main></body></html>").fingerprint

    one = page(f"{text} 5 euro")
    assert signals(one, one, other_title=False) == ""
    assert signals(one, one, other_title=True) == "t"
    assert signals(one, page(f"{text} 6 euro"), other_title=False) == "wn"
    assert signals(one, page(f"{text} 5 franc"), other_title=False) == "w"
    bare = msgspec.structs.replace(one, parts=b"")
    assert signals(one, bare, other_title=False) == "?"
