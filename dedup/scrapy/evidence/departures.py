"""In what two pages that look alike differ, where items hold the pages: what one adds, and what is replaced.

    (page, original) -> departures() -> added: a banner, a menu, a date;  replaced: size 38 for size 40

What all pages of a class add says nothing of one of them (visits.py). What stands in place of something else may be what
tells the two apart. Each difference is a number, so that sets of them are compared: a number in the text with its place
(Digest.numbers) is below 1 << 32, a part above, and other words are from 1 << 63 on.
"""

from collections.abc import Iterable
from typing import NamedTuple

from dedup.model.page import PART, PageFingerprint
from dedup.scrapy.evidence.difference import ATTRIBUTES, BESIDE, DATA, FRAME, PICTURES
from dedup.scrapy.evidence.digest import Digest, places

BESIDE_TEXT = (DATA, PICTURES, ATTRIBUTES, BESIDE, FRAME)  # parts of a page beside its main text
_NONE: frozenset[int] = frozenset()
_HASHES = 1 << 64
_OF_WORDS = 1 << 63


class Side(NamedTuple):
    """One of two pages that look alike: its key, its fingerprint, and the digest of its items, which hold it."""

    key: str
    page: PageFingerprint
    digest: Digest


class Departures(NamedTuple):
    """In what two pages differ, a number for each: numbers in their texts, words, parts.

    added     what only one of them has; the same numbers, if all pages of a class add the same
    replaced  what stands in place of something else: it may be what tells the two apart
    """

    added: frozenset[int]
    replaced: frozenset[int]


def departures(one: Side, other: Side, letters: Iterable[str]) -> Departures:
    """Return in what two pages differ: numbers, words, and these parts.

    Another menu or footer counts as added: a frame is the site's, not the page's.
    """
    mine, theirs = one.digest, other.digest
    added, replaced = set[int](), set[int]()
    alone = mine.numbers - theirs.numbers, theirs.numbers - mine.numbers
    both = places(alone[0], _NONE) & places(alone[1], _NONE)
    for number in (*alone[0], *alone[1]):
        (replaced if number >> 16 in both else added).add(number)
    for letter in letters:
        part = PART[letter]
        first, second = (int.from_bytes(each.page.parts[part]) for each in (one, other))
        if first != second:
            both_have = first and second and letter != FRAME
            (replaced if both_have else added).add(part.stop << 32 | first ^ second)
    if mine.others[0] != theirs.others[0]:
        words = mine.others[1] - theirs.others[1]
        is_longer = mine.others[2] != theirs.others[2]  # one of the two, by blocks
        (added if is_longer else replaced).add(_OF_WORDS | min(words % _HASHES, -words % _HASHES))
    return Departures(frozenset(added), frozenset(replaced))
