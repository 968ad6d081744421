"""Shards, the pure part: whose a key is, what a share says, and one verdict out of several."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from detecting import verdict_on
from hypothesis import given
from hypothesis import strategies as st
from sketches import sketch

from dedup.model.errors import UsageError
from dedup.model.page import PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.wire.shards import PartitionShare, check_partitions, merged, partition_of

PAGE = PageFingerprint(1, sketch(2), 3, 300, NEWEST)


def test_the_hash_is_that_of_kafkas_own_tests():
    """The figures are of UtilsTest.testMurmur2."""
    for text, figure in (
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ):
        assert partition_of(text, 2**31) == figure & 0x7FFFFFFF


@given(st.sets(st.integers(0, 40), min_size=1))
def test_a_share_is_written_as_it_is_read(numbers):
    """ "0-3,6" comes to these partitions, and they to that text, shortest form first."""
    share = PartitionShare(frozenset(numbers), 41)
    assert PartitionShare.of(str(share), 41) == share
    assert share.whole == (len(numbers) == 41)


def test_ranges_may_overlap_and_hold_spaces():
    assert str(PartitionShare.of(" 3-5, 4 - 7,0", 16)) == "0,3-7"
    assert PartitionShare.everything(16) == PartitionShare.of("0-15", 16)
    assert PartitionShare.everything(16).whole


@pytest.mark.parametrize(
    "text", ["", "a", "1-", "-1", "1--2", "3-1", "0,,1", "0;1", "٣", "1.0", "9999999999", "0-10000"]
)
def test_what_says_no_partitions_is_refused_with_the_text(text):
    with pytest.raises(UsageError, match="are not allowed") as error:
        check_partitions(text)
    assert repr(text) in str(error.value)


def test_partitions_beyond_the_topic_are_refused_with_its_count():
    with pytest.raises(UsageError, match=r"'4-9' .* 8-9 lies beyond the 8 partitions .* 0 to 7"):
        PartitionShare.of("4-9", 8)


# ------------------------------------------------------------------------------------ one verdict


def verdict(status, reason="", of=None, similarity=None, distance=1):
    reserved = status in {"unique", "refetch", "exempt"}
    near = (None, None, None) if of is None else (distance, similarity, "same")
    return verdict_on(
        status, reason, "key", of, *near, PAGE, "t" if reserved else None, "example.com"
    )


UNIQUE, REFETCH = verdict("unique"), verdict("refetch")
NEAR = verdict("near_duplicate", "", "b", 0.9, distance=0)
NEARER = verdict("near_duplicate", "", "c", 0.95, distance=2)
PENDING = verdict("pending", "", "d", 1.0)
OTHER, EXPIRED, SHORT, UNREAD = (
    verdict("exempt", why) for why in ("other_title", "expired", "short", "unread")
)


def test_what_is_to_be_inserted_has_the_token_of_its_home():
    """A verdict that another shard gave is reserved at home all the same."""
    other = msgspec.structs.replace(OTHER, token="theirs")
    found = merged({3: other, 5: msgspec.structs.replace(UNIQUE, token="ours")}, 5)
    assert (found.status, found.reason, found.token) == ("exempt", "other_title", "ours")


ANSWERS = {
    "silent": None,
    "unique": UNIQUE,
    "refetch": REFETCH,
    "near": NEAR,
    "nearer": NEARER,
    "pending": PENDING,
    "pending further": verdict("pending", "", "e", 1.0, distance=3),
    "other": OTHER,
    "expired": EXPIRED,
    "short": SHORT,
    "unread": UNREAD,
}


def said(verdict):
    return None if verdict is None else next(n for n, v in ANSWERS.items() if v == verdict)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_all_answers_that_there_can_be_come_to_what_is_written(count):
    """docs/reference/protocol.md, Shards, 3: the first line that fits. Whichever shard is the home."""
    for names in itertools.product(ANSWERS, repeat=count):
        for home in range(count if count < 4 else 1):
            own, given = names[home], set(names)
            if own == "silent":
                expected = None
            elif own in {"refetch", "expired"}:
                expected = own
            elif given & {"near", "nearer"}:
                expected = "nearer" if "nearer" in given else "near"
            elif "silent" in given:
                expected = None
            elif given & {"pending", "pending further"}:
                expected = "pending" if "pending" in given else "pending further"
            else:
                expected = "other" if "other" in given else own
            answers = {i: ANSWERS[name] for i, name in enumerate(names)}
            assert said(merged(answers, home)) == expected, (names, home)
            # the order of the answers says nothing
            assert said(merged(dict(reversed(answers.items())), home)) == expected
