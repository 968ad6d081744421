"""What a crawl has seen: items that are forgotten, and where its pages lead."""

from dedup.core.fingerprint import holds_link
from dedup.scrapy.evidence import seen as module
from dedup.scrapy.evidence.seen import FETCHED, SeenInCrawl

ONE, TWO = b"1" * 8, b"2" * 8


def test_a_link_is_found_where_a_hash_begins_and_nowhere_else():
    """Not across two hashes, whose bytes say nothing together."""
    assert holds_link(ONE + TWO, TWO) and not holds_link(b"", ONE)
    across = b"1111" + b"2222"
    assert not holds_link(ONE + TWO, across) and holds_link(ONE + TWO + across, across)


def test_forgotten_items_are_new_in_the_next_run_too():
    """Until a page brings them again."""
    seen = SeenInCrawl()
    assert seen.take_item(ONE) and seen.take_item(TWO)
    seen.forget_items([ONE])
    for each in (seen, SeenInCrawl(*seen.to_bytes())):
        assert not each.has_item(ONE)
        assert each.has_item(TWO)
    assert seen.take_item(ONE)
    assert SeenInCrawl(*seen.to_bytes()).has_item(ONE)


def test_too_many_forgotten_items_make_all_of_them_new(monkeypatch):
    """So memory is bounded, and nothing is withheld that did not get through."""
    monkeypatch.setattr(module, "FORGOTTEN", 1)
    seen = SeenInCrawl()
    assert seen.take_item(ONE)
    seen.forget_items([ONE, TWO])
    assert not seen.has_item(ONE)
    assert seen.take_item(ONE) and seen.has_item(ONE)


def test_a_page_leads_elsewhere_where_neither_its_callback_nor_the_crawl_has_been():
    """Links of pages of another callback do not count: it may follow none of them."""
    seen = SeenInCrawl()
    seen.add_links("parse", ONE)
    seen.add_links("item", TWO)
    assert not seen.leads_elsewhere("parse", ONE) and not seen.leads_elsewhere("parse", b"")
    assert seen.leads_elsewhere("parse", ONE + TWO)
    seen.add_links(FETCHED, TWO)
    for each in (seen, SeenInCrawl(*seen.to_bytes())):
        assert not each.leads_elsewhere("parse", ONE + TWO)
        assert each.leads_elsewhere("another", ONE)
