"""What open() is told: when two pages are near-duplicates, and how the memory is reached.

    OpenOptions (keywords, typed) -> Options (checked, frozen) -> Policy (with the recipe's defaults)

Options are made once, at the edge where a person gives them (open(), settings, flags, a request), and
passed on as one value.

Invariant: the error for an option that is out of range names the option, its value and the range, before
anything is opened.
"""

import re
import time
from collections.abc import Callable
from numbers import Integral
from typing import TypedDict, get_args

import msgspec

from dedup.model.errors import UsageError
from dedup.model.names import check_namespace
from dedup.model.recipes import Recipe, recipe_of
from dedup.model.settings import (
    RESERVATION_SECONDS,
    SETTINGS,
    TIMEOUT_SECONDS,
    Preset,
    Scope,
    Similarity,
)

__all__ = [
    "NEVER",
    "RESERVATION_SECONDS",
    "TIMEOUT_SECONDS",
    "OpenOptions",
    "Options",
    "Policy",
    "Scope",
    "Similarity",
    "age_seconds",
]

PAPER_DISTANCE = 3  # of Manku, Jain and Das Sarma (WWW 2007)
_UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

NEVER = 2.0  # a similarity that no two texts have


class Policy(msgspec.Struct, frozen=True):
    """When two pages are near-duplicates, and how long a page may be in flight.

    The numbers are those of Recipe, which describes them.
    """

    distance: int
    similarity: float
    similarity_across: float
    similarity_short: float
    min_features: int
    full_features: int
    scope: Scope
    reservation_seconds: float

    def least_similarity(self, features: int, *, same_site: bool | None) -> float:
        """Return the similarity from which two pages are near-duplicates, NEVER for none.

        features   that of the page with fewer
        same_site  whether they are of one registrable domain; None: that is not known
        """
        if features >= self.full_features:
            return self.similarity_across if same_site is False else self.similarity
        return self.similarity_short if same_site and features >= self.min_features else NEVER


class OpenOptions(TypedDict, total=False):
    """The keywords of dedup.open(), for type checkers; Options says what each one means."""

    namespace: str
    distance: int | None
    similarity: Similarity | None
    min_features: int | None
    scope: Scope
    secret: str | None
    recipe: Recipe | str | None
    reservation_seconds: float
    timeout_seconds: float
    clock: Callable[[], float]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a detector. Raises UsageError for what is not allowed.

    namespace            pages of one namespace are compared with each other
    distance             greatest Hamming distance of value, 0 to 15 bits; None: the recipe's
    similarity           least similarity of two texts, 0 to 1, of one site or of two; or "careful",
                         the recipe's, or "paper": k = 3, and the simhash alone decides
    min_features         pages with fewer features are exempt
    scope                "global", or "site": only pages of the same registrable domain match
    secret               keys the recipe
    recipe               None: an existing store keeps its own, a new one takes the newest
    reservation_seconds  how long a page may be in flight
    timeout_seconds      services only: how long to wait for one's answer
    clock                folders only: seconds that never go back
    """

    namespace: str = "default"
    distance: int | None = None
    similarity: Similarity | None = None
    min_features: int | None = None
    scope: Scope = "global"
    secret: str | None = None
    recipe: Recipe | str | None = None
    reservation_seconds: float = RESERVATION_SECONDS
    timeout_seconds: float = TIMEOUT_SECONDS
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        """Raise UsageError naming the option that is outside what is allowed."""
        check_namespace(self.namespace)
        _check_number("distance", self.distance)
        _check_similarity(self.similarity)
        _check_number("min_features", self.min_features)
        if self.scope not in get_args(Scope):
            raise UsageError(f"scope {self.scope!r} is not allowed: 'global' or 'site'")
        _check_seconds("reservation_seconds", self.reservation_seconds)
        _check_seconds("timeout_seconds", self.timeout_seconds)

    @property
    def recipe_id(self) -> str | None:
        """The id of the recipe that is asked for; None: whichever the store has."""
        return self.recipe.id if isinstance(self.recipe, Recipe) else self.recipe

    def known_recipe(self) -> Recipe:
        """Return the recipe that is asked for, by default the newest. Raises RecipeMismatch."""
        if isinstance(self.recipe, Recipe):
            return self.recipe
        return recipe_of(self.recipe, self.secret)

    def policy(self, recipe: Recipe) -> Policy:
        """Return the policy in force; what was left open is the recipe's."""
        chosen, distance = _chosen(self.similarity), recipe.distance
        if self.similarity == "paper":
            distance = PAPER_DISTANCE
        return Policy(
            _number(self.distance, distance),
            recipe.similarity if chosen is None else chosen,
            recipe.similarity_across if chosen is None else chosen,
            recipe.similarity_short if chosen is None else max(chosen, recipe.similarity_short),
            least := max(
                1, _number(self.min_features, recipe.min_features)
            ),  # an unread page has 0
            max(least, recipe.full_features),
            self.scope,
            float(self.reservation_seconds),
        )


def age_seconds(text: str) -> int | None:
    """Return the seconds of an age (30d, 12h, 90m, 20s, or seconds), None for another text."""
    match = re.fullmatch(r"([0-9]{1,10})([smhd]?)", text)
    return int(match[1]) * _UNIT_SECONDS[match[2]] if match else None


def _chosen(similarity: Similarity | None) -> float | None:
    """Return the least similarity that was chosen; None: the recipe's."""
    if similarity is None or similarity == "careful":
        return None
    return 0.0 if similarity == "paper" else float(similarity)


def _number(given: int | None, usual: int) -> int:
    return int(usual if given is None else given)


def _check_number(name: str, value: object) -> None:
    """Raise UsageError for a number that is not within the bounds of its setting."""
    if value is None:
        return
    if isinstance(value, Integral) and not isinstance(value, bool):
        try:
            msgspec.convert(int(value), SETTINGS[name].type)
        except msgspec.ValidationError:
            pass
        else:
            return
    setting = SETTINGS[name]
    raise UsageError(
        f"{name} {value!r} is not allowed: a whole number of {setting.unit}, "
        f"{setting.form.ge} to {setting.form.le}"
    )


def _check_similarity(value: object) -> None:
    if value is None or value in get_args(Preset):
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UsageError(
            f"similarity {value!r} is not allowed: a number from 0 to 1, 'careful' or 'paper'"
        )


def _check_seconds(name: str, seconds: object) -> None:
    if isinstance(seconds, bool) or not (
        isinstance(seconds, int | float) and 0 < seconds < float("inf")
    ):
        raise UsageError(f"{name} {seconds!r} is not allowed: a number of seconds > 0")
