"""Replicas of some partitions: what they hold and take on."""

from __future__ import annotations

import pytest
from logs import (
    document,
    drained,
    held,
    inserts,
    log_config,
    murmur2,
    read,
    replayed,
    tombstone,
    write,
)

from dedup.model.events import decode, encode, record_key
from dedup.service.core.namespaces import Namespaces
from dedup.service.manifest import read_manifest
from dedup.wire.kafka import LogLost
from dedup.wire.kafka.writer import Outgoing

PARTITIONS = 3  # of logs.write


def partition(namespace: str, key: str) -> int:
    return (murmur2(record_key(namespace, key)) & 0x7FFFFFFF) % PARTITIONS


def of(content, partitions):
    """What lies in some partitions of a log's content."""
    found = {
        ns: {key: d for key, d in documents.items() if partition(ns, key) in partitions}
        for ns, documents in content.items()
    }
    return {ns: documents for ns, documents in found.items() if documents}


def offsets(path) -> dict[str, dict[int, int]]:
    """How far each store of a folder is applied."""
    namespaces = Namespaces(path)
    namespaces.open_all()
    try:
        return {name: detector.store.offsets() for name, detector in namespaces}
    finally:
        namespaces.close()


def is_consistent(path, partitions: set[int]) -> None:
    """The manifest speaks of no partition that is not held, and never beyond what a store has."""
    manifest = read_manifest(path)
    assert manifest.offsets.keys() <= partitions
    stores = offsets(path)
    for name, noted in manifest.namespaces.items():
        assert noted.keys() <= partitions
        assert all(stores[name][p] >= offset for p, offset in noted.items())


async def test_shares_are_disjoint_and_together_the_log(kafka, tmp_path):
    """Each holds what lies in its partitions, tombstones gone; all of them, what the log comes to."""
    config = log_config(kafka)
    records = inserts(range(200)) + inserts(range(60), "other")
    await write(config, records + [tombstone(i) for i in range(0, 200, 5)])
    expected = replayed(await read(config))
    for share, partitions in (("0", {0}), ("1-2", {1, 2})):
        counts = await drained(config, tmp_path / share, share=share)
        assert held(tmp_path / share) == of(expected, partitions) != {}
        assert counts["repeated"] == counts.get("misplaced", 0) == 0
        is_consistent(tmp_path / share, partitions)
    together = {ns: {} for ns in expected}
    for share in ("0", "1-2"):
        for ns, documents in held(tmp_path / share).items():
            assert not together[ns].keys() & documents.keys()
            together[ns] |= documents
    assert together == expected


async def test_a_smaller_share_is_refused_and_a_larger_one_reads_what_is_new(kafka, tmp_path):
    """A store of more than is held is rebuilt; what is taken on is read from the beginning of the log."""
    config = log_config(kafka)
    await write(config, inserts(range(60)) + inserts(range(20), "other"))
    await drained(config, tmp_path)
    with pytest.raises(LogLost, match="partitions other than 1, 0 among them.*--rebuild"):
        await drained(config, tmp_path, share="1")
    expected = replayed(await read(config))
    assert held(tmp_path) == expected

    counts = await drained(config, tmp_path, share="1", rebuild=True)
    assert held(tmp_path) == of(expected, {1})
    is_consistent(tmp_path, {1})

    await write(config, [*inserts(range(60, 90)), tombstone(3), tombstone(4), tombstone(5)])
    expected = replayed(await read(config))
    before = [r for r in await read(config) if r.partition != 1]
    await drained(config, tmp_path, share="1")
    counts = await drained(config, tmp_path)
    assert held(tmp_path) == expected
    applied = sum(counts[name] for name in ("inserted", "replaced", "forgotten", "repeated"))
    assert applied <= len(before)
    assert counts["repeated"] == 0
    assert await drained(config, tmp_path) == {}


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


@pytest.mark.parametrize("share", [None, "0-1"])
async def test_records_of_another_partitioner_are_skipped_by_every_replica(
    kafka, tmp_path, caplog, share
):
    """So two that read the same log never differ, whatever they met first: it is said and counted."""
    config, (first, second) = log_config(kafka), of_a_foreign_producer()
    early, late = tmp_path / "early", tmp_path / "late"
    held_here = range(PARTITIONS) if share is None else range(2)
    await write(config, first)
    await drained(config, early, share=share)
    await write(config, second)
    counts = await drained(config, early, share=share)
    whole = await drained(config, late, share=share)
    right = {document(i).key: document(i) for i in range(30)}
    assert held(late) == held(early) == of({"news": right}, held_here)
    assert "murmur2" in caplog.text
    lying = [r for r in first + second if r.partition in held_here]
    foreign = sum(decode(r.key, r.value)[2] != right[decode(r.key, r.value)[1]] for r in lying)
    assert whole["misplaced"] == foreign > 0
    assert 0 < counts["misplaced"] < foreign  # those that came since
