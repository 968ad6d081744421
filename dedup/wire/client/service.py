"""The table services of a crawl, for an asyncio loop: who is asked, and what they answer.

    run -> (a flow asks something) -> the services of a route, all at once -> replies; for one that
           fails, the next ones that hold what it held, within the timeout again

The rule kept here: nobody waits for a service that is known to be away. Only before the first attempt
to connect to it is over does an asker wait for it, within the timeout. The route stays the same until
a service comes, goes or refuses. One that holds everything and is well is asked without a flow (aio.py);
what it does not answer as it should becomes one.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from dedup.model.errors import ServiceUnavailable
from dedup.wire.client.address import Address
from dedup.wire.client.asked import Asked, packed
from dedup.wire.client.commands import Command, error_of
from dedup.wire.client.end import End
from dedup.wire.client.flows import Flow, Holders, T
from dedup.wire.client.link import Link, ReplyError
from dedup.wire.client.routing import Route, unavailable

__all__ = ["Service"]

Sent = tuple[Asked, int, "asyncio.Future[Any]"]


class Alone(NamedTuple):
    """A service that holds everything, is well, and takes tokens made here; the route is it alone."""

    number: int
    link: Link
    route: Route


Begun = tuple[Alone, Sequence["asyncio.Future[Any]"]]


class Service:
    """The services at some URLs, in order of preference. Made and used in one running loop.

    alone  the one that is asked for everything; None while there is none
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        timeout_seconds: float,
        meter: AbstractContextManager[Any] | None = None,
    ) -> None:
        """Begin to connect; meter is entered around the work done for the connections."""
        self.holders = Holders()
        meter = nullcontext() if meter is None else meter
        self.alone: Alone | None = None
        self._route: Route | None = None  # while nothing changes
        self._changes = 0
        self._ends = [End(address, timeout_seconds, meter, self._changed) for address in addresses]

    async def run(self, flow: Flow[T], begun: Begun | None = None) -> T:
        """Carry out what a flow asks for; return what it comes to. Raises what it raises.

        begun says who was asked already for what it asks first, and the answers to come.
        """
        try:
            while True:
                batch = next(flow)
                failed: set[int] = set()
                while batch:
                    if begun is not None:
                        (sent, again), begun = _begun(batch, *begun), None
                    else:
                        route = (None if failed else self._route) or await self._found(failed)
                        sent, again = self._sent(batch, route, failed)
                    for asked, number, future in sent:
                        try:
                            asked.replies[number] = await future
                        except (ReplyError, ServiceUnavailable) as error:
                            if not self._answered(asked, number, error):
                                failed.add(number)
                                again[asked] = None
                        except BaseException:  # nobody waits any more
                            _give_up(sent)
                            raise
                    batch = list(again)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            flow.close()

    def _sent(
        self, batch: Sequence[Asked], route: Route, failed: set[int]
    ) -> tuple[list[Sent], dict[Asked, None]]:
        """Ask who is on a route; add to failed who is away, and return what they were to be asked."""
        sent: list[Sent] = []
        again: dict[Asked, None] = {}
        for asked in batch:
            for number in asked.left(route):
                end = self._ends[number]
                try:
                    future = end.ask(asked.bytes_for(number, end.holding))
                    sent.append((asked, number, future))
                except ServiceUnavailable:
                    failed.add(number)
                    again[asked] = None
        return sent, again

    def _answered(self, asked: Asked, number: int, error: Exception) -> bool:
        """Note an error; False for one that keeps the service from its work."""
        end = self._ends[number]
        if not isinstance(error, ReplyError):
            end.trouble = str(error)
            asked.lost |= {number}
            return False
        stands_for = error_of(str(error))
        if isinstance(stands_for, ServiceUnavailable):
            end.failed(str(stands_for))
            return False
        asked.replies[number] = stands_for
        end.answered()
        return True

    async def _found(self, failed: Collection[int]) -> Route:
        """Return whom to ask, of those that did not fail."""
        route, lasts, changes = Route(), not failed, self._changes
        for number, end in enumerate(self._ends):
            if not end.tried.is_set():
                await end.first_try()
            if number in failed or not route.wants(end.holding):
                continue
            lasts = lasts and not end.refuses
            if end.stands():
                route.add(number, end.holding, end.address)
            if route.complete:
                break
        if lasts and changes == self._changes:
            self._route = route
            if route.complete and len(route.ends) == 1:
                end = self._ends[route.ends[0]]
                if end.link is not None and end.holding.tokens:
                    self.alone = Alone(route.ends[0], end.link, route)
        return route

    def _changed(self) -> None:
        self._route = self.alone = None
        self._changes += 1

    def tell(self, end: int, command: Command) -> None:
        """Have a service release something, as soon as it can be reached. Waits for nothing."""
        self._ends[end].tell(packed(command))

    def unavailable(self, route: Route) -> ServiceUnavailable:
        """Return the error that says what is wrong with each service."""
        return unavailable(route, [(end.address, end.holding, end.trouble) for end in self._ends])

    async def close(self) -> None:
        """Close all links. Nothing of them is left in the loop."""
        for end in self._ends:
            await end.close()


def _begun(
    batch: Sequence[Asked], alone: Alone, answers: Sequence["asyncio.Future[Any]"]
) -> tuple[list[Sent], dict[Asked, None]]:
    """Return what Service._sent() does, where the one that was alone was asked."""
    for asked in batch:
        asked.left(alone.route)
    return [(a, alone.number, answer) for a, answer in zip(batch, answers, strict=True)], {}


def _give_up(sent: Sequence[Sent]) -> None:
    for asked, number, future in sent:
        if number not in asked.replies:
            asked.lost |= {number}
            if not future.cancel() and not future.cancelled():
                future.exception()  # as good as seen
