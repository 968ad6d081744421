"""Who is in flight: fingerprints taken before their pages are processed.

    reserve -> (held) -> end (inserted or released), or expiry

The rule kept here: a reservation stands until its token ends it or its time is over, never longer.
No I/O and no clock: the time comes in with each call, in seconds that never go back. Nothing here
is safe against a second thread; the detector's lock sees to that.

Expired reservations are taken out a few at a time, with each new one, so that no call does much
work; those not yet taken out no longer count.
"""

import secrets
from collections import OrderedDict
from typing import Literal

import msgspec

from dedup.table import Table
from dedup.values import PageFingerprint

__all__ = ["Ending", "Reservation", "Reservations"]

Ending = Literal["inserted", "released"]

HELD_LIMIT = 1_000_000  # reservations at once; beyond it the oldest expires early
ENDED_LIMIT = 10_000  # ended tokens that are remembered
SWEPT = 16  # expired reservations taken out with each new one
NEAR_LIMIT = 1000  # reservations that near() answers at most


class Reservation(msgspec.Struct, frozen=True):
    """A page in flight. expires is in the seconds of the clock that was passed in."""

    token: str
    number: int
    key: str
    page: PageFingerprint
    domain: str
    seconds: float
    expires: float


class Reservations:
    """The pages in flight of one store."""

    def __init__(self, k: int) -> None:
        """Start empty. near() finds values up to Hamming distance k, in bits."""
        self._k = k
        self._table = Table(k)
        self._count = 0
        self._prefix = secrets.token_hex(8)  # a token of another process is never one of ours
        self._held: dict[int, Reservation] = {}
        self._numbers: dict[str, int] = {}  # by token
        self._keys: dict[str, set[int]] = {}
        # By lifetime, each in the order of reserving, which is the order of expiry.
        self._queues: dict[float, OrderedDict[int, None]] = {}
        self._ended: OrderedDict[str, Ending] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of reservations held, among them expired ones not yet taken out."""
        return len(self._held)

    def widen(self, k: int) -> None:
        """Find reservations up to distance k from now on, if that is more than so far."""
        if k > self._k:
            self._k = k
            self._table = Table(k)
            for reservation in self._held.values():
                self._table.insert(reservation.page.value, reservation.number)

    def reserve(
        self, key: str, page: PageFingerprint, domain: str, *, now: float, seconds: float
    ) -> str:
        """Take a fingerprint for so many seconds and return the token of the reservation."""
        self._sweep(now)
        number = self._count
        self._count += 1
        reservation = Reservation(
            f"{self._prefix}-{number:x}", number, key, page, domain, seconds, now + seconds
        )
        self._table.insert(page.value, number)
        self._held[number] = reservation
        self._numbers[reservation.token] = number
        self._keys.setdefault(key, set()).add(number)
        self._queues.setdefault(seconds, OrderedDict())[number] = None
        return reservation.token

    def get(self, token: str) -> Reservation | None:
        """Return the reservation of a token, expired or not, or None once it is out."""
        number = self._numbers.get(token)
        return None if number is None else self._held[number]

    def holds(self, key: str, now: float) -> bool:
        """Tell whether a page with this document key is in flight."""
        return any(self._held[number].expires > now for number in self._keys.get(key, ()))

    def near(self, value: int, k: int, now: float) -> list[tuple[Reservation, int]]:
        """Return the reservations within distance k of a value, with distances, nearest first.

        At most the nearest 1000: leaving more out errs on the side of keeping a page.
        """
        return [
            (reservation, match.distance)
            for match in self._table.probe(value, limit=NEAR_LIMIT)
            if match.distance <= k and (reservation := self._held[match.document]).expires > now
        ]

    def end(self, token: str, ending: Ending) -> Reservation | None:
        """End the reservation of a token and return it, or None if it is not held.

        How a token ended is remembered for the last 10,000, whether or not it was still held.
        """
        self._ended.setdefault(token, ending)
        if len(self._ended) > ENDED_LIMIT:
            self._ended.popitem(last=False)
        number = self._numbers.get(token)
        return None if number is None else self._take_out(number)

    def ending(self, token: str) -> Ending | None:
        """Return how a token ended, or None if it did not, or that was long ago."""
        return self._ended.get(token)

    def _take_out(self, number: int) -> Reservation:
        reservation = self._held[number]
        self._table.remove(reservation.page.value, number)  # first: it is all that may fail
        del self._held[number]
        del self._numbers[reservation.token]
        same_key = self._keys[reservation.key]
        same_key.discard(number)
        if not same_key:
            del self._keys[reservation.key]
        queue = self._queues[reservation.seconds]
        del queue[number]
        if not queue:
            del self._queues[reservation.seconds]
        return reservation

    def _sweep(self, now: float) -> None:
        left = SWEPT
        for queue in list(self._queues.values()):
            while queue and left and self._due(number := next(iter(queue)), now):
                self._take_out(number)
                left -= 1

    def _due(self, number: int, now: float) -> bool:
        return self._held[number].expires <= now or len(self._held) >= HELD_LIMIT
