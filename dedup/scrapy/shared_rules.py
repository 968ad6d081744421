"""Rules about URLs, exchanged with table services (DEDUP.RULES).

Invariant: no page waits for an exchange, and its errors do not count as faults. It has its own
connections while it lasts: on those of the pages, every later answer would wait for it, and its errors say
nothing about the pages. A service that is known to be unavailable is not asked; one that does not know the
command is not asked again.
"""

import asyncio
from collections.abc import Callable

from dedup.detector.url_rules.rule_file import decode_rules
from dedup.detector.url_rules.site_rules import Records
from dedup.model.errors import UsageError
from dedup.scrapy.counts import logger
from dedup.scrapy.pending_updates import CLOSE_SECONDS
from dedup.wire.client.command_codec import Command, Request
from dedup.wire.client.services import Services

__all__ = ["SharedRules"]

Take = Callable[[list[Records] | None], None]


class SharedRules:
    """The rules of one namespace at table services."""

    def __init__(self, services: Services, timeout_seconds: float, namespace: str) -> None:
        """Exchange nothing yet; services are those that judge the pages."""
        self._services = services
        self._timeout = timeout_seconds
        self._namespace = namespace
        self._known = True  # whether the services know the command
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def exchange(self, content: bytes, take: Take) -> None:
        """Send rules (b"": none) soon, and pass those of the services to take.

        take gets None if no service has answered.
        """
        task = asyncio.get_running_loop().create_task(self._exchange(content, take))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for the exchange that is under way, at most CLOSE_SECONDS."""
        if tasks := tuple(self._tasks):
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)  # their connections are closed

    async def _exchange(self, content: bytes, take: Take) -> None:
        async with self._turn:
            if not self._known:
                return
            try:
                replies = await self._asked(content)
                found = [
                    await asyncio.to_thread(decode_rules, reply)
                    for reply in replies
                    if isinstance(reply, bytes)
                ]
                self._known = not replies or not all(isinstance(e, UsageError) for e in replies)
                take(found if replies else None)
            except Exception as error:
                self._known = False
                logger.warning("dedup: rules about URLs are not shared with a service: %s", error)

    async def _asked(self, content: bytes) -> list[object]:
        """Return the services' replies; none if none replied."""
        reachable = await self._services.reachable()
        if not reachable:
            return []
        command: Command = (b"DEDUP.RULES", self._namespace)
        request = Request(
            (*command, content) if content else command, self._namespace, None, to_all=True
        )
        services = Services(reachable, self._timeout)
        try:
            await services.execute((request,))
        finally:
            await services.close()
        return list(request.replies.values())
