"""What differs between two visits of one URL is volatile, and does not count when items are compared.

    a look-alike brought other items than its original -> begin(): the page is fetched once more -> ended()

A counter, a date, a position, the order of a shuffled list: noise is told from data without a list of names. It is found
in the fields of items, in the numbers of the page by the words beside them, and in what stands beside its text, there
for pages whose URLs differ in the same way from their originals'. Words of the text are never volatile: other words are
another edition, but for those that all pages of a class add. At most `most` visits of a callback (DEDUP_CONTROL), one
for each such way.
A field that holds the page is never volatile.

A clock shows in two visits only if it went on between them. So once a number changes that all pages of a class had added,
pages that had it are read again, without a callback: note() -> to_read() -> read_again().
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from dedup.core.fingerprint import PageReading, similarities
from dedup.model.page import PageFingerprint
from dedup.scrapy.evidence.departures import BESIDE_TEXT, Departures, Side, departures
from dedup.scrapy.evidence.difference import HEADING, WORDS, letters, undirected
from dedup.scrapy.evidence.digest import Digest, differing, held_by, placed, places, what_is_left
from dedup.scrapy.evidence.enough import FEW, MOST
from dedup.scrapy.evidence.ledger import Class

VOLATILE = 200  # fields of a callback
_NONE: frozenset[int] = frozenset()
_NOTHING_ADDED: tuple[int, frozenset[int]] = (0, _NONE)
WAITING = 100  # pages that wait for their second visit, and pairs of pages of a class


class Volatile(msgspec.Struct):
    """What is volatile in the pages of a callback.

    fields  of items, by the hashes of their names
    places  of numbers in the main text (digest.places)
    parts   letters of the parts that differ in two visits of a page, by how its URL differs from its original's, whichever
            of the two came first
    added   by the same: pages, and what all of them had and their originals had not, or these alone (Departures)
    visits  how URLs differed of the pages that were visited (Class.shape)
    first   the hash of what is not volatile in the first item since; 0: there was none
    tells   whether another item had something else there: what is the same in all items tells none apart
    """

    fields: frozenset[int] = frozenset()
    places: frozenset[int] = frozenset()
    parts: dict[str, str] = {}
    added: dict[str, tuple[int, frozenset[int]]] = {}
    visits: list[str] = []
    first: int = 0
    tells: bool = False

    def tell(self, found: int) -> bool:
        """Whether what is not volatile tells items apart, now that one has this hash of it."""
        self.first = self.first or found
        self.tells = self.tells or found != self.first
        return self.tells

    def parts_of(self, shape: str) -> frozenset[str]:
        """Return the parts that each visit changes of pages whose URLs differ so."""
        return frozenset(self.parts.get(undirected(shape), ""))

    def says_nothing(self, name: Class, found: Departures) -> bool:
        """Whether two pages of a class depart from each other in volatile numbers only, and in what all of them add."""
        pages, common = self.added.get(undirected(name.shape), _NOTHING_ADDED)
        rest = found.added - common if pages >= FEW else found.added
        return all(each >> 16 in self.places for each in rest | found.replaced)

    def note(self, name: Class, added: frozenset[int]) -> frozenset[int]:
        """Note what a page of a class adds; return what all until now added, and this one does not."""
        shape = undirected(name.shape)
        pages, common = self.added.get(shape, (0, added))
        if shape in self.added or len(self.added) < VOLATILE:
            self.added[shape] = pages + 1, common & added
        return common - added


class Visit(NamedTuple):
    """A visit of a page, and what it brought.

    until  when other pages wait no longer for the next one
    numbers  of the page
    beside   the fields of a list that no row says: if no other changes, the numbers that do are volatile
    """

    name: Class
    digest: Digest
    page: PageFingerprint
    until: float
    numbers: bytes = b""
    beside: frozenset[int] = frozenset()


class Found(NamedTuple):
    """What a visit showed.

    callback  of the page
    fields    of its items that are volatile
    is_same   whether the visit brought the item of the first one, but for these, and what holds the page
    """

    callback: str
    fields: frozenset[int]
    is_same: bool


class Visits:
    """The control visits of one crawl."""

    def __init__(self, most: int) -> None:
        """Begin without any; most visits are made for a callback."""
        self._most = most
        self.callbacks: dict[str, Volatile] = {}
        self._before: OrderedDict[str, Visit] = OrderedDict()  # by document key
        self._first: dict[tuple[str, str], tuple[Side, Side]] = {}  # pair of pages of a class
        self._read: Counter[str] = Counter()  # how many pages were read again, by callback
        self._reading: dict[str, float] = {}  # until when others wait for those that are, now

    def of(self, callback: str) -> Volatile:
        """Return what is volatile in the pages of a callback."""
        return self.callbacks.get(callback, _NOTHING)

    def note(self, name: Class, mine: Side, theirs: Side) -> frozenset[int]:
        """Note a page of a class that brought another item than its original, where items hold the pages.

        Returns what all pages of the class added until now, and this one does not.
        """
        if not (mine.digest.holds and theirs.digest.holds):
            return _NONE
        if len(self._first) < WAITING:
            self._first.setdefault((name.callback, undirected(name.shape)), (mine, theirs))
        known = self.callbacks.setdefault(name.callback, Volatile())
        return known.note(name, departures(mine, theirs, BESIDE_TEXT).added)

    def to_read(self, name: Class, theirs: Side, gone: frozenset[int]) -> list[Side]:
        """Return the pages to be read again, at most `most` of a callback: they had one of the numbers that are gone."""
        changed = {each >> 16 for each in gone} - self.of(name.callback).places
        first = self._first.get((name.callback, undirected(name.shape)), ())
        pages = (*first, theirs) if changed else ()
        had = [e for e in pages if not changed.isdisjoint(n >> 16 for n in e.digest.numbers)]
        found = had[: self._most - self._read[name.callback]]
        self._read[name.callback] += len(found)
        return found

    @contextmanager
    def reading(self, callback: str, until: float) -> Iterator[None]:
        """Let other pages of a callback wait, at most until a time."""
        self._reading[callback] = until
        try:
            yield
        finally:
            self._reading.pop(callback, None)

    def read_again(self, callback: str, page: Side, reading: PageReading) -> None:
        """Compare a page with what it was; with other words it may be a login now."""
        now = held_by(page.digest, reading)
        if now.others == page.digest.others:
            self.callbacks[callback].places |= places(now.numbers, page.digest.numbers)

    def wants(self, name: Class) -> bool:
        """Whether a page of a class is to be visited again."""
        known = self.callbacks.get(name.callback, _NOTHING)
        return len(known.visits) < self._most and name.shape not in known.visits

    def begin(self, key: str, visit: Visit) -> None:
        """Note that a page is fetched once more."""
        self.callbacks.setdefault(visit.name.callback, Volatile()).visits.append(visit.name.shape)
        self._before[key] = visit
        while len(self._before) > WAITING:
            self._before.popitem(last=False)

    def is_open(self, callback: str, now: float) -> bool:
        """Whether a page of a callback is being visited again."""
        return now < self._reading.get(callback, now) or any(
            v.name.callback == callback and now < v.until for v in self._before.values()
        )

    def ended(
        self, key: str, digest: Digest | None, page: PageFingerprint, numbers: bytes = b""
    ) -> Found | None:
        """Compare a page with its first visit; None if that cannot be done."""
        before = self._before.pop(key, None)
        if before is None or digest is None or not digest.number == before.digest.number > 0:
            return None
        if similarities(page.sketch, [before.page.sketch])[0] < MOST:  # it may be a login now
            return None
        name, known = before.name, self.callbacks[before.name.callback]
        odd = differing(digest, before.digest)
        fields = odd - known.fields - digest.holders
        is_same = digest.holds
        if digest.number > 1:
            fields, is_same = frozenset(), odd <= before.beside
            if is_same:
                changes = {*placed(numbers)} ^ {*placed(before.numbers)}
                known.places |= {place for place, _ in changes}
        if len(known.fields) + len(fields) > VOLATILE:
            fields = frozenset()
        known.fields |= fields
        if digest.number == 1:
            known.tell(what_is_left(digest.fields.items(), known.fields))
        known.places |= places(digest.numbers, before.digest.numbers)
        changed = {*letters(before.page, page, other_title=False)} - {HEADING, WORDS}
        shape = undirected(name.shape)
        known.parts[shape] = "".join(sorted({*known.parts.get(shape, ""), *changed}))
        return Found(name.callback, fields, is_same or odd <= known.fields)

    def let_go(self, callback: str, field: int) -> None:
        """Note that a field of a callback's items does not count beside the others, which tell them apart."""
        known = self.callbacks.setdefault(callback, Volatile())
        known.fields |= {field}
        known.tells = True

    def forget(self, key: str) -> None:
        """Forget a visit that did not get to its end."""
        self._before.pop(key, None)


_NOTHING = Volatile()
