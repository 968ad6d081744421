"""How a detector of a table service is made: its options checked, then its connections.

The rule kept here: the options are those of an embedded detector, and mean the same.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dedup.model.names import check_namespace
from dedup.model.policy import Policy, Scope, check_options, check_seconds, policy_of
from dedup.model.recipes import Recipe, recipe_of
from dedup.wire.client.address import Address, addresses_of
from dedup.wire.client.aio import AsyncServiceDetector
from dedup.wire.client.commands import Commands
from dedup.wire.client.service import Service
from dedup.wire.client.sync import ServiceDetector

__all__ = ["Asked", "asked_of", "open_async_service", "open_service"]

RESERVATION_SECONDS = 600.0  # the default: what the service takes when nothing is said
TIMEOUT_SECONDS = 0.5


class Asked(NamedTuple):
    """What a detector of a service is made of."""

    recipe: Recipe
    policy: Policy
    commands: Commands


def asked_of(
    *,
    namespace: str = "default",
    distance: int | None = None,
    total_distance: int | None = None,
    min_features: int | None = None,
    scope: Scope = "global",
    secret: str | None = None,
    recipe: Recipe | str | None = None,
    reservation_seconds: float = RESERVATION_SECONDS,
) -> Asked:
    """Return what a detector with these options asks for. Raises UsageError, RecipeMismatch."""
    check_namespace(namespace)
    check_options(distance, total_distance, min_features, scope, reservation_seconds)
    made = recipe if isinstance(recipe, Recipe) else recipe_of(recipe, secret)
    policy = policy_of(made, distance, total_distance, min_features, scope, reservation_seconds)
    chosen = {
        "distance": distance is not None,
        "total_distance": total_distance is not None,
        "min_features": min_features is not None,
        "reservation_seconds": reservation_seconds != RESERVATION_SECONDS,
    }
    commands = Commands(namespace, made.id, policy, [name for name, was in chosen.items() if was])
    return Asked(made, policy, commands)


def open_service(
    urls: str | Sequence[str],
    *,
    namespace: str = "default",
    distance: int | None = None,
    total_distance: int | None = None,
    min_features: int | None = None,
    scope: Scope = "global",
    secret: str | None = None,
    recipe: Recipe | str | None = None,
    reservation_seconds: float = RESERVATION_SECONDS,
    timeout_seconds: float = TIMEOUT_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> ServiceDetector:
    """Open a detector of the table service at one of some URLs, the first one that answers.

    Raises UsageError naming the option, RecipeMismatch, and ServiceUnavailable.
    """
    addresses, asked = (
        _checked(urls, timeout_seconds),
        asked_of(
            namespace=namespace,
            distance=distance,
            total_distance=total_distance,
            min_features=min_features,
            scope=scope,
            secret=secret,
            recipe=recipe,
            reservation_seconds=reservation_seconds,
        ),
    )
    detector = ServiceDetector(
        addresses, asked.commands, asked.recipe, asked.policy, timeout_seconds, clock
    )
    try:
        detector.check()
    except BaseException:
        detector.close()
        raise
    return detector


async def open_async_service(
    urls: str | Sequence[str],
    *,
    namespace: str = "default",
    distance: int | None = None,
    total_distance: int | None = None,
    min_features: int | None = None,
    scope: Scope = "global",
    secret: str | None = None,
    recipe: Recipe | str | None = None,
    reservation_seconds: float = RESERVATION_SECONDS,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> AsyncServiceDetector:
    """Do the same in an asyncio loop."""
    addresses, asked = (
        _checked(urls, timeout_seconds),
        asked_of(
            namespace=namespace,
            distance=distance,
            total_distance=total_distance,
            min_features=min_features,
            scope=scope,
            secret=secret,
            recipe=recipe,
            reservation_seconds=reservation_seconds,
        ),
    )
    service = Service(addresses, timeout_seconds)
    detector = AsyncServiceDetector(service, asked.commands, asked.recipe, asked.policy)
    try:
        await detector.check()
    except BaseException:
        await detector.close()
        raise
    return detector


def _checked(urls: str | Sequence[str], timeout_seconds: float) -> tuple[Address, ...]:
    check_seconds("timeout_seconds", timeout_seconds)
    return addresses_of(urls)
