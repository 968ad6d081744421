"""The stores as the view of a log: caught up, restarted, rebuilt, and what they refuse."""

from __future__ import annotations

import asyncio
import shutil

import pytest
from logs import (
    document,
    drained,
    following,
    held,
    inserts,
    log_config,
    reached,
    read,
    remade,
    replayed,
    tombstone,
    until,
    write,
)

import dedup
from dedup.model.errors import StoreDamaged
from dedup.model.events import encode
from dedup.service.core.namespaces import Namespaces
from dedup.service.manifest import MANIFEST, read_manifest
from dedup.service.replica import SERVING, Phase, Replica
from dedup.wire.kafka import LogLost, TopicUnfit, ensure_topic
from dedup.wire.kafka.writer import Outgoing


async def test_a_replica_holds_what_the_log_says(kafka, tmp_path):
    """Of each namespace the last record of each key, tombstones gone, whatever came twice."""
    config = log_config(kafka)
    records = inserts(range(300)) + inserts(range(100), "other") + inserts(range(50))
    records += [tombstone(i) for i in range(0, 300, 7)] + [tombstone(1000)]
    await write(config, records)
    counts = await drained(config, tmp_path)
    assert held(tmp_path) == replayed(await read(config))
    gone = len(range(0, 300, 7))
    assert counts["inserted"] == 400
    assert counts["replaced"] == 50
    assert counts["forgotten"] == gone
    assert len(held(tmp_path)["news"]) == 300 - gone


async def test_a_restart_goes_on_and_applies_nothing_twice(kafka, tmp_path):
    config = log_config(kafka)
    await write(config, inserts(range(100)))
    await drained(config, tmp_path)
    await write(config, inserts(range(100, 130)))
    counts = await drained(config, tmp_path)
    assert {name: count for name, count in counts.items() if count} == {"inserted": 30}
    assert await drained(config, tmp_path) == {}
    assert held(tmp_path) == replayed(await read(config))


@pytest.mark.long
async def test_records_of_an_old_manifest_are_not_applied_again(kafka, tmp_path):
    """Each namespace knows its own offsets: what the manifest does not cover yet is skipped."""
    config = log_config(kafka)
    await write(config, inserts(range(50)) + inserts(range(20), "other"))
    await drained(config, tmp_path)
    manifest = tmp_path / MANIFEST
    old = manifest.read_bytes()
    await write(config, inserts(range(50, 80)))
    await drained(config, tmp_path)
    manifest.write_bytes(old)
    counts = await drained(config, tmp_path)
    assert (counts["repeated"], counts.get("inserted", 0)) == (30, 0)
    manifest.write_bytes(
        old.replace(old[old.index(b'"offsets"') : old.index(b'"caught_up"')], b'"offsets":{},')
    )
    with pytest.raises(StoreDamaged, match="log.json"):
        await drained(config, tmp_path)


async def test_what_is_no_event_goes_to_the_dead_letters_unmodified(kafka, tmp_path):
    """The same key, value and headers, and beside them where it lay and what is wrong with it."""
    config = log_config(kafka)
    poison = Outgoing(b"no key of ours", b"\xff\xfe\x00", [("mine", b"1")])
    wrong = Outgoing(b"news\0key", b"{}", partition=1)
    await write(config, [*inserts(range(5)), poison, wrong, *inserts(range(5, 9))])
    counts = await drained(config, tmp_path)
    assert (counts["dead_letters"], counts["inserted"]) == (2, 9)
    letters = {letter.key: letter for letter in await read(config, config.dead_letters)}
    assert {letter.key: letter.value for letter in letters.values()} == {
        poison.key: poison.value,
        wrong.key: b"{}",
    }
    headers = dict(letters[poison.key].headers)
    assert headers["mine"] == b"1"
    assert headers["dedup.error.topic"] == config.topic.encode()
    assert headers["dedup.error.stage"] == b"decode"
    assert headers["dedup.error.class"] == b"EventInvalid"
    assert b"malformed" in headers["dedup.error.message"]
    where = int(headers["dedup.error.partition"]), int(headers["dedup.error.offset"])
    found = [r for r in await read(config) if (r.partition, r.offset) == where]
    assert [r.value for r in found] == [poison.value]
    assert await drained(config, tmp_path) == {}
    assert held(tmp_path) == {"news": {document(i).key: document(i) for i in range(9)}}


async def test_events_of_another_recipe_are_counted_and_skipped(kafka, tmp_path):
    """Also when they are the first of a namespace: they do not make it."""
    config = log_config(kafka)
    other = [
        Outgoing(*encode(ns, document(i, recipe="words-9-9")))
        for i, ns in enumerate(["news", "news", "unknown"])
    ]
    await write(config, [*inserts([50]), *other, *inserts([51])])
    counts = await drained(config, tmp_path)
    assert counts["other_recipe"] == 3
    assert held(tmp_path) == {"news": {document(i).key: document(i) for i in (50, 51)}}
    assert not (tmp_path / "unknown").exists()


async def test_a_newer_version_is_a_dead_letter_and_an_alarm(kafka, tmp_path, caplog):
    """One record of a stranger stops no service: the others are applied, it is counted, the log says to upgrade."""
    config = log_config(kafka)
    key, value = encode("news", document(5))
    newer = Outgoing(key, value.replace(b'"v":1', b'"v":2'), partition=0)
    before = Outgoing(*encode("news", document(4)), partition=0)
    after = Outgoing(*encode("news", document(6)), partition=0)
    await ensure_topic(config, partitions=1)
    await write(config, [before, newer, after])
    counts = await drained(config, tmp_path)
    assert (counts["newer"], counts["dead_letters"]) == (1, 0)
    assert "upgrade crawl-dedup" in caplog.text
    assert "--rebuild" in caplog.text
    assert held(tmp_path) == {"news": {document(i).key: document(i) for i in (4, 6)}}
    assert read_manifest(tmp_path).offsets[0] == 3
    (letter,) = await read(config, config.dead_letters)
    assert letter.value == newer.value


async def test_a_topic_that_was_made_again_is_refused_and_rebuilt_from_when_told(kafka, tmp_path):
    """Though it has as many records: without a word, other documents would be missing."""
    config = log_config(kafka)
    await write(config, inserts(range(40)))
    await drained(config, tmp_path)
    await remade(config, inserts(range(100, 140)))
    before = held(tmp_path)
    with pytest.raises(LogLost, match=r"is not the log that was read before.*--rebuild"):
        await drained(config, tmp_path)
    assert held(tmp_path) == before
    counts = await drained(config, tmp_path, rebuild=True)
    assert counts["inserted"] == 40
    assert held(tmp_path) == replayed(await read(config))
    assert await drained(config, tmp_path) == {}


@pytest.mark.long
async def test_a_topic_that_is_made_again_under_a_running_replica_is_seen(
    kafka, tmp_path, monkeypatch
):
    from dedup.wire.kafka import reader as partition_reader

    monkeypatch.setattr(partition_reader, "IDENTITY_SECONDS", 0.5)
    config = log_config(kafka)
    await write(config, inserts(range(40)))
    with pytest.raises(LogLost, match="is not the log that was read before"):
        async with following(config, tmp_path) as replica:
            await reached(replica, *SERVING)
            await remade(config, inserts(range(100, 170)))
            await reached(replica, Phase.FAILED)
    assert document(100).key not in held(tmp_path)["news"]


@pytest.mark.long
async def test_offsets_that_the_log_has_no_more_are_refused(kafka, tmp_path):
    """Records that were deleted before they were read."""
    from aiokafka import TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

    config = log_config(kafka)
    await ensure_topic(config, partitions=1, settings={"cleanup.policy": "compact,delete"})
    await write(config, inserts(range(10)))
    await drained(config, tmp_path)
    await write(config, inserts(range(10, 30)))
    admin = AIOKafkaAdminClient(bootstrap_servers=list(config.bootstrap))
    await admin.start()
    partition = TopicPartition(config.topic, 0)
    await admin.delete_records({partition: RecordsToDelete(before_offset=20)})
    await admin.close()
    with pytest.raises(LogLost, match="from offset 20 to 30, and was read up to 10"):
        await drained(config, tmp_path)
    await drained(config, tmp_path, rebuild=True)
    assert held(tmp_path) == replayed(await read(config))


async def test_a_store_that_is_ahead_of_the_log_is_refused(kafka, tmp_path):
    """A log that lost its end (an unclean election, a copy given back) is not that log any more."""
    config = log_config(kafka)
    await write(config, inserts(range(10)))
    await drained(config, tmp_path)
    with dedup.open(tmp_path, namespace="news") as detector:
        detector.apply([], {0: 1000})
    with pytest.raises(LogLost, match="applied up to offset 1000"):
        await drained(config, tmp_path)


async def test_documents_of_no_known_log_are_refused(kafka, tmp_path):
    """A store that stood alone is no view of a log: its documents would be in one replica only."""
    config = log_config(kafka)
    with dedup.open(tmp_path, namespace="news") as detector:
        detector.insert(detector.reserve(document(3).page, "alone"))
    with pytest.raises(LogLost, match=r"1 documents.*log\.json is missing"):
        await drained(config, tmp_path)
    await drained(config, tmp_path, rebuild=True)
    assert held(tmp_path) == {}


async def test_a_namespace_that_is_gone_is_made_anew_and_the_others_skip_what_they_have(
    kafka, tmp_path
):
    config = log_config(kafka)
    await write(config, inserts(range(30)) + inserts(range(20), "other"))
    await drained(config, tmp_path)
    shutil.rmtree(tmp_path / "other")
    counts = await drained(config, tmp_path)
    assert (counts["inserted"], counts["repeated"]) == (20, 30)
    assert held(tmp_path) == replayed(await read(config))
    assert await drained(config, tmp_path) == {}


@pytest.mark.long
async def test_a_namespace_that_is_made_anew_may_be_cut_short(kafka, tmp_path, monkeypatch):
    """A kill before the next manifest: the namespace that has less than it had is no older copy."""
    config = log_config(kafka)

    async def nothing(_replica):
        pass

    async def one_batch(replica, batch, apply=Replica._apply):
        await apply(replica, batch)
        raise OSError("killed")

    await write(config, inserts(range(40), "other") + inserts(range(30)))
    await drained(config, tmp_path)
    shutil.rmtree(tmp_path / "other")
    with monkeypatch.context() as patched, pytest.raises(OSError, match="killed"):
        patched.setattr("dedup.service.replica.CATCHING_UP_RECORDS", 10)
        patched.setattr(Replica, "_apply", one_batch)
        patched.setattr(Replica, "checkpoint", nothing)
        await drained(config, tmp_path)
    await drained(config, tmp_path)
    assert held(tmp_path) == replayed(await read(config))


@pytest.mark.long
async def test_an_older_copy_of_one_store_is_refused(kafka, tmp_path):
    """Between its offsets and those of log.json it would miss what the others have."""
    config = log_config(kafka)
    await write(config, inserts(range(30)))
    await drained(config, tmp_path)
    shutil.copytree(tmp_path / "news", tmp_path.with_name("copy"))
    await write(config, inserts(range(30, 60)))
    await drained(config, tmp_path)
    shutil.rmtree(tmp_path / "news")
    shutil.copytree(tmp_path.with_name("copy"), tmp_path / "news")
    with pytest.raises(LogLost, match=r"older copy.*--rebuild"):
        await drained(config, tmp_path)
    await drained(config, tmp_path, rebuild=True)
    assert held(tmp_path) == replayed(await read(config))


async def test_a_topic_that_deletes_by_age_is_refused(kafka, tmp_path):
    config = log_config(kafka)
    await ensure_topic(config, partitions=1, compact=False)
    with pytest.raises(TopicUnfit, match=r"cleanup\.policy=delete.*kafka-configs"):
        await drained(config, tmp_path)


async def test_more_namespaces_than_allowed_are_counted_not_served(kafka, tmp_path):
    """The others go on; the log says so, and nothing is taken for a duplicate of what is missing."""
    import msgspec

    from dedup.service.core.config import USUAL_LIMITS

    config = log_config(kafka)
    await write(config, inserts([1], "one") + inserts([2], "two") + inserts([3], "three"))
    namespaces = Namespaces(tmp_path, limits=msgspec.structs.replace(USUAL_LIMITS, namespaces=2))
    replica = Replica(config, namespaces, tmp_path)
    await replica.prepare()
    namespaces.open_all()
    run = asyncio.ensure_future(replica.run())
    await reached(replica, *SERVING)
    replica.stop()
    await run
    namespaces.close()
    assert (replica.counts["refused"], replica.counts["inserted"]) == (1, 2)
    assert len(held(tmp_path)) == 2


async def test_a_transactions_marks_do_not_keep_it_from_catching_up(kafka, tmp_path):
    """Aborted records are not applied; markers at the log's end count as read."""
    from aiokafka import AIOKafkaProducer

    config = log_config(kafka)
    await ensure_topic(config, partitions=1)
    producer = AIOKafkaProducer(
        bootstrap_servers=list(config.bootstrap), transactional_id=config.topic
    )
    await producer.start()
    async with producer.transaction():
        for record in inserts(range(5)):
            await producer.send(config.topic, record.value, record.key)
    await producer.begin_transaction()
    for record in inserts(range(5, 9)):
        await producer.send(config.topic, record.value, record.key)
    await producer.flush()
    await producer.abort_transaction()
    await producer.stop()
    async with following(config, tmp_path) as replica:
        await until(lambda: replica.ready and not replica.state().lag_records, replica)
        assert replica.state().offsets == {0: 11}
    assert held(tmp_path) == {"news": {document(i).key: document(i) for i in range(5)}}
