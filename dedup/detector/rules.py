"""The rules of the verdict: which of the nearby pages count. Pure functions.

    within k -> kind, scope -> similarity of the texts -> near-duplicates -> identity -> matches
    in flight -> those that this store decides about

Two pages are near-duplicates when the distance of their values is at most the policy's, and the
estimated similarity of their texts at least the policy's for pages of one registrable domain, of two,
or of few words; in the scope "site" they also share a registrable domain. Only pages of one kind are
compared, if both have a kind. Two pages of one site that are of two things (by sku, gtin and the like, or
beside little text by their identity and pictures) are no near-duplicates, whatever their texts. Pages of fewer features
than the policy's least, or of which too little was read, are near-duplicates only if they are copies.

A page is not judged by its text (`unread`) if what was read of it is the frame of its site, the blocks that stand on
many of its pages, and nearly nothing else; or if most of what no other page has was not read. Then only a page that is the same word for word, and shows the same pictures, is a match.

What a page says it is (title, canonical URL) does not count if two pages are equal word for word: what was read of them,
and what was not. Where only what was read is equal, it counts, if that was asked for, or much that no other page has was
not read (`partly`).

Invariant: leaving out a page means one match less, and so can only keep pages.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from dedup.core.fingerprint import similarities
from dedup.core.site_blocks import Share
from dedup.model.page import (
    Document,
    Identity,
    Neighbour,
    PageFingerprint,
    Status,
    Verdict,
    are_copies,
    are_equal,
    are_two_things,
    identity_of,
    show_two_pictures,
)
from dedup.model.policy import Policy

NO_KEY = "\ud800"  # of a page that is only probed: not valid Unicode, so not a document's key

# A block is frame if it stands on more than so many pages of its site: a share of those counted, within bounds.
FRAME_LEAST, FRAME_MOST, FRAME_SHARE = 10, 50, 0.3
FRAME_READ = 0.7  # a page of which so much of what was read is frame,
BESIDE_FRAME = 40  # and fewer other words than this, is not judged by its text;
LEFT_MORE = 20  # nor is one with so many more new words that were not read than words that were;
PARTLY = 0.5  # of one with so much of them, and as many more, title and canonical URL count


def frame_above(pages: int) -> int:
    """Return on how many pages a block may stand before it is frame, if so many pages of its site were counted."""
    return min(FRAME_MOST, max(FRAME_LEAST, int(FRAME_SHARE * pages)))


def is_unread(share: Share) -> bool:
    """Whether what was read does not stand for the page.

    It is the frame of the site and nearly nothing else; or most of what no other page has was not read.
    """
    return is_frame(share) or share.left > share.read + LEFT_MORE


def is_partly(share: Share) -> bool:
    """Whether what was read stands for a part of the page only: as equal as it may be, it makes no equal pages."""
    return share.left > PARTLY * share.read + LEFT_MORE


def is_frame(share: Share) -> bool:
    """Whether what was read of a page is the frame of its site and nearly nothing else."""
    return 0 < share.read * FRAME_READ <= share.frame and share.read - share.frame < BESIDE_FRAME


def _comparable(
    asked: Document, found: Iterable[tuple[Document, int]], policy: Policy
) -> list[tuple[Document, int]]:
    """Leave out the page itself, pages of another kind, and those outside of the scope."""
    domain, kind, key = asked.domain, asked.kind, asked.key
    return [
        (other, distance)
        for other, distance in found
        if other.key != key
        and (not kind or not other.kind or other.kind == kind)
        and (policy.scope == "global" or (domain and other.domain == domain))
    ]


def near_duplicates(
    asked: Document, found: Iterable[tuple[Document, int]], policy: Policy
) -> list[Neighbour]:
    """Return the near-duplicates of a page among those found within k, with distances in bits.

    The most similar first, then the nearest, then the smallest key. A page without a kind ("") is
    compared with those of every kind. A page with the same key is the page itself, and left out; in the
    scope "site" so are pages of other domains, and all pages if the domain is "".
    """
    others = _comparable(asked, found, policy)
    alike = similarities(asked.page.sketch, [other.page.sketch for other, _ in others])
    least = min(policy.similarity, policy.similarity_across, policy.similarity_short)
    neighbours = [
        _neighbour(asked, other, distance, similarity, policy)
        for (other, distance), similarity in zip(others, alike, strict=True)
        if similarity >= least  # not so nearly all of a crowd that is near only by value
    ]
    return sorted(filter(None, neighbours), key=rank)


def _neighbour(
    asked: Document, other: Document, distance: int, similarity: float, policy: Policy
) -> Neighbour | None:
    """Return a page as a near-duplicate of the one that is asked about; None if it is none."""
    a, b = asked.page, other.page
    same_site = other.domain == asked.domain if asked.domain and other.domain else None
    if same_site and are_two_things(a, b):
        return None
    said: Identity = identity_of(a.identity, b.identity) if same_site else "unknown"
    little, equal = a.features < policy.min_features, are_equal(a, b, similarity)
    if a.unread and not little and (not equal or show_two_pictures(a, b)):
        return None
    if little and are_copies(a, b):
        return Neighbour(other, distance, similarity, said)
    fewer = min(a.features, b.features)
    if similarity >= policy.least_similarity(fewer, same_site=same_site):
        if equal and said == "other":
            said = "unknown"  # the pages are equal word for word: it does not count
        return Neighbour(other, distance, similarity, said)
    return None


def unlike_any(page: PageFingerprint, policy: Policy) -> tuple[Status, str]:
    """Return status and reason of a page without a near-duplicate: one that is not judged is never unique."""
    if page.unread:
        return "exempt", "unread"
    return ("unique", "") if page.features >= policy.min_features else ("exempt", "short")


def rank(neighbour: Neighbour) -> tuple[float, int, str]:
    """Return the sort key of a match: the most similar first, then the nearest, the smallest key."""
    return -neighbour.similarity, neighbour.distance, neighbour.document.key


def decided(
    asked: Document, inserted: list[Neighbour], in_flight: list[Neighbour], *, guard: bool
) -> Verdict:
    """Return the verdict on a page that has near-duplicates.

    1. One has paid: near_duplicate of the most similar of these.
    2. One is in flight: pending, since it may pay.
    3. None has paid: near_duplicate of the most similar.
    With guard, pages of its site with another identity do not count; if these are all, the page is
    exempt ("other_title").
    """
    like = inserted[0] if inserted else None
    if guard:
        inserted, in_flight = not_other(inserted), not_other(in_flight)
    paid = next((n for n in inserted if n.document.paid), None)
    if paid is not None:
        return Verdict("near_duplicate", "", asked, match=paid)
    if in_flight:
        return Verdict("pending", "", asked, match=in_flight[0])
    if inserted:
        return Verdict("near_duplicate", "", asked, match=inserted[0])
    return Verdict("exempt", "other_title", asked, match=like)


def not_other(neighbours: list[Neighbour]) -> list[Neighbour]:
    """Leave out the pages of this site whose identity says that they are other pages."""
    return [n for n in neighbours if n.identity != "other"]


def is_unchanged(asked: Document, stored: Document | None) -> bool:
    """Whether a page is the same, word for word, as the document under its key, and that has paid."""
    return (
        stored is not None
        and stored.paid
        and stored.kind == asked.kind
        and replace(stored.page, parts=b"", unread=False, partly=False)
        == replace(asked.page, parts=b"", unread=False, partly=False)
    )
