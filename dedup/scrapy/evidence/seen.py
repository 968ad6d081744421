"""What a crawl has seen: where its pages lead, their items by callback, and the requests that it made.

Invariants: memory is bounded; what is forgotten counts as new, and passes.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from struct import pack

from dedup.core.fingerprint import each_link
from dedup.core.numbers import HashSet
from dedup.scrapy.evidence.enough import Bounded
from dedup.scrapy.evidence.lists import Lists

LINKS = 10_000_000  # of a callback, 10 to 12.5 bytes each, as all of these
CALLBACKS = 100  # whose links are told apart; those of others count as new
FETCHED = ""  # no callback: the addresses of pages that were fetched
ITEMS = 2_000_000
FORGOTTEN = 100_000  # items; with more, all count as new
REQUESTS = 5_000_000
TOGETHER = 1000  # requests that are noted at once


class SeenInCrawl:
    """What one namespace of a crawl has seen. Links are hashes, as PageReading.links; items hashes of 8 bytes."""

    def __init__(self, links: Mapping[str, bytes] | None = None, items: bytes = b"") -> None:
        """Begin with nothing, or with what to_bytes() of an earlier run returned."""
        self._items, self._dropped = HashSet(ITEMS), HashSet(REQUESTS)
        # of pages whose links are followed, or were; by callback
        self._links = Bounded[str, HashSet](CALLBACKS, lambda _: HashSet(LINKS))
        self._items.add(items)
        for callback, found in (links or {}).items():
            self.add_links(callback, found)
        self._forgotten: set[bytes] = set()  # items
        self.lists = Lists()

    def add_links(self, callback: str, links: bytes) -> None:
        """Note where a page leads that a callback has parsed, or the page's own address (FETCHED)."""
        self._links[callback].add(links)

    def leads_elsewhere(self, callback: str, links: bytes) -> bool:
        """Whether one of these links leads where neither a page of the callback leads, nor the crawl has been."""
        followed, fetched = self._links.get(callback), self._links.get(FETCHED)
        if not links or (followed is not None and not followed.missing(links)):
            return False
        return fetched is None or any(
            (followed is None or followed.missing(each)) and fetched.missing(each)
            for each in each_link(links)
        )

    def drop(self, key: str) -> bool:
        """Whether a page is dropped for the first time: if it is asked for again, the spider insists on it."""
        page = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8)
        return self._dropped.take(page.digest()) > 0

    def take_item(self, item: bytes) -> bool:
        """Whether no page of a callback brought an item (ReadItem.exact), or one of several; from now on one did."""
        if item in self._forgotten:
            self._forgotten.remove(item)
            return True
        return self._items.take(item) > 0

    def has_item(self, item: bytes) -> bool:
        """Whether a page of a callback brought an item."""
        return not self._items.missing(item) and item not in self._forgotten

    def forget_items(self, items: Iterable[bytes]) -> None:
        """Forget items of a page that is forgotten: they may not have got through."""
        self._forgotten.update(items)
        if len(self._forgotten) > FORGOTTEN:
            self._items, self._forgotten = HashSet(ITEMS), set()

    def to_bytes(self) -> tuple[dict[str, bytes], bytes]:
        """Return the links and the items, without those that were forgotten, for the next run."""
        items = self._items.to_bytes()
        if self._forgotten:
            items = b"".join(each for each in each_link(items) if each not in self._forgotten)
        return {name: links.to_bytes() for name, links in self._links.items()}, items


class SeenRequests:
    """Requests of one crawl, made or withheld, by what tells them apart. In this process only."""

    def __init__(self) -> None:
        self._known = HashSet(REQUESTS)
        self._last: list[int] = []

    def note(self, fingerprint: bytes) -> None:
        """Note a request."""
        self._last.append(hash(fingerprint))
        if len(self._last) >= TOGETHER:
            self._flush()

    def has(self, fingerprint: bytes) -> bool:
        """Whether a request was noted."""
        self._flush()
        return not self._known.missing(pack("<q", hash(fingerprint)))

    def _flush(self) -> None:
        last, self._last = self._last, []
        self._known.add(pack(f"<{len(last)}q", *last))
