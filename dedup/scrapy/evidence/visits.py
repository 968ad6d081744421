"""What differs between two visits of one URL is volatile, and does not count when items are compared.

    a look-alike brought other items than its original -> begin(): the page is fetched once more -> ended()

A counter, a date, a position, the order of a shuffled list: noise is told from data without a list of names. It is found
in the fields of items, by callback, and in the parts of the page, for pages whose URLs differ in the same way from their
originals'. At most `most` visits of a callback (DEDUP_CONTROL). A field that holds the page is never volatile.
"""

from collections import OrderedDict
from typing import NamedTuple

import msgspec

from dedup.model.page import PageFingerprint
from dedup.scrapy.evidence.difference import letters
from dedup.scrapy.evidence.digest import Digest, differing
from dedup.scrapy.evidence.ledger import Class

VOLATILE = 200  # fields of a callback
WAITING = 100  # pages that wait for their second visit


class Volatile(msgspec.Struct):
    """The volatile fields of a callback, by the hashes of their names, and the visits made to find them."""

    fields: frozenset[int] = frozenset()
    visits: int = 0


class Visit(NamedTuple):
    """The first visit of a page."""

    name: Class
    digest: Digest
    page: PageFingerprint


class Noise(NamedTuple):
    """What two visits of a page showed: new volatile fields, and the parts of the page that differ."""

    name: Class
    fields: frozenset[int]
    parts: str


class Visits:
    """The control visits of one crawl."""

    def __init__(self, most: int) -> None:
        """Begin without any; most visits are made for a callback."""
        self._most = most
        self.callbacks: dict[str, Volatile] = {}
        self._before: OrderedDict[str, Visit] = OrderedDict()  # by document key

    def volatile(self, callback: str) -> frozenset[int]:
        """Return the volatile fields of a callback."""
        found = self.callbacks.get(callback)
        return frozenset() if found is None else found.fields

    def wants(self, callback: str) -> bool:
        """Whether another visit may be made for a callback."""
        found = self.callbacks.get(callback)
        return self._most > (0 if found is None else found.visits)

    def begin(self, key: str, visit: Visit) -> None:
        """Note that a page is fetched once more."""
        self.callbacks.setdefault(visit.name.callback, Volatile()).visits += 1
        self._before[key] = visit
        while len(self._before) > WAITING:
            self._before.popitem(last=False)

    def ended(self, key: str, digest: Digest | None, page: PageFingerprint | None) -> Noise | None:
        """Compare a page with its first visit; None if that is not known, or cannot be compared."""
        before = self._before.pop(key, None)
        if before is None or digest is None or page is None:
            return None
        if not digest.number == before.digest.number > 0:
            return None
        known = self.callbacks[before.name.callback]
        found = differing(digest, before.digest) - known.fields - digest.holders
        if len(known.fields) + len(found) > VOLATILE:
            found = frozenset()
        known.fields |= found
        return Noise(before.name, found, letters(before.page, page, other_title=False))
