"""Which pages were near-duplicates lately, and of what: stores keep originals, and no trace of copies.

    verdicts -> the last SEEN near-duplicates -> by key, by original, by fingerprint

The rule kept here: memory is bounded, in pages and in bytes; the oldest are forgotten first, and a page
that is judged to be something else is no near-duplicate any more.
"""

import time
from collections import OrderedDict
from itertools import islice

import msgspec

from dedup.model.values import Verdict, hex_fingerprint

__all__ = ["NearDuplicateView", "NearDuplicatesSeen"]

SEEN = 10_000  # near-duplicates remembered
SEEN_BYTES = 4 << 20  # of their keys, and of their documents'
ANSWERED = 50  # of one question


class NearDuplicateView(msgspec.Struct, frozen=True, gc=False):
    """A page that was judged to be a near-duplicate: of which document, how far, when (Unix time)."""

    key: str
    value: str
    of: str
    distance: int
    similarity: float
    judged_seconds: float


class NearDuplicatesSeen:
    """The last near-duplicates. For one thread, the event loop's."""

    def __init__(self) -> None:
        self._pages: OrderedDict[tuple[str, str], NearDuplicateView] = OrderedDict()
        self._bytes = 0

    def judged(self, namespace: str, verdict: Verdict) -> None:
        """Note a verdict."""
        place = namespace, verdict.key
        if (before := self._pages.pop(place, None)) is not None:
            self._bytes -= _size(before)
        if verdict.status != "near_duplicate":
            return
        seen = self._pages[place] = NearDuplicateView(
            verdict.key,
            hex_fingerprint(verdict.page.value),
            verdict.of or "",
            verdict.distance or 0,
            verdict.similarity or 0.0,
            time.time(),
        )
        self._bytes += _size(seen)
        while len(self._pages) > SEEN or self._bytes > SEEN_BYTES:
            self._bytes -= _size(self._pages.popitem(last=False)[1])

    def about(self, namespace: str, text: str) -> list[NearDuplicateView]:
        """Return the last near-duplicates with this key or fingerprint, or of this document."""
        found = (
            seen
            for (of, _), seen in reversed(self._pages.items())
            if of == namespace and text in (seen.key, seen.of, seen.value)
        )
        return list(islice(found, ANSWERED))


def _size(seen: NearDuplicateView) -> int:
    return len(seen.key) + len(seen.of)  # in characters: of URLs, bytes
