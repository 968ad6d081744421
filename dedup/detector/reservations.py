"""The pages in flight: fingerprints reserved before their pages are processed.

    reserve -> (held) -> end (inserted or released), or expiry

Invariant: a reservation is held until its token ends it or its time is over, never longer.
No I/O and no clock: each call gets the time, in seconds that never go back. Nothing here is
thread-safe; the detector's lock protects it.

A crawl has a few dozen pages in flight. These are compared one by one, which takes less time than
maintaining a table. Where there are more, the oldest are in a table, into which they go many at once.

Expired reservations are removed a few at a time, with each new one, so that no call does much work;
until then they no longer count. They are found by the second in which they expire, so the cost of a
reservation does not grow with the number of different lifetimes.

A token is random, in a form that no caller's token may have: one reservation's token reveals nothing
about another's.
"""

import secrets
from collections import OrderedDict, deque
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import islice
from math import inf
from sys import getsizeof
from typing import Literal

import msgspec
from msgspec.structs import replace

from dedup.core.table import Nearest, Table
from dedup.model.errors import UsageError
from dedup.model.page import Document, PageFingerprint, Verdict
from dedup.model.policy import Policy

Ending = Literal["inserted", "released"]

MEMORY_BYTES = 2 << 30  # of reservations by default: half of it, see MemoryBudget
FIXED_BYTES = 1500  # that each takes besides its texts
OWN_TOKEN = "_"  # noqa: S105  what the tokens made here begin with
TOKEN_BYTES = 16  # of it that are random
ENDED_LIMIT = 10_000  # ended tokens that are remembered
SWEPT = 16  # expired reservations removed with each new one
RECENT = 64  # last inserted values, which are compared one by one
COMPARED = 32  # values in flight that are compared one by one, at most


class TooManyReserved(UsageError):
    """The memory of reservations is used up."""

    code = "LIMIT"


class MemoryBudget:
    """Bytes that the reservations of several stores share.

    Each store may use as much as is left for the others: a single store half of it, two stores a third
    each, and so on. So a store that uses all it may always leaves something for the next.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0

    def fits(self, held: int, size: int) -> bool:
        """Whether a store that uses `held` bytes may use more."""
        return held + size <= self.total - self.used


class Reservation(msgspec.Struct, frozen=True):
    """A page in flight.

    verdict  that it was reserved with, its token in it; and the policy in force then
    inserts  how many pages were inserted before
    expires  in the seconds of the clock that was passed in
    bytes    that it takes, as estimated
    """

    number: int
    verdict: Verdict
    policy: Policy
    inserts: int
    expires: float
    bytes: int


class Reservations:
    """The pages in flight of one store."""

    def __init__(self, k: int, budget: MemoryBudget | None = None) -> None:
        """Start empty. near() finds values up to Hamming distance k, in bits."""
        self._k = k
        self._budget = budget or MemoryBudget(MEMORY_BYTES)
        self.bytes = 0  # estimated use of it
        self._young: dict[int, int] = {}  # the newest values, by number
        self._table: Table | None = None  # the others; None: there are none
        self._count = 0
        self._held: dict[int, Reservation] = {}
        self._numbers: dict[str, int] = {}  # by token
        self._keys: dict[str, set[int]] = {}
        # By the second in which they expire, each second once in the heap.
        self._expiring: dict[int, dict[int, None]] = {}
        self._seconds: list[int] = []
        self._due = inf  # no reservation is removed before
        self._pinned: dict[int, None] = {}  # the oldest first
        self._ended: OrderedDict[str, Ending] = OrderedDict()
        self.inserts = 0  # since the store was opened
        self._recent: deque[int] = deque(maxlen=RECENT)  # the values of the last of them

    def __len__(self) -> int:
        """Return the number of reservations held, including expired ones not yet removed."""
        return len(self._held)

    def close(self) -> None:
        """Give their memory back to those who share it."""
        self._budget.used -= self.bytes

    def widen(self, k: int) -> None:
        """Find reservations up to distance k from now on, if that is more than before."""
        if k > self._k:
            self._k = k
            if self._table is not None:
                values, numbers = self._table.pairs()
                self._table = Table(k, locked=False)
                self._table.insert_many(values, numbers)

    def _age(self) -> None:
        """Put the young values into the table. Raises MemoryError, then nothing has changed."""
        table = Table(self._k, locked=False) if self._table is None else self._table
        try:
            table.insert_many(self._young.values(), self._young)
        except MemoryError:
            for number, value in self._young.items():
                table.remove(value, number)
            raise
        self._table = table
        self._young = {}

    def reserve(
        self,
        verdict: Verdict,
        policy: Policy,
        *,
        now: float,
        seconds: float,
        token: str | None = None,
    ) -> Verdict:
        """Reserve a page for some seconds, and return its verdict with the token of the reservation.

        A token that is given is one that knows() does not know. Raises TooManyReserved if there is no memory; then nothing
        has changed.
        """
        if now >= self._due:
            self._sweep(now)
        document = verdict.document
        texts = document.key, document.domain, document.kind
        size = FIXED_BYTES + sum(map(getsizeof, texts))
        budget = self._budget
        if self.bytes + size > budget.total - budget.used:
            self._make_room(size, now)
        number = self._count
        self._count += 1
        if token is None:
            token = OWN_TOKEN + secrets.token_hex(TOKEN_BYTES)
        expires = now + seconds
        verdict = replace(verdict, token=token)
        reservation = Reservation(number, verdict, policy, self.inserts, expires, size)
        if len(self._young) >= COMPARED:
            self._age()  # first: it is all that may fail
        self._young[number] = document.page.value
        self.bytes += size
        budget.used += size
        self._held[number] = reservation
        self._numbers[token] = number
        self._keys.setdefault(document.key, set()).add(number)
        if expires == inf:
            self._pinned[number] = None
            return verdict
        second = int(expires)
        expiring = self._expiring.get(second)
        if expiring is None:
            self._expiring[second] = {number: None}
            heappush(self._seconds, second)
            self._due = self._seconds[0] + 1
        else:
            expiring[number] = None
        return verdict

    def get(self, token: str) -> Reservation | None:
        """Return the reservation of a token, expired or not, or None once it is removed."""
        number = self._numbers.get(token)
        return None if number is None else self._held[number]

    def knows(self, token: str) -> bool:
        """Whether a token is held, or has ended not long ago."""
        return token in self._numbers or token in self._ended

    def holds(self, key: str, now: float) -> bool:
        """Tell whether a page with this document key is in flight."""
        numbers = self._keys.get(key)
        return numbers is not None and any(self._held[n].expires > now for n in numbers)

    def near(
        self, value: int, k: int, now: float, limit: int | None = None, skip: int = 0
    ) -> Nearest[Document]:
        """Return the pages in flight within distance k of a value, with distances, nearest first.

        Returns at most `limit`, without the first `skip` of them; `cut` of the answer says whether
        there are more.
        """
        k = min(k, self._k)
        found = [
            (distance, number)
            for number, other in self._young.items()
            if (distance := (value ^ other).bit_count()) <= k
        ]
        cut = False
        if self._table is not None:
            matches = self._table.probe(value, limit)
            cut = matches.cut and matches[-1].distance <= k
            found += [(m.distance, m.document) for m in matches if m.distance <= k]
        if not found:
            return Nearest()
        found.sort()
        if limit is not None:
            cut = cut or len(found) > limit
        near = Nearest(
            [
                (held.verdict.document, distance)
                for distance, number in found[skip:limit]
                if (held := self._held[number]).expires > now
            ]
        )
        near.cut = cut
        return near

    def end(self, token: str, ending: Ending, value: int | None = None) -> Reservation | None:
        """End the reservation of a token and return it, or None if it is not held.

        value is the one that was inserted, if near_since() is to know of it. The last 10,000 ends of tokens are
        remembered, whether or not they were still held.
        """
        if value is not None:
            self.inserts += 1
            self._recent.append(value)
        self._ended.setdefault(token, ending)
        if len(self._ended) > ENDED_LIMIT:
            self._ended.popitem(last=False)
        number = self._numbers.get(token)
        return None if number is None else self._take_out(number)

    def note_inserted(self, values: Sequence[int]) -> None:
        """Count inserts without a reservation, and remember their values."""
        self.inserts += len(values)
        self._recent.extend(values)

    def near_since(self, inserts: int, value: int, k: int) -> bool:
        """Whether a value inserted since a given number of inserts may be within distance k."""
        count = self.inserts - inserts
        if count > len(self._recent):
            return True
        newest_first = islice(reversed(self._recent), count)
        return any((value ^ other).bit_count() <= k for other in newest_first)

    def end_same(self, key: str, page: PageFingerprint, ending: Ending) -> None:
        """End every reservation with this key and the value and sketch of this page."""
        for number in list(self._keys.get(key, ())):
            held = self._held[number].verdict
            mine = held.document.page
            if (mine.value, mine.sketch) == (page.value, page.sketch):
                assert held.token is not None
                self.end(held.token, ending)

    def ending(self, token: str) -> Ending | None:
        """Return how a token ended, or None if it did not, or ended long ago."""
        return self._ended.get(token)

    def pin(self, token: str) -> bool:
        """Keep a reservation until it is ended, however long that takes; False if it is not held.

        Otherwise only the bound on reservations ends it.
        """
        number = self._numbers.get(token)
        if number is None:
            return False
        held = self._held[number]
        if number not in self._pinned:
            del self._expiring[int(held.expires)][number]
            self._held[number] = replace(held, expires=inf)
            self._pinned[number] = None
        return True

    def _take_out(self, number: int) -> Reservation:
        reservation = self._held[number]
        document, token = reservation.verdict.document, reservation.verdict.token
        assert token is not None
        if self._young.pop(number, None) is None and self._table is not None:
            self._table.remove(document.page.value, number)
            if len(self._held) == len(self._young) + 1:
                self._table = None  # it was the last one there
        del self._held[number]
        del self._numbers[token]
        same_key = self._keys[document.key]
        same_key.discard(number)
        if not same_key:
            del self._keys[document.key]
        if number in self._pinned:
            del self._pinned[number]
        else:
            del self._expiring[int(reservation.expires)][number]
        self.bytes -= reservation.bytes
        self._budget.used -= reservation.bytes
        return reservation

    def _sweep(self, now: float) -> None:
        """Remove some reservations whose second is over."""
        left = SWEPT
        while self._seconds and self._seconds[0] + 1 <= now:
            expiring = self._expiring[self._seconds[0]]
            while expiring:
                if not left:
                    return
                self._take_out(next(iter(expiring)))
                left -= 1
            del self._expiring[heappop(self._seconds)]
        self._due = self._seconds[0] + 1 if self._seconds else inf

    def _make_room(self, size: int, now: float) -> None:
        """Remove expired reservations, then the oldest pinned ones: their events should have come.

        Raises TooManyReserved if that is not enough.
        """
        while not self._budget.fits(self.bytes, size) and now >= self._due:
            self._sweep(now)
        while not self._budget.fits(self.bytes, size) and self._pinned:
            self._take_out(next(iter(self._pinned)))
        if self._budget.fits(self.bytes, size):
            return
        raise TooManyReserved(
            f"the {len(self)} pages in flight of this namespace take the memory there is for them: "
            "insert or release them, or give the service more with --memory"
        )
