"""Excerpts, such as fields of items: words, numbers and sketch against Python's own words and numbers."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dedup.core.fingerprint import Excerpt, fingerprint_text, read_excerpt

NUMBER = re.compile(r"\d[\d.,:]*")
# A later Python knows digits that the core does not: those of Unicode 14 have a test of their own.
ANY = st.text(st.characters(exclude_categories=["Nd", "Cs"]), max_size=60)
TEXT = st.text(
    alphabet="0123456789.,: <&abcÉß٣᭓７𝟗日ᇐ\u00a0\u0085\u2003\u3000\x1c\t\n\0", max_size=90
)


def excerpt(text: str, least: int = 1) -> Excerpt:
    return read_excerpt(text.encode("utf-8", "surrogatepass"), least)


@given(st.one_of(TEXT, ANY))
@example("0 © 9")
@example("words of ascii letters  and one space, \tor 2 of them, at the end of eight: a bcd ef ")
def test_an_excerpt_is_that_of_its_words_and_numbers(text):
    """White space does not count, words are Python's; equal numbers have equal hashes, others have others."""
    found, words = excerpt(text), text.split()
    assert found == excerpt(" ".join(words))
    assert found.words == len(words)
    assert found.text != excerpt(" ".join([*words, "more"])).text
    numbers = NUMBER.findall(text)
    if words:
        assert found.numbers == excerpt("no " + " ".join(numbers)).numbers
        assert found.numbers != excerpt(text + " 77777").numbers
        # a copyright sign makes a page's block a notice, which an excerpt knows nothing of
        assert found.sketch == fingerprint_text(text.replace("©", " ")).sketch


@given(TEXT, TEXT)
def test_two_texts_have_the_same_numbers_or_not(one, other):
    """Their order counts, and how often each occurs."""
    a, b = (NUMBER.findall(text) for text in (one, other))
    same = excerpt(f"x {one}").numbers == excerpt(f"x {other}").numbers
    assert same == (a == b)


@given(TEXT, TEXT)
def test_two_texts_have_the_same_letters_or_not(one, other):
    """Digits, points and spaces do not count: a counter of another length hides nothing else."""
    a, b = ("".join(re.sub("[0-9.,:]", "", text).split()) for text in (one, other))
    same = excerpt(f"x {one}").letters == excerpt(f"x {other}").letters
    assert same == (a == b)


def test_the_digits_are_those_of_unicode_14():
    """The core knows the 660 decimal digits of Unicode 14, each of which is one to this Python, too."""
    none = excerpt("a").numbers
    numbers = [chr(code) for code in range(0x80, 0x20000) if excerpt(chr(code)).numbers != none]
    assert all(digit.isdecimal() for digit in numbers)
    assert len(numbers) + 10 == 660


@pytest.mark.parametrize("count", [0, 1, 59, 60, 5000])
def test_a_sketch_is_made_of_as_many_words_as_asked_for(count):
    """Of fewer there is none; of none never."""
    text = " ".join(f"word{n}" for n in range(count))
    found = excerpt(text, 60)
    assert found.words == count
    assert found.sketch == (fingerprint_text(text).sketch if count >= 60 else b"")


def test_a_long_text_is_read_in_time_linear_in_its_size():
    """A megabyte of numbers, of white space, of broken UTF-8: each is read to its end."""
    assert read_excerpt(b"1 " * 500_000, 1).words == 500_000
    assert read_excerpt(b" " * 1_000_000, 1) == Excerpt(0, 0, 0, 0, b"")
    assert read_excerpt(b"\xff\xe3\x80" * 300_000, 1).words == 1
