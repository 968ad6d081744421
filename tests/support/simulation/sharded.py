"""Spiders that ask several services, each of which holds some partitions (docs/explain/shards.md).

Steps: who holds what -> RESERVE at all -> merged() -> INSERT at the home -> RELEASE at the others.
Messages take their time and keep their order on a connection; it may break, and they may be late.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from dedup.model.errors import DedupError
from dedup.model.page import ReserveOptions, Verdict
from dedup.service.core.namespaces import PolicyOverrides
from dedup.service.core.operations import Operations
from dedup.service.core.refusal import Refused
from dedup.wire.shards import PartitionShare, merged
from simulation.log import NS
from simulation.promises import Attempt
from simulation.services import Service
from simulation.spiders import TRIES, WAIT_SECONDS, Held, Spider

if TYPE_CHECKING:
    from simulation.world import Page, World

TIMEOUT_SECONDS = 2.0  # that a spider waits for answers
NO_ANSWER = object()
NOBODY = -1  # holds what no service holds

View = dict[int, tuple[Service, int]]  # {partition: who is asked for it, in which life}


class Link:
    """A spider's connection to a service."""

    def __init__(self, world: "World", service: Service) -> None:
        self.world, self.service = world, service
        self.life = 0  # of the service, that this is a connection to; 0: there is none
        self.held: frozenset[int] = frozenset()
        self.free = 0.0  # when the last message arrives

    def connect(self) -> None:
        """Ask who holds what, unless that is known."""
        service = self.service
        if self.life and self._stands(self.life):
            return
        self.life, self.held = 0, frozenset()
        if service.up:
            try:
                text, count = service.commands.partitions()
            except Refused:
                return
            every = frozenset(range(count))
            self.held = every if text == "*" else PartitionShare.of(text, count).partitions
            self.life = service.life

    def _stands(self, life: int) -> bool:
        return self.life == life == self.service.life and self.service.up

    def send(self, command: Callable[[Operations], Any]) -> "asyncio.Future[Any]":
        """Send a command; the future is its answer, its error, or NO_ANSWER."""
        world, rng = self.world, self.world.rng
        delay = rng.expovariate(1 / world.latency_seconds)
        if world.faults and rng.random() < 0.01:
            delay += TIMEOUT_SECONDS
        self.free = max(self.free, world.now + delay)
        arrival = world.timer(self.free - world.now)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        world.work(self._carry(command, self.life, arrival, answer))
        return answer

    async def _carry(
        self,
        command: Callable[[Operations], Any],
        life: int,
        arrival: "asyncio.Future[None]",
        answer: "asyncio.Future[Any]",
    ) -> None:
        world, rng = self.world, self.world.rng
        await arrival
        said: Any = NO_ANSWER
        if life and self._stands(life) and not (world.faults and rng.random() < 0.005):
            try:
                said = command(self.service.commands)
                if isinstance(said, asyncio.Future):
                    said = await said
            except DedupError as error:
                said = error
            if not self._stands(life) or (world.faults and rng.random() < 0.01):
                said = NO_ANSWER
            await world.sleep(rng.expovariate(1 / world.latency_seconds))
        if said is NO_ANSWER:
            self.life = 0
        answer.set_result(said)


class ShardSpider(Spider):
    """A spider of a sharded service."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        services = list(world.services)
        if world.faults and world.rng.random() < 0.2:
            world.rng.shuffle(services)  # it was given the addresses in another order
        self.links = {service: Link(world, service) for service in services}
        self.attempt: Attempt | None = None

    def crashed(self) -> None:
        if self.attempt is not None:
            self.attempt.over = True
        self.links = {service: Link(self.world, service) for service in self.links}

    def view(self) -> View:
        """Return who is asked for each partition that somebody holds."""
        view: View = {}
        for service, link in self.links.items():
            link.connect()
            for number in link.held:
                view.setdefault(number, (service, link.life))
        return view

    async def judged(self, page: "Page") -> Held | None:
        world, rng = self.world, self.world.rng
        waited, exempt = 0.0, None
        while True:
            attempt = await self._attempt(page, exempt)
            verdict = None if attempt is None else attempt.verdict
            if attempt is None or verdict is None:
                return None
            if verdict.status != "pending":
                assert attempt.home is not None
                return Held(attempt.home, verdict, attempt)
            pause = rng.uniform(0.1, 1.0)
            await world.sleep(pause)
            waited += pause
            if waited > WAIT_SECONDS:
                world.promises.kept_in_flight(attempt)
                exempt = "in_flight"

    async def _attempt(self, page: "Page", exempt: str | None) -> Attempt | None:
        """Ask all shards once, and make one verdict of what they answer."""
        world, promises = self.world, self.world.promises
        view = self.view()
        if not view:
            return None
        token = f"{world.rng.getrandbits(128):032x}"
        attempt = Attempt(page, token, world.now, view, world.log.home(page.key))
        self.attempt = promises.attempts[token] = attempt
        home = NOBODY if attempt.home is None else list(self.links).index(attempt.home)

        def ask(service: Service) -> "asyncio.Future[Any]":
            def command(commands: Operations) -> Verdict:
                at_home = service is attempt.home
                if world.mutation == "both decide":
                    at_home = True
                elif world.mutation == "nobody decides":
                    at_home = False
                verdict = commands.reserve(
                    NS,
                    page.key,
                    page.page,
                    PolicyOverrides(),
                    ReserveOptions(domain="s", exempt=exempt, token=token, home=at_home),
                )
                promises.answered(attempt, service, verdict)
                return verdict

            return self.links[service].send(command)

        asked = {
            i: ask(service)
            for i, service in enumerate(self.links)
            if any(service is each for each, _ in view.values())
        }
        answers = await self._answers(asked)
        if len(view) < world.log.count:
            answers[NOBODY] = None
        attempt.everywhere = all(each is not None and each.token for each in answers.values())
        verdict = MERGES.get(world.mutation, merged)(answers, home)
        if verdict is None or verdict.token is None:
            attempt.over = verdict is None or verdict.status != "pending"
            self._release(attempt, attempt.view)
        promises.decided(attempt, verdict)
        return attempt

    async def _answers(
        self, asked: "dict[int, asyncio.Future[Any]]"
    ) -> "dict[int, Verdict | None]":
        """Wait for answers, so long at most."""
        timer = self.world.timer(TIMEOUT_SECONDS)
        everything = asyncio.ensure_future(asyncio.wait(asked.values()))
        await asyncio.wait({timer, everything}, return_when=asyncio.FIRST_COMPLETED)
        everything.cancel()
        return {
            i: each.result() if each.done() and isinstance(each.result(), Verdict) else None
            for i, each in asked.items()
        }

    def _release(self, attempt: Attempt, view: View, but: Service | None = None) -> None:
        """Give the page back wherever it may be held, and wait for no answer."""
        key, token = attempt.page.key, attempt.token
        for service in dict.fromkeys(service for service, _ in view.values()):
            if service is not but:
                self.links[service].connect()
                self.links[service].send(lambda commands: commands.release(NS, key, token))

    def release(self, page: "Page", held: Held) -> None:
        held.attempt.over = True
        self._release(held.attempt, held.attempt.view)

    async def insert(self, page: "Page", held: Held) -> None:
        """Insert at the home, again and again; then release at the others."""
        world, attempt = self.world, held.attempt
        token = attempt.token
        for _ in range(TRIES):
            view = self.view()
            if world.log.home(page.key) in view:
                home = view[world.log.home(page.key)][0]
                if world.mutation == "release early":
                    self._release(attempt, attempt.view, home)
                answer = await self._inserted(page, attempt, home, token)
                if answer is None:
                    world.promises.accept(page, home)
                    self._release(attempt, attempt.view, home)
                    return
                if isinstance(answer, Refused) and answer.code == "NOTOKEN":
                    token = await self._reserved_anew(page, view, home)
            await world.sleep(world.rng.uniform(0.1, 3.0))

    async def _inserted(self, page: "Page", attempt: Attempt, home: Service, token: str) -> Any:
        """Return what the home answers to INSERT: None is OK."""
        world = self.world

        def done(future: "asyncio.Future[None] | None" = None) -> None:
            if token == attempt.token and not (
                future and (future.cancelled() or future.exception())
            ):
                attempt.pinned = world.now

        def command(commands: Operations) -> Any:
            said = commands.insert(NS, page.key, token)
            if isinstance(said, asyncio.Future):
                said.add_done_callback(done)
            else:
                done()
            return said

        answer = self.links[home].send(command)
        timer = world.timer(10 * TIMEOUT_SECONDS)
        await asyncio.wait({timer, answer}, return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else NO_ANSWER

    async def _reserved_anew(self, page: "Page", view: View, home: Service) -> str:
        """Reserve at the home alone what it does not hold any more."""
        world = self.world
        token = f"{world.rng.getrandbits(128):032x}"
        attempt = Attempt(page, token, world.now, view, world.log.home(page.key))
        world.promises.attempts[token] = attempt
        await self._answers(
            {
                0: self.links[home].send(
                    lambda commands: commands.reserve(
                        NS,
                        page.key,
                        page.page,
                        PolicyOverrides(),
                        ReserveOptions(domain="s", exempt="expired", token=token),
                    )
                )
            }
        )
        return token


def _first_answer(answers: "dict[int, Verdict | None]", home: int) -> Verdict | None:
    given = [answer for answer in answers.values() if answer is not None]
    return given[0] if given and answers[home] is not None else None


def _without_home(answers: "dict[int, Verdict | None]", home: int) -> Verdict | None:
    """Merge as if the home had said that it knows nothing."""
    first = answers[home]
    if first is not None:
        nothing = msgspec.structs.replace(
            first, status="unique", reason="", match=None, token=first.token or "0" * 32
        )
        answers = answers | {home: nothing}
    return merged(answers, home)


MERGES: dict[str, Callable[[Any, int], Verdict | None]] = {
    "take the first answer": _first_answer,
    "do not ask the home": _without_home,
}


async def move_partitions(world: "World") -> None:
    """Move partitions from service to service, as an operator does, and often back again."""
    rng = world.rng
    giver, taker = rng.sample(world.services, 2)
    for _ in range(rng.randrange(1, 6)):
        await world.sleep(rng.expovariate(0.2))
        assert giver.partitions is not None
        assert taker.partitions is not None
        filled = [n for n in sorted(giver.partitions) if world.log.partitions[n]]
        if filled and len(giver.partitions) > 1:
            moved = set(filled) if len(filled) < len(giver.partitions) else {rng.choice(filled)}
            steps = [(taker, taker.partitions | moved), (giver, giver.partitions - moved)]
            if rng.random() < 0.3:
                steps.reverse()  # nobody holds them meanwhile
            for service, partitions in steps:
                await service.restart(partitions)
                while not service.up or service.commands.not_ready:
                    await world.sleep(0.5)
            world.counts["moves"] += 1
        if rng.random() < 0.8:
            giver, taker = taker, giver
