"""The log: partitions that take records, refuse them, or lose the acknowledgement."""

import asyncio
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from dedup.model.events import decode
from dedup.model.page import PageFingerprint
from dedup.wire.kafka import KafkaUnavailable
from dedup.wire.kafka.topics import Topic
from dedup.wire.shards import partition_of

if TYPE_CHECKING:
    from simulation.world import World

NS = "sim"  # the one namespace


class Record(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None
    headers: tuple[()] = ()


class Log:
    """A topic, and who writes to it: send() is what LogInserts asks of its writer."""

    def __init__(self, world: "World", count: int) -> None:
        self.world = world
        self.count = count
        self.partitions: list[list[Record]] = [[] for _ in range(count)]
        self.under_way: list[tuple[asyncio.Future[tuple[int, int]], bytes, bytes | None]] = []

    async def topic(self, *_: object, **__: object) -> Topic:
        return Topic("log", "cluster", self.count, self.count)

    async def live(self) -> None:
        """Take what was sent, now and then; sometimes say that it is not known to be taken."""
        world, rng = self.world, self.world.rng
        while True:
            await world.sleep(rng.expovariate(2.0))
            if not self.under_way:
                continue
            future, key, value = self.under_way.pop(0)
            if future.done():  # who sent it is gone; Kafka may have it all the same
                if rng.random() < 0.5:
                    self.append(key, value)
                continue
            chance = 1.0 if world.calm else rng.random()
            if chance > 0.1:
                future.set_result((0, self.append(key, value)))
            else:
                if chance > 0.05:
                    self.append(key, value)
                future.set_exception(KafkaUnavailable("not known to be written"))

    def append(self, key: bytes, value: bytes | None) -> int:
        partition = self.partitions[partition_of(key, self.count)]
        partition.append(Record(len(partition), key, value))
        return len(partition) - 1

    async def send(self, key: bytes, value: bytes | None) -> tuple[int, int]:
        future: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        if self.world.mutation == "acknowledge early":
            if self.world.rng.random() < 0.5:
                self.under_way.append((future, key, value))
            return 0, 0
        self.under_way.append((future, key, value))
        return await future

    def content(self) -> dict[str, PageFingerprint]:
        """What the log comes to."""
        content: dict[str, PageFingerprint] = {}
        for record in itertools.chain(*self.partitions):
            event = decode(record.key, record.value)
            content.pop(event.key, None)
            if event.document is not None:
                content[event.key] = event.document.page
        return content

    def ever_had(self, key: str) -> bool:
        """Whether a document with this key was ever accepted."""
        records = itertools.chain(*self.partitions)
        return any(r.value and decode(r.key, r.value).key == key for r in records)


class Reader:
    """What dedup.wire.kafka.Reader is to a replica, read by read."""

    alive = True
    away = False

    def __init__(
        self,
        log: Log,
        config: object,
        topic: object,
        first: Mapping[int, int],
        **_: object,
    ) -> None:
        self.log = log
        self.last: dict[int, object] = {}
        self.positions = {number: first.get(number, 0) for number in range(log.count)}
        self.ends = dict(enumerate(map(len, log.partitions)))

    async def start(self) -> None:
        pass

    def lag(self) -> int:
        return sum(len(self.log.partitions[n]) - at for n, at in self.positions.items())

    def batch(self) -> dict[int, list[Any]]:
        """A few records of each partition."""
        batch: dict[int, list[Any]] = {}
        for number, position in self.positions.items():
            count = self.log.world.rng.randrange(1, 4)
            if records := self.log.partitions[number][position:][:count]:
                batch[number] = list(records)
                self.positions[number] = records[-1].offset + 1
        return batch
