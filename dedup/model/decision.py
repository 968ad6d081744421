"""When two pages are near-duplicates: the one place that says it (docs/reference/fingerprint-spec.md, "Decision").

    two fingerprints, their distance and similarity, one site or two -> decide() -> Decision

The detector, near_duplicate(), `dedup compare`, scan, worker and Spark all ask it.
"""

from hashlib import blake2b
from typing import Literal, NamedTuple

from dedup.model.page import (
    PART,
    PICTURE_FEATURES,
    TEXT_HASH,
    Identity,
    PageFingerprint,
    are_copies,
    are_equal,
    are_two_things,
    identity_of,
    show_two_pictures,
)
from dedup.model.recipes import NEVER, SIMILARITIES, Limits

Rule = Literal["thing", "copy", "short", "unread", "distance", "similarity", "links"]

LINKS_BYTES = 8
# what `links` of a page say that leads nowhere, or of which that is not known
NOWHERE = (0, int.from_bytes(blake2b(digest_size=8).digest(), "big"))


class Decision(NamedTuple):
    """Whether two pages are near-duplicates.

    rule      what decided: two things (thing); equality of pages of too little text (copy), or that they are not equal
              (short, unread); distance or similarity; or where they lead (links)
    least     the similarity required of them
    """

    near: bool
    rule: Rule
    least: float


def decide(
    a: PageFingerprint,
    b: PageFingerprint,
    distance: int,
    similarity: float,
    limits: Limits,
    *,
    same_site: bool | None,
) -> Decision:
    """Return whether two pages are near-duplicates; which of them came first does not matter.

    distance    of their values, in bits
    similarity  the estimated one of their texts
    same_site   whether both are of one registrable domain; None: that is not known

    Two pages of one site that are of two things (by sku, gtin and the like, or beside little text by their identity and
    pictures) are none, whatever their texts. Pages of fewer features than the least of the limits are, if they are copies; those
    of which the reader itself says that too little was read have no features, and are, too, if are_unread_twins() says so. A
    page that is unread for another reason has to be the same word for word, and show the same pictures; or, if its `least`
    says that it adds nothing new to its template, to have title and pictures in common, and so much of its text. Two pages of
    little text that lead to the same places are near-duplicates however far apart their values are: a list under two names.
    """
    fewer, led = min(a.features, b.features), limits.similarity_across
    same_title = same_site is True and a.identity >> 32 == b.identity >> 32 != 0
    least = _least(limits, fewer, same_site, same_title)
    if same_site:
        least = max(least, a.least, b.least)
    if same_site and are_two_things(a, b):
        return Decision(False, "thing", least)
    unread = a.unread or b.unread
    if fewer < limits.min_features:
        copies = are_copies(a, b) or (
            unread and same_site is True and are_unread_twins(a, b, similarity, led)
        )
        rule: Rule = "copy" if copies else "unread" if unread else "short"
        return Decision(copies, rule, least)
    if unread and show_two_pictures(a, b):
        return Decision(False, "unread", least)
    if unread and not are_equal(a, b, similarity):
        own = max(a.least, b.least)
        if not own or not same_title:
            return Decision(False, "unread", least)
        least = own
    if least > 1:
        return Decision(False, "unread" if unread else "short", least)
    if distance <= limits.distance and similarity >= least:
        return Decision(True, "similarity", least)
    if same_site and not unread and lead_the_same(a, b) and similarity >= led:
        return Decision(True, "links", led)
    return Decision(False, "distance" if distance > limits.distance else "similarity", least)


def _least(limits: Limits, fewer: int, same_site: bool | None, same_title: bool) -> float:
    """Return the similarity from which two pages are near-duplicates, by the features of the one with fewer."""
    if fewer < limits.full_features and not (same_site and fewer >= limits.min_features):
        return NEVER
    if same_title and fewer >= PICTURE_FEATURES:
        return limits.similarity_titled
    return limits.similarity_across if same_site is False else limits.similarity


def loosest(limits: Limits) -> float:
    """Return the similarity from which some page may be a near-duplicate of one."""
    least: float = min(getattr(limits, name) for name in SIMILARITIES)
    return least


def common_keys(page: PageFingerprint) -> tuple[bytes, ...]:
    """Return what two pages of little text may have in common: where they lead, if that is known; and what was read under a title.

    The latter only of a page of which the reader itself says that too little was read. Empty for a page of more text.
    """
    if page.features >= PICTURE_FEATURES:
        return ()
    read = page.title.to_bytes(4, "big") + page.sketch[:TEXT_HASH]
    has_read = page.title and page.sketch[0] and not page.features
    links = page.links.to_bytes(LINKS_BYTES, "big")
    return ((read,) if has_read else ()) + ((links,) if page.links not in NOWHERE else ())


def are_unread_twins(
    a: PageFingerprint, b: PageFingerprint, similarity: float, least: float
) -> bool:
    """Whether two pages of one site, of which the reader itself says that too little was read, are one page.

    What was read is equal, and their titles; or they lead to the same places, the same words stand beside what was read,
    and that is similar.
    """
    if a.features or b.features:
        return False
    read = any(len(key) > LINKS_BYTES for key in {*common_keys(a)} & {*common_keys(b)})
    return read or (lead_the_same(a, b) and similarity >= least)


def lead_the_same(a: PageFingerprint, b: PageFingerprint) -> bool:
    """Whether two pages of little text lead to the same places, as far as that is known, and have the same words beside it."""
    beside, most = PART["b"], max(a.features, b.features)
    same_links = a.links == b.links and a.links not in NOWHERE
    return same_links and most < PICTURE_FEATURES and a.parts[beside] == b.parts[beside]


def identity_of_pages(a: PageFingerprint, b: PageFingerprint, similarity: float) -> Identity:
    """Return whether two pages of one site say that they are one page, by title and canonical URL.

    Where both are the same word for word, it does not count that they say otherwise. Where what was read of them is, and
    they declare one canonical URL, they are one page whatever their titles. Unless much that is new was not read (`partly`).
    """
    said = identity_of(a.identity, b.identity)
    if said != "other" or similarity != 1 or a.value != b.value or a.partly or b.partly:
        return said
    if a.canonical and a.canonical == b.canonical:
        return "same"
    return "unknown" if are_equal(a, b, similarity) else said
