"""Records that a foreign producer wrote badly: none of them holds the log up, in any service."""

from __future__ import annotations

import asyncio
import os
import shutil

import pytest
from logs import (
    document,
    drained,
    following,
    held,
    inserts,
    log_config,
    murmur2,
    read,
    tombstone,
    until_drained,
    write,
)

from dedup.model.events import decode, encode, record_key
from dedup.service.replica import Phase
from dedup.wire.kafka import LogLost, Writer, ensure_topic
from dedup.wire.kafka import reader as partition_reader
from dedup.wire.kafka.login import KafkaConfig
from dedup.wire.kafka.writer import Outgoing

PARTITIONS = 3  # of logs.write

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # conftest.py, one_broker


async def raw(config: KafkaConfig, records) -> None:
    """Write records as any program may: with large values."""
    from aiokafka import AIOKafkaProducer

    servers = list(config.bootstrap)
    async with AIOKafkaProducer(
        bootstrap_servers=servers, max_request_size=10 << 20, linger_ms=20
    ) as producer:
        sent = [
            await producer.send(config.topic, value, key, partition=0, headers=headers)
            for key, value, headers in records
        ]
        await asyncio.gather(*sent)


async def test_a_record_that_is_too_large_for_a_letter_is_buried_without_its_value(kafka, tmp_path):
    """It stops nothing, the letters of its batch are written once, and the log goes on."""
    config = log_config(kafka)
    await ensure_topic(config, partitions=1)
    bad = [(b"bad %d" % i, b"no event", []) for i in range(20)]
    large = os.urandom(1_048_200)  # with the headers of a letter it is over the topic's limit
    await raw(config, [*bad[:10], (b"large", large, [("own", b"h" * 200)]), *bad[10:]])
    await write(config, inserts(range(30)))
    counts = await drained(config, tmp_path)
    assert (counts["dead_letters"], counts["inserted"]) == (21, 30)
    letters = await read(config, config.dead_letters)
    assert sorted(letter.key for letter in letters) == sorted(
        [b"large", *(key for key, _, _ in bad)]
    )
    (buried,) = [letter for letter in letters if letter.key == b"large"]
    headers = dict(buried.headers)
    assert buried.value is None
    assert headers["dedup.error.value_bytes"] == b"1048200"
    assert headers["dedup.error.offset"] == b"10"


async def test_partitions_that_are_added_while_events_flow_are_seen(kafka, tmp_path, monkeypatch):
    """The log's identity is looked at by the clock: a stream of events does not put it off."""
    assert partition_reader.IDENTITY_SECONDS <= 5  # that events of the new ones may be missed
    monkeypatch.setattr(partition_reader, "IDENTITY_SECONDS", 0.5)
    monkeypatch.setattr(partition_reader, "WATCH_SECONDS", 0.2)
    config = log_config(kafka)
    await write(config, inserts(range(10)))
    with pytest.raises(LogLost, match="5 partitions now"):
        async with following(config, tmp_path) as replica:
            await until_drained(replica)
            flowing = asyncio.ensure_future(flow(config))
            await add_partitions(config, 5)
            try:
                await asyncio.wait_for(replica.reached(Phase.FAILED), 60)
            finally:
                flowing.cancel()


async def flow(config: KafkaConfig) -> None:
    async with Writer(config) as writer:
        number = 1000
        while True:
            await writer.send_many([Outgoing(*each[:2]) for each in inserts([number])])
            number += 1
            await asyncio.sleep(0.02)


async def add_partitions(config: KafkaConfig, count: int) -> None:
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

    admin = AIOKafkaAdminClient(bootstrap_servers=list(config.bootstrap))
    await admin.start()
    try:
        await admin.create_partitions({config.topic: NewPartitions(count)})
    finally:
        await admin.close()


async def test_a_key_that_no_letter_can_hold_stops_nothing(kafka, tmp_path):
    """The letter of a tombstone with a key near the topic's limit has neither key nor value."""
    config = log_config(kafka)
    await ensure_topic(config, partitions=1)
    await raw(config, [(os.urandom(1_048_300), None, [])])
    await write(config, inserts(range(30)))
    counts = await drained(config, tmp_path)
    assert (counts["dead_letters"], counts["inserted"]) == (1, 30)
    (letter,) = await read(config, config.dead_letters)
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == (None, b"")
    assert (headers["dedup.error.partition"], headers["dedup.error.offset"]) == (b"0", b"0")


async def test_a_letter_that_no_topic_takes_is_named_and_passed(kafka, tmp_path, caplog):
    """A letter that Kafka refuses at any size is counted, named with its place, and holds nothing up."""
    config = log_config(kafka)
    small = {"max.message.bytes": "100"}
    await ensure_topic(config, partitions=1)
    await ensure_topic(config, config.dead_letters, partitions=1, compact=False, settings=small)
    await write(config, inserts(range(7)))
    await raw(config, [(b"bad", b"no event", [])])
    await write(config, inserts(range(7, 30)))
    counts = await drained(config, tmp_path)
    assert (counts["dead_letters_lost"], counts["inserted"]) == (1, 30)
    assert await read(config, config.dead_letters) == []
    assert "offset 7 is not an insert event, and its dead letter cannot be" in caplog.text


async def test_stores_are_not_emptied_where_partitions_were_added(kafka, tmp_path):
    """A rebuild would find the events of the former partitions misplaced, and lose their documents."""
    config = log_config(kafka)
    await ensure_topic(config, partitions=2)
    await write(config, inserts(range(40)))
    await drained(config, tmp_path)
    before = held(tmp_path)
    await add_partitions(config, 5)
    for rebuild in (False, True):
        with pytest.raises(LogLost, match=r"5 partitions now.*--rebuild would lose.*new topic"):
            await drained(config, tmp_path, rebuild=rebuild)
        assert held(tmp_path) == before


async def test_a_broker_that_was_restored_from_an_older_copy_is_another_log(one_broker, tmp_path):
    """Though its log has grown past what was applied: other records are at the offsets that were read."""
    config = log_config(one_broker.bootstrap)
    data, copy = one_broker.nodes[1].folder / "data", tmp_path / "copy"
    path = tmp_path / "stores"

    await ensure_topic(config, partitions=1)
    await write(config, inserts(range(20)))
    await asyncio.to_thread(one_broker.kill)
    shutil.copytree(data, copy)
    await asyncio.to_thread(one_broker.start)
    await write(config, inserts(range(20, 30)))
    await drained(config, path)
    await asyncio.to_thread(one_broker.kill)
    shutil.rmtree(data)
    shutil.copytree(copy, data)
    await asyncio.to_thread(one_broker.start)
    await write(config, inserts(range(100, 150)))
    with pytest.raises(LogLost, match="another record at offset 29"):
        await drained(config, path)
    counts = await drained(config, path, rebuild=True)
    assert counts["inserted"] == 70


def partition(namespace: str, key: str) -> int:
    return (murmur2(record_key(namespace, key)) & 0x7FFFFFFF) % PARTITIONS


def of_a_foreign_producer() -> tuple[list[Outgoing], list[Outgoing]]:
    """Two rounds of events of one set of keys: in each, half are where their keys belong, half, and a tombstone, are not."""
    rounds: tuple[list[Outgoing], list[Outgoing]] = ([], [])
    for i in range(30):
        key = document(i).key
        home = partition("news", key)
        here = encode("news", document(i))
        there = encode("news", document(1000 + i, key))
        own = Outgoing(*here, partition=home)
        foreign = Outgoing(*there, partition=(home + 1) % PARTITIONS)
        rounds[i % 2].append(own)
        rounds[(i + 1) % 2].append(foreign)
    home = partition("news", document(2).key)
    rounds[1].append(tombstone(2)._replace(partition=(home + 1) % PARTITIONS))
    return rounds


async def test_records_of_another_partitioner_are_skipped_by_every_replica(kafka, tmp_path, caplog):
    """So two that read the same log never differ, whatever they met first: it is said and counted."""
    config, (first, second) = log_config(kafka), of_a_foreign_producer()
    early, late = tmp_path / "early", tmp_path / "late"
    await write(config, first)
    await drained(config, early)
    await write(config, second)
    counts = await drained(config, early)
    whole = await drained(config, late)
    right = {document(i).key: document(i) for i in range(30)}
    assert held(late) == held(early) == {"news": right}
    assert "murmur2" in caplog.text
    foreign = sum(
        decode(r.key, r.value)[2] != right[decode(r.key, r.value)[1]] for r in first + second
    )
    assert whole["misplaced"] == foreign > 0
    assert 0 < counts["misplaced"] < foreign  # those that came since
