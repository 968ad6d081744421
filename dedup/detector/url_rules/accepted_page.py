"""An accepted page, and whether two of them are the same page to their readers."""

import msgspec

from dedup.core.fingerprint import similarities
from dedup.model.page import PageFingerprint, are_two_things, identity_of
from dedup.model.recipes import Recipe

__all__ = ["Page", "is_same"]


class Page(msgspec.Struct, frozen=True, gc=False):
    """An accepted page; fingerprint None: what it says is not known, so it is like no other."""

    key: str
    fingerprint: PageFingerprint | None
    kind: str = ""
    paid: bool = True


def is_same(a: PageFingerprint | None, b: PageFingerprint | None, recipe: Recipe) -> bool:
    """Whether two accepted pages of one site are the same page to their readers.

    They are if they are near-duplicates, by the recipe, and do not say that they are two. Short pages are
    only if nothing tells them apart, and what was not read is like nothing.
    """
    if a is None or b is None or a.unread or b.unread:
        return False
    if are_two_things(a, b):
        return False
    if a.value == b.value and a.sketch == b.sketch and a.features == b.features:
        return a.identity == b.identity or a.features >= recipe.full_features
    if min(a.features, b.features) < recipe.full_features:
        return False
    if identity_of(a.identity, b.identity) == "other":
        return False
    if (a.value ^ b.value).bit_count() > recipe.distance:
        return False
    return similarities(a.sketch, [b.sketch])[0] >= recipe.similarity
