"""What differs between two visits of one URL is volatile, and does not count when items are compared.

    a look-alike brought other items than its original -> begin(): the page is fetched once more -> ended()

A counter, a date, a position, the order of a shuffled list: noise is told from data without a list of names. At most
`most` visits of a callback (DEDUP_CONTROL). A field that holds the page is never volatile.
"""

from collections import OrderedDict

import msgspec

from dedup.scrapy.evidence.digest import Digest, differing

VOLATILE = 200  # fields of a callback
WAITING = 100  # pages that wait for their second visit


class Volatile(msgspec.Struct):
    """The volatile fields of a callback, by the hashes of their names, and the visits made to find them."""

    fields: frozenset[int] = frozenset()
    visits: int = 0


class Visits:
    """The control visits of one crawl."""

    def __init__(self, most: int) -> None:
        """Begin without any; most visits are made for a callback."""
        self._most = most
        self.callbacks: dict[str, Volatile] = {}
        self._before: OrderedDict[str, tuple[str, Digest]] = OrderedDict()  # by document key

    def volatile(self, callback: str) -> frozenset[int]:
        """Return the volatile fields of a callback."""
        found = self.callbacks.get(callback)
        return frozenset() if found is None else found.fields

    def wants(self, callback: str) -> bool:
        """Whether another visit may be made for a callback."""
        found = self.callbacks.get(callback)
        return self._most > (0 if found is None else found.visits)

    def begin(self, key: str, callback: str, digest: Digest) -> None:
        """Note that a page, which brought this, is fetched once more."""
        self.callbacks.setdefault(callback, Volatile()).visits += 1
        self._before[key] = callback, digest
        while len(self._before) > WAITING:
            self._before.popitem(last=False)

    def ended(self, key: str, digest: Digest | None) -> tuple[str, frozenset[int]] | None:
        """Compare with the first visit; return the callback and the fields that are volatile, if any are new."""
        callback, before = self._before.pop(key, ("", None))
        if before is None or digest is None or not digest.number == before.number > 0:
            return None
        known = self.callbacks[callback]
        found = differing(digest, before) - known.fields - digest.holders
        if not found or len(known.fields) + len(found) > VOLATILE:
            return None
        known.fields |= found
        return callback, found
