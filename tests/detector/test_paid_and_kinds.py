"""What a page brought and what it was read for decide for whom others are dropped: for a folder and a service."""

from detecting import A, B, C, bits, page


def test_a_page_that_brought_nothing_is_a_match_like_others(detector):
    """The verdict says that it has not paid; one that is in flight is waited for, and one that has paid comes first."""
    detector.insert(detector.reserve(page(), A).brought(paid=False))
    verdict = detector.reserve(page(), B)
    assert (verdict.status, verdict.of, verdict.match.paid) == ("near_duplicate", A, False)
    less_similar = page(bits(1), bits(3))
    flying = detector.reserve(less_similar, B, exempt="other")
    assert detector.reserve(page(), C).status == "pending"
    detector.insert(flying)
    verdict = detector.reserve(page(), C)
    assert (verdict.status, verdict.reason, verdict.of) == ("near_duplicate", "", B)


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
