"""What the tests of the log share: topics of their own, events, replicas, and what these hold."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from sketches import sketch

from dedup.model.events import decode, encode, record_key
from dedup.model.page import Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.service.core.namespaces import Namespaces
from dedup.service.replica import SERVING, Phase, Replica
from dedup.store.transfer import decode_line, export_lines
from dedup.wire.kafka import KafkaConfig, Reader, Writer, describe_topic, ensure_topic, kafka_config
from dedup.wire.kafka.writer import Outgoing

RECIPE = NEWEST
WAIT_SECONDS = 180.0

Content = dict[str, dict[str, Document]]

_numbers = itertools.count()


def log_config(bootstrap: str, **fields: object) -> KafkaConfig:
    """A configuration with a topic that no other test has."""
    return kafka_config(bootstrap, f"inserts-{os.getpid()}-{next(_numbers)}", environ={})


def document(i: int, key: str = "", recipe: str = RECIPE) -> Document:
    """Documents whose values are far from each other."""
    page = PageFingerprint(i * 0x9E3779B97F4A7C15 % 2**64, sketch(i), 9, 300, recipe)
    return Document(key or f"http://example.com/{i}", page, "example.com", 1.7e9 + i)


def inserts(numbers: Iterable[int], namespace: str = "news") -> list[Outgoing]:
    return [Outgoing(*encode(namespace, document(i))) for i in numbers]


def tombstone(i: int, namespace: str = "news") -> Outgoing:
    return Outgoing(record_key(namespace, document(i).key), None)


def murmur2(data: bytes) -> int:
    """Kafka's partitioner hash (org.apache.kafka.common.utils.Utils.murmur2), as unsigned 32 bits."""
    m, h = 0x5BD1E995, 0x9747B28C ^ len(data)
    for i in range(0, len(data) - 3, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & 0xFFFFFFFF
        h = h * m & 0xFFFFFFFF ^ (k ^ k >> 24) * m & 0xFFFFFFFF
    if rest := data[len(data) // 4 * 4 :]:
        h = (h ^ int.from_bytes(rest, "little")) * m & 0xFFFFFFFF
    h = (h ^ h >> 13) * m & 0xFFFFFFFF
    return h ^ h >> 15


async def write(config: KafkaConfig, records: list[Outgoing]) -> None:
    await ensure_topic(config, partitions=3)
    async with Writer(config) as writer:
        await writer.send_many(records)


async def read(config: KafkaConfig, topic: str | None = None) -> list:
    """Every record of a topic, partition after partition."""
    found = await describe_topic(config, topic)
    assert found is not None
    records: dict[int, list] = {}
    async with Reader(config, found) as reader:
        while not reader.caught_up:
            for partition, batch in (await reader.batch(0.2)).items():
                records.setdefault(partition, []).extend(batch)
    return [record for partition in sorted(records) for record in records[partition]]


def replayed(records: Iterable) -> Content:
    """What a log comes to: a plain dictionary of dictionaries, the last record of a key wins."""
    content: Content = {}
    for record in records:
        event = decode(record.key, record.value)
        documents = content.setdefault(event.namespace, {})
        documents.pop(event.key, None)
        if event.document is not None:
            documents[event.key] = event.document
    return {namespace: documents for namespace, documents in content.items() if documents}


def held(path: Path) -> Content:
    """What the closed stores of a folder hold."""
    content: Content = {}
    for file in path.glob("*/documents.mdb"):
        for line in export_lines(file.parent, _fail):
            namespace, found = decode_line(line)
            content.setdefault(namespace, {})[found.key] = found
    return content


def _fail(number: int, fault: str) -> None:
    raise AssertionError(f"document {number}: {fault}")


@contextlib.asynccontextmanager
async def following(config: KafkaConfig, path: Path, **options: object) -> AsyncIterator[Replica]:
    """A replica that follows its log until the block ends; whatever it failed with is raised then."""
    namespaces = Namespaces(path)
    replica = Replica(config, namespaces, path, **options)
    await replica.prepare()
    namespaces.open_all()
    replica.views = namespaces
    run = asyncio.ensure_future(replica.run())
    try:
        yield replica
        replica.stop()
        await asyncio.wait_for(run, WAIT_SECONDS)
    finally:
        run.cancel()
        await asyncio.wait({run})
        namespaces.close()


async def until(condition, replica: Replica | None = None) -> None:
    """Wait until a condition holds, or the replica has failed: leaving following() raises why."""
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    while not condition():
        if replica is not None and replica.state().status == "failed":
            return
        assert asyncio.get_running_loop().time() < deadline, replica and replica.state()
        await asyncio.sleep(0.02)


async def reached(replica: Replica, *phases: Phase) -> Phase:
    """Wait until a replica is in one of these states, or has ended; leaving following() raises why."""
    return await asyncio.wait_for(replica.reached(*phases), WAIT_SECONDS)


async def until_drained(replica: Replica) -> None:
    """Wait until a replica has applied everything that lies in its log now."""
    ends: dict[int, int] = {}

    async def ask() -> None:
        while replica.state().status != "failed":
            with contextlib.suppress(Exception):
                await replica._reader.ask()
                ends.update(replica._reader.ends)
                return
            await asyncio.sleep(0.05)

    await asyncio.wait_for(ask(), WAIT_SECONDS)
    await until(lambda: all(replica.state().offsets[p] >= end for p, end in ends.items()), replica)


async def drained(config: KafkaConfig, path: Path, **options: object) -> dict[str, int]:
    """Have a replica apply its log to the end and stop; return what it counted."""
    async with following(config, path, **options) as replica:
        await until_drained(replica)
        await reached(replica, *SERVING)
    return dict(replica.counts)


async def remade(config, records) -> None:
    """Delete the topic, make it again, and write these records."""
    from aiokafka.admin import AIOKafkaAdminClient

    admin = AIOKafkaAdminClient(bootstrap_servers=list(config.bootstrap))
    await admin.start()
    try:
        await admin.delete_topics([config.topic])
    finally:
        await admin.close()
    while await describe_topic(config) is not None:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await write(config, records)
