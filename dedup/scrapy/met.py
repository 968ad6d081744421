"""What a crawl has met before: items, requests, its own pages, and which callbacks ask for pages without links to them.

Invariant: memory is bounded. What is forgotten counts as new, and keeps pages.
"""

from collections.abc import Callable
from struct import pack
from typing import TYPE_CHECKING

from scrapy import Request

from dedup.core.fingerprint import read_page
from dedup.core.hash_set import HashSet
from dedup.scrapy.settings import Config

if TYPE_CHECKING:
    from dedup.scrapy.in_flight import Flight

ITEMS = 2_000_000  # of the crawl, 10 bytes each
REQUESTS = 5_000_000
REQUESTS_LAST = 1000  # of these, noted together
OWN = 2_000_000  # pages that this crawl accepted, by which they are told from other crawls'
# The requests of a callback that are compared with the links of their pages: of each page the first one, and up to
BEYOND_PAGE, BEYOND = 10, 100  # of one page, and of all pages
_LEADS_BEYOND = -1  # some lead to pages without a link to them


class Met:
    """What one crawl has met."""

    def __init__(self, config: Config) -> None:
        """Begin with nothing."""
        self._items = HashSet(ITEMS)
        self._requests = HashSet(REQUESTS)
        self._requests_last: list[int] = []  # hashes that are not in it yet
        # None if the memory holds no pages of other crawls
        self._own = HashSet(OWN) if config.memory != "crawl" or config.service else None
        self._reads_links = "new_links" in config.exempt or config.unchanged == "drop"
        self._led = HashSet(OWN)  # near-duplicates that led beyond
        self._beyond: dict[str, int] = {}  # by callback: requests that were looked at

    def is_new_item(self, kind: str, item: int | None) -> bool:
        """Whether no page of a kind brought an equal item before; remember it."""
        if item is None:
            return True
        digest = (hash(kind) & 0xFFFFFFFF).to_bytes(4, "little") + item.to_bytes(4, "little")
        return self._items.take(digest) > 0

    def accept(self, key: str) -> None:
        """Note a page of this crawl."""
        if self._own is not None:
            self._own.add(_hash(key))

    def is_own(self, key: str) -> bool:
        """Whether this crawl accepted a page."""
        return self._own is None or not self._own.missing(_hash(key))

    def note_led(self, key: str) -> None:
        """Note a near-duplicate that made new requests for pages to which it has no link."""
        self._led.add(_hash(key))

    def has_led(self, key: str) -> bool:
        """Whether a near-duplicate did that."""
        return not self._led.missing(_hash(key))

    def schedule(self, request: Request) -> None:
        """Note a request that the crawl makes."""
        self._requests_last.append(hash(request.url))
        if len(self._requests_last) >= REQUESTS_LAST:
            self._note_requests()

    def _note_requests(self) -> None:
        last, self._requests_last = self._requests_last, []
        self._requests.add(pack(f"<{len(last)}q", *last))

    def is_scheduled(self, request: Request) -> bool:
        """Whether the crawl made a request for this URL before."""
        self._note_requests()
        return not self._requests.missing(_hash(request.url))

    def leads_beyond(
        self, flight: "Flight", request: Request, is_linked: Callable[[str], bool]
    ) -> bool:
        """Whether a callback makes a new request to which its page has no link: to an interface, a frame.

        is_linked() says whether a link of the page leads to a URL.
        """
        return not self.is_scheduled(request) and not self._has_link(flight, request, is_linked)

    def asks(
        self, flight: "Flight", request: Request, is_linked: Callable[[str], bool], number: int
    ) -> bool:
        """Whether a callback asks for more than its page's links to known pages (number: of the request, from 1 on)."""
        if not self.is_scheduled(request):
            return True
        return number <= BEYOND_PAGE and not self._has_link(flight, request, is_linked)

    @staticmethod
    def _has_link(flight: "Flight", request: Request, is_linked: Callable[[str], bool]) -> bool:
        links, recipe = flight.reading.links, flight.namespace.detector.recipe
        address = read_page(b"", url=request.url, recipe=recipe, links=True).address
        if any(links[at : at + 8] == address for at in range(0, len(links), 8)):
            return True
        return is_linked(request.url)

    def follow(
        self,
        flight: "Flight",
        request: Request,
        is_linked: Callable[[str], bool],
        number: int,
    ) -> None:
        """Note a request of an accepted page's callback, with its number in the page from 0 on."""
        seen = self._beyond.get(flight.callback, 0)
        if seen == _LEADS_BEYOND or not self._reads_links:
            return
        if number and (number >= BEYOND_PAGE or seen >= BEYOND):
            return
        beyond = self.leads_beyond(flight, request, is_linked)
        self._beyond[flight.callback] = _LEADS_BEYOND if beyond else seen + 1

    def goes_beyond(self, callback: str) -> bool:
        """Whether a callback asks for pages to which its pages have no link."""
        return self._beyond.get(callback) == _LEADS_BEYOND


def _hash(text: str) -> bytes:
    """Return the hash of a URL that a HashSet of this process takes."""
    return (hash(text) & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")
