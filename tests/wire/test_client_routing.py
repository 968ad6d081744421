"""Who is asked, of several services: routes and homes, without any service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import murmur2
from sketches import sketch

from dedup.model.errors import ServiceUnavailable
from dedup.model.events import record_key
from dedup.model.page import Document, Neighbour, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.wire.client.command_codec import (
    NO_SERVICE,
    Holding,
    NoToken,
    Request,
    Route,
    holding_of,
    neighbours_of_all,
    unavailable,
    verdict_of_all,
)
from dedup.wire.client.services import addresses_of
from dedup.wire.shards import PartitionShare

EVERYTHING = Holding(None, 16)
KEYS = [f"http://example.com/{n}" for n in range(50)]


def shard(text: str, count: int = 16) -> Holding:
    return Holding(PartitionShare.of(text, count), count)


def routed(*holdings: Holding) -> Route:
    """Return the route over services that all stand."""
    route = Route()
    for number, holding in enumerate(holdings):
        if route.wants(holding):
            route.add(number, holding)
    return route


def partition(key: str) -> int:
    return (murmur2(record_key("news", key)) & 0x7FFFFFFF) % 16


@given(st.lists(st.sets(st.integers(0, 15), min_size=1), max_size=6))
def test_any_shares_route_each_partition_to_its_first_holder(shares):
    """Complete if and only if every partition is held; what nobody holds has no home, and is named."""
    route = routed(*(Holding(PartitionShare(frozenset(share), 16), 16) for share in shares))
    first = {p: n for n, share in reversed(list(enumerate(shares))) for p in share}
    assert route.complete == (len(first) == 16)
    assert set(route.services) == set(first.values())
    for key in KEYS:
        assert route.home("news", key) == first.get(partition(key), NO_SERVICE)
    missing = frozenset(range(16)) - first.keys()
    assert route.missing() == (str(PartitionShare(missing, 16)) if shares else "")


def test_services_of_different_logs_are_not_asked_together():
    """16 partitions and 8: no answer, and both numbers in the error."""
    route = Route()
    addresses = addresses_of("redis://a,redis://b")
    for number, holding in enumerate((shard("0-7"), shard("0-7", 8))):
        assert route.wants(holding)
        route.add(number, holding, addresses[number])
    error = unavailable(route, [(address, Holding(None), "") for address in addresses])
    assert route.services == ()
    assert "redis://b:7700 says that the log has 8 partitions, others say 16" in str(error)


def test_what_nobody_holds_is_named_with_who_holds_what():
    """The error names the partitions, the services that answer, and what is wrong with the others."""
    ends = [(addresses_of("redis://a")[0], shard("0-3,8-15"), "")]
    ends += [(addresses_of("redis://b")[0], shard("4-7"), "it closed the connection")]
    said = str(unavailable(routed(ends[0][1]), ends))
    assert "partitions 4-7 of the log are held by no table service that answers" in said
    assert "redis://a:7700: holds partitions 0-3,8-15" in said
    assert "redis://b:7700: it closed the connection" in said


@pytest.mark.parametrize(
    ("reply", "holding"),
    [([b"*", 0], Holding(None, 0)), ([b"*", 16], EVERYTHING), ([b"0-3,6", 16], shard("0-3,6"))],
)
def test_what_a_service_says_it_holds(reply, holding):
    """All, or some."""
    assert holding_of(reply) == holding


@given(st.recursive(st.none() | st.binary() | st.integers(), st.lists))
def test_any_other_answer_is_service_unavailable(reply):
    """Never another error."""
    try:
        assert isinstance(holding_of(reply), Holding)
    except ServiceUnavailable:
        pass


def test_all_but_the_home_are_told_that_they_are_not():
    """HOME off goes to them; the home gets the command as it stands."""
    route = routed(shard("0-7"), shard("8-15"))
    request = Request(
        (b"X", b"FIELDS", b"on", b"TOKEN", "t"), "news", KEYS[0], to_all=True, token="t"
    )
    assert tuple(request.targets(route)) == (0, 1)
    home, other = request.home, 1 - request.home
    assert request.data_for(home).split() == b"*5 $1 X $6 FIELDS $2 on $5 TOKEN $1 t".split()
    assert request.data_for(other).split()[-4:] == [b"$4", b"HOME", b"$3", b"off"]


# --------------------------------------------------------------------------------- what is asked


@pytest.mark.parametrize("spare", [False, True], ids=["one home", "home failed"])
def test_who_answered_as_another_is_no_home(spare):
    """A near-duplicate is no verdict if the home failed and the spare was not asked as the home."""
    page = PageFingerprint(1, sketch(2), 3, 300, NEWEST)
    key = next(key for key in KEYS if partition(key) < 8)
    request = Request((b"X", b"TOKEN", "t"), "news", key, to_all=True, token="t")
    shares = (shard("0-7"), shard("0-15"))
    for number in request.targets(routed(*shares)):
        request.data_for(number)
    request.replies = {
        1: [b"near_duplicate", None, b"http://example.com/of", 1, b"0.9", None, b"same"]
    }
    if spare:
        route = Route()
        route.add(1, shares[1])
        assert not request.targets(route)
        assert request.home == 1
        assert verdict_of_all(request, Document(key, page, "example.com")) is None
    else:
        request.replies[0] = [b"unique", b"t", None, None, None, None, None]
        verdict = verdict_of_all(request, Document(key, page, "example.com"))
        assert (verdict.status, verdict.distance) == ("near_duplicate", 1)
        assert (verdict.similarity, verdict.identity) == (0.9, "same")


def test_who_was_not_asked_about_a_page_knows_nothing_of_its_token():
    """A document's home that is not among the holders of the token is not asked: NoToken."""
    request = Request((b"X",), "news", KEYS[0], allowed=(1,))
    assert tuple(request.targets(routed(EVERYTHING))) == ()
    assert isinstance(request.home_reply(), NoToken)
    assert tuple(request.targets(Route())) == ()
    assert request.home_reply() is None  # nobody is there


def near(key: str, distance: int, similarity: float = 1.0) -> Neighbour:
    document = Document(key, PageFingerprint(1, sketch(2), 3, 300, NEWEST))
    return Neighbour(document, distance, similarity, "unknown")


def test_of_what_several_say_of_one_key_the_most_similar_stands():
    """Services that differ on a document, as one lags behind: the most similar, whoever answered last."""
    more, less = near("a", 1, 0.95), near("a", 1, 0.9)
    assert neighbours_of_all([[more], [near("b", 0), less]]) == [near("b", 0), more]
    assert neighbours_of_all([[near("b", 0), less], [more]]) == [near("b", 0), more]
