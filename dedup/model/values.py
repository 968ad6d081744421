"""The values that travel through the house, all frozen.

page -> PageFingerprint -> reserve -> Verdict -> insert -> Document (what a store keeps)

gc=False: of those that are made by the hundred thousand and can be in no cycle.
"""

from typing import Literal

import msgspec

__all__ = [
    "SKETCH_BYTES",
    "TRIES",
    "Document",
    "Identity",
    "Neighbour",
    "PageFingerprint",
    "Status",
    "Verdict",
    "accepted_document",
    "hex_fingerprint",
    "identity_of",
    "kept_verdict",
    "matched_verdict",
]

SKETCH_BYTES = 37

TRIES = 5  # near-duplicates that brought nothing, from which on a page like them is dropped

Status = Literal["unique", "refetch", "near_duplicate", "pending", "exempt"]
Identity = Literal["same", "other", "unknown"]

_HALF = 2**32 - 1


def hex_fingerprint(value: int) -> str:
    """Return a fingerprint as it is written everywhere outside Python integers: 16 hex digits."""
    return f"{value:016x}"


class PageFingerprint(msgspec.Struct, frozen=True, gc=False):
    """What a page's content comes to (docs/fingerprint-spec.md).

    value     64-bit simhash of the weighted words of the main content; the one the tables hold
    sketch    37 bytes over its 3-token shingles, from which the similarity of two texts is estimated
    identity  what the page says it is: the 32-bit hash of its title, 0 without one, and below it that
              of the canonical URL that it declares, 0 for none
    features  number of distinct words behind value
    recipe    id of the recipe that made all of them
    unread    too little of the page was read for it to be judged; such a page is never stored
    links     a 64-bit hash of where its main content leads, in any order; 0: that was not asked for
    """

    value: int
    sketch: bytes
    identity: int
    features: int
    recipe: str
    unread: bool = False
    links: int = 0

    @property
    def title(self) -> int:
        """The hash of the title."""
        return self.identity >> 32

    @property
    def canonical(self) -> int:
        """The hash of the declared canonical URL."""
        return self.identity & _HALF


class Document(msgspec.Struct, frozen=True, gc=False):
    """An accepted page: its document key, its fingerprint, its registrable domain, and when.

    inserted_seconds  Unix time; it informs, and decides nothing
    kind              what the page was read for; only pages of one kind are compared
    paid              whether it brought what it had to bring (Verdict)
    """

    key: str
    page: PageFingerprint
    domain: str
    inserted_seconds: float
    kind: str = ""
    paid: bool = True


class Neighbour(msgspec.Struct, frozen=True, gc=False):
    """A stored near-duplicate of a probed page.

    distance    Hamming distance of value, in bits
    similarity  estimated Jaccard similarity of the two texts' 3-token shingles, 0 to 1
    identity    whether the two pages say themselves that they are the same page of their site
    paid        whether it brought what it had to bring
    """

    key: str
    distance: int
    similarity: float
    identity: Identity
    domain: str
    paid: bool = True


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The answer to reserve(): what a page is, and why.

    status          unique, refetch (this key was inserted before), near_duplicate, pending (a
                    near-duplicate is in flight: ask again), or exempt
    reason          why the page is exempt; "barren" of a near-duplicate when none of the pages like
                    it has paid, but TRIES of them were kept; "unchanged" of a refetch, where `links`
                    was given, when the stored page of this key and kind has paid, and had the same
                    text, word for word, title, canonical URL and links; else ""
    key             the page's document key
    of              key of the most similar near-duplicate (near_duplicate, pending; and exempt as
                    other_title or barren, if one is inserted), else None
    distance        its Hamming distance of value in bits, else None
    similarity      the estimated Jaccard similarity of the two texts' 3-token shingles, 0 to 1, else None
    identity        "same" or "other": what the two pages say of themselves by title and canonical URL;
                    "unknown" if they say nothing, or are of two sites; None without a near-duplicate
    page            the fingerprint that was judged
    token           what insert() and release() take to end the reservation; None when the page
                    holds none (near_duplicate, pending, short and unread pages)
    domain          the page's registrable domain, "" if it has none
    kind            what the page was read for, "" if that was not said
    paid            whether the page brought what it had to bring; who inserts it says so: a page that
                    brought no item (False) shuts out pages like it only when there are TRIES of them
    """

    status: Status
    reason: str
    key: str
    of: str | None
    distance: int | None
    similarity: float | None
    identity: Identity | None
    page: PageFingerprint
    token: str | None
    domain: str = ""
    kind: str = ""
    paid: bool = True


def accepted_document(verdict: Verdict, seconds: float) -> Document:
    """Return the document that a verdict is inserted as, at a Unix time."""
    return Document(verdict.key, verdict.page, verdict.domain, seconds, verdict.kind, verdict.paid)


def kept_verdict(reason: str, page: PageFingerprint, key: str, domain: str) -> Verdict:
    """Return the verdict on a page that is exempt and holds no reservation."""
    return Verdict("exempt", reason, key, None, None, None, None, page, None, domain)


def matched_verdict(
    verdict: Verdict, of: Neighbour | None, status: Status, reason: str = ""
) -> Verdict:
    """Return what a verdict becomes when it is known which accepted page is like this one."""
    if of is None:
        return msgspec.structs.replace(verdict, status=status, reason=reason)
    return msgspec.structs.replace(
        verdict,
        status=status,
        reason=reason,
        of=of.key,
        distance=of.distance,
        similarity=of.similarity,
        identity=of.identity,
    )


def identity_of(a: int, b: int) -> Identity:
    """Return what two pages of one site say of themselves, by their PageFingerprint.identity.

    Another title, or another canonical URL where both declare one, is another page.
    """
    if a == b:
        return "same" if a else "unknown"
    titles, canonicals = a > _HALF and b > _HALF, a & _HALF and b & _HALF  # whether both say one
    if (titles and a >> 32 != b >> 32) or (canonicals and (a ^ b) & _HALF):
        return "other"
    return "same" if titles or canonicals else "unknown"
