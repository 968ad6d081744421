"""The evidence on classes of near-duplicates: when a class is proven, checked, and falls."""

from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.model.page import Neighbour
from dedup.scrapy.evidence import (
    ALL_REMEMBERED,
    CLASSES,
    EMPTY,
    EVERY,
    PROVE,
    REMEMBERED,
    REPROVE,
    SOON,
    Class,
    Evidence,
    class_of,
    decode_evidence,
    encode_evidence,
    shape,
)
from dedup.scrapy.items import Comparison, Digest
from dedup.scrapy.proof import Findings, Pair

UTM = Class("parse", "site.example", "", "?+utm_source")
BACK = UTM._replace(shape="?-utm_source")
EXAMPLE = ("copy", "original", ("price",))


def proven(name: Class = UTM) -> Evidence[str]:
    evidence: Evidence[str] = Evidence()
    for _ in range(PROVE):
        assert not evidence.is_proven(name)
        evidence.agree(name)
    return evidence


@pytest.mark.parametrize(
    ("original", "page", "expected"),
    [
        ("http://s.example/a", "http://s.example/a", "="),
        ("http://s.example/a", "http://s.example/a?utm_source=x", "?+utm_source"),
        ("http://s.example/a?v=1", "http://s.example/a?v=2", "?~v"),
        ("http://s.example/a?v=1", "http://s.example/a", "?-v"),
        ("http://s.example/a/5", "http://s.example/a/6", "/1:#>#"),
        ("http://s.example/a/p5", "http://s.example/a/red", "/1:x>w"),
        ("http://s.example/a/5", "http://s.example/print/a/5", ">print"),
        ("http://s.example/a/5", "http://s.example/a/5/amp", ">amp"),
        ("http://s.example/en/5", "http://s.example/5", "en>"),
        ("http://s.example/a", "http://s.example/a/", "slash"),
        ("http://www.s.example/a", "http://m.s.example/a", "host:www>m"),
        ("http://one.example/a", "http://two.other/a", "host"),
        ("http://s.example/a", "https://s.example/b?x=1", "http:>https: /0:w>w ?+x"),
        ("http://[s.example/a", "http://s.example/b", "?"),
    ],
)
def test_the_shape_of_a_difference_has_no_values(original, page, expected):
    """How two URLs differ: parameters by name, segments by kind, inserted words literally."""
    assert shape(original, page) == expected


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_two_texts_have_a_shape(original, page):
    """Whatever stands in a document key; bounded."""
    assert 0 < len(shape(original, page)) <= 200


def test_a_class_is_proven_by_a_run():
    """PROVE equal pairs in a row; the pages then are dropped."""
    assert proven().is_proven(UTM)
    assert not proven().is_proven(UTM._replace(parts="j"))
    assert not proven().is_proven(UTM._replace(site="other.example"))


def test_a_class_is_proven_by_one_that_differs_in_more_parts():
    """The same parts and others, the same URLs; not once a pair of its own had other items."""
    evidence = Evidence()
    wide, narrow = UTM._replace(parts="af"), UTM._replace(parts="f")
    for _ in range(PROVE):
        evidence.agree(wide)
    assert evidence.is_proven(narrow)
    assert evidence.is_proven(UTM)
    for other in ("b", "bf", "f0", "?"):
        assert not evidence.is_proven(UTM._replace(parts=other))
    assert not evidence.is_proven(narrow._replace(shape="?+other"))
    evidence.differ(narrow, EXAMPLE)
    assert not evidence.is_proven(narrow)
    assert evidence.is_proven(wide)


def test_another_item_takes_the_proof_away():
    """After one pair with other items REPROVE equal pairs bring it back, after two twice as many."""
    evidence = proven()
    needed = REPROVE
    for _ in range(3):
        evidence.differ(UTM, EXAMPLE)
        for _ in range(needed - 1):
            evidence.agree(UTM)
        assert not evidence.is_proven(UTM)
        evidence.agree(UTM)
        assert evidence.is_proven(UTM)
        needed *= 2


def test_checks_grow_seldom_but_never_end():
    """The third use, then ever more seldom, at least one page in EVERY."""
    evidence = proven()
    checked = [number for number in range(1, 1001) if evidence.decide(UTM, BACK)]
    assert checked[0] == SOON
    gaps = [b - a for a, b in pairwise(checked)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == EVERY
    assert len(checked) < 40


def test_the_two_ways_round_share_their_checks():
    """A check of a class moves the next one of its reverse; not where that one is not proven."""
    evidence = proven()
    for _ in range(PROVE):
        evidence.agree(BACK)
    checks = sum(
        evidence.decide(*(pair if number % 2 else pair[::-1]))
        for number, pair in enumerate([(UTM, BACK)] * 40)
    )
    alone = proven()
    assert checks == sum(alone.decide(UTM, BACK) for _ in range(40))
    record = alone.record(BACK)
    assert record is None


def test_an_equal_pair_of_a_proven_class_is_as_good_as_a_check():
    """A page that was parsed for another class, and was a copy by this one, too."""
    evidence = proven()
    assert not evidence.decide(UTM, BACK)
    assert not evidence.decide(UTM, BACK)
    evidence.agree(UTM, use=evidence.used(UTM))
    assert not evidence.decide(UTM, BACK)


def test_a_page_that_was_judged_before_others_is_no_check_of_these():
    """However many looks end while a proven class drops pages: these are checked at the third, the tenth, ..."""
    evidence = proven()
    checked = []
    for number in range(1, 12):
        if evidence.decide(UTM, BACK):
            checked.append(number)
        evidence.agree(UTM, use=0)  # judged before the proof
    assert checked == [SOON, SOON * 3 + 1]


def test_pages_wait_for_pairs_that_may_prove_their_class():
    """As many as a proof still needs; never for a class that had other items."""
    evidence: Evidence[str] = Evidence()
    assert not evidence.may_prove(UTM, PROVE - 1)
    assert evidence.may_prove(UTM, PROVE)
    evidence.agree(UTM)
    assert evidence.may_prove(UTM, PROVE - 1)
    assert not evidence.may_prove(UTM, PROVE - 2)
    evidence.differ(UTM, EXAMPLE)
    assert not evidence.may_prove(UTM, 1000)


def test_single_differences_prove_a_class_of_several():
    """?+utm_source and ?+utm_medium, each proven alone; not where the pair itself brought other items."""
    evidence = proven()
    both, medium = (
        UTM._replace(shape="?+utm_medium ?+utm_source"),
        UTM._replace(shape="?+utm_medium"),
    )
    assert not evidence.is_proven(both)
    for _ in range(PROVE):
        evidence.agree(medium)
    assert evidence.is_proven(both)
    evidence.differ(both, EXAMPLE)
    assert not evidence.is_proven(both)
    assert not evidence.is_proven(medium)


def test_a_class_that_falls_gives_its_dropped_pages_back():
    """The last REMEMBERED of them, once."""
    evidence = proven()
    for number in range(REMEMBERED + 50):
        evidence.drop(UTM, str(number))
    assert evidence.differ(UTM, EXAMPLE) == [str(n) for n in range(50, REMEMBERED + 50)]
    assert evidence.differ(UTM, EXAMPLE) == []
    record = evidence.record(UTM)
    assert record is not None
    assert (record.dropped, record.refetched) == (REMEMBERED + 50, REMEMBERED)


def test_what_a_class_proved_falls_with_it():
    """A class with fewer differing parts, and one of several differences of the URLs; not one with a proof of its own."""
    wide, narrow = UTM._replace(parts="af"), UTM._replace(parts="f")
    both = wide._replace(shape="?+utm_medium ?+utm_source")
    evidence = proven(wide)
    for _ in range(PROVE):
        evidence.agree(wide._replace(shape="?+utm_medium"))
        evidence.agree(wide._replace(parts="a"))
    for name in (wide, narrow, both, wide._replace(parts="a")):
        assert evidence.is_proven(name)
        evidence.drop(name, f"{name.parts} {name.shape}")
    found = evidence.differ(wide, EXAMPLE)
    assert found == ["af ?+utm_source", "f ?+utm_source", "af ?+utm_medium ?+utm_source"]
    assert [page for _, page in evidence.remembered()] == ["a ?+utm_source"]
    assert not evidence.is_proven(narrow)


@pytest.mark.long
def test_memory_is_bounded():
    """CLASSES classes and ALL_REMEMBERED pages, however many come; what is forgotten is not proven."""
    evidence = proven()
    for number in range(CLASSES + 10):
        name = UTM._replace(shape=f"?+p{number}")
        evidence.agree(name)
        evidence.drop(name, "page")
    assert len(evidence) == CLASSES
    assert len(list(evidence.remembered())) <= ALL_REMEMBERED
    assert not evidence.is_proven(UTM)


def test_evidence_survives_its_file():
    """What decode_evidence() reads is what encode_evidence() wrote; anything else is a ValueError."""
    evidence = proven()
    evidence.differ(UTM._replace(shape="/1:#>#"), EXAMPLE)
    content = encode_evidence(evidence.records(), {"parse": ([1], [2, 3])})
    records, volatile = decode_evidence(content)
    assert records == dict(evidence.records())
    assert volatile == {"parse": ([1], [2, 3])}
    again: Evidence[str] = Evidence()
    again.take(records)
    assert again.is_proven(UTM)
    for damaged in (b"", content[:-3], b"[]", b'{"classes": 5}', b"\xff"):
        with pytest.raises(ValueError):
            decode_evidence(damaged)


def test_originals_without_items_are_a_class_of_their_own():
    """That soft 404s are alike does not prove that pages with items are copies of each other."""
    name = class_of(
        "parse", "s.example", "", "http://s.example/a", "http://s.example/b", empty=True
    )
    assert name != class_of("parse", "s.example", "", "http://s.example/a", "http://s.example/b")


@given(st.lists(st.sampled_from([0.0, 0.25, 1.0]), max_size=200))
def test_a_class_is_never_proven_right_after_other_items(weights):
    """Whatever the order: the last pair decides, and a proof needs a run of at least PROVE."""
    evidence: Evidence[str] = Evidence()
    run = 0.0
    for weight in weights:
        if weight:
            evidence.agree(UTM, weight)
            run += weight
        else:
            evidence.differ(UTM, EXAMPLE)
            run = 0.0
        if evidence.is_proven(UTM):
            assert run >= PROVE


def pair(of: str, number: int) -> Pair:
    """A page that is like `of`, which brought a number of items."""
    neighbour = cast("Neighbour", SimpleNamespace(key=of, similarity=0.9))
    return Pair("page", neighbour, Digest(number), UTM, BACK)


def test_equal_items_prove_the_reverse_only_if_they_are_equal_both_ways():
    """A print page with half of the items says nothing of a full one."""
    both, half = Findings(), Findings()
    both.add(pair("original", 2), Comparison(True), Digest(2), equal_back=True)
    half.add(pair("original", 2), Comparison(True), Digest(1), equal_back=False)
    assert dict(both.agreed()) == {UTM: (1.0, 0.9), BACK: (1.0, 0.9)}
    assert dict(half.agreed()) == {UTM: (1.0, 0.9)}
    assert both.original == half.original == "original"


def test_other_items_take_the_reverse_along_unless_they_are_more():
    """A page with all items of its original and further ones is no copy of it; the original is one of the page."""
    other, more = Findings(), Findings()
    other.add(pair("original", 1), Comparison(False), Digest(1), equal_back=False)
    more.add(pair("original", 1), Comparison(False), Digest(2), equal_back=True)
    assert [name for name, _ in other.differed()] == [UTM, BACK]
    assert [name for name, _ in more.differed()] == [UTM]
    assert not other.original


def test_a_pair_with_other_items_outweighs_the_reverse_of_an_equal_one():
    """What another near-duplicate of the page speaks against is not proven the other way round."""
    found = Findings()
    found.add(pair("original", 1), Comparison(True), Digest(1), equal_back=True)
    against = pair("another", 1)._replace(name=BACK, back=UTM)
    found.add(against, Comparison(False, frozenset((5,))), Digest(1), equal_back=False)
    assert dict(found.agreed()) == {UTM: (1.0, 0.9)}
    assert list(found.differed()) == [(BACK, ("page", "another", frozenset((5,))))]


def test_a_page_without_items_proves_little():
    """A quarter of a pair, nothing the other way round, and nothing against a class."""
    found = Findings()
    found.add(pair("original", 1), Comparison(True), Digest(0), equal_back=False)
    assert dict(found.agreed()) == {UTM: (EMPTY, 0.9)}
