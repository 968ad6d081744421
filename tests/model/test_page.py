"""What a page, its matches and its verdict say of themselves."""

from dedup.model.page import Document, Neighbour, PageFingerprint, Verdict

PAGE = PageFingerprint(1, bytes(37), 0, 100, "words-0-7")


def test_a_verdict_shows_what_a_person_asks_for() -> None:
    original = Neighbour(Document("http://a.example/1", PAGE), 2, 0.9375, "same")
    copy = Verdict("near_duplicate", "", Document("http://a.example/2", PAGE), None, original)
    assert repr(copy) == (
        "Verdict(status='near_duplicate', key='http://a.example/2', of='http://a.example/1', distance=2, "
        "similarity=0.9375, identity='same')"
    )
    unique = Verdict("unique", "", Document("http://a.example/1", PAGE), "token")
    assert repr(unique) == "Verdict(status='unique', key='http://a.example/1', token='token')"


def test_a_neighbour_shows_its_key_and_how_near_it_is() -> None:
    neighbour = Neighbour(Document("http://a.example/1", PAGE), 0, 1.0, "unknown")
    assert repr(neighbour) == (
        "Neighbour(key='http://a.example/1', distance=0, similarity=1.0, identity='unknown')"
    )
