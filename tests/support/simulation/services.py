"""Services: replicas of the log, that crash and come back."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dedup.model.errors import DedupError
from dedup.model.page import PageFingerprint, ReserveOptions, Verdict
from dedup.service.core.namespaces import Namespaces, PolicyOverrides
from dedup.service.core.operations import Log, Operations
from dedup.service.replica import LogInserts, Replica
from dedup.wire.kafka import KafkaConfig
from simulation.log import NS

if TYPE_CHECKING:
    from simulation.world import Page, World

RESERVATION_SECONDS = 20.0


class Service:
    """One service: it crashes and comes back, with what its store has."""

    def __init__(self, world: "World", path: Path) -> None:
        self.world = world
        self.path = path
        self.up = False
        self.life = 0  # its number
        self.accepted: set[str] = set()
        self.start()

    def start(self) -> None:
        """Come up."""
        world = self.world
        self.life += 1
        clock = lambda: world.now  # noqa: E731
        self.namespaces = Namespaces(
            self.path, reservation_seconds=RESERVATION_SECONDS, clock=clock
        )
        inserts: Log | None = LogInserts(world.log) if world.with_log else None  # type: ignore[arg-type]
        self.commands = Operations(self.namespaces, inserts)
        if world.with_log:
            config = KafkaConfig(("nowhere:1",))
            self.replica = Replica(config, self.namespaces, self.path)
            at_once(self.replica.prepare())
            self.namespaces.open_all()
            at_once(self.replica._connect())
            self.reader: Any = self.replica._reader
        else:
            self.namespaces.open_all()
        self.up = True
        self._see_whether_ready()

    def _see_whether_ready(self) -> None:
        """Ready is who has what the log had at the start."""
        reader = self.reader if self.world.with_log else None
        if reader is None or all(reader.positions[n] >= end for n, end in reader.ends.items()):
            self.commands.not_ready = None

    def end(self) -> None:
        self.up = False
        self.namespaces.close()

    async def live(self) -> None:
        """Apply the log now and then; crash and come back."""
        world, rng = self.world, self.world.rng
        while True:
            await world.sleep(rng.expovariate(1.0))
            if world.calm and world.faults:
                continue
            if not self.up:
                self.start()
            elif world.faults and rng.random() < 0.03:
                self.end()
                await world.sleep(rng.expovariate(0.5))
            elif world.with_log:
                await self.apply()
                if rng.random() < 0.3:
                    await self.replica.checkpoint()

    async def apply(self) -> None:
        """Apply what the log has, or a part of it."""
        batch = self.reader.batch()
        if batch:
            if self.world.mutation == "lose a record" and self.world.rng.random() < 0.05:
                batch.popitem()
            await self.replica._apply(batch)
        self._see_whether_ready()

    def lag(self) -> int:
        return self.reader.lag() if self.world.with_log else 0

    def asked(self, command: Callable[[Operations], object]) -> None:
        """Ask, and mind no refusal."""
        try:
            command(self.commands)
        except DedupError:
            pass

    def reserve(self, page: "Page", exempt: str | None, **options: Any) -> Verdict | None:
        """Ask for a verdict; None if there is none."""
        if not self.up:
            return None
        try:
            verdict = self.commands.reserve(
                NS,
                page.key,
                page.page,
                PolicyOverrides(),
                ReserveOptions(domain="s", exempt=exempt, **options),
            )
        except DedupError:
            return None
        if self.world.mutation == "drop for pages in flight" and verdict.status == "pending":
            verdict = msgspec.structs.replace(verdict, status="near_duplicate")
        return verdict

    def content(self) -> dict[str, PageFingerprint]:
        detector = self.namespaces.get(NS)
        if detector is None:
            return {}
        documents = detector._store._documents.batch(0, 10_000)
        return {document.key: document.page for _, document in documents}

    def in_flight(self) -> list[Any]:
        """The reservations that have not expired."""
        detector = self.namespaces.get(NS)
        held = [] if detector is None else detector._reservations._held.values()
        return [each for each in held if each.expires > self.world.now]


async def here(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Do what would be done in a thread."""
    return function(*arguments, **options)


def at_once(work: Coroutine[Any, Any, None]) -> None:
    """Run what waits for nothing."""
    try:
        asked_for = work.send(None)
    except StopIteration:
        return
    raise AssertionError(f"it waits for {asked_for}")
