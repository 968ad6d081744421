"""Recipes: ids, secrets and what they allow."""

import json
import re
from pathlib import Path

import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.core.fingerprint import fingerprint, fingerprint_text, main_words
from dedup.core.native import ffi, lib
from dedup.core.simhash import token_hashes
from dedup.model.errors import RecipeMismatch, UsageError
from dedup.model.recipes import NEWEST, recipe_of

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "golden.json").read_text("utf-8"))
SECRETS = st.text(st.characters(codec="utf-8"), min_size=1)


def test_a_recipe_has_the_distances_of_the_specification() -> None:
    """They stand in the table of its section Decision."""
    recipe = recipe_of()
    text = oracle.section("Decision")
    names = ("distance", "similarity", "similarity_titled", "similarity_across")
    for name in (*names, "min_features", "full_features"):
        assert re.search(rf"^\| `{name}`[^|]*\| {getattr(recipe, name)} \|", text, re.MULTILINE), (
            name
        )


def test_the_native_core_follows_the_newest_recipe() -> None:
    """The id in the core and the one in Python are the same."""
    assert ffi.string(lib.ndd_recipe()).decode() == NEWEST


@pytest.mark.parametrize("vector", GOLDEN["secrets"], ids=lambda vector: vector["id"])
def test_a_secret_gives_its_golden_id_and_key(vector: dict[str, str]) -> None:
    """Id and key come from the secret as the specification says."""
    recipe = recipe_of(secret=vector["secret"])
    assert recipe.id == vector["id"]
    assert recipe.key == (int(vector["k0"], 16), int(vector["k1"], 16))


@given(SECRETS, SECRETS)
def test_another_secret_is_refused(secret: str, other: str) -> None:
    """The id that a secret gives is accepted with that secret, gives the same recipe, and takes no other secret."""
    recipe = recipe_of(secret=secret)
    assert recipe_of(recipe.id, secret) == recipe
    if secret != other:
        with pytest.raises(RecipeMismatch, match="another secret"):
            recipe_of(recipe.id, other)


def test_a_keyed_id_can_be_looked_up_without_its_secret() -> None:
    """Its distances are known, its key is not."""
    keyed = recipe_of(secret="s")
    found = recipe_of(keyed.id)
    assert (found.id, found.key, found.distance) == (keyed.id, None, keyed.distance)


@pytest.mark.parametrize("make", [fingerprint, fingerprint_text, main_words, token_hashes])
def test_a_keyed_id_without_its_secret_makes_no_fingerprints(make: object) -> None:
    """The key is needed to hash, and the error says what to do."""
    assert callable(make)
    with pytest.raises(RecipeMismatch, match="needs its secret"):
        make("text", recipe=recipe_of(secret="s").id)


@pytest.mark.parametrize(
    "unknown", ["words-0-99", "words-1", "WORDS-0-5", "nonsense", ".", "words"]
)
def test_an_unknown_id_is_refused(unknown: str) -> None:
    """The error names the id and the one that is known, with and without a secret."""
    for secret in (None, "s"):
        with pytest.raises(RecipeMismatch, match=f"unknown recipe '{unknown}'.*{NEWEST}"):
            recipe_of(unknown, secret)


@pytest.mark.parametrize("retired", [f"words-0-{number}" for number in range(1, 9)])
def test_a_retired_id_says_what_to_do(retired: str) -> None:
    """A store of an earlier recipe is not touched, and the error says how to go on."""
    with pytest.raises(RecipeMismatch, match=f"'{retired}' is retired.*new path or namespace"):
        recipe_of(retired)


def test_an_empty_secret_is_refused() -> None:
    """Someone who sets an empty secret meant something else."""
    with pytest.raises(UsageError, match="empty"):
        recipe_of(secret="")


def test_a_secret_changes_every_fingerprint_and_no_count() -> None:
    """value, sketch and both halves of identity are keyed; features are not."""
    html = "<title>a</title><link rel=canonical href=/b><p>some words of text and more of them"
    public, keyed = fingerprint(html), fingerprint(html, recipe=recipe_of(secret="s"))
    assert public.value != keyed.value and public.sketch != keyed.sketch
    assert public.identity >> 32 != keyed.identity >> 32
    assert public.identity % 2**32 != keyed.identity % 2**32
    assert 0 not in (public.identity >> 32, public.identity % 2**32)
    assert public.features == keyed.features
