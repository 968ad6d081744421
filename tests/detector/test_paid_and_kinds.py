"""What a page brought and what it was read for decide for whom others are dropped: for a folder and a service."""

import pytest
from detecting import A, B, C, accept, bits, page, saying

DETECTORS = ["folder", "service in a loop"]


def accept_unpaid(detector, fingerprint, key, **options):
    """Reserve and insert a page that brought nothing."""
    verdict = detector.reserve(fingerprint, key, **options)
    detector.insert(verdict.brought(paid=False))
    return verdict


def test_a_page_that_brought_nothing_is_a_match_like_others(detector):
    """The verdict says that it has not paid; one that is in flight is waited for, and one that has paid comes first."""
    accept_unpaid(detector, page(), A)
    verdict = detector.reserve(page(), B)
    assert (verdict.status, verdict.of) == ("near_duplicate", A)
    assert not verdict.match.paid
    less_similar = page(bits(1), bits(3))
    flying = detector.reserve(less_similar, B, exempt="other")
    assert detector.reserve(page(), C).status == "pending"
    detector.insert(flying)
    verdict = detector.reserve(page(), C)
    assert (verdict.status, verdict.reason, verdict.of) == ("near_duplicate", "", B)


@pytest.mark.parametrize("inserted", [True, False])
@pytest.mark.parametrize(
    ("mine", "theirs", "compared"),
    [("a", "a", True), ("a", "b", False), ("", "b", True), ("a", "", True), ("", "", True)],
)
def test_pages_of_one_kind_are_compared(detector, inserted, mine, theirs, compared):
    """A page that was read for something else is no match, inserted or in flight; "" is any kind."""
    original = detector.reserve(page(), A, kind=theirs)
    if inserted:
        detector.insert(original)
    verdict = detector.reserve(page(), B, kind=mine)
    assert (verdict.status != "unique") == compared
    assert detector.probe(page())[:1] != [] or not inserted


@pytest.mark.parametrize(
    ("change", "unchanged"),
    [
        ({}, True),
        ({"links": 8}, False),
        ({"identity": saying(1)}, False),
        ({"differing": 1}, False),
        ({"value": 1}, False),
        ({"features": 99}, False),
        ({"links": 0}, False),  # nobody asks
    ],
)
def test_a_refetch_says_whether_it_is_what_is_stored(detector, change, unchanged):
    """Text, identity and links are all as they were: then it is unchanged. It is kept either way."""
    accept(detector, page(links=7), A, kind="a")
    verdict = detector.reserve(page(**({"links": 7} | change)), A, kind="a")
    assert (verdict.status, verdict.reason) == ("refetch", "unchanged" if unchanged else "")
    assert verdict.token


def test_a_page_that_brought_nothing_or_was_of_another_kind_is_not_unchanged(detector):
    """What it is to bring now, it has not brought before."""
    accept_unpaid(detector, page(links=7), A, kind="a")
    accept(detector, page(links=7), B, kind="a", exempt="other")
    assert detector.reserve(page(links=7), A, kind="a").reason == ""
    assert detector.reserve(page(links=7), B, kind="b").reason == ""
    assert detector.reserve(page(links=7), B, kind="a").reason == "unchanged"


def test_promise_1_a_digest_of_items_tells_pages_of_one_text_apart(detector):
    """A page that brings another thing than those with its text is kept, and is then an original itself."""
    red = detector.reserve(page(), A)
    detector.insert(red.brought(items=b"red"))
    assert detector.reserve(page(), B).status == "near_duplicate"
    assert [(near.key, near.document.items) for near in detector.probe(page())] == [(A, b"red")]
    blue = detector.reserve(page(), B, exempt="items")
    assert (blue.status, blue.reason) == ("exempt", "items")
    detector.insert(blue.brought(items=b"blue"))
    items = {near.key: near.document.items for near in detector.probe(page())}
    assert items == {A: b"red", B: b"blue"}
