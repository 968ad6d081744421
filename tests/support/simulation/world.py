"""The world: its clock, who lives in it, and the order in which things happen."""

import asyncio
import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from sketches import sketch

from dedup.model.page import PageFingerprint
from dedup.model.recipes import NEWEST
from simulation.log import Log
from simulation.promises import Promises
from simulation.services import Service
from simulation.spiders import Spider, forget_some


class Page(NamedTuple):
    key: str
    group: int
    page: PageFingerprint


class World:
    """Everything that is."""

    calm = False  # nothing fails any more

    def __init__(self, seed: int, folder: Path, mutation: str, *, faults: bool) -> None:
        self.rng = rng = random.Random(seed)
        self.mutation = mutation
        self.faults = faults
        self.calm = not faults
        self.now = 0.0
        self.agenda: list[tuple[float, int, asyncio.Future[None]]] = []
        self.numbers = itertools.count()
        self.counts: Counter[str] = Counter()
        self.works: set[asyncio.Task[None]] = set()  # that nobody waits for before the end
        self.with_log = rng.random() < 0.8
        self.log = Log(self, 2)
        self.pages = self._pages()
        self.promises = Promises(self)
        self.folder = folder
        self.services: list[Service] = []

    def _pages(self) -> list[Page]:
        rng, pages = self.rng, []
        for group in range(rng.randrange(1, 5)):
            value, bits = rng.getrandbits(64), rng.getrandbits(256)
            for _ in range(rng.randrange(1, 5)):
                near = value ^ 1 << rng.randrange(64), sketch(bits ^ 1 << rng.randrange(256))
                page = PageFingerprint(*near, 0, 300, NEWEST)
                pages.append(Page(f"http://s/{len(pages)}", group, page))
        return pages

    async def sleep(self, seconds: float) -> None:
        await self.timer(seconds)

    def timer(self, seconds: float) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self.agenda, (self.now + seconds, next(self.numbers), future))
        return future

    def work(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done in the background."""
        task = asyncio.ensure_future(work)
        self.works.add(task)
        task.add_done_callback(self.works.discard)

    async def run(self) -> None:
        """Let everything happen; then drain, and compare."""
        rng = self.rng
        count = rng.randrange(1, 4) if self.with_log else 1
        self.services = [Service(self, self.folder / str(i)) for i in range(count)]
        works = [Spider(self).crawl() for _ in range(rng.randrange(1, 5))]
        tasks = [asyncio.ensure_future(work) for work in works]
        others = [asyncio.ensure_future(service.live()) for service in self.services]
        others.append(asyncio.ensure_future(self.log.live()))
        if self.faults and rng.random() < 0.3:
            tasks.append(asyncio.ensure_future(forget_some(self)))
        try:
            await self._until(lambda: all(task.done() for task in tasks))
            self.calm = True
            await self._until(lambda: not self.log.under_way and not self.works)
            for service in self.services:
                if not service.up:
                    service.start()
                while service.lag():
                    await service.apply()
            self.promises.compare()
        finally:
            doomed = (*tasks, *others, *self.works)
            for task in doomed:
                task.cancel()
            await asyncio.gather(*doomed, return_exceptions=True)
            for service in self.services:
                service.end()
        for task in tasks:
            if not task.cancelled() and task.exception():
                raise task.exception()  # type: ignore[misc]

    async def _until(self, done: Callable[[], bool]) -> None:
        loop: Any = asyncio.get_running_loop()
        for _ in range(100_000):
            await asyncio.sleep(0)
            while loop._ready:  # noqa: ASYNC110  (all that follows from what has happened)
                await asyncio.sleep(0)
            if done():
                return
            when, _, future = heapq.heappop(self.agenda)
            self.now = max(self.now, when)
            if not future.done():
                future.set_result(None)
        raise AssertionError("the schedule does not come to an end")
