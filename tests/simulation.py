"""A crawl without time or sockets: spiders, services and a log, in an order that a seed decides.

    found = run(seed, folder)      sentences about what went wrong; empty when every promise was kept

The real parts are Commands, Namespaces, Detector, the store, LogInserts and Replica's way of a batch
into the stores. The rest is here: a clock that jumps to the next thing to happen, a log with two
partitions that takes, refuses or loses acknowledgements, and services that crash and come back.

Promises (docs/architecture.md):
  - a page is dropped only when one within the distances was processed and its insert acknowledged;
  - of each group of near-duplicates that was fetched to an end, one was kept;
  - a key that an instance accepted is never dropped by it later, unless it was forgotten;
  - once the log is drained, all replicas hold the same, which is what the log comes to;
  - an acknowledged insert is in the log, and in every replica.
"""

import asyncio
import heapq
import itertools
import random
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import msgspec

from dedup.errors import DedupError
from dedup.events import decode, encode
from dedup.kafka import KafkaConfig, KafkaUnavailable
from dedup.service.commands import Commands, Inserts, StoreInserts
from dedup.service.log_inserts import LogInserts
from dedup.service.namespaces import Asked, Namespaces, Refused
from dedup.service.replica import Replica
from dedup.values import Document, PageFingerprint, Verdict

RECIPE = "words-0-3"
NS = "sim"
PARTITIONS = 2
RESERVATION_SECONDS = 20.0
WAIT_SECONDS = 3.0
TRIES = 5


class Record(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None
    headers: tuple[()] = ()


class Page(NamedTuple):
    key: str
    group: int
    page: PageFingerprint


class World:
    """Everything that is, and what was promised to whom."""

    def __init__(self, seed: int, folder: Path, mutation: str = "") -> None:
        self.rng = rng = random.Random(seed)
        self.mutation = mutation
        self.now = 0.0
        self.agenda: list[tuple[float, int, asyncio.Future[None]]] = []
        self.numbers = itertools.count()
        self.log: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        self.under_way: list[tuple[asyncio.Future[tuple[int, int]], bytes, bytes | None]] = []
        self.with_log = rng.random() < 0.8
        self.wrongs: list[str] = []
        self.processed: set[str] = set()  # keys whose callback ended well
        self.kept: set[int] = set()  # groups of which a page was processed
        self.tried: set[int] = set()  # groups of which a page's way came to an end
        self.acknowledged: dict[str, PageFingerprint] = {}
        self.forgotten: set[str] = set()
        self.dropped = 0
        self.pages = self._pages()
        count = rng.randrange(1, 4) if self.with_log else 1
        self.services = [Service(self, folder / str(i)) for i in range(count)]

    def _pages(self) -> list[Page]:
        rng, pages = self.rng, []
        for group in range(rng.randrange(1, 5)):
            value, check = rng.getrandbits(64), rng.getrandbits(64)
            for _ in range(rng.randrange(1, 5)):
                near = value ^ 1 << rng.randrange(64), check ^ 1 << rng.randrange(64)
                page = PageFingerprint(*near, 0, 300, 0, RECIPE)
                pages.append(Page(f"http://s/{len(pages)}", group, page))
        return pages

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self.agenda, (self.now + seconds, next(self.numbers), future))
        await future

    def wrong(self, text: str) -> None:
        self.wrongs.append(f"{self.now:.3f}: {text}")

    async def run(self) -> None:
        """Let everything happen; then drain, and compare."""
        rng = self.rng
        works: list[Coroutine[Any, Any, None]] = [
            self._spider(rng.choice([True, False]) and self.with_log)
            for _ in range(rng.randrange(1, 5))
        ]
        tasks = [asyncio.ensure_future(work) for work in works]
        others = [asyncio.ensure_future(service.live()) for service in self.services]
        others.append(asyncio.ensure_future(self._kafka()))
        if rng.random() < 0.3:
            tasks.append(asyncio.ensure_future(self._forgetter()))
        try:
            await self._until(lambda: all(task.done() for task in tasks))
            self.calm = True
            await self._until(lambda: not self.under_way)
            for service in self.services:
                if not service.up:
                    service.start()
                while service.lag():
                    await service.apply()
            self._compare()
        finally:
            for task in (*tasks, *others):
                task.cancel()
            await asyncio.gather(*tasks, *others, return_exceptions=True)
            for service in self.services:
                service.end()
        for task in tasks:
            if not task.cancelled() and task.exception():
                raise task.exception()  # type: ignore[misc]

    calm = False

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

    # -------------------------------------------------------------------------------- the log

    async def _kafka(self) -> None:
        rng = self.rng
        while True:
            await self.sleep(rng.expovariate(2.0))
            if not self.under_way:
                continue
            future, key, value = self.under_way.pop(0)
            if future.done():  # who sent it is gone; Kafka may have it all the same
                if rng.random() < 0.5:
                    self.append(key, value)
                continue
            chance = 1.0 if self.calm else rng.random()
            if chance > 0.1:
                future.set_result((0, self.append(key, value)))
            else:
                if chance > 0.05:
                    self.append(key, value)
                future.set_exception(KafkaUnavailable("not known to be written"))

    def append(self, key: bytes, value: bytes | None) -> int:
        partition = self.log[sum(key) % PARTITIONS]
        partition.append(Record(len(partition), key, value))
        return len(partition) - 1

    async def send(self, key: bytes, value: bytes | None) -> tuple[int, int]:
        future: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        if self.mutation == "acknowledge early":
            if self.rng.random() < 0.5:
                self.under_way.append((future, key, value))
            return 0, 0
        self.under_way.append((future, key, value))
        return await future

    def content(self) -> dict[str, PageFingerprint]:
        """What the log comes to."""
        content: dict[str, PageFingerprint] = {}
        for record in itertools.chain(*self.log):
            event = decode(record.key, record.value)
            content.pop(event.key, None)
            if event.document is not None:
                content[event.key] = event.document.page
        return content

    # ----------------------------------------------------------------------------- the crawl

    async def _spider(self, outbox: bool) -> None:
        """Fetch some pages, one after the other; a crash forgets what was under way."""
        rng = self.rng
        todo = [rng.choice(self.pages) for _ in range(rng.randrange(2, 7))]
        crashes = rng.randrange(3)
        while todo:
            page = todo[-1]
            await self.sleep(rng.expovariate(1.0))
            if crashes and rng.random() < 0.2:
                crashes -= 1
                doomed = asyncio.ensure_future(self._page(page, outbox))
                await self.sleep(rng.expovariate(0.7))
                if not doomed.done():
                    doomed.cancel()
                    continue  # after its restart it asks for the page again
                await doomed
            else:
                await self._page(page, outbox)
            todo.pop()

    async def _page(self, page: Page, outbox: bool) -> None:
        """The way of one page."""
        rng = self.rng
        service, verdict = await self._judged(page)
        if verdict is not None and verdict.status == "near_duplicate":
            self.dropped += 1
            self.tried.add(page.group)
            return
        await self.sleep(rng.expovariate(0.5) if rng.random() < 0.9 else 2 * RESERVATION_SECONDS)
        if rng.random() < 0.1:  # the callback raised: given back, and asked for once more
            if verdict is not None and service is not None and service.up:
                service.asked(lambda commands: commands.release(NS, page.key, verdict.token or ""))
            return
        self.processed.add(page.key)
        self.kept.add(page.group)
        self.tried.add(page.group)
        if verdict is None or verdict.token is None or service is None:
            return
        if outbox:
            await self._outbox(page, service, verdict)
        else:
            await self._insert(page, service, verdict)

    async def _judged(self, page: Page) -> "tuple[Service | None, Verdict | None]":
        rng = self.rng
        service = rng.choice(self.services)
        waited, exempt = 0.0, None
        while True:
            verdict = service.reserve(page, exempt)
            if verdict is None:  # a fault of ours keeps the page
                return None, None
            if verdict.status != "pending":
                return service, verdict
            pause = rng.uniform(0.1, 1.0)
            await self.sleep(pause)
            waited += pause
            if waited > WAIT_SECONDS:
                exempt = "in_flight"

    async def _insert(self, page: Page, service: "Service", verdict: Verdict) -> None:
        """Insert, again and again; a reservation that is not held is taken anew."""
        token = verdict.token or ""
        for _ in range(TRIES):
            try:
                if not service.up:
                    raise Refused("GONE", "no answer")
                done = service.commands.insert(NS, page.key, token)
                number = service.number
                if done is not None:
                    await done
                if self.mutation == "let go at the acknowledgement":
                    service.asked(lambda commands, t=token: commands.release(NS, page.key, t))
                if service.number == number:  # else it crashed, and there was no answer
                    self.accept(page, service)
                    return
            except Refused as error:
                if error.code == "NOTOKEN":
                    again = service.reserve(page, "expired")
                    token = token if again is None else again.token or ""
            except DedupError:
                pass
            await self.sleep(self.rng.uniform(0.1, 3.0))
            service = self.rng.choice(self.services)

    async def _outbox(self, page: Page, service: "Service", verdict: Verdict) -> None:
        """The spider's own durable outbox: it produces until Kafka has it, whatever happens."""
        record = encode(NS, Document(page.key, page.page, "s", self.now))

        async def deliver() -> None:
            while True:
                try:
                    await self.send(*record)
                except KafkaUnavailable:
                    await self.sleep(0.5)
                else:
                    self.acknowledged[page.key] = page.page
                    self.forgotten.discard(page.key)
                    return

        asyncio.get_running_loop().create_task(deliver())
        if service.up:
            service.asked(
                lambda commands: commands.insert(NS, page.key, verdict.token or "", pin=True)
            )

    def accept(self, page: Page, service: "Service") -> None:
        self.acknowledged[page.key] = page.page
        if not self.with_log or page.key in self.content():
            self.forgotten.discard(page.key)  # else this insert came before it was forgotten
            service.accepted.add(page.key)

    async def _forgetter(self) -> None:
        for _ in range(self.rng.randrange(1, 3)):
            await self.sleep(self.rng.expovariate(0.1))
            page, service = self.rng.choice(self.pages), self.rng.choice(self.services)
            if service.up:
                for each in self.services:
                    each.accepted.discard(page.key)
                self.forgotten.add(page.key)
                try:
                    done = service.commands.forget(NS, page.key)
                    if isinstance(done, asyncio.Future):
                        await done
                except DedupError:
                    pass
                for each in self.services:
                    each.accepted.discard(page.key)
                self.forgotten.add(page.key)

    # -------------------------------------------------------------------------- what is promised

    def judge(self, page: Page, service: "Service", verdict: Verdict) -> None:
        """Look at a verdict as it is given."""
        if verdict.status == "near_duplicate":
            of = verdict.of or ""
            original = next(each for each in self.pages if each.key == of)
            if of == page.key:
                self.wrong(f"{page.key} was called a duplicate of itself")
            if original.group != page.group:
                self.wrong(f"{page.key} was dropped for {of}, which is another content")
            if of not in self.processed:
                self.wrong(f"{page.key} was dropped for {of}, which nobody has processed")
            if self.with_log and not any(
                decode(r.key, r.value).key == of and r.value for r in itertools.chain(*self.log)
            ):
                self.wrong(f"{page.key} was dropped for {of}, which is not in the log")
        if verdict.status in {"near_duplicate", "pending"} and page.key in service.accepted:
            self.wrong(f"{page.key} is {verdict.status} at {service.path.name}, which accepted it")

    def _compare(self) -> None:
        for group in self.tried - self.kept:
            self.wrong(f"of the group {group} no page was kept")
        contents = [service.content() for service in self.services]
        for key, page in self.acknowledged.items():
            if key not in self.forgotten:
                for content, service in zip(contents, self.services, strict=True):
                    if content.get(key) != page:
                        self.wrong(f"{key} was acknowledged and is not at {service.path.name}")
        if self.with_log:
            expected = self.content()
            for content, service in zip(contents, self.services, strict=True):
                if content != expected:
                    self.wrong(f"{service.path.name} holds {content}, the log {expected}")


class Service:
    """One replica: it crashes and comes back, with what its store has."""

    def __init__(self, world: World, path: Path) -> None:
        self.world = world
        self.path = path
        self.up = False
        self.number = 0  # of its life
        self.accepted: set[str] = set()
        self.manifest = [0] * PARTITIONS
        self.positions = [0] * PARTITIONS
        self.goal = [0] * PARTITIONS  # where the log ended at the start
        path.mkdir()
        self.start()

    def start(self) -> None:
        world = self.world
        self.number += 1
        self.namespaces = Namespaces(
            self.path,
            reservation_seconds=RESERVATION_SECONDS,
            clock=lambda: world.now,
        )
        self.namespaces.open_all()
        inserts: Inserts = LogInserts(world) if world.with_log else StoreInserts()  # type: ignore[arg-type]
        self.commands = Commands(self.namespaces, inserts)
        if world.with_log:
            config = KafkaConfig(("nowhere:1",))
            self.replica = Replica(config, self.namespaces, self.path)
            self.replica._applied = {name: each.offsets() for name, each in self.namespaces}
            self.positions = list(self.manifest)
            self.goal = [len(partition) for partition in world.log]
        self.up = True
        self._see_whether_ready()

    def _see_whether_ready(self) -> None:
        caught_up = all(map(int.__ge__, self.positions, self.goal))
        if caught_up or not self.world.with_log:
            self.commands.not_ready = None

    def end(self) -> None:
        self.up = False
        self.namespaces.close()

    async def live(self) -> None:
        """Apply the log now and then; crash and come back."""
        rng = self.world.rng
        while True:
            await self.world.sleep(rng.expovariate(1.0))
            if self.world.calm:
                continue
            if not self.up:
                self.start()
            elif rng.random() < 0.03:
                self.end()
                await self.world.sleep(rng.expovariate(0.5))
            elif self.world.with_log:
                await self.apply()
                if rng.random() < 0.3:
                    self.manifest = list(self.positions)

    async def apply(self) -> None:
        """Apply what the log has, or a part of it."""
        batch: dict[int, list[Any]] = {}
        for number, partition in enumerate(self.world.log):
            count = self.world.rng.randrange(1, 4)
            records = partition[self.positions[number] :][:count]
            if records:
                batch[number] = list(records)
                self.positions[number] = records[-1].offset + 1
        if batch:
            if self.world.mutation == "lose a record" and self.world.rng.random() < 0.05:
                batch.popitem()
            await self.replica._apply(batch)
        self._see_whether_ready()

    def lag(self) -> int:
        if not self.world.with_log:
            return 0
        return sum(map(len, self.world.log)) - sum(self.positions)

    def asked(self, command: Callable[[Commands], object]) -> None:
        """Ask, and mind no refusal."""
        try:
            command(self.commands)
        except DedupError:
            pass

    def reserve(self, page: Page, exempt: str | None) -> Verdict | None:
        if not self.up:
            return None
        try:
            verdict = self.commands.reserve(NS, page.key, page.page, "s", Asked(), exempt=exempt)
        except DedupError:
            return None
        if self.world.mutation == "drop for pages in flight" and verdict.status == "pending":
            verdict = msgspec.structs.replace(verdict, status="near_duplicate")
        self.world.judge(page, self, verdict)
        return verdict

    def content(self) -> dict[str, PageFingerprint]:
        detector = self.namespaces.get(NS)
        if detector is None:
            return {}
        documents = detector._store._documents.batch(0, 10_000)
        return {document.key: document.page for _, document in documents}


async def _here(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return function(*arguments, **options)


def run(seed: int, folder: Path, mutation: str = "") -> tuple[list[str], int]:
    """Run a schedule; return what went wrong, and how many pages were dropped."""
    place = folder / f"schedule-{seed}"
    place.mkdir()
    try:
        with mock.patch("dedup.service.replica.asyncio.to_thread", _here):

            async def main() -> World:
                world = World(seed, place, mutation)
                await world.run()
                return world

            world = asyncio.run(main())
        return world.wrongs, world.dropped
    finally:
        shutil.rmtree(place)
