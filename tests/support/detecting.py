"""What tests of detectors share: pages by their fingerprints, and a clock that a test turns."""

import asyncio
import threading
from typing import Any, Self

from sketches import sketch

import dedup
from dedup.model.page import Document, Neighbour, PageFingerprint, Verdict
from dedup.model.recipes import NEWEST

RECIPE = NEWEST
A, B, C = (f"http://example.com/{name}" for name in "abc")
ONES = 2**64 - 1


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def page(value: int = 0, differing: int = 0, **fields: object) -> PageFingerprint:
    """A page with these bits of its value, and of its sketch (tests/support/sketches.py), set."""
    features = 0 if fields.get("unread") else 100
    defaults = {"sketch": sketch(differing), "identity": 0, "features": features, "recipe": RECIPE}
    return PageFingerprint(value, **(defaults | fields))


def saying(title: int = 0, canonical: int = 0) -> int:
    """The identity of a page with these hashes of its title and canonical URL; 0: it has none."""
    return title << 32 | canonical


def bits(n: int) -> int:
    """A number with n bits set."""
    return 2**n - 1


def verdict_on(
    status: Any,
    reason: str,
    key: str,
    of: str | None,
    distance: int | None,
    similarity: float | None,
    identity: Any,
    fingerprint: PageFingerprint,
    token: str | None,
    domain: str = "",
) -> Verdict:
    """A verdict, given by its flat attributes; only the key of its match is known."""
    match = None
    if of is not None:
        unknown = Document(of, PageFingerprint(0, b"", 0, 0, fingerprint.recipe))
        match = Neighbour(unknown, distance or 0, similarity or 0.0, identity or "unknown")
    return Verdict(status, reason, Document(key, fingerprint, domain), token, match)


def flat(verdict: Verdict) -> tuple[Any, ...]:
    """The flat attributes of a verdict."""
    names = "status reason key of distance similarity identity page token domain".split()
    return tuple(getattr(verdict, name) for name in names)


def flat_neighbours(found: list[Neighbour]) -> list[tuple[Any, ...]]:
    """Key, distance, similarity, identity and domain of neighbours."""
    return [(n.key, n.distance, n.similarity, n.identity, n.domain) for n in found]


def accept(detector: Any, fingerprint: PageFingerprint, key: str, **options: Any) -> Verdict:
    """Reserve and insert a page that is to be kept."""
    verdict = detector.reserve(fingerprint, key, **options)
    assert verdict.token
    detector.insert(verdict)
    return verdict


class InLoop:
    """An async detector, each call of it run to its end in a loop of another thread."""

    def __init__(self, target: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._detector: Any = None
        try:
            self._detector = self._run(dedup.open_async(target, **options))
        except BaseException:
            self._stop()
            raise

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if not self._loop.is_closed():
            self._stop()

    def __len__(self) -> int:
        return int(self._run(self._detector.count()))

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._detector, name)
        if not asyncio.iscoroutinefunction(attribute):
            return attribute
        return lambda *args, **kwargs: self._run(attribute(*args, **kwargs))
