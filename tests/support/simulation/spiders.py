"""Spiders: each fetches some pages, one after the other; a crash forgets what was under way."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from dedup.model.errors import DedupError
from dedup.model.page import Verdict
from dedup.service.core.refusal import Refused
from simulation.log import NS
from simulation.services import RESERVATION_SECONDS, Service

if TYPE_CHECKING:
    from simulation.world import Page, World

WAIT_SECONDS = 3.0
TRIES = 5


class Held(NamedTuple):
    """A page that was judged, and by whom."""

    service: Service
    verdict: Verdict


class Spider:
    """A spider that asks one service of several, any of them, at once."""

    def __init__(self, world: "World") -> None:
        self.world = world

    async def crawl(self) -> None:
        world, rng = self.world, self.world.rng
        todo = [rng.choice(world.pages) for _ in range(rng.randrange(2, 7))]
        crashes = rng.randrange(3) if world.faults else 0
        while todo:
            page = todo[-1]
            await world.sleep(rng.expovariate(1.0))
            if crashes and rng.random() < 0.2:
                crashes -= 1
                doomed = asyncio.ensure_future(self._page(page))
                await world.sleep(rng.expovariate(0.7))
                if not doomed.done():
                    doomed.cancel()
                    self.crashed()
                    continue  # after its restart it asks for the page again
                await doomed
            else:
                await self._page(page)
            todo.pop()

    async def _page(self, page: "Page") -> None:
        """The way of one page."""
        world, rng = self.world, self.world.rng
        held = await self.judged(page)
        world.counts["pages"] += 1
        if held is not None and held.verdict.status == "near_duplicate":
            world.counts["dropped"] += 1
            world.promises.tried.add(page.group)
            return
        late = world.faults and rng.random() < 0.1
        await world.sleep(2 * RESERVATION_SECONDS if late else rng.expovariate(0.5))
        if world.faults and rng.random() < 0.1:  # the callback raised: given back
            if held is not None:
                self.release(page, held)
            return
        world.promises.process(page)
        if held is None or held.verdict.token is None:
            return
        await self.insert(page, held)

    def crashed(self) -> None:
        """Forget what was under way."""

    async def judged(self, page: "Page") -> Held | None:
        """Return what the page is; None: a fault of ours keeps it."""
        world, rng = self.world, self.world.rng
        service = rng.choice(world.services)
        waited, exempt = 0.0, None
        while True:
            verdict = service.reserve(page, exempt)
            if verdict is None:
                return None
            world.promises.judge(page, service, verdict)
            if verdict.status != "pending":
                return Held(service, verdict)
            pause = rng.uniform(0.1, 1.0)
            await world.sleep(pause)
            waited += pause
            if waited > WAIT_SECONDS:
                exempt = "in_flight"

    def release(self, page: "Page", held: Held) -> None:
        if held.service.up:
            held.service.asked(
                lambda commands: commands.release(NS, page.key, held.verdict.token or "")
            )

    async def insert(self, page: "Page", held: Held) -> None:
        """Insert, again and again; a reservation that is not held is taken anew."""
        world, service, token = self.world, held.service, held.verdict.token or ""
        for _ in range(TRIES):
            try:
                if not service.up:
                    raise Refused("GONE", "no answer")
                done = service.commands.insert(NS, page.key, token)
                life = service.life
                if done is not None:
                    await done
                if world.mutation == "let go at the acknowledgement":
                    service.asked(lambda commands, t=token: commands.release(NS, page.key, t))
                if service.life == life:  # else it crashed, and there was no answer
                    world.promises.accept(page, service)
                    return
            except Refused as error:
                if error.code == "NOTOKEN":
                    again = service.reserve(page, "expired")
                    token = token if again is None else again.token or ""
            except DedupError:
                pass
            await world.sleep(world.rng.uniform(0.1, 3.0))
            service = world.rng.choice(world.services)


async def forget_some(world: "World") -> None:
    """Have a page or two forgotten."""
    for _ in range(world.rng.randrange(1, 3)):
        await world.sleep(world.rng.expovariate(0.1))
        page, service = world.rng.choice(world.pages), world.rng.choice(world.services)
        if service.up:
            world.promises.forget(page)
            try:
                done = service.commands.forget(NS, page.key)
                if isinstance(done, asyncio.Future):
                    await done
            except DedupError:
                pass
            world.promises.forget(page)
