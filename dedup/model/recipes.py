"""Recipes: everything that decides a fingerprint, under an id.

How a page becomes a fingerprint stands in the native core and in docs/fingerprint-spec.md; the
distances that make two fingerprints near-duplicates stand here. A change to either is a new id.
A secret keys the hashes and becomes part of the id, so that fingerprints made with different
secrets never meet.
"""

from hashlib import blake2b
from typing import Any

import msgspec

from dedup.model.errors import RecipeMismatch, UsageError

__all__ = ["NEWEST", "Recipe", "recipe_of", "same_recipe"]

NEWEST = "words-0-3"
_RETIRED = ("words-0-1", "words-0-2")


class Recipe(msgspec.Struct, frozen=True):
    """How pages are fingerprinted and when two are near-duplicates. Distances are in bits.

    id              for example "words-0-3"; with a secret "words-0-3.3f2a9c1e", where the digits
                    identify the secret without giving it away
    key             the two 64-bit numbers that key the hashes; (0, 0) without a secret, None when
                    the id names a secret that was not given
    distance        k: greatest distance of value
    total_distance  greatest sum of the distances of value and check
    min_features    a page with fewer features is exempt ("short")
    guard_links     the listing guard looks at pages with this many links or more
    guard_features  and at most this many features a link: with more, it is read for its text
    guard_distance  links further apart than this are new links
    """

    id: str
    key: tuple[int, int] | None = (0, 0)
    distance: int = 7
    total_distance: int = 18
    min_features: int = 20
    guard_links: int = 8
    guard_features: int = 24
    guard_distance: int = 16

    def guarded(self, features: Any, link_count: Any) -> Any:
        """Whether the listing guard looks at a page with these numbers of features and links.

        Numbers, or arrays of them of the same shape.
        """
        enough = link_count >= self.guard_links
        return enough & (features <= self.guard_features * link_count)


def recipe_of(recipe_id: str | None = None, secret: str | None = None) -> Recipe:
    """Return the recipe with an id (default: the newest), keyed by a secret if one is given.

    An id that names its secret can be looked up without it, for its distances.

    Raises RecipeMismatch when the id is unknown or the secret is not the one the id names, and
    UsageError for an empty secret, or one that is no text.
    """
    for name, given in (("recipe", recipe_id), ("secret", secret)):
        if given is not None and not isinstance(given, str):
            raise UsageError(f"{name} {given!r} is not allowed: a text")
    wanted = recipe_id or NEWEST
    base, _, mark = wanted.partition(".")
    if base in _RETIRED:
        raise RecipeMismatch(
            f"recipe {wanted!r} is retired, this release makes {NEWEST!r}: use a new path or "
            "namespace; the old store stays as it is, for the release that made it"
        )
    if base != NEWEST:
        raise RecipeMismatch(f"unknown recipe {wanted!r}; this release knows {NEWEST!r}")
    if secret is None:
        return Recipe(wanted, key=None if mark else (0, 0))
    if not secret:
        raise UsageError("the secret is empty; leave it out to use the public recipe")
    digest = blake2b(secret.encode(), digest_size=24, person=b"dedup-recipe").digest()
    keyed = f"{base}.{digest[16:20].hex()}"
    if mark and keyed != wanted:
        raise RecipeMismatch(f"recipe {wanted!r} belongs to another secret than the one given")
    return Recipe(
        keyed,
        key=(int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")),
    )


def same_recipe(a: str, b: str) -> None:
    """Raise RecipeMismatch unless both ids are the same."""
    if a != b:
        raise RecipeMismatch(
            f"fingerprints of recipe {a!r} and of recipe {b!r} cannot be compared; "
            "make both with the same recipe and secret"
        )
