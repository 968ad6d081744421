"""A crowd of pages that are near by value and unlike by text must not hide the one that is alike."""

import pytest
from detecting import Clock, accept, page

import dedup
from dedup.detector import detector as judging
from dedup.model.page import Document
from dedup.store import Store

UNLIKE = 2**256 - 1  # bits of a sketch that has nothing in common with sketch()
ORIGINAL = "http://example.com/original"
COPY = "http://example.com/copy"


def crowd(folder, count, value=0):
    """Store so many documents of this value whose texts are unlike, and then the original."""
    with Store.open(folder) as store:
        unlike = [
            Document(f"http://example.com/{i}", page(value, UNLIKE), "example.com", i)
            for i in range(count)
        ]
        original = Document(ORIGINAL, page(1), "example.com", count)
        store.insert_many([*unlike, original])  # fmt: skip


@pytest.mark.parametrize("count", [129, 1001, 5000])
def test_a_crowd_does_not_hide_the_original(tmp_path, count):
    """However many unlike pages are nearer, the copy of a stored page is found by every call."""
    crowd(tmp_path, count)
    with dedup.open(tmp_path, clock=Clock()) as detector:
        verdict = detector.reserve(page(), COPY)
        assert (verdict.status, verdict.of) == ("near_duplicate", ORIGINAL)
        assert [n.key for n in detector.probe(page())] == [ORIGINAL]
        found = detector.probe_many([Document("", page()), Document("", page(0, UNLIKE))])
        assert [n.key for n in found[0]] == [ORIGINAL]
        assert len(found[1]) == min(count, 1000)
        assert detector.info()["cut"] == 0 + (count > 1000)


def test_a_crowd_in_flight_does_not_hide_a_page_in_flight(tmp_path):
    """A near-duplicate in flight is waited for, whatever else of the same value is in flight."""
    with dedup.open(tmp_path, clock=Clock()) as detector:
        for i in range(1100):
            detector.reserve(page(0, UNLIKE), f"http://example.com/{i}", exempt="test")
        detector.reserve(page(1), ORIGINAL)
        verdict = detector.reserve(page(), COPY)
        assert (verdict.status, verdict.of) == ("pending", ORIGINAL)


def test_expired_pages_do_not_hide_a_page_in_flight(tmp_path):
    """The nearest that are looked at may all have expired."""
    clock = Clock()
    with dedup.open(tmp_path, clock=clock) as detector:
        for i in range(judging.CROWD + 1):
            detector.reserve(page(0, UNLIKE), f"http://example.com/{i}", exempt="test", seconds=1)
        detector.reserve(page(1), ORIGINAL)
        clock.now += 10
        verdict = detector.reserve(page(), COPY)
        assert (verdict.status, verdict.of) == ("pending", ORIGINAL)


def test_what_is_left_out_is_counted(tmp_path, monkeypatch):
    """Where there are more candidates than are looked at the page is kept, and that is counted."""
    monkeypatch.setattr(judging, "LOOKED", 2000)
    crowd(tmp_path, 3000)
    with dedup.open(tmp_path, clock=Clock()) as detector:
        assert detector.reserve(page(), COPY).status == "unique"
        assert detector.info()["cut"] == 1
        assert detector.probe(page()) == []
        assert detector.info()["cut"] == 2


def test_a_crowd_is_followed_by_a_page_of_the_same_kind(tmp_path):
    """Pages of another kind, too, are candidates only."""
    with dedup.open(tmp_path, clock=Clock()) as detector:
        for i in range(200):
            accept(detector, page(), f"http://example.com/{i}", kind="list", exempt="test")
        accept(detector, page(1), ORIGINAL, kind="item")
        assert detector.reserve(page(), COPY, kind="item").of == ORIGINAL
