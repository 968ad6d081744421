"""The rules of the verdict: which of the pages nearby count. Values in, values out.

    within k -> both distances, lengths, scope -> near-duplicates -> the listing guard -> matches
    in flight -> those that are decided here

Two pages are near-duplicates when the distance of their values is at most `distance`, that and the
distance of their checks together at most `total_distance`, and neither has fewer than
`min_features` features; in the scope "site" they also share a registrable domain.

The rule kept here: whatever is left out leaves a page without a match, and so keeps it.
"""

from collections.abc import Iterable

from dedup.detector.reservations import Reservation
from dedup.model.policy import Policy
from dedup.model.recipes import Recipe
from dedup.model.values import Document, Neighbour, PageFingerprint

__all__ = ["deciding_here", "guarded", "near_duplicates"]


def near_duplicates(
    page: PageFingerprint,
    domain: str,
    key: str | None,
    found: Iterable[tuple[Document | Reservation, int]],
    policy: Policy,
) -> list[Neighbour]:
    """Of what was found within k, with distances in bits, return the near-duplicates under a policy.

    Nearest first: by distance, then check_distance, then key. What bears the page's own key is
    itself, and left out; in the scope "site" so is what is not of the given domain, and everything
    where that is "".
    """
    if page.features < policy.min_features:
        return []
    neighbours = []
    for other, distance in found:
        check_distance = (page.check ^ other.page.check).bit_count()
        if (
            other.key != key
            and distance + check_distance <= policy.total_distance
            and other.page.features >= policy.min_features
            and (policy.scope == "global" or (domain and other.domain == domain))
        ):
            links_distance = (page.links ^ other.page.links).bit_count()
            neighbours.append(
                Neighbour(other.key, distance, check_distance, links_distance, other.domain)
            )
    return sorted(neighbours, key=lambda n: (n.distance, n.check_distance, n.key))


def guarded(page: PageFingerprint, neighbours: list[Neighbour], recipe: Recipe) -> list[Neighbour]:
    """The listing guard: of a page with enough links, those with other ones do not count."""
    if not recipe.guarded(page.features, page.link_count):
        return neighbours
    return [n for n in neighbours if n.links_distance <= recipe.guard_distance]


def deciding_here(
    key: str, home: bool, found: Iterable[tuple[Reservation, int]]
) -> list[tuple[Reservation, int]]:
    """Of the pages in flight near a page with this key, return those that it has to wait for.

    Between two in flight the home of the smaller key decides (dedup.wire.shards); a page that was
    accepted counts at its own. In a store that is the home of every key that is all of them.
    """
    return [
        (other, distance)
        for other, distance in found
        if other.accepted or (home if key < other.key else other.home)
    ]
