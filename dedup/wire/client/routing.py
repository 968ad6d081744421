"""Which services are asked, where the documents are spread over several. No I/O.

    URLs in order of preference, and what each one holds -> Route -> whom to ask; the home of a key

The rule kept here: for each partition of the log the first service that holds it, of those that can be
asked. One that holds everything is therefore asked alone, and those after it only without it. What
nobody holds is named, and whatever depends on it has no answer.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from dedup.model.errors import DedupError, ServiceUnavailable, UsageError
from dedup.model.events import record_key
from dedup.wire.client.address import Address
from dedup.wire.shards import PARTITIONS_LIMIT, Share, partition_of

__all__ = ["NOBODY", "OLDER", "Holding", "Route", "holding_of", "unavailable"]

NOBODY = -1  # the number of the service that holds what no service holds


class Holding(msgspec.Struct, frozen=True):
    """What a service says of itself when it is connected to.

    share   its partitions, or None: it holds everything
    count   partitions of its log; 0 without one
    tokens  whether it takes tokens that are made here
    """

    share: Share | None
    count: int = 0
    tokens: bool = True

    def __str__(self) -> str:
        return "everything" if self.share is None else f"partitions {self.share}"


OLDER = Holding(None, tokens=False)  # does not know the question


def holding_of(reply: Any) -> Holding:
    """Return what the answer to DEDUP.PARTITIONS says. Raises ServiceUnavailable for anything else."""
    if isinstance(reply, DedupError):
        if isinstance(reply, UsageError):
            return OLDER
        raise reply
    try:
        text, count = reply[0].decode(), int(reply[1])
        if text == "*" and 0 <= count <= PARTITIONS_LIMIT:
            return Holding(None, count)
        if 0 < count <= PARTITIONS_LIMIT:
            return Holding(Share.of(text, count), count)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, DedupError):
        pass
    raise ServiceUnavailable(f"its answer is not one of a table service: {str(reply)[:200]}")


class Route:
    """Who is asked, of services that are added in order of preference.

    ends      their numbers, in that order
    complete  whether every partition is held by one of them
    trouble   what keeps them from being asked together, or None
    """

    __slots__ = ("_homes", "_only", "complete", "count", "ends", "trouble")

    def __init__(self) -> None:
        """Begin with nobody."""
        self.ends: tuple[int, ...] = ()
        self.complete = False
        self.trouble: str | None = None
        self.count = 0  # partitions; known with the first service that holds a share
        self._homes: list[int] = []  # by partition
        self._only = NOBODY  # who holds everything, while the homes are not looked up

    def wants(self, holding: Holding) -> bool:
        """Whether a service holds anything that none before it does."""
        if self.complete or (self.ends and not holding.tokens):
            return False
        if holding.share is None or not self._homes or holding.count != self.count:
            return True
        return any(self._homes[number] == NOBODY for number in holding.share.partitions)

    def add(self, end: int, holding: Holding, address: object = "") -> None:
        """Let a service that is wanted take what none before it holds."""
        share = holding.share
        if not self.ends and share is None:
            self.ends, self._only, self.complete = (end,), end, True
            return
        if not self._homes and share is not None:
            self.count = share.count
            self._homes = [NOBODY] * share.count
        elif share is not None and share.count != self.count:
            self.trouble = (
                f"{address} says that the log has {share.count} partitions, others say {self.count}: "
                "they do not share one log"
            )
            self.ends, self.complete = (), True
            return
        for number in range(self.count) if share is None else share.partitions:
            if self._homes[number] == NOBODY:
                self._homes[number] = end
        self.ends = (*self.ends, end)
        self.complete = NOBODY not in self._homes
        self._only = end if len(self.ends) == 1 and self.complete else NOBODY

    def home(self, namespace: str, key: str) -> int:
        """Return who holds the document with a key, or is to hold it; NOBODY if none does.

        Raises EventInvalid for a key that is too long for the log or not Unicode.
        """
        if self._only != NOBODY or not self.ends:
            return self._only
        return self._homes[partition_of(record_key(namespace, key), self.count)]

    def missing(self) -> str:
        """Return the partitions that nobody holds, as "4-7,9"; "" if that is not known, or none."""
        left = frozenset(n for n, end in enumerate(self._homes) if end == NOBODY)
        return str(Share(left, self.count))


def unavailable(route: Route, ends: Sequence[tuple[Address, Holding, str]]) -> ServiceUnavailable:
    """Return the error that says what keeps the services of a route from an answer.

    ends are all services: the address, what it holds, and what is wrong with it.
    """
    if route.trouble is not None:
        return ServiceUnavailable(f"the table services disagree: {route.trouble}")
    why = "; ".join(
        f"{address}: {trouble if trouble and number not in route.ends else f'holds {holding}'}"
        for number, (address, holding, trouble) in enumerate(ends)
    )
    lacking = "no table service answers"
    if missing := route.missing():
        lacking = f"partitions {missing} of the log are held by no table service that answers"
    return ServiceUnavailable(f"{lacking} ({why}); see that `dedup serve` runs there")
