"""One shard of a table service: what it holds, what it is asked, and what that takes.

    documents, k -> table, tree of keys, disk       a share of the crawl -> CPU, network, times

The rules kept here: what is measured stands in dedup.lab.capacity.costs, what follows from the design of a table in
dedup.plan, and nothing else is a number. Sizes are for the worst moment, not the average one: a
table that has just grown.
"""

import math
from functools import lru_cache

import msgspec

from dedup.core.bulk.designs import SET_BYTES, Design, plan
from dedup.lab.capacity.costs import MEASURED, Costs

__all__ = [
    "Crawl",
    "Shard",
    "TableBytes",
    "memory_bytes_of",
    "probe_us",
    "shard_of",
    "table_bytes",
    "work",
]

STEP = 2 ** (1 / 8)
GROWN_FOR = 1.25  # a growing table is made for this many times the values it has,
GROWS_AT = 2  # and rebuilt when it has this many times as many (native/src/table/table.c)
SNAPSHOTS = 2  # on disk at once: one is written beside the other
SNAPSHOT_DOCUMENTS = 100_000  # changed, or this share of all, make a snapshot due: as in
SNAPSHOT_SHARE = 0.05  # dedup/service/core/snapshots.py, which starts a service


class Crawl(msgspec.Struct, frozen=True):
    """What is to be remembered, and how it comes.

    documents    accepted pages that are stored
    rate         pages fetched a second, each of which is judged
    k            greatest distance, in bits
    key_bytes    of a document key, on the average
    unique       share of the pages fetched that are accepted and stored
    copies       whole sets of shards; all but one may be lost
    kafka_copies replication factor of the topic
    room         partitions a shard: so often each may be split
    """

    documents: int
    rate: float
    k: int
    key_bytes: int = 67
    unique: float = 1.0
    copies: int = 2
    kafka_copies: int = 3
    room: int = 4


class TableBytes(msgspec.Struct, frozen=True):
    """Memory of one table. made: loaded from a snapshot, so made for its size; most: as it grows."""

    made: int
    most: int


class Shard(msgspec.Struct, frozen=True):
    """One service of the cluster. Bytes; a second's counts; CPU in cores.

    memory_bytes   of the process, at its worst, and tree_bytes of the disk's cache beside it
    probe_us       search alone; reserve_us with all that belongs to it
    core_share     of the service's one core, in all: of RESERVE, of RELEASE, of INSERT, of events
    """

    documents: int
    table_bytes: int
    memory_bytes: int
    tree_bytes: int
    disk_bytes: int
    disk_bytes_per_second: float
    probe_us: float
    reserve_us: float
    reserves: float
    releases: float
    inserts: float
    events: float
    reserve_share: float
    release_share: float
    insert_share: float
    event_share: float
    core_share: float
    network_bytes_per_second: float
    open_seconds: float
    rebuild_seconds: float
    stall_seconds: float
    snapshot_every_seconds: float | None  # None: nothing changes
    index_seconds: float


def table_bytes(
    documents: int, k: int, preset: str = "auto", costs: Costs = MEASURED
) -> TableBytes:
    """Return the memory of a dedup.Table of evenly spread values, ids included.

    More than 2**31 - 2 are several tables. While a table grows, its design may be that for any number
    from 5/8 of its values to 5/4, and its arrays may have room for half as many again.
    """
    design = _design(documents, k, preset)
    made = design.bytes + (costs.set_bytes - SET_BYTES) * documents
    return TableBytes(round(made), max(round(made), _most_bytes(documents, k, preset, costs)))


def probe_us(documents: int, k: int, costs: Costs = MEASURED) -> float:
    """Return the CPU time that the search of one probe takes at most, in microseconds.

    In the slowest table of this size, by the plan's estimates; those measured took from half
    of it to all of it (docs/scale.md).
    """
    return max(ns for _, ns in _grown(documents, k, "auto")) / 1000 * costs.probe_share


def memory_bytes_of(documents: int, k: int, costs: Costs) -> int:
    """Return what a shard of this size needs of a machine, at its worst."""
    tree = costs.tree_bytes * documents
    return round(costs.process_bytes + tree + _most_bytes(documents, k, "auto", costs))


def work(
    crawl: Crawl, shards: int, active: int, costs: Costs
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return how often a second a shard reserves, releases, inserts, and applies others' events.

    And the shares of its core that these take. The shard is one of an active set.
    """
    documents = -(-crawl.documents // shards)
    reserves = crawl.rate / active
    accepted = crawl.rate * crawl.unique / shards
    inserts = accepted / active
    counts = (reserves, reserves * (shards - 1) / shards, inserts, accepted - inserts)
    reserve = _at_home(shards, costs.reserve_us, costs.away_us)
    reserve += probe_us(documents, crawl.k, costs)
    each = (reserve, costs.release_us, costs.insert_us, costs.applied_us)
    return counts, tuple(count * us / 1e6 for count, us in zip(counts, each, strict=True))


def shard_of(crawl: Crawl, shards: int, active: int, costs: Costs) -> Shard:
    """Return one of a number of shards, of one of the active sets that share the crawl."""
    documents = -(-crawl.documents // shards)
    counts, shares = work(crawl, shards, active, costs)
    search = probe_us(documents, crawl.k, costs)
    record = costs.record_bytes + crawl.key_bytes + costs.free_bytes
    snapshots = SNAPSHOTS * costs.snapshot_bytes
    changes = counts[2] + counts[3]
    asked = _at_home(shards, costs.reserve_wire_bytes, costs.away_wire_bytes)
    wire = (asked, costs.release_wire_bytes, costs.insert_wire_bytes)
    return Shard(
        documents=documents,
        table_bytes=_most_bytes(documents, crawl.k, "auto", costs),
        memory_bytes=memory_bytes_of(documents, crawl.k, costs),
        tree_bytes=round(costs.tree_bytes * documents),
        disk_bytes=round((costs.tree_bytes + record + snapshots) * documents),
        disk_bytes_per_second=changes * costs.written_bytes,
        probe_us=search,
        reserve_us=_at_home(shards, costs.reserve_us, costs.away_us) + search,
        reserves=counts[0],
        releases=counts[1],
        inserts=counts[2],
        events=counts[3],
        reserve_share=shares[0],
        release_share=shares[1],
        insert_share=shares[2],
        event_share=shares[3],
        core_share=sum(shares),
        network_bytes_per_second=sum(
            count * (size + crawl.key_bytes) for count, size in zip(counts[:3], wire, strict=True)
        )
        + changes * costs.event_bytes,
        open_seconds=documents * costs.open_us / 1e6,
        rebuild_seconds=documents * costs.rebuild_us / 1e6,
        stall_seconds=documents * costs.stall_us / 1e6,
        snapshot_every_seconds=max(SNAPSHOT_DOCUMENTS, SNAPSHOT_SHARE * documents) / changes
        if changes
        else None,
        index_seconds=documents * costs.index_us / 1e6,
    )


def _at_home(shards: int, home: float, away: float) -> float:
    """Return the mean over all pages of what a page costs at its home and at another shard."""
    return (home + away * (shards - 1)) / shards


def _most_bytes(documents: int, k: int, preset: str, costs: Costs) -> int:
    index = max(index for index, _ in _grown(documents, k, preset))
    return round(index + costs.set_growth * costs.set_bytes * documents)


def _grown(documents: int, k: int, preset: str) -> list[tuple[int, float]]:
    """Return (bytes, ns a probe) of the block tables that a table of this size may have.

    While it grows they were made for any number from 5/8 of its values to 5/4; here those that are
    powers of STEP, so that few designs are worked out. Tables made for fewer values than they hold
    have longer buckets, and take as much longer.
    """
    least = math.log(max(1.0, documents * GROWN_FOR / GROWS_AT), STEP)
    steps = round(math.log(GROWS_AT, STEP))
    found = []
    for power in range(math.ceil(least), math.ceil(least) + steps + 1):
        table_bytes, ns = _block_tables(power, k, preset)
        found.append((table_bytes, ns * max(1.0, documents / STEP**power)))
    return found


@lru_cache(maxsize=4096)
def _block_tables(power: int, k: int, preset: str) -> tuple[int, float]:
    documents = round(STEP**power)
    design = _design(documents, k, preset)
    return design.bytes - SET_BYTES * documents, design.latency_ns


def _design(documents: int, k: int, preset: str) -> Design:
    """Return the design of dedup.Table with this preset; a plan lists those that are alike once."""
    found = {design.preset: design for design in plan(documents, k)}
    return found.get(preset) or found["auto"]
