"""The table services of a crawl, for an asyncio loop: one link to each, kept up in the background.

    ask -> the first URL whose link stands -> an answer; if it fails, the next one within the timeout

The rule kept here: nobody waits for a service that is known to be away. A link that broke is made
again by a task of its own, ever more seldom (breaker.py); it stands once the service has taken the
token and answered a PING. Only before the first attempt is over does an asker wait for it, within
the timeout.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from dedup.client.address import Address
from dedup.client.breaker import Breaker
from dedup.client.commands import Command, error_of
from dedup.client.link import Late, Link, ReplyError
from dedup.errors import ServiceUnavailable

__all__ = ["Service"]

logger = logging.getLogger("dedup")


class Service:
    """The services at some URLs, in order of preference. Made and used in one running loop."""

    def __init__(
        self,
        addresses: Sequence[Address],
        timeout_seconds: float,
        meter: AbstractContextManager[Any] | None = None,
    ) -> None:
        """Begin to connect; meter is entered around the work done for the connections."""
        self.timeout_seconds = timeout_seconds
        meter = nullcontext() if meter is None else meter
        self._ends = [_End(address, timeout_seconds, meter) for address in addresses]

    async def ask(self, command: Command, late: Late | None = None) -> Any:
        """Return the answer of the first service that gives one.

        late gets an answer that came too late. Raises what the answer stands for, and
        ServiceUnavailable.
        """
        for end in self._ends:
            if end.link is None and not end.tried.is_set():
                await end.first_try()
            link = end.standing()
            if link is None:
                continue
            try:
                reply = await link.ask(command, late)
            except ReplyError as answer:
                error = error_of(str(answer))
                if not isinstance(error, ServiceUnavailable):
                    end.answered()
                    raise error from None
                end.failed(str(error))
            except ServiceUnavailable as error:
                end.trouble = str(error)
            else:
                end.answered()
                return reply
        raise self.unavailable()

    async def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Ask many at once; return for each its answer, or the error that ask() would raise."""
        link = self._first()
        futures = [None if link is None else _asked(link, command) for command in commands]
        return [
            await self._outcome(command, future)
            for command, future in zip(commands, futures, strict=True)
        ]

    async def _outcome(self, command: Command, future: asyncio.Future[Any] | None) -> Any:
        try:
            if future is not None:
                try:
                    return await future
                except ReplyError as answer:
                    error = error_of(str(answer))
                    if not isinstance(error, ServiceUnavailable):
                        return error
                except ServiceUnavailable:
                    pass
            return await self.ask(command)
        except Exception as error:
            return error

    def post(self, command: Command) -> None:
        """Send a command whose answer nobody needs, if there is a service."""
        link = self._first()
        if link is not None and (future := _asked(link, command)) is not None:
            future.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _first(self) -> Link | None:
        return next(filter(None, (end.standing() for end in self._ends)), None)

    def unavailable(self) -> ServiceUnavailable:
        """Return the error that says what is wrong with each service."""
        why = "; ".join(f"{end.address}: {end.trouble}" for end in self._ends)
        return ServiceUnavailable(
            f"no table service answers ({why}); see that `dedup serve` runs there"
        )

    async def close(self) -> None:
        """Close all links. Nothing of them is left in the loop."""
        for end in self._ends:
            await end.close()


def _asked(link: Link, command: Command) -> asyncio.Future[Any] | None:
    try:
        return link.ask(command)
    except ServiceUnavailable:
        return None


class _End:
    """One URL: its link while it stands, and the task that keeps it."""

    def __init__(
        self, address: Address, timeout_seconds: float, meter: AbstractContextManager[Any]
    ) -> None:
        self.address = address
        self.link: Link | None = None
        self.tried = asyncio.Event()  # whether the first attempt to connect is over
        self.trouble = "not connected yet"
        self._timeout = timeout_seconds
        self._meter = meter
        self._refuses = Breaker(1)  # what answers that it cannot answer
        self._loop = asyncio.get_running_loop()
        self._said = False
        self._task = self._loop.create_task(self._keep())

    def standing(self) -> Link | None:
        """Return the link if the service may be asked."""
        if self._refuses.is_closed or self._refuses.allows(self._loop.time()):
            return self.link
        return None

    def answered(self) -> None:
        """Note that the service did its work."""
        self._refuses.answered()

    def failed(self, trouble: str) -> None:
        """Note that the service answers, but cannot do its work."""
        self.trouble = trouble
        self._refuses.failed(self._loop.time())

    async def first_try(self) -> None:
        """Wait, no longer than the timeout, until the first attempt to connect is over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.tried.wait(), self._timeout)

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        if self.link is not None:
            self.link.close()
            self.link = None
        await asyncio.sleep(0)  # the transport ends in the next turn of the loop

    async def _keep(self) -> None:
        breaker = Breaker(1)
        while True:
            try:
                async with asyncio.timeout(self._timeout):
                    link = await self._connect()
            except Exception as error:
                self.trouble = str(error) or f"no connection within {self._timeout:g} s"
                breaker.failed(self._loop.time())
                self._say(f"{self.address} is away ({self.trouble}); pages are kept meanwhile")
            else:
                self.link = link
                self.tried.set()
                if self._said:
                    self._said = False
                    logger.info("the table service %s answers again", self.address)
                since = self._loop.time()
                self.trouble = await link.lost
                self.link = None
                if self._loop.time() - since > 1:
                    breaker.answered()
                breaker.failed(self._loop.time())
            self.tried.set()
            await asyncio.sleep(breaker.rests(self._loop.time()))

    def _say(self, text: str) -> None:
        """Say that the service is away, once until it is back."""
        if not self._said:
            self._said = True
            logger.warning("the table service %s", text)

    async def _connect(self) -> Link:
        address = self.address
        _, link = await self._loop.create_connection(
            lambda: Link(self._timeout, self._meter),
            address.host,
            address.port,
            ssl=address.context(),
        )
        try:
            if address.token is not None:
                await link.ask((b"AUTH", address.token))
            await link.ask((b"PING",))
        except ReplyError as answer:
            link.close()
            raise error_of(str(answer)) from None
        except BaseException:
            link.close()
            raise
        return link
