"""What a page brought and what it was read for decide for whom others are dropped: for a folder and a service."""

from detecting import A, B, page


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
