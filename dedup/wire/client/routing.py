"""Which services are asked, where the documents are spread over several. No I/O.

    URLs in order of preference, and what each one holds -> Route -> services to ask; the home of a key

The rule kept here: for each partition of the log the first service that holds it, of those that can be
asked. One that holds everything is therefore asked alone, and those after it only when it fails.
Partitions that no service holds are named, and whatever depends on them has no answer.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from dedup.model.errors import DedupError, ServiceUnavailable, UsageError
from dedup.model.events import record_key
from dedup.wire.client.address import Address
from dedup.wire.shards import PARTITIONS_LIMIT, Share, partition_of

__all__ = ["NO_SERVICE", "OLDER", "Holding", "Route", "holding_of", "unavailable"]

NO_SERVICE = -1  # in place of a service's number: none holds it


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
    """The services to ask; they are added in order of preference.

    services  their numbers, in that order
    complete  whether every partition is held by one of them
    trouble   what keeps them from being asked together, or None
    """

    __slots__ = ("_homes", "_only", "complete", "count", "services", "trouble")

    def __init__(self) -> None:
        """Begin without any."""
        self.services: tuple[int, ...] = ()
        self.complete = False
        self.trouble: str | None = None
        self.count = 0  # partitions; known with the first service that holds a share
        self._homes: list[int] = []  # by partition
        self._only = NO_SERVICE  # the one that holds everything: no homes to look up

    def wants(self, holding: Holding) -> bool:
        """Whether a service holds anything that none before it does."""
        if self.complete or (self.services and not holding.tokens):
            return False
        if holding.share is None or not self._homes or holding.count != self.count:
            return True
        return any(self._homes[number] == NO_SERVICE for number in holding.share.partitions)

    def add(self, number: int, holding: Holding, address: object = "") -> None:
        """Let a service that is wanted take what none before it holds."""
        share = holding.share
        if not self.services and share is None:
            self.services, self._only, self.complete = (number,), number, True
            return
        if not self._homes and share is not None:
            self.count = share.count
            self._homes = [NO_SERVICE] * share.count
        elif share is not None and share.count != self.count:
            self.trouble = (
                f"{address} says that the log has {share.count} partitions, others say {self.count}: "
                "they do not share one log"
            )
            self.services, self.complete = (), True
            return
        for partition in range(self.count) if share is None else share.partitions:
            if self._homes[partition] == NO_SERVICE:
                self._homes[partition] = number
        self.services = (*self.services, number)
        self.complete = NO_SERVICE not in self._homes
        self._only = number if len(self.services) == 1 and self.complete else NO_SERVICE

    def home(self, namespace: str, key: str) -> int:
        """Return the service that holds, or is to hold, the document with a key, or NO_SERVICE.

        Raises EventInvalid for a key that is too long for the log or not Unicode.
        """
        if self._only != NO_SERVICE or not self.services:
            return self._only
        return self._homes[partition_of(record_key(namespace, key), self.count)]

    def missing(self) -> str:
        """Return the partitions that no service holds, as "4-7,9"; "" if not known, or none."""
        left = frozenset(n for n, home in enumerate(self._homes) if home == NO_SERVICE)
        return str(Share(left, self.count))


def unavailable(
    route: Route, services: Sequence[tuple[Address, Holding, str]]
) -> ServiceUnavailable:
    """Return the error that says what keeps the services of a route from an answer.

    services are all of them: the address, what it holds, and what is wrong with it.
    """
    if route.trouble is not None:
        return ServiceUnavailable(f"the table services disagree: {route.trouble}")
    why = "; ".join(
        f"{address}: {trouble if trouble and number not in route.services else f'holds {holding}'}"
        for number, (address, holding, trouble) in enumerate(services)
    )
    lacking = "no table service answers"
    if missing := route.missing():
        lacking = f"partitions {missing} of the log are held by no table service that answers"
    return ServiceUnavailable(f"{lacking} ({why}); see that `dedup serve` runs there")
