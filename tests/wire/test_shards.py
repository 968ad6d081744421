"""Which of several something belongs to: the partition of a record, the shard of a page."""

import pytest

from dedup.wire.shards import partition_of


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


@pytest.mark.parametrize(
    ("domain", "of_two", "of_seven"),
    [
        ("example.com", 1, 4),
        ("example.org", 1, 3),
        ("bbc.co.uk", 0, 6),
        ("127.0.0.1", 0, 3),
        ("", 1, 2),
    ],
)
def test_a_domain_has_one_shard_for_ever(domain, of_two, of_seven):
    """As docs/use/several-services.md gives them: another hash would ask a shard that has none of its pages."""
    assert [partition_of(domain.encode(), count) for count in (2, 7)] == [of_two, of_seven]
