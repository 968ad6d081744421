"""The rules of the verdict: which of the nearby pages count. Pure functions.

    within k -> kind, scope -> similarity of the texts -> near-duplicates -> identity -> matches
    in flight -> those that this store decides about

Two pages are near-duplicates when the distance of their values is at most the policy's, and the
estimated similarity of their texts at least the policy's for pages of one registrable domain, of two,
or of few words; in the scope "site" they also share a registrable domain. Only pages of one kind are
compared, if both have a kind.

The rule kept here: leaving out a page means one match less, and so can only keep pages.
"""

from collections.abc import Iterable

from dedup.core.fingerprint import similarities
from dedup.detector.reservations import Reservation
from dedup.model.policy import Policy
from dedup.model.values import (
    Document,
    Identity,
    Neighbour,
    PageFingerprint,
    Status,
    Verdict,
    identity_of,
    matched_verdict,
)

__all__ = ["decided", "deciding_here", "is_unchanged", "near_duplicates", "not_other"]


def near_duplicates(
    page: PageFingerprint,
    domain: str,
    key: str | None,
    found: Iterable[tuple[Document | Reservation, int]],
    policy: Policy,
    kind: str = "",
) -> list[Neighbour]:
    """Return the near-duplicates among the pages found within k, with distances in bits.

    The most similar first, then the nearest, then the smallest key. A page without a kind ("") is
    compared with those of every kind. A page with the same key is the page itself, and left out; in the
    scope "site" so are pages of other domains, and all pages if the domain is "".
    """
    if page.unread or page.features < policy.min_features:
        return []
    others = [
        (other, distance)
        for other, distance in found
        if other.key != key
        and (not kind or not other.kind or other.kind == kind)
        and (policy.scope == "global" or (domain and other.domain == domain))
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
                    identity = "unknown"  # equal word for word: its identity does not count
            neighbours.append(
                Neighbour(other.key, distance, similarity, identity, other.domain, other.paid)
            )
    return sorted(neighbours, key=lambda n: (-n.similarity, n.distance, n.key))


def decided(
    asked: Verdict,
    inserted: list[Neighbour],
    in_flight: list[Neighbour],
    *,
    guard: bool,
    tries: int,
) -> Verdict:
    """Return the verdict on a page that has near-duplicates.

    1. One has paid: near_duplicate of the most similar of these.
    2. One is in flight: pending, since it may pay.
    3. None has paid: exempt ("barren") while there are fewer than `tries`, then near_duplicate.
    With guard, pages of its site with another identity do not count; if these are all, the page is
    exempt ("other_title").
    """
    like = inserted[0] if inserted else None
    if guard:
        inserted, in_flight = not_other(inserted), not_other(in_flight)
    paid = next((n for n in inserted if n.paid), None)
    if paid is not None:
        return matched_verdict(asked, paid, "near_duplicate")
    if in_flight:
        return matched_verdict(asked, in_flight[0], "pending")
    if inserted:
        status: Status = "exempt" if len(inserted) < tries else "near_duplicate"
        return matched_verdict(asked, inserted[0], status, "barren")
    return matched_verdict(asked, like, "exempt", "other_title")


def not_other(neighbours: list[Neighbour]) -> list[Neighbour]:
    """Leave out the pages of this site whose identity says that they are other pages."""
    return [n for n in neighbours if n.identity != "other"]


def is_unchanged(asked: Verdict, stored: Document | None) -> bool:
    """Whether a page is the same, word for word, as the document under its key, and that has paid."""
    return (
        stored is not None
        and stored.paid
        and (stored.page, stored.kind) == (asked.page, asked.kind)
    )


def deciding_here(
    key: str, home: bool, found: Iterable[tuple[Reservation, int]]
) -> list[tuple[Reservation, int]]:
    """Of the pages in flight near a page with this key, return those that it may have to wait for.

    Between two in flight the home of the smaller key decides (dedup.wire.shards); an accepted page
    counts at its own home. In a store that is the home of every key these are all of them.
    """
    return [
        (other, distance)
        for other, distance in found
        if other.accepted or (home if key < other.key else other.home)
    ]
