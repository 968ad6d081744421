"""The table services at some URLs, for an asyncio loop: which are asked, and what they reply.

    execute -> the services of a route, all at once -> replies; for a service that fails, the next
               ones that hold what it held, within the timeout again

Invariant: a service that is known to be away is not waited for. Only until the first attempt
to connect to it is over does a caller wait for it, within the timeout. The route stays the same until
a service comes, goes or refuses.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from dedup.model.errors import ServiceUnavailable
from dedup.wire.client.address import Address
from dedup.wire.client.command_codec import Command, Request, Route, error_of, unavailable
from dedup.wire.client.endpoint import Endpoint, ReplyError
from dedup.wire.resp import pack

__all__ = ["Services"]

Sent = tuple[Request, int, "asyncio.Future[Any]"]

HOLDERS_LIMIT = 100_000  # tokens whose holders are known; for older ones the route is asked


class Holders(dict[str, tuple[int, ...]]):
    """Which services hold which token, of the last HOLDERS_LIMIT tokens."""

    def note(self, token: str, services: tuple[int, ...]) -> None:
        """Remember the services that hold a token."""
        self[token] = services
        if len(self) > HOLDERS_LIMIT:
            with suppress(StopIteration):
                self.pop(next(iter(self)), None)


class Services:
    """Services in order of preference, each known by its number. Made and used in one running loop.

    holders  which of them hold which reservation
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
        self._route: Route | None = None  # while nothing changes
        self._changes = 0
        self._endpoints = [
            Endpoint(address, timeout_seconds, meter, self._changed) for address in addresses
        ]

    async def execute(self, requests: Sequence[Request]) -> None:
        """Send requests and wait for the replies, which are noted in them.

        A service that does not reply is no error here: the request lacks its reply. Cancelled, the
        requests name the services that may have carried them out.
        """
        failed: set[int] = set()
        while requests:
            route = (None if failed else self._route) or await self._find_route(failed)
            sent, again = self._send(requests, route, failed)
            for request, number, future in sent:
                try:
                    request.replies[number] = await future
                except (ReplyError, ServiceUnavailable) as error:
                    if not self._replied(request, number, error):
                        failed.add(number)
                        again[request] = None
                except BaseException:
                    _abandon(sent)
                    raise
            requests = list(again)

    def send_later(self, number: int, command: Command) -> None:
        """Send a service a command whose reply does not matter, as soon as it can be reached."""
        self._endpoints[number].send_later(pack(command))

    async def reachable(self) -> tuple[Address, ...]:
        """Return where the services are that can be asked now, once each was tried."""
        for endpoint in self._endpoints:
            await endpoint.first_try()
        return tuple(
            endpoint.address
            for endpoint in self._endpoints
            if endpoint.connection is not None and not endpoint.on_trial
        )

    def unavailable(self, route: Route) -> ServiceUnavailable:
        """Return the error that says what is wrong with each service."""
        return unavailable(
            route, [(each.address, each.holding, each.trouble) for each in self._endpoints]
        )

    async def close(self) -> None:
        """Close all connections. Nothing of them is left in the loop."""
        for endpoint in self._endpoints:
            await endpoint.close()

    def _send(
        self, requests: Sequence[Request], route: Route, failed: set[int]
    ) -> tuple[list[Sent], dict[Request, None]]:
        """Send requests to a route; add the services that are away to failed.

        Returns what was sent, and the requests that a failed service did not get.
        """
        sent: list[Sent] = []
        again: dict[Request, None] = {}
        for request in requests:
            for number in request.targets(route):
                endpoint = self._endpoints[number]
                try:
                    future = endpoint.send(request.data_for(number, endpoint.holding))
                    sent.append((request, number, future))
                except ServiceUnavailable:
                    failed.add(number)
                    again[request] = None
        return sent, again

    def _replied(self, request: Request, number: int, error: Exception) -> bool:
        """Note an error; return False for one that keeps the service from its work."""
        endpoint = self._endpoints[number]
        if not isinstance(error, ReplyError):
            endpoint.trouble = str(error)
            request.unanswered |= {number}
            return False
        stands_for = error_of(str(error))
        if isinstance(stands_for, ServiceUnavailable):
            endpoint.refused(str(stands_for))
            return False
        request.replies[number] = stands_for
        endpoint.answered()
        return True

    async def _find_route(self, failed: Collection[int]) -> Route:
        """Return the route over the services that did not fail."""
        route, lasts, changes = Route(), not failed, self._changes
        for number, endpoint in enumerate(self._endpoints):
            if not endpoint.tried.is_set():
                await endpoint.first_try()
            if number in failed or not route.wants(endpoint.holding):
                continue
            lasts = lasts and not endpoint.on_trial
            if endpoint.may_be_asked():
                route.add(number, endpoint.holding, endpoint.address)
            if route.complete:
                break
        if lasts and changes == self._changes:
            self._route = route
        return route

    def _changed(self) -> None:
        self._route = None
        self._changes += 1


def _abandon(sent: Sequence[Sent]) -> None:
    """Give up what was sent, and note the services that did not reply."""
    for request, number, future in sent:
        if number not in request.replies:
            request.unanswered |= {number}
            if not future.cancel() and not future.cancelled():
                future.exception()  # or asyncio says that it was never retrieved
