"""The list of a page's blocks (test_fingerprint.py holds it to the oracle)."""

import struct
from typing import Any

from dedup.core.fingerprint import read_page

READ = 1 << 63


def entries(blocks: bytes) -> list[int]:
    """Return a list of blocks as numbers."""
    return [number for (number,) in struct.iter_unpack("<Q", blocks)]


def listed(html: bytes, **options: Any) -> list[int]:
    return entries(read_page(html, encoding="utf-8", blocks=True, **options).blocks)


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
