"""Pages in flight: from the verdict to the end of callback and pipelines; and the links of accepted ones.

    begin -> items are yielded -> the callback ends -> the pipelines are through -> parsed -> commit

Invariants:
  - A page has paid when one of its items got through the pipelines. If a callback never yielded an item
    although UNDECIDED barren pages were kept for it, it is one that yields none (a hub, a link checker),
    and its pages have paid.
  - Finished pages are inserted together, at most COMMIT_SECONDS later, and at once when another page
    waits for one of them: a transaction for each would cost more than everything else. Until then they
    are in flight, so nothing is dropped because of them, and a kill forgets them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ref

import msgspec
from scrapy import Request

from dedup.core.files import replace_file
from dedup.core.fingerprint import PageReading, each_link
from dedup.core.numbers import HashSet
from dedup.model.page import Verdict
from dedup.scrapy.counts import Counts

if TYPE_CHECKING:
    from dedup.scrapy.memory import Namespace

# Accepted pages; (None, document key) for one that is kept without being read.
Accepted = deque[tuple["Namespace | None", Verdict | str]]

QUEUED = 20_000  # accepted pages that wait for the learner of URLs, 500 bytes each
COMMIT_SECONDS = 0.1  # how long a parsed page waits for others to be inserted with
COMMIT_PAGES = 16  # parsed pages that are inserted without waiting
UNDECIDED = 10  # barren pages without an item, after which a callback counts as yielding none


class _Request(ref[Request]):
    """A request that may be freed while its page is in flight."""

    __slots__ = ("token",)
    token: str


class Flight(msgspec.Struct, eq=False):
    """A page in flight.

    items    how many are still in the pipelines
    brought  the digest of all, once the callback has ended
    """

    namespace: "Namespace"
    verdict: Verdict
    callback: str
    reading: PageReading
    request: _Request
    items: int = 0
    brought: bytes = b""
    paid: bool = False
    called_back: bool = False


class PagesInFlight:
    """The pages of one crawl that are not inserted yet.

    flights  those that neither callback nor pipelines have ended, by token
    """

    def __init__(self, counts: Counts, links: "CrawlLinks", *, learns_urls: bool) -> None:
        """Hold none. links gets those of accepted pages; accepted their verdicts, if URLs are learned."""
        self._counts = counts
        self.links = links
        self.accepted: Accepted = deque(maxlen=QUEUED if learns_urls else 0)
        self.flights: dict[str, Flight] = {}
        self._parsed: dict[Namespace, list[Verdict]] = {}  # to be inserted by commit()
        self._timer: asyncio.TimerHandle | None = None  # which calls it
        self.discarded: deque[_Request] = deque()  # pages in flight whose requests were freed
        self.has_pipelines = True  # and so items pass them before their page is done
        self._barren: dict[str, int] = {}  # such pages, by callback; -1: it yields items

    def flying(self, namespace: "Namespace") -> Iterator[Verdict]:
        """Yield the verdicts on the pages of a namespace that are in flight."""
        return (f.verdict for f in self.flights.values() if f.namespace is namespace)

    def lead_to(self, namespace: "Namespace", links: frozenset[bytes]) -> bool:
        """Whether the pages of a namespace that are in flight have all of these links."""
        missing = set(links)
        for flight in self.flights.values():
            if flight.namespace is namespace:
                missing.difference_update(each_link(flight.reading.links + flight.reading.address))
        return not missing

    def parsed(self, namespace: "Namespace") -> list[Verdict]:
        """Return the verdicts on the pages of a namespace that the next commit inserts."""
        return self._parsed.get(namespace, [])

    def begin(
        self,
        namespace: "Namespace",
        verdict: Verdict,
        callback: str,
        request: Request,
        reading: PageReading,
    ) -> None:
        """Add an accepted page, which has a token; it ends at the latest with its request."""
        assert verdict.token is not None
        held = _Request(request, self.discarded.append)
        held.token = verdict.token
        self.flights[verdict.token] = Flight(namespace, verdict, callback, reading, held)

    def item_yielded(self, token: str | None) -> None:
        """Note an item that goes to the pipelines, or, where there are none, got through."""
        flight = self.flights.get(token or "")
        if flight is not None:
            flight.items += self.has_pipelines
            flight.paid = flight.paid or not self.has_pipelines
            self._barren[flight.callback] = -1

    def item_withheld(self, token: str | None) -> None:
        """Note an item that an earlier crawl brought, and that is dropped before the pipelines."""
        flight = self.flights.get(token or "")
        if flight is not None:
            flight.paid = True

    def item_done(self, token: str | None, *, got_through: bool) -> None:
        """Note that an item is through the pipelines, or was dropped by one."""
        flight = self.flights.get(token or "")
        if flight is None or token is None:
            return
        flight.items -= 1
        flight.paid = flight.paid or got_through
        if flight.called_back and flight.items <= 0:
            self.end(token, accepted=True)

    def end(self, token: str | None, *, accepted: bool, followed: bool = False) -> None:
        """Insert a page soon, if its callback succeeded, or release it; later calls do nothing.

        followed: the requests of a released page were made, so its links are known all the same.
        """
        flight = self.flights.get(token or "")
        if flight is None or token is None:
            return
        if accepted and flight.items > 0:
            flight.called_back = True
            return
        del self.flights[token]
        if accepted or followed:
            self.links.learn(flight.namespace, flight.reading)
        if not accepted:
            flight.namespace.release(flight.verdict)
            return
        verdict, paid = flight.verdict, flight.paid
        if not paid:
            if verdict.reason == "barren" and self._barren.get(flight.callback, 0) >= 0:
                self._barren[flight.callback] = self._barren.get(flight.callback, 0) + 1
            paid = not self.yields_items(flight.callback)
        verdict = verdict.brought(paid=paid, items=flight.brought)
        self.accepted.append((flight.namespace, verdict))
        parsed = self._parsed.setdefault(flight.namespace, [])
        parsed.append(verdict)
        if len(parsed) >= COMMIT_PAGES:
            self.commit()
        elif self._timer is None:
            self.schedule_commit()

    def yields_items(self, callback: str) -> bool:
        """Whether the pages of a callback may bring items: it did before, or it is too early to tell."""
        return self._barren.get(callback, 0) < UNDECIDED

    def has_yielded(self, callback: str) -> bool:
        """Whether a page of a callback brought an item."""
        return self._barren.get(callback) == -1

    def release_discarded(self) -> None:
        """Release the pages that another component discarded: their requests were freed."""
        while self.discarded:
            self.end(self.discarded.popleft().token, accepted=False)

    def waits_for_insert(self, key: str) -> bool:
        """Whether the next commit inserts a page with this key."""
        return any(v.key == key for verdicts in self._parsed.values() for v in verdicts)

    def schedule_commit(self) -> None:
        """Schedule a commit(), soon."""
        if self._timer is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # the loop has ended, and the crawl with it
            self.commit()
        else:
            self._timer = loop.call_later(COMMIT_SECONDS, self.commit)

    def commit(self) -> None:
        """Insert the pages that were parsed since the last time, and flush the stats."""
        parsed, self._parsed = self._parsed, {}
        for namespace, verdicts in parsed.items():
            namespace.insert(verdicts)
        self._counts.flush()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Release what is left, and insert what was parsed. Reservations end with the crawl."""
        for token in [*self.flights]:
            self.end(token, accepted=False)
        self.commit()


def token_of(noted: Any) -> str | None:
    """Return the token in meta["dedup"], or None."""
    token = noted.get("token") if isinstance(noted, dict) else None
    return token if isinstance(token, str) else None


# ------------------------------------------------------------------------------------------- links

# 10 to 12.5 bytes each, so at most 125 MB, a tenth of what Scrapy's own filter takes.
MOST_LINKS = 10_000_000

_MAGIC = b"dedup links 1\n"
_DIGEST_BYTES = 16


class CrawlLinks:
    """The links of a crawl, by namespace; with a JOBDIR they are restored when it resumes.

    folder  the JOBDIR, or None
    fault   is called with an error and what it means
    """

    def __init__(self, folder: str | None, fault: Callable[[Exception, str], None]) -> None:
        """Open nothing yet."""
        self._folder = None if folder is None else Path(folder) / "dedup-links"
        self._fault = fault
        self._memories: dict[object, tuple[str, HashSet]] = {}

    def open(self, namespace: object, name: str) -> None:
        """Begin to remember the links of a namespace. Without this no link of it counts as new."""
        seen = HashSet(MOST_LINKS)
        if self._folder is not None:
            path = self._folder / name
            try:
                seen.add(_saved_links(path))
            except (OSError, ValueError) as error:
                self._fault(error, "the links that this crawl has seen so far are forgotten")
        self._memories[namespace] = name, seen

    def new(self, namespace: object, links: bytes) -> frozenset[bytes]:
        """Return those links that no accepted page had."""
        if namespace not in self._memories:
            return frozenset()
        seen = self._memories[namespace][1]
        if not seen.missing(links):
            return frozenset()
        return frozenset(link for link in each_link(links) if seen.missing(link))

    def learn(self, namespace: object, reading: PageReading) -> None:
        """Remember the links of an accepted page, and the one that leads to it."""
        if namespace in self._memories:
            self._memories[namespace][1].add(reading.links + reading.address)

    def close(self) -> None:
        """Save the links for the next run of the crawl, and free them."""
        for name, seen in self._memories.values():
            if self._folder is None:
                break
            hashes = seen.to_bytes()
            digest = blake2b(hashes, digest_size=_DIGEST_BYTES).digest()
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                replace_file(self._folder / name, _MAGIC + digest + hashes)
            except OSError as error:
                self._fault(error, "the links of this crawl are forgotten when it resumes")
        self._memories.clear()


def _saved_links(path: Path) -> bytes:
    """Return the links of a file, none if there is no file. Raises OSError, and ValueError for a damaged one."""
    if not path.exists():
        return b""
    content, start = path.read_bytes(), len(_MAGIC) + _DIGEST_BYTES
    digest, hashes = content[len(_MAGIC) : start], content[start:]
    sound = content.startswith(_MAGIC) and not len(hashes) % 8
    if not sound or blake2b(hashes, digest_size=_DIGEST_BYTES).digest() != digest:
        raise ValueError(f"{path} is damaged")
    return hashes
