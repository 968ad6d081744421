"""What a crawl has met: links of accepted pages, items by callback, and requests.

Invariants: memory is bounded; what is forgotten counts as new, and passes.
"""

from collections.abc import Iterable
from hashlib import blake2b
from struct import pack

from dedup.core.fingerprint import each_link
from dedup.core.numbers import HashSet
from dedup.scrapy.evidence.lists import Lists

LINKS = 10_000_000  # 10 to 12.5 bytes each, as all of these
ITEMS = 2_000_000
FORGOTTEN = 100_000  # items; with more, all count as new
REQUESTS = 5_000_000
TOGETHER = 1000  # requests that are noted at once


class Met:
    """What one namespace of a crawl has met; the hashes are those of PageReading.links, and of items.

    links  of accepted pages, and the addresses of these
    lists  that were read last
    """

    def __init__(self, links: bytes = b"", items: bytes = b"") -> None:
        """Begin with nothing, or with what to_bytes() of an earlier run returned."""
        self.links, self._items = HashSet(LINKS), HashSet(ITEMS)
        self.links.add(links)
        self._items.add(items)
        self._forgotten: set[bytes] = set()  # items
        self._dropped = HashSet(REQUESTS)  # pages, in this process only
        self.lists = Lists()

    def is_new(self, links: bytes) -> bool:
        """Whether no accepted page had one of these links."""
        return self.links.missing(links) > 0

    def drop(self, key: str) -> bool:
        """Whether a page is dropped for the first time: if it is asked for again, the spider insists on it."""
        return self._dropped.take(_page(key)) > 0

    def take_item(self, callback: str, item: bytes) -> bool:
        """Whether no page of a callback brought an item, by its hash; from now on one did."""
        found = _of(callback, item)
        if found in self._forgotten:
            self._forgotten.remove(found)
            return True
        return self._items.take(found) > 0

    def has_item(self, callback: str, item: bytes) -> bool:
        """Whether a page of a callback brought an item."""
        found = _of(callback, item)
        return not self._items.missing(found) and found not in self._forgotten

    def was_forgotten(self, callback: str, item: bytes) -> bool:
        """Whether an item that a page brought was forgotten, and not brought since."""
        return _of(callback, item) in self._forgotten

    def forget_items(self, callback: str, items: Iterable[bytes]) -> None:
        """Forget items of a page that is forgotten: they may not have got through."""
        self._forgotten.update(_of(callback, each) for each in items)
        if len(self._forgotten) > FORGOTTEN:
            self._items, self._forgotten = HashSet(ITEMS), set()

    def to_bytes(self) -> tuple[bytes, bytes]:
        """Return the links and the items, without those that were forgotten, for the next run."""
        items = self._items.to_bytes()
        if self._forgotten:
            items = b"".join(each for each in each_link(items) if each not in self._forgotten)
        return self.links.to_bytes(), items


class Requests:
    """The requests that one crawl has made, by what tells them apart. In this process only."""

    def __init__(self) -> None:
        self._known = HashSet(REQUESTS)
        self._last: list[int] = []

    def note(self, fingerprint: bytes) -> None:
        """Note a request."""
        self._last.append(hash(fingerprint))
        if len(self._last) >= TOGETHER:
            self._flush()

    def has(self, fingerprint: bytes) -> bool:
        """Whether the crawl made a request before."""
        self._flush()
        return not self._known.missing(pack("<q", hash(fingerprint)))

    def _flush(self) -> None:
        last, self._last = self._last, []
        self._known.add(pack(f"<{len(last)}q", *last))


def _page(key: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _of(callback: str, item: bytes) -> bytes:
    return blake2b(callback.encode(), digest_size=8, key=item).digest()
