"""Pages of little text, and of which too little was read: what makes two of them one page, by every way in."""

from pathlib import Path
from typing import Any

import pytest
from detecting import A, B, bits, page, saying
from sketches import differing

import dedup
from dedup.core.fingerprint import hash_of_links, read_page
from dedup.detector import twins
from dedup.detector.twins import TwinPages
from dedup.model.decision import are_unread_twins, common_keys
from dedup.model.page import PART, PICTURE_FEATURES, Document, PageFingerprint

ELSEWHERE = "http://www.another.org/"


def parts(**hashes: int) -> bytes:
    """Return the parts of a page, of which some have these hashes."""
    made = bytearray(32)
    for letter, number in hashes.items():
        made[PART[letter]] = number.to_bytes(4, "little")
    return bytes(made)


def unread(value: int, differing_bits: int = 0, **fields: Any) -> PageFingerprint:
    return page(value, differing_bits, unread=True, **({"parts": parts(b=1)} | fields))


READ = {"identity": saying(1)}  # the same words read, under one title
LED = {"links": 7}  # the same links
WORDS = " ".join(f"word{n}" for n in range(PICTURE_FEATURES))


@pytest.mark.parametrize(
    ("common", "mine", "expected"),
    [
        (READ, {}, True),
        (READ, {"parts": parts(b=2)}, True),
        (READ, {"identity": saying(2)}, False),
        (READ, {"differing_bits": 1}, False),
        ({}, {}, False),  # no title
        (LED, {"differing_bits": differing(0.8)}, True),
        (LED, {"differing_bits": differing(0.7)}, False),
        (LED, {"parts": parts(b=2)}, False),
        (LED, {"links": 8}, False),
        (LED, {"links": 0}, False),
        (READ | LED, {"identity": saying(2), "differing_bits": differing(0.8)}, True),
        (READ | {"thing": 1 << 30 | 5}, {"thing": 1 << 30 | 6}, False),
    ],
)
def test_unread_pages_are_one_by_words_and_title_or_by_links(
    tmp_path: Path, common: dict[str, Any], mine: dict[str, Any], expected: bool
) -> None:
    """However far apart their values are; on one site, and stored before."""
    first, second = unread(bits(30), **common), unread(0, **(common | mine))
    with dedup.open(tmp_path) as detector:
        detector.insert(detector.reserve(first, A))
        elsewhere = detector.reserve(second, ELSEWHERE)
        assert elsewhere.status == "exempt"
        detector.release(elsewhere)
        verdict = detector.reserve(second, B, guard=False)
        assert (verdict.status, verdict.of) == (
            ("near_duplicate", A) if expected else ("exempt", None)
        )
    assert dedup.near_duplicate(first, second, same_site=True) is expected
    assert not dedup.near_duplicate(first, second)


def test_a_page_unread_for_another_reason_has_no_twin() -> None:
    """Only where the reader itself read too little."""
    one, other = unread(1, **READ), unread(2, features=30, **READ)
    assert are_unread_twins(one, one, 1, 1) and not are_unread_twins(one, other, 1, 1)


def other(differing_bits: int = 0, **fields: Any) -> PageFingerprint:
    return page(0, differing_bits, **fields)


LIST = {"features": PICTURE_FEATURES - 1, "links": 7}  # of a list of few words


@pytest.mark.parametrize(
    ("mine", "expected"),
    [
        ({}, True),
        ({"differing_bits": differing(0.8)}, True),
        ({"differing_bits": differing(0.7)}, False),
        ({"links": 8}, False),
        ({"parts": parts(s=1, h=1, b=2)}, False),
        ({"features": PICTURE_FEATURES}, False),
        ({"thing": 1 << 30 | 6}, False),
        ({"identity": saying(2), "parts": parts(s=2, h=2)}, False),  # another picture
    ],
)
def test_pages_of_little_text_that_lead_to_the_same_places_may_be_one(
    tmp_path: Path, mine: dict[str, Any], expected: bool
) -> None:
    """However far apart their values are. Their names are other ones: who goes by identity keeps both."""
    kept = LIST | {"thing": 1 << 30 | 5, "identity": saying(1), "parts": parts(s=1, h=1)}
    first, second = (page(bits(30), **kept), other(**(kept | mine)))
    with dedup.open(tmp_path) as detector:
        detector.insert(detector.reserve(first, A))
        elsewhere = detector.reserve(second, ELSEWHERE)
        assert elsewhere.status == "unique"
        detector.release(elsewhere)
        verdict = detector.reserve(second, B, guard=False)
        expected_of = ("near_duplicate", A, "other") if expected else ("unique", None, None)
        assert (verdict.status, verdict.of, verdict.identity) == expected_of
        detector.release(verdict)
        assert detector.reserve(second, B).status == ("exempt" if expected else "unique")


def test_pages_that_lead_nowhere_have_nothing_in_common() -> None:
    """Though their links are known."""
    nowhere = other(features=9, links=hash_of_links(b""))
    assert not common_keys(nowhere) and common_keys(other(features=9, links=7))


def test_only_of_little_text_it_is_gathered_where_a_page_leads() -> None:
    """Where links are read anyway."""
    short, long = (f"<main><p>{'a b c d e ' * 9}{words}<a href='/b'>b</a>" for words in ("", WORDS))
    assert read_page(short, url=A, links=True).fingerprint.links
    assert not read_page(short, url=A).fingerprint.links
    assert not read_page(long, url=A, links=True).fingerprint.links


def test_a_store_that_is_opened_knows_its_last_unread_pages(
    tmp_path: Path,
) -> None:
    """They are read again; one that was forgotten or replaced since is no match."""
    with dedup.open(tmp_path) as detector:
        for key in (A, B):
            detector.insert(detector.reserve(unread(bits(30), **READ), key))
            detector.forget(A)
    copy = "http://www.example.com/copy"
    with dedup.open(tmp_path) as detector:
        assert detector.reserve(unread(0, **READ), copy).of == B
        detector.forget(B)
        assert detector.reserve(unread(0, **READ), copy).status == "exempt"


def test_memory_of_unread_pages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten, with their keys."""
    monkeypatch.setattr(twins, "MOST", 3)

    def made(n: int) -> Document:
        return Document(str(n), unread(n, identity=saying(n + 1), links=n + 1))

    pages = TwinPages([made(n) for n in range(9)])
    assert [len(pages.near(made(n).page)) for n in range(9)] == [0] * 6 + [1] * 3
    assert (len(pages._documents), len(pages._named)) == (3, 6)
