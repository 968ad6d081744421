"""The values that travel through the house, all frozen.

page -> PageFingerprint -> reserve -> Verdict -> insert -> Document (what a store keeps)

gc=False: of those that are made by the hundred thousand and can be in no cycle.
"""

from typing import Literal

import msgspec

__all__ = ["Document", "Neighbour", "PageFingerprint", "Status", "Verdict", "hex_fingerprint"]

Status = Literal["unique", "refetch", "near_duplicate", "pending", "exempt"]


def hex_fingerprint(value: int) -> str:
    """Return a fingerprint as it is written everywhere outside Python integers: 16 hex digits."""
    return f"{value:016x}"


class PageFingerprint(msgspec.Struct, frozen=True, gc=False):
    """What a page's content comes to (docs/fingerprint-spec.md).

    value      64-bit simhash of the weighted words of the main content; the one the tables hold
    sketch     33 bytes over its 3-token shingles: how alike two texts are (dedup.fingerprint.similarity)
    title      32-bit hash of its title, 0 without one
    canonical  32-bit hash of the canonical URL that it declares, 0 for none
    features   number of distinct words behind value
    unread     too little of the page was read for it to be judged
    recipe     id of the recipe that made all of them
    """

    value: int
    sketch: bytes
    title: int
    canonical: int
    features: int
    unread: bool
    recipe: str


class Document(msgspec.Struct, frozen=True, gc=False):
    """An accepted page: its document key, its fingerprint, its registrable domain, and when.

    inserted_seconds is Unix time; it informs, and decides nothing.
    """

    key: str
    page: PageFingerprint
    domain: str
    inserted_seconds: float


class Neighbour(msgspec.Struct, frozen=True, gc=False):
    """A stored document whose value lies within k of a probed page; distances are in bits."""

    key: str
    distance: int
    check_distance: int
    links_distance: int
    domain: str


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The answer to reserve(): what a page is, and why.

    status          unique, refetch (this key was inserted before), near_duplicate, pending (a
                    near-duplicate is in flight: ask again), or exempt
    reason          why the page is exempt, else ""
    key             the page's document key
    of              key of the nearest near-duplicate (near_duplicate, pending), else None
    distance        its Hamming distance of value in bits, else None
    check_distance  its Hamming distance of check in bits, else None
    page            the fingerprint that was judged
    token           what insert() and release() take to end the reservation; None when the page
                    holds none (near_duplicate, pending, short pages)
    domain          the page's registrable domain, "" if it has none
    """

    status: Status
    reason: str
    key: str
    of: str | None
    distance: int | None
    check_distance: int | None
    page: PageFingerprint
    token: str | None
    domain: str = ""
