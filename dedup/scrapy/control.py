"""What differs between two visits of one URL is volatile, and does not count when items are compared.

    other items than before -> the page is fetched once more (a control visit) -> volatile fields, and places of numbers

A counter, a date, a position, the order of a shuffled list: noise is told from data without a list of names. At most
DEDUP_CONTROL visits of a callback; their items are withheld. What was found is kept with the evidence (proof.py).
"""

import time
from collections import OrderedDict
from copy import deepcopy

import msgspec
from scrapy import Request

from dedup.scrapy.counts import Counts, logger
from dedup.scrapy.items import Digest, Names, compare
from dedup.scrapy.responses import CONTROL, again, send

VOLATILE = 200  # fields and places of numbers of a callback
WAITING = 100  # pages that wait for another visit
SOON, LAST = 10, -1_000_000  # priorities of the visits, added to the page's own


class Volatile(msgspec.Struct):
    """What is volatile of the pages of a callback, and the visits that were made to find it."""

    fields: frozenset[int] = frozenset()
    places: frozenset[int] = frozenset()
    visits: int = 0


class Visit(msgspec.Struct):
    """A control visit of a page: its callback, and its items of the first visit.

    until    time.monotonic() up to which others wait for its end; 0.0 if they do not
    arrived  whether the page has been fetched
    """

    callback: str
    before: Digest
    until: float
    arrived: bool = False


class Controls:
    """The control visits of one crawl."""

    def __init__(self, counts: Counts, names: Names, most: int, wait_seconds: float) -> None:
        """Begin without any; most visits are made for a callback."""
        self._counts, self._names, self._most = counts, names, most
        self._wait_seconds = wait_seconds
        self._volatile: dict[str, Volatile] = {}
        self._visits: OrderedDict[str, Visit] = OrderedDict()  # by document key

    def of(self, callback: str) -> Volatile:
        """Return what is volatile of the pages of a callback."""
        found = self._volatile.get(callback)
        if found is None:
            found = self._volatile[callback] = Volatile()
        return found

    def take(self, saved: dict[str, tuple[list[int], list[int]]]) -> None:
        """Go on with what an earlier crawl found."""
        for callback, (fields, places) in saved.items():
            found = self.of(callback)
            found.fields |= frozenset(fields[:VOLATILE])
            found.places |= frozenset(places[:VOLATILE])

    def found(self) -> dict[str, tuple[frozenset[int], frozenset[int]]]:
        """Return what is volatile, by callback: fields, and places of numbers."""
        return {
            callback: (each.fields, each.places)
            for callback, each in self._volatile.items()
            if each.fields or each.places
        }

    def request_for(self, request: Request, callback: str) -> Request | None:
        """Return a request for another visit of a page, before its callback can change this one."""
        if request.method != "GET" or self.of(callback).visits >= self._most:
            return None
        try:
            visit = again(request)
            return visit.replace(
                errback=None, meta=deepcopy(visit.meta), cb_kwargs=deepcopy(visit.cb_kwargs)
            )
        except Exception:  # what cannot be copied is not visited again
            return None

    def visit(self, request: Request, key: str, callback: str, digest: Digest) -> None:
        """Visit a page once more, unless its callback has had all its visits."""
        found = self.of(callback)
        if found.visits >= self._most:
            return
        found.visits += 1
        last = found.visits == self._most and found.visits > 1
        until = 0.0 if last else time.monotonic() + self._wait_seconds
        self._visits[key] = Visit(callback, digest, until)
        while len(self._visits) > WAITING:
            self._visits.popitem(last=False)
        self._counts.add("items/control")
        priority = request.priority + (LAST if last else SOON)
        meta = request.meta | {CONTROL: key}

        def failed(_: object) -> None:
            self._visits.pop(key, None)

        send(self._counts.crawler, request.replace(priority=priority, meta=meta, errback=failed))

    def is_visiting(self, callback: str) -> bool:
        """Whether a visit of a callback is to end soon: it is fetched, or can be, and not overdue.

        Pages that wait hold a place in Scrapy's downloader each, and may hold the last one.
        """
        now = time.monotonic()
        visits = [v for v in self._visits.values() if v.callback == callback and now < v.until]
        if not visits or any(visit.arrived for visit in visits):
            return bool(visits)
        assert self._counts.crawler.engine is not None
        downloader = self._counts.crawler.engine.downloader
        under_way = any(CONTROL in request.meta for request in downloader.active)
        return under_way or not downloader.needs_backout()

    def arrived(self, key: str) -> None:
        """Note that a page was fetched once more, and its callback is about to be called."""
        if (visit := self._visits.get(key)) is not None:
            visit.arrived = True

    def ended(self, key: str, digest: Digest | None) -> str | None:
        """Compare a page's items with those of its first visit; return its callback if something is volatile."""
        visit = self._visits.pop(key, None)
        if digest is None or visit is None or not digest.number == visit.before.number > 0:
            return None
        found, volatile = compare(digest, visit.before), self.of(visit.callback)
        if found.equal or len(volatile.fields) + len(volatile.places) > VOLATILE:
            return None
        fields = found.fields - digest.holders  # of these only some numbers of the page
        volatile.fields |= fields
        volatile.places |= found.places
        self._counts.add("items/volatile", len(fields) + len(found.places))
        logger.info(
            "dedup: %s: two visits of %s differ in %s; that does not count when items are compared",
            visit.callback,
            key,
            ", ".join(self._names.of(fields)) or "numbers of the page",
        )
        return visit.callback
