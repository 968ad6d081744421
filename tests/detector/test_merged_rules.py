"""Rules of several crawls in one: what fell stays fallen, what was said wins, nothing is counted twice."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from dedup.detector.url_rules import Learner, Page, Record, rule_of
from dedup.detector.url_rules.rule_records import (
    Said,
    decode_rules,
    encode_within,
    merged,
    news,
    told,
)

SID, REF = rule_of("drop:sid a.com"), rule_of("drop:ref a.com")
FELL = ("http://a.com/1", "http://a.com/2")


def one(**fields: object) -> dict:
    return {"a.com": {SID: Record(**fields)}}


records = st.builds(
    Record,
    pairs=st.integers(0, 20),
    originals=st.lists(st.integers(0, 9), max_size=3, unique=True),
    against=st.none() | st.just(FELL),
    said=st.sampled_from(get_args(Said)),
    holds=st.booleans(),
    doubts=st.integers(0, 2),
)
some = st.dictionaries(
    st.sampled_from(["a.com", "b.com"]),
    st.dictionaries(st.sampled_from([SID, REF]), records, max_size=2),
    max_size=2,
)


@given(some, st.lists(some, max_size=4))
def test_what_fell_or_was_said_stays(mine, sent):
    """Whatever comes afterwards, in whatever order; and what comes twice is as if it came once."""
    known = mine = merged({}, mine)
    for theirs in sent:
        known = merged(known, theirs)
        assert merged(known, theirs) == known
    for each in (mine, *sent):
        for site, of_site in each.items():
            for rule, record in of_site.items():
                now = known[site][rule]
                assert now.pairs >= record.pairs
                assert now.said or not record.said
                assert now.against or not record.against
                assert not (now.holds and now.against) or now.said == "pin"
                assert now.holds or now.said != "pin"
                assert not now.holds or now.said != "forbid"
    for site, of_site in mine.items():
        for rule, record in of_site.items():
            assert known[site][rule].said == record.said or not record.said


@given(some, some)
def test_what_a_crawl_takes(own, shared):
    """Only what holds or fell; never a rule in doubt; its own doubts stay; then there is no more news."""
    own, shared = merged({}, own), merged({}, shared)
    found = news(own, shared)
    for site, of_site in found.items():
        for rule, taken in of_site.items():
            theirs, mine = shared[site][rule], own.get(site, {}).get(rule, Record())
            assert taken.doubts == mine.doubts
            if taken.holds and not mine.holds:
                assert theirs.said == "pin" or mine.said == "pin" or not theirs.doubts
    after = {site: own.get(site, {}) | found.get(site, {}) for site in {*own, *found}}
    assert news(after, shared) == {}


def test_a_doubt_goes_with_the_record():
    """Until a crawl with as much evidence says otherwise; the one that has it says so itself."""
    doubted = merged(one(pairs=12, holds=True), one(pairs=11, holds=True, doubts=1))
    assert news({}, doubted) == {}
    assert news({}, merged(doubted, one(pairs=11, holds=True))) == {}
    assert news({}, merged(doubted, one(pairs=12, holds=True))) == one(pairs=12, holds=True)


def test_what_is_told():
    """What holds or fell; not half the evidence, and not what a person said at the service."""
    assert told(one(pairs=9)) == {}
    assert told(one(said="pin", holds=True)) == {}
    for known in (one(pairs=10, holds=True), one(against=FELL)):
        assert told(known) == known


def test_a_learner_checks_what_it_takes():
    """A rule of another crawl falls by the pages here, and that is told."""
    learner = Learner()
    for url in ("http://a.com/x", "http://a.com/x?sid=1"):
        learner.accept(Page(url, None))
    learner.take(one(pairs=12, holds=True))
    assert learner.changed
    assert told(learner.records())["a.com"][SID].against is not None
    assert learner.known("http://a.com/x?sid=2") is None


def test_a_rule_that_is_taken_is_used_at_once():
    """Copies are put off before their originals came, and known once these have."""
    learner = Learner()
    learner.take(news({}, one(pairs=12, holds=True)))
    copies = [f"http://a.com/x?sid={n}" for n in range(2)]
    form = learner.likely_form(copies[0])
    assert form is not None
    assert form == learner.likely_form(copies[1]) == learner.likely_form("http://a.com/x")
    assert learner.known(copies[0]) is None
    learner.accept(Page("http://a.com/x", None))
    known = learner.known(copies[0])
    assert known is not None
    assert known.original == "http://a.com/x"


def test_rules_have_bounds():
    """The examples go first, then what is weakest; what fell is kept before what holds less."""
    url = "http://a.com/" + "x" * 200
    many = {
        f"s{n}.com": {
            rule_of(f"drop:p{k} s{n}.com"): Record(k, [1], [(url, url)]) for k in range(90)
        }
        for n in range(9)
    }
    many["s1.com"][rule_of("drop:dead s1.com")] = Record(against=FELL)
    assert len(encode_within(many)) > 300_000
    bare = encode_within(many, 200_000)
    assert sum(map(len, decode_rules(bare).values())) == 9 * 90 + 1
    few = encode_within(many, 10_000)
    assert 1000 < len(few) <= 10_000
    kept = decode_rules(few)
    assert rule_of("drop:dead s1.com") in kept["s1.com"]
    assert rule_of("drop:p89 s1.com") in kept["s1.com"]
    assert rule_of("drop:p0 s1.com") not in kept["s1.com"]
    assert len(encode_within(many, 10)) < 100
