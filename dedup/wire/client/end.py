"""One table service, for an asyncio loop: its link, kept up in the background.

    connect -> AUTH -> DEDUP.PARTITIONS (what it holds) -> the link stands, until it breaks

The rule kept here: a link that broke is made again by a task of its own, ever more seldom
(breaker.py). What a service was told while it was away, or may not have heard, it is told again once
it is back: the last UNTOLD_LIMIT of that.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from dedup.model.errors import ServiceUnavailable
from dedup.wire.client.address import Address
from dedup.wire.client.asked import packed
from dedup.wire.client.breaker import Breaker
from dedup.wire.client.commands import PARTITIONS, error_of
from dedup.wire.client.link import Link, ReplyError
from dedup.wire.client.routing import OLDER, holding_of

__all__ = ["End"]

logger = logging.getLogger("dedup")

UNTOLD_LIMIT = 10_000


class End:
    """One URL.

    link     its connection while it stands
    holding  what the service at its other end holds
    tried    whether the first attempt to connect is over
    trouble  what is wrong, or was at last
    """

    def __init__(
        self,
        address: Address,
        timeout_seconds: float,
        meter: AbstractContextManager[Any],
        changed: Callable[[], None],
    ) -> None:
        """Begin to connect. changed is called when who can be asked may be another."""
        self.address = address
        self.link: Link | None = None
        self.holding = OLDER
        self.tried = asyncio.Event()
        self.trouble = "not connected yet"
        self._timeout = timeout_seconds
        self._meter = meter
        self._changed = changed
        self._untold: deque[bytes] = deque(maxlen=UNTOLD_LIMIT)
        self._refuses = Breaker(1)  # what answers that it cannot answer
        self._is_tried = False  # since it answered so of late
        self._loop = asyncio.get_running_loop()
        self._said = False
        self._task = self._loop.create_task(self._keep())

    @property
    def refuses(self) -> bool:
        """Whether it answered of late that it cannot do its work, and is only tried."""
        return self._is_tried

    def stands(self) -> bool:
        """Whether the service may be asked; of one that refuses, one caller is told so at a time."""
        return self.link is not None and (
            not self._is_tried or self._refuses.allows(self._loop.time())
        )

    def ask(self, data: bytes) -> asyncio.Future[Any]:
        """Send a command; the future gets its answer. Raises ServiceUnavailable, and waits never."""
        if self.link is None:
            raise ServiceUnavailable(self.trouble)
        future = self.link.ask(data)
        if self._is_tried:
            future.add_done_callback(self._tried)
        return future

    def _tried(self, future: asyncio.Future[Any]) -> None:
        if not future.cancelled() and future.exception() is None:
            self.answered()

    def tell(self, data: bytes) -> None:
        """Send a command whose answer nobody needs, now or when the service is there again."""
        try:
            if self.link is not None:
                self.link.tell(data)
                return
        except ServiceUnavailable:
            pass
        self._untold.append(data)

    def answered(self) -> None:
        """Note that the service did its work."""
        self._refuses.answered()
        self._is_tried = False

    def failed(self, trouble: str) -> None:
        """Note that the service answers, but cannot do its work."""
        self.trouble = trouble
        self._refuses.failed(self._loop.time())
        self._is_tried = True
        self._changed()

    async def first_try(self) -> None:
        """Wait, no longer than the timeout, until the first attempt to connect is over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.tried.wait(), self._timeout)

    async def close(self) -> None:
        """Close the link; what was told is sent, where it stands."""
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
                self.trouble = ""
                self.tried.set()
                self._changed()
                self._tell_again()
                if self._said:
                    self._said = False
                    logger.info("the table service %s answers again", self.address)
                since = self._loop.time()
                self.trouble = await link.lost
                self.link = None
                self._changed()
                self._untold.extend(link.untold)
                if self._loop.time() - since > 1:
                    breaker.answered()
                breaker.failed(self._loop.time())
            self.tried.set()
            await asyncio.sleep(breaker.rests(self._loop.time()))

    def _tell_again(self) -> None:
        untold, self._untold = self._untold, deque(maxlen=UNTOLD_LIMIT)
        for data in untold:
            self.tell(data)

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
                await link.ask(packed((b"AUTH", address.token)))
            try:
                said = await link.ask(packed(PARTITIONS))
            except ReplyError as answer:
                said = error_of(str(answer))
            self.holding = holding_of(said)
        except ReplyError as answer:
            link.close()
            raise error_of(str(answer)) from None
        except BaseException:
            link.close()
            raise
        return link
