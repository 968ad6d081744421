"""The rules of the verdict: which of the pages nearby count. Values in, values out.

    within k -> scope -> similarity of the texts -> near-duplicates -> identity -> matches
    in flight -> those whose word counts

Two pages are near-duplicates when the distance of their values is at most the policy's, and the
estimated similarity of their texts at least what the policy asks for pages of one registrable domain,
of two, or of few words; in the scope "site" they also share a registrable domain.

The rule kept here: whatever is left out leaves a page without a match, and so keeps it.
"""

from collections.abc import Iterable

from dedup.core.fingerprint import similarities
from dedup.detector.reservations import Reservation
from dedup.model.policy import Policy
from dedup.model.values import Document, Identity, Neighbour, PageFingerprint, identity_of

__all__ = ["deciding_here", "near_duplicates", "not_other"]


def near_duplicates(
    page: PageFingerprint,
    domain: str,
    key: str | None,
    found: Iterable[tuple[Document | Reservation, int]],
    policy: Policy,
) -> list[Neighbour]:
    """Return the near-duplicates among what was found within k, with distances in bits.

    The most similar first, then the nearest, then the smallest key. What bears the page's own key is
    itself, and left out; in the scope "site" so is what is not of the given domain, and everything
    where that is "".
    """
    if page.unread or page.features < policy.min_features:
        return []
    others = [
        (other, distance)
        for other, distance in found
        if other.key != key and (policy.scope == "global" or (domain and other.domain == domain))
    ]
    alike = similarities(page.sketch, [other.page.sketch for other, _ in others])
    neighbours = []
    for (other, distance), similarity in zip(others, alike, strict=True):
        same_site = other.domain == domain if domain and other.domain else None
        fewer = min(page.features, other.page.features)
        if similarity >= policy.least_similarity(fewer, same_site=same_site):
            identity: Identity = "unknown"
            if same_site:
                identity = identity_of(page.identity, other.page.identity)
                if distance == 0 and similarity == 1 and identity == "other":
                    identity = "unknown"  # word for word the same: its own word counts for nothing
            neighbours.append(Neighbour(other.key, distance, similarity, identity, other.domain))
    return sorted(neighbours, key=lambda n: (-n.similarity, n.distance, n.key))


def not_other(neighbours: list[Neighbour]) -> list[Neighbour]:
    """Leave out the pages of this site that say, as this page does, that they are another page."""
    return [n for n in neighbours if n.identity != "other"]


def deciding_here(
    key: str, home: bool, found: Iterable[tuple[Reservation, int]]
) -> list[tuple[Reservation, int]]:
    """Of the pages in flight near a page with this key, return those that may hold it up.

    Between two in flight the home of the smaller key decides (dedup.wire.shards); a page that was
    accepted counts at its own. In a store that is the home of every key that is all of them.
    """
    return [
        (other, distance)
        for other, distance in found
        if other.accepted or (home if key < other.key else other.home)
    ]
