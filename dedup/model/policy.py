"""When two pages are near-duplicates, and how long a page may be in flight: what open() is told.

The rule kept here: an option that is outside what is allowed names itself, its value, and what is
allowed, before anything is opened.
"""

from numbers import Integral
from typing import Literal, get_args

import msgspec

from dedup.model.errors import UsageError
from dedup.model.recipes import Recipe

__all__ = ["Policy", "Scope", "check_options", "check_seconds", "policy_of"]

Scope = Literal["global", "site"]


class Policy(msgspec.Struct, frozen=True):
    """When two pages are near-duplicates, and how long a page may be in flight."""

    distance: int
    total_distance: int
    min_features: int
    scope: Scope
    reservation_seconds: float


def check_options(
    distance: object,
    total_distance: object,
    min_features: object,
    scope: object,
    reservation_seconds: object,
) -> None:
    """Raise UsageError naming the option of open() that is outside what is allowed."""
    _check_number("distance", distance, 0, 15, "bits")
    _check_number("total_distance", total_distance, 0, 128, "bits")
    _check_number("min_features", min_features, 0, 2**32 - 1, "features")
    if scope not in get_args(Scope):
        raise UsageError(f"scope {scope!r} is not allowed: 'global' or 'site'")
    check_seconds("reservation_seconds", reservation_seconds)


def check_seconds(name: str, seconds: object) -> None:
    """Raise UsageError unless an option is a number of seconds."""
    if isinstance(seconds, bool) or not (
        isinstance(seconds, int | float) and 0 < seconds < float("inf")
    ):
        raise UsageError(f"{name} {seconds!r} is not allowed: a number of seconds > 0")


def policy_of(
    recipe: Recipe,
    distance: int | None,
    total_distance: int | None,
    min_features: int | None,
    scope: Scope,
    reservation_seconds: float,
) -> Policy:
    """Return the policy of checked options; None stands for the recipe's own value."""
    return Policy(
        int(recipe.distance if distance is None else distance),
        int(recipe.total_distance if total_distance is None else total_distance),
        int(recipe.min_features if min_features is None else min_features),
        scope,
        float(reservation_seconds),
    )


def _check_number(name: str, value: object, low: int, high: int, unit: str) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        raise UsageError(
            f"{name} {value!r} is not allowed: a whole number of {unit}, {low} to {high}"
        )
