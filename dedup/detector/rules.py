"""The rules of the verdict: which of the nearby pages count. Pure functions.

    within k -> kind, scope -> near-duplicates (dedup.model.decision) -> identity -> matches
    in flight -> those that this store decides about

Only pages of one kind are compared, if both have a kind; in the scope "site" only those of one registrable domain. A page
that is its site's template and nearly nothing else is `unread` (dedup.store.templates).

Invariant: leaving out a page means one match less, and so can only keep pages.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from dedup.core.fingerprint import similarities
from dedup.model.decision import decide, identity_of_pages, loosest
from dedup.model.page import Document, Neighbour, PageFingerprint, Status, Verdict
from dedup.model.policy import Policy

NO_KEY = "\ud800"  # of a page that is only probed: not valid Unicode, so not a document's key


def near_duplicates(
    asked: Document, found: Iterable[tuple[Document, int]], policy: Policy
) -> list[Neighbour]:
    """Return the near-duplicates of a page among those found within k, with distances in bits.

    The most similar first, then the nearest, then the smallest key. A page without a kind ("") is
    compared with those of every kind. A page with the same key is the page itself, and left out; in the
    scope "site" so are pages of other domains, and all pages if the domain is "".
    """
    page, domain, kind, key = asked.page, asked.domain, asked.kind, asked.key
    others = [
        (other, distance)
        for other, distance in found
        if other.key != key
        and (not kind or not other.kind or other.kind == kind)
        and (policy.scope == "global" or (domain and other.domain == domain))
    ]
    alike = similarities(page.sketch, [other.page.sketch for other, _ in others])
    least = loosest(policy)
    neighbours: list[Neighbour] = []
    for (other, distance), similarity in zip(others, alike, strict=True):
        if similarity < least:
            continue  # as nearly all of a crowd that is near only by value
        same_site = other.domain == domain if domain and other.domain else None
        decided = decide(page, other.page, distance, similarity, policy, same_site=same_site)
        if not decided.near:
            continue
        said = identity_of_pages(page, other.page, similarity) if same_site else "unknown"
        if decided.rule == "links":
            said = "other"  # their names stand in their texts: a crawl shows whether these count
        neighbours.append(Neighbour(other, distance, similarity, said))
    return sorted(neighbours, key=rank)


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
        and replace(stored.page, parts=b"")
        == replace(asked.page, parts=b"", unread=False, partly=False, least=0.0)
    )
