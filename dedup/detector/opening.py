"""Where the memory is: dedup.open() takes a folder or the URL of a table service.

The rule kept here: both kinds of detector are the same to their caller. The client, and the library
it needs, are imported when a URL is opened.
"""

import os
from typing import TYPE_CHECKING, Any

import dedup.detector.detector
from dedup.detector.detector import Detector
from dedup.model.errors import UsageError

if TYPE_CHECKING:
    from dedup.wire.client import AsyncServiceDetector, ServiceDetector

__all__ = ["open", "open_async"]

_EXTRA = "a table service's client needs more: pip install 'crawl-dedup[client]'"


def open(target: str | os.PathLike[str], **options: Any) -> "Detector | ServiceDetector":
    """Open a detector on an embedded store, which is made where it is missing, or on a service.

    target               the folder; the store lies at <target>/<namespace>. Or the URL of a service,
                         redis://[:token@]host[:port] or rediss://..., or several between commas, of
                         which the first one that answers is asked
    namespace            pages of one namespace are compared with each other; "default" by default
    distance             greatest Hamming distance of value, 0 to 15 bits; the recipe's by default
    total_distance       greatest sum of the distances of value and check, 0 to 128 bits
    min_features         pages with fewer features are exempt; the recipe's by default
    scope                "global", or "site": only pages of the same registrable domain match
    secret               keys the recipe; a store made with a secret is opened without it for
                         judging, and with it for making fingerprints; a service needs it for both
    recipe               an existing store keeps its own, a new one takes the newest
    reservation_seconds  how long a page may be in flight; 600 by default
    clock                seconds that never go back
    timeout_seconds      services only: how long to wait for one's answer; 0.5 by default

    A store stays with the process that opened it: one forked later is refused, and opens its own.

    Raises UsageError naming the argument, RecipeMismatch, StoreLocked, StoreDamaged, OSError with
    the path if the folder cannot be used, and ServiceUnavailable.
    """
    if not _is_service(target):
        return dedup.detector.detector.open(target, **options)
    try:
        from dedup.wire.client import open_service
    except ModuleNotFoundError as error:
        raise UsageError(f"{_EXTRA} ({error})") from error
    return open_service(os.fspath(target), **options)


async def open_async(target: str, **options: Any) -> "AsyncServiceDetector":
    """Open a detector of a table service in an asyncio loop: the same, with `await`.

    Its options are those of open(), but for clock; in place of len() there is count(). Raises
    UsageError for a folder: an embedded store answers in microseconds, and needs no await.
    """
    if not _is_service(target):
        raise UsageError(f"target {target!r} is no service URL (redis://); open() takes folders")
    try:
        from dedup.wire.client import open_async_service
    except ModuleNotFoundError as error:
        raise UsageError(f"{_EXTRA} ({error})") from error
    return await open_async_service(target, **options)


def _is_service(target: str | os.PathLike[str]) -> bool:
    return os.fsdecode(target).startswith(("redis://", "rediss://"))
