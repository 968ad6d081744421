"""Where the memory is: dedup.open() takes a folder or the URL of a table service.

    keywords -> Options -> an embedded detector, or one of a service, blocking or asynchronous

The rule kept here: both kinds of detector are the same to their caller. The client, and the library
it needs, are imported when a URL is opened.
"""

import os
from pathlib import Path
from typing import Unpack

from dedup.detector.asynchronous import AsyncEmbeddedDetector
from dedup.detector.detector import EmbeddedDetector
from dedup.detector.interface import AsyncDetector, Detector
from dedup.detector.open_stores import give_back, take
from dedup.model.errors import UsageError
from dedup.model.policy import OpenOptions, Options
from dedup.model.recipes import Recipe
from dedup.store import agreed_recipe

__all__ = ["open", "open_async", "open_embedded"]

_SCHEMES = ("redis://", "rediss://", "unix://", "redis+unix://")
_EXTRA = "a table service's client needs more: pip install 'crawl-dedup[client]'"


def open(target: str | os.PathLike[str], **options: Unpack[OpenOptions]) -> Detector:
    """Open a detector on an embedded store, which is made where it is missing, or on a service.

    target               the folder; the store lies at <target>/<namespace>. Or the URL of a service,
                         redis://[:token@]host[:port], rediss://... or unix:///path, or several between commas, of
                         which the first one that answers is asked
    namespace            pages of one namespace are compared with each other; "default" by default
    distance             greatest Hamming distance of value, 0 to 15 bits; the recipe's by default
    similarity           least similarity of two texts, 0 to 1; "careful", which is the recipe's and the
                         default, or "paper": k = 3, and the simhash alone decides
    min_features         pages with fewer features are exempt; the recipe's by default
    scope                "global", or "site": only pages of the same registrable domain match
    secret               keys the recipe; a store made with a secret is opened without it for
                         judging, and with it for making fingerprints; a service needs it for both
    recipe               an existing store keeps its own, a new one takes the newest
    reservation_seconds  how long a page may be in flight; 600 by default
    clock                folders only: seconds that never go back
    timeout_seconds      services only: how long to wait for one's answer; 0.5 by default

    A store stays with the process that opened it: one forked later is refused, and opens its own. A
    service's detector makes connections of its own in a forked process.

    Raises UsageError naming the argument, RecipeMismatch, StoreLocked, StoreDamaged, OSError with
    the path if the folder cannot be used, and ServiceUnavailable.
    """
    checked = Options(**options)
    if not _is_service(target):
        return open_embedded(target, checked)
    try:
        from dedup.detector.remote import open_remote
    except ModuleNotFoundError as error:
        raise UsageError(f"{_EXTRA} ({error})") from error
    from dedup.detector.blocking import BlockingDetector

    return BlockingDetector(lambda: open_remote(os.fspath(target), checked))


async def open_async(
    target: str | os.PathLike[str], **options: Unpack[OpenOptions]
) -> AsyncDetector:
    """Open the same in an asyncio loop: its methods are called with `await`; count() is len().

    A page takes an embedded store microseconds, and is judged without a turn of the loop.
    """
    checked = Options(**options)
    if not _is_service(target):
        return AsyncEmbeddedDetector(open_embedded(target, checked))
    try:
        from dedup.detector.remote import open_remote
    except ModuleNotFoundError as error:
        raise UsageError(f"{_EXTRA} ({error})") from error
    return await open_remote(os.fspath(target), checked)


def open_embedded(target: str | os.PathLike[str], options: Options) -> EmbeddedDetector:
    """Open a detector on the store at <target>/<namespace>. Raises as open() does."""
    name = os.fsdecode(target)
    if not name:
        raise UsageError("target '' names no folder; the current one is '.'")
    if "://" in name:
        raise UsageError(f"target {name!r} is neither a folder nor a service URL (redis://)")
    shared = take(
        Path(name), options.namespace, options.distance, options.recipe_id, options.secret
    )
    try:
        recipe = agreed_recipe(
            shared.store.path, shared.store.recipe, options.recipe_id, options.secret
        )
        if isinstance(options.recipe, Recipe):
            recipe = options.recipe
        policy = options.policy(recipe)
        with shared.lock:
            shared.store.widen(policy.distance)
            shared.reservations.widen(policy.distance)
        return EmbeddedDetector(shared, recipe, policy, options.clock)
    except BaseException:
        give_back(shared)
        raise


def _is_service(target: str | os.PathLike[str]) -> bool:
    return os.fsdecode(target).startswith(_SCHEMES)
