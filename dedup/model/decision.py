"""When two pages are near-duplicates: the one place that says it (docs/reference/fingerprint-spec.md, "Decision").

    two fingerprints, their distance and similarity, one site or two -> decide() -> Decision

The detector, near_duplicate(), `dedup compare`, scan, worker and Spark all ask it.
"""

from typing import Literal, NamedTuple

from dedup.model.page import (
    Identity,
    PageFingerprint,
    are_copies,
    are_equal,
    are_two_things,
    identity_of,
    show_two_pictures,
)
from dedup.model.policy import Policy

Rule = Literal["thing", "copy", "short", "unread", "distance", "similarity"]


class Decision(NamedTuple):
    """Whether two pages are near-duplicates.

    rule      what decided: two things (thing); equality of pages of too little text (copy), or that they are not equal
              (short, unread); distance or similarity
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
    policy: Policy,
    *,
    same_site: bool | None,
) -> Decision:
    """Return whether two pages are near-duplicates; which of them came first does not matter.

    distance    of their values, in bits
    similarity  the estimated one of their texts
    same_site   whether both are of one registrable domain; None: that is not known

    Two pages of one site that are of two things (by sku, gtin and the like, or beside little text by their identity and
    pictures) are none, whatever their texts. Pages of fewer features than the policy's least are, if they are copies: so are
    those of which the reader itself says that too little was read, which have no features. A page that is unread for
    another reason has to be the same word for word, and show the same pictures.
    """
    fewer = min(a.features, b.features)
    least = policy.least_similarity(fewer, same_site=same_site)
    if same_site and are_two_things(a, b):
        return Decision(False, "thing", least)
    unread = a.unread or b.unread
    if fewer < policy.min_features:
        copies = are_copies(a, b)
        rule: Rule = "copy" if copies else "unread" if unread else "short"
        return Decision(copies, rule, least)
    if unread and (not are_equal(a, b, similarity) or show_two_pictures(a, b)):
        return Decision(False, "unread", least)
    if least > 1:
        return Decision(False, "short", least)
    if distance > policy.distance:
        return Decision(False, "distance", least)
    return Decision(similarity >= least, "similarity", least)


def identity_of_pages(a: PageFingerprint, b: PageFingerprint, similarity: float) -> Identity:
    """Return whether two pages of one site say that they are one page, by title and canonical URL.

    Where both are the same word for word, it does not count that they say otherwise. Where what was read of them is, and
    they declare one canonical URL, they are one page whatever their titles, unless much of one was not read (`partly`).
    """
    said = identity_of(a.identity, b.identity)
    if said != "other" or similarity != 1 or a.value != b.value:
        return said
    if a.canonical and a.canonical == b.canonical and not (a.partly or b.partly):
        return "same"
    return "unknown" if are_equal(a, b, similarity) else said
