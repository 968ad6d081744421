"""Which pages were near-duplicates lately, and of what: stores keep originals, and no trace of copies.

    verdicts -> the last SEEN near-duplicates -> by key, by original, by fingerprint

The rule kept here: memory is bounded, in pages and in characters; the oldest are forgotten first, and a page
that is judged to be something else is no near-duplicate any more.
"""

import re
import time
from collections import OrderedDict
from itertools import islice

import msgspec

from dedup.model.page import Verdict, hex_fingerprint

__all__ = ["NearDuplicateView", "NearDuplicatesSeen"]

SEEN = 10_000  # near-duplicates remembered
SEEN_CHARACTERS = 4 << 20  # of their keys, and of their documents'
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
        self._pages: OrderedDict[tuple[str, str], tuple[float, Verdict]] = OrderedDict()
        self._characters = 0

    def judged(self, namespace: str, verdict: Verdict) -> None:
        """Note a verdict."""
        pages, place = self._pages, (namespace, verdict.document.key)
        if place in pages:
            self._characters -= _size(pages.pop(place)[1])
        if verdict.status != "near_duplicate":
            return
        pages[place] = time.time(), verdict
        self._characters += _size(verdict)
        while len(pages) > SEEN or self._characters > SEEN_CHARACTERS:
            self._characters -= _size(pages.popitem(last=False)[1][1])

    def about(self, namespace: str, text: str) -> list[NearDuplicateView]:
        """Return the last near-duplicates with this key or fingerprint, or of this document."""
        value = int(text, 16) if re.fullmatch("[0-9a-f]{16}", text) else None
        found = (
            NearDuplicateView(
                seen.key,
                hex_fingerprint(seen.page.value),
                seen.of or "",
                seen.distance or 0,
                seen.similarity or 0.0,
                seconds,
            )
            for (of, key), (seconds, seen) in reversed(self._pages.items())
            if of == namespace and (text in (key, seen.of) or seen.page.value == value)
        )
        return list(islice(found, ANSWERED))


def _size(seen: Verdict) -> int:
    return len(seen.key) + len(seen.of or "")
