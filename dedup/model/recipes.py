"""Recipes: everything that decides a fingerprint, under an id.

How a page becomes a fingerprint is in the native core and in docs/reference/fingerprint-spec.md; the distances and
similarities that make two pages near-duplicates are declared here. A change to either is a new id.
A secret keys the hashes and becomes part of the id, so that fingerprints made with different
secrets never meet.
"""

from hashlib import blake2b

import msgspec

from dedup.model.errors import RecipeMismatch, UsageError

NEWEST = "words-0-9"
_RETIRED = tuple(f"words-0-{number}" for number in range(1, int(NEWEST.rpartition("-")[2])))


NEVER = 2.0  # a similarity that no two texts have


class Limits(msgspec.Struct, frozen=True):
    """The numbers that make two pages near-duplicates: those of a recipe, and those in force (Policy).

    Similarities are estimated Jaccard similarities of the texts' 3-token shingles, 0 to 1.

    distance        k: greatest distance of value, in bits
    similarity      least similarity of two texts of one site (registrable domain)
    similarity_titled  and of one site and one title, where there is more than little text
    similarity_across  and of two sites, whose pages share no template
    min_features    a page with fewer features is exempt ("short")
    full_features   a page with fewer is compared inside its site only
    """

    distance: int = 8
    similarity: float = 0.875
    similarity_titled: float = 0.85
    similarity_across: float = 0.75
    min_features: int = 8
    full_features: int = 20


SIMILARITIES = [name for name in Limits.__struct_fields__ if name.startswith("similarity")]


class Recipe(Limits, frozen=True, kw_only=True):
    """How pages are fingerprinted, and when two are near-duplicates.

    id   for example "words-0-9"; with a secret "words-0-9.3f2a9c1e", where the digits identify the
         secret without giving it away
    key  the two 64-bit numbers that key the hashes; (0, 0) without a secret, None when the id names a
         secret that was not given
    """

    id: str
    key: tuple[int, int] | None = (0, 0)


def recipe_of(recipe_id: str | None = None, secret: str | None = None) -> Recipe:
    """Return the recipe with an id (default: the newest), keyed by a secret if one is given.

    An id that names its secret can be looked up without it, for its rule.

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
            f"recipe {wanted!r} is retired, and its fingerprints cannot be converted to {NEWEST!r}: use a "
            "new path or namespace, which the next crawl fills; an old store is not changed, and `dedup "
            "store export` still reads it"
        )
    if base != NEWEST:
        raise RecipeMismatch(f"unknown recipe {wanted!r}; this release knows {NEWEST!r}")
    if secret is None:
        return Recipe(id=wanted, key=None if mark else (0, 0))
    if not secret:
        raise UsageError("the secret is empty; leave it out to use the public recipe")
    digest = blake2b(secret.encode(), digest_size=24, person=b"dedup-recipe").digest()
    keyed = f"{base}.{digest[16:20].hex()}"
    if mark and keyed != wanted:
        raise RecipeMismatch(f"recipe {wanted!r} belongs to another secret than the one given")
    return Recipe(
        id=keyed,
        key=(int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")),
    )


def same_recipe(a: str, b: str) -> None:
    """Raise RecipeMismatch unless both ids are the same."""
    if a != b:
        raise RecipeMismatch(
            f"fingerprints of recipe {a!r} and of recipe {b!r} cannot be compared; "
            "make both with the same recipe and secret"
        )
