"""Pages of which the reader itself says that too little was read: what makes two of them one page, by every way in."""

from pathlib import Path
from typing import Any

import pytest
from detecting import A, B, bits, page, saying
from sketches import differing

import dedup
from dedup.detector import twins
from dedup.detector.twins import UnreadPages
from dedup.model.decision import are_unread_twins
from dedup.model.page import PART, Document, PageFingerprint

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


@pytest.mark.parametrize(
    ("common", "mine", "expected"),
    [
        (READ, {}, True),
        (READ, {"parts": parts(b=2)}, True),
        (READ, {"identity": saying(2)}, False),
        (READ, {"differing_bits": 1}, False),
        ({}, {}, False),  # no title
        (LED, {"differing_bits": differing(0.7)}, True),
        (LED, {"differing_bits": differing(0.5)}, False),
        (LED, {"parts": parts(b=2)}, False),
        (LED, {"links": 8}, False),
        (LED, {"links": 0}, False),
        (READ | LED, {"identity": saying(2), "differing_bits": differing(0.7)}, True),
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
    assert are_unread_twins(one, one, 1) and not are_unread_twins(one, other, 1)


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

    pages = UnreadPages([made(n) for n in range(9)])
    assert [len(pages.near(made(n).page)) for n in range(9)] == [0] * 6 + [1] * 3
    assert (len(pages._documents), len(pages._named)) == (3, 6)
