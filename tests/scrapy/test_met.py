"""What a crawl has met: items that are forgotten."""

from dedup.scrapy.evidence import met as module
from dedup.scrapy.evidence.met import Met

ONE, TWO = b"1" * 8, b"2" * 8


def test_forgotten_items_are_new_in_the_next_run_too():
    """Until a page brings them again."""
    met = Met()
    assert met.take_item("parse", ONE) and met.take_item("parse", TWO)
    met.forget_items("parse", [ONE])
    for each in (met, Met(*met.to_bytes())):
        assert not each.has_item("parse", ONE)
        assert each.has_item("parse", TWO)
    assert met.was_forgotten("parse", ONE)
    assert met.take_item("parse", ONE)
    assert Met(*met.to_bytes()).has_item("parse", ONE)


def test_too_many_forgotten_items_make_all_of_them_new(monkeypatch):
    """So memory is bounded, and nothing is withheld that did not get through."""
    monkeypatch.setattr(module, "FORGOTTEN", 1)
    met = Met()
    assert met.take_item("parse", ONE)
    met.forget_items("parse", [ONE, TWO])
    assert not met.has_item("parse", ONE)
    assert met.take_item("parse", ONE) and met.has_item("parse", ONE)
