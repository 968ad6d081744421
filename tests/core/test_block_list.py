"""The list of a page's blocks (test_fingerprint.py holds it to the oracle), and the counts of a site's."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.core.fingerprint import read_page
from dedup.core.site_blocks import FIRST_SETS, SET_BYTES, Share, SiteBlocks

READ = 1 << 63


def entries(blocks: bytes) -> list[int]:
    """Return a list of blocks as numbers."""
    return [number for (number,) in struct.iter_unpack("<Q", blocks)]


def listed(html: bytes, **options: Any) -> list[int]:
    return entries(read_page(html, encoding="utf-8", blocks=True, **options).blocks)


def block(number: int, words: int = 5, *, read: bool = True) -> bytes:
    """Return the entry of a block, for each number another one."""
    hash_ = number * 0x9E3779B1 % 2**32
    return (read << 63 | words << 32 | hash_).to_bytes(8, "little")


def test_a_list_is_made_only_if_asked_for() -> None:
    """Who does not count blocks gets none."""
    assert read_page("<p>one two three").blocks == b""


def test_a_list_has_at_most_400_blocks_and_those_read_come_first() -> None:
    """Navigation above the text takes no place from it."""
    nav = "".join(f"<li>menu entry number {i}" for i in range(500))
    html = f"<nav><ul>{nav}</ul></nav><p>{'own words of the page ' * 10}</p>".encode()
    found = listed(html)
    assert len(found) == 400
    assert [bool(entry & READ) for entry in found] == [True] + 399 * [False]


def test_short_blocks_are_listed_if_their_words_are_long() -> None:
    """Two words of twenty bytes together are a block; two short ones are not."""
    assert len(listed(b"<p>Datenschutz Grundverordnung</p>")) == 1
    assert listed(b"<p>Read more</p>") == []


def test_a_site_that_was_not_seen_has_no_frame() -> None:
    """Nothing is known of it."""
    assert SiteBlocks().tell("a.example", block(7), 0) == Share(0, 0, 0, 0, 0)


def test_sites_that_were_not_seen_for_long_are_forgotten() -> None:
    """All sites together take no more than the bound."""
    sites = SiteBlocks(10 * (FIRST_SETS + 1) * SET_BYTES)
    for i in range(100):
        sites.count(f"{i}.example", 1, block(7))
        sites.count("often.example", 1, block(7))
    assert len(sites) == 10
    assert sites.tell("often.example", block(7), 0).frame == 5
    assert sites.tell("0.example", block(7), 0).pages == 0


def test_counts_are_kept_as_bytes() -> None:
    """What was counted is known again; of another recipe nothing is; anything else is refused."""
    sites = SiteBlocks()
    for title in range(1, 9):
        sites.count("a.example", title, block(7))
        sites.count("\ud800", title, block(8))
    content = sites.to_bytes("words")
    again = SiteBlocks.from_bytes(content, "words")
    assert again.tell("a.example", block(7), 7) == sites.tell("a.example", block(7), 7)
    assert (len(again), again.bytes, again.to_bytes("words")) == (2, sites.bytes, content)
    assert again.count("a.example", 8, block(7)) == 8
    assert len(SiteBlocks.from_bytes(content, "other")) == 0


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_damaged_bytes_are_refused(at: int, change: int) -> None:
    """A flipped bit, or a cut anywhere, is noticed."""
    sites = SiteBlocks()
    sites.count("a.example", 1, block(7))
    content = bytearray(sites.to_bytes("words"))
    at %= len(content)
    for damaged in (content[:at], content[:at] + bytes([content[at] ^ change]) + content[at + 1 :]):
        with pytest.raises(ValueError, match="checksum mismatch"):
            SiteBlocks.from_bytes(bytes(damaged), "words")
