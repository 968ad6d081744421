"""The detector: whether a page is a near-duplicate of an earlier one. open() takes a folder or a URL.

interface.py     Detector and AsyncDetector: what every detector does
detector.py      EmbeddedDetector: probe, reserve, insert, release; all steps of a page; and for asyncio
rules.py         which of the nearby pages count, which pages are not judged by their text
twins.py         pages of little text, by what two of them may have in common
reservations.py  the pages in flight
remote.py        a detector whose store is a table service's: for asyncio, and for threads

Both kinds of detector have the same interface. The client, and the library it needs, are imported only when
a URL is opened.
"""

import os
from collections.abc import Coroutine, Generator, Sequence
from types import ModuleType
from typing import Any, Unpack

from dedup.detector.detector import AsyncEmbeddedDetector, EmbeddedDetector, open_embedded
from dedup.detector.interface import AsyncDetector, Detector, Question
from dedup.detector.reservations import MemoryBudget, TooManyReserved
from dedup.model.errors import UsageError
from dedup.model.names import install
from dedup.model.policy import OpenOptions, Options

__all__ = [
    "AsyncDetector",
    "AsyncEmbeddedDetector",
    "Detector",
    "EmbeddedDetector",
    "MemoryBudget",
    "Question",
    "TooManyReserved",
    "open",
    "open_async",
    "open_embedded",
]

_SCHEMES = ("redis://", "rediss://", "unix://", "redis+unix://")
_EXTRA = f"a table service's client needs more: {install('client')}"


Target = str | os.PathLike[str] | Sequence[str | Sequence[str]]


def open(target: Target, **options: Unpack[OpenOptions]) -> Detector:
    """Open a detector on an embedded store, which is created if it is missing, or on a service.

    target               the folder; the store is at <target>/<namespace>. Or the URL of a service,
                         redis://[:token@]host[:port], rediss://... or unix:///path, or several with
                         commas, of which the first one that answers is asked. Or a list of these: shards, each with the
                         pages of the registrable domains that a hash gives it, in the scope "site"
    namespace            pages of one namespace are compared with each other; "default" by default
    distance             greatest Hamming distance of value, 0 to 15 bits; the recipe's by default
    similarity           least similarity of two texts, 0 to 1; "careful", which is the recipe's and the
                         default, or "paper": k = 3, and the simhash alone decides
    min_features         pages with fewer features are exempt; the recipe's by default
    scope                "global", or "site": only pages of the same registrable domain match
    secret               the secret key of the recipe. Without it, a store made with a secret can judge
                         fingerprints but not make them; a service needs it for both
    recipe               by default an existing store's own, the newest for a new store
    reservation_seconds  how long a page may be in flight; 600 by default
    clock                folders only: a function of seconds that never go back
    timeout_seconds      services only: how long to wait for an answer of each; 0.5 by default

    A store belongs to the process that opened it: a process forked later must open its own detector. A
    service's detector opens new connections in a forked process.

    Raises UsageError naming the argument, RecipeMismatch, StoreLocked, StoreDamaged, OSError with
    the path if the folder cannot be used, and ServiceUnavailable.
    """
    checked = Options(**options)
    urls = _urls_of(target)
    if urls is None:
        return open_embedded(target, checked)  # type: ignore[arg-type]
    remote = _remote()
    detector: Detector = remote.BlockingDetector(lambda: remote.open_remote(urls, checked))
    return detector


def _remote() -> ModuleType:
    """Return the module of a service's detectors. Raises UsageError where its client is not installed."""
    try:
        from dedup.detector import remote
    except ModuleNotFoundError as error:
        raise UsageError(f"{_EXTRA} ({error})") from error
    return remote


class Opening(Coroutine[Any, Any, AsyncDetector]):
    """The result of open_async(): `await` it for a detector, or use it in `async with`, which closes that."""

    def __init__(self, opening: Coroutine[Any, Any, AsyncDetector]) -> None:
        self._opening = opening

    def send(self, value: Any) -> Any:
        """Run the coroutine on, as `await` does."""
        return self._opening.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error in the coroutine."""
        return self._opening.throw(*error)

    def close(self) -> None:
        """End the coroutine, which also keeps Python from warning that it was never awaited."""
        self._opening.close()

    def __await__(self) -> Generator[Any, Any, AsyncDetector]:
        return self._opening.__await__()

    async def __aenter__(self) -> AsyncDetector:
        self._detector = await self._opening
        return self._detector

    async def __aexit__(self, *_: object) -> None:
        await self._detector.close()


def open_async(target: Target, **options: Unpack[OpenOptions]) -> Opening:
    """Open the same for an asyncio loop: its methods are called with `await`; count() is len().

    `async with dedup.open_async("store") as detector` closes it at the end, `await dedup.open_async("store")`
    leaves that to you. An embedded store judges a page in microseconds, without yielding to the loop.
    """
    return Opening(_open_async(target, options))


async def _open_async(target: Target, options: OpenOptions) -> AsyncDetector:
    checked = Options(**options)
    urls = _urls_of(target)
    if urls is None:
        return AsyncEmbeddedDetector(open_embedded(target, checked))  # type: ignore[arg-type]
    detector: AsyncDetector = await _remote().open_remote(urls, checked)
    return detector


def _urls_of(target: Target) -> str | list[Sequence[str]] | None:
    """Return the URLs of services, or those of each shard; None for a folder."""
    if isinstance(target, list | tuple):
        return [[each] if isinstance(each, str) else each for each in target]
    path = os.fsdecode(target)  # type: ignore[arg-type]
    return path if path.startswith(_SCHEMES) else None
