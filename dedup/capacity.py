"""How many machines a crawl's memory takes: the capacity model of the sharded table service.

    pages, pages a second, k, a machine -> documents a shard -> memory, disk, CPU -> shards, machines
                                                             -> partitions, network, Kafka, times

Documents are spread over shards by their keys, so shards divide memory, disk and the application of
events. They do not divide the crawl: every page is reserved at every shard. What one core can reserve
is the end of a set of shards, however many they are; past it the crawl is divided among several whole
sets, each with all documents (docs/scale.md).

The rules kept here: no I/O, no clock; what is measured stands in dedup.costs, what follows from the
design in dedup.plan, and nothing else is a number. Sizes are for the worst moment, not the average
one: a table that has just grown, a log before its compaction.
"""

import math
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from dedup.costs import ANSWER_SHARES, ANSWER_US, MEASURED, Costs
from dedup.errors import UsageError
from dedup.fanout import FanOut, of_quantiles, simulate
from dedup.numbers import number
from dedup.plan import SET_BYTES, TABLE_VALUES, Design, plan

__all__ = [
    "Cluster",
    "Crawl",
    "Machine",
    "Shard",
    "TableBytes",
    "capacity",
    "latency",
    "probe_us",
    "table_bytes",
]

MOST_MACHINES = 100_000
MOST_SETS = 64
HARDLY_MORE = 1.15  # times the fewest machines
LATENCY_DRAWS = 4_000_000  # service times drawn to simulate a cluster, at most
LATENCY_PAGES = 20_000
STEP = 2 ** (1 / 8)
GROWN_FOR = 1.25  # a growing table is made for so many times the values it has,
GROWS_AT = 2  # and made anew when it has so many times as many (native/src/table.c)
LOG_BEFORE_COMPACTION = 2  # a topic has up to so many times the records that stay
SNAPSHOTS = 2  # on disk at once: one is written beside the other
MONTH_HOURS = 730
SNAPSHOT_DOCUMENTS = 100_000  # changed, or this share of all, make a snapshot due: as in
SNAPSHOT_SHARE = 0.05  # dedup/service/replica.py, which is floors above
TIMEOUT_SECONDS = 0.5  # the client's usual one
ANSWER_PROBE_US = 0.12  # of the answers in dedup.costs: their search


class Machine(msgspec.Struct, frozen=True):
    """A machine: bytes of memory, cores, and how much of them may be planned for.

    memory_share  of the memory; the rest is the system's, and room for mistakes
    core_share    of a core; queues grow without bound as a core comes to its end
    """

    memory: int
    cores: int = 1
    memory_share: float = 0.85
    core_share: float = 0.5


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
    snapshot_seconds: float
    snapshot_every_seconds: float
    index_seconds: float


class Cluster(msgspec.Struct, frozen=True):
    """What a crawl takes.

    shards        that divide the documents; partitions of the topic, a multiple of them
    active_sets   whole sets of shards among which the crawl is divided
    sets          with those that stand by; instances are shards times sets
    machines      and how many instances each carries
    set_rate      pages a second that one set could carry, its cores as full as allowed
    limit         what decides the number of shards: "memory", "CPU" or "table"
    page_bytes    over the network for one page, both ways, of one set
    kafka_bytes   of all brokers, before compaction; log_bytes_per_second, of one copy
    latency       of a page, until the slowest shard of a set has answered
    machine_hours a month of 730 hours; cost: at the price of a machine-hour, or None
    """

    shards: int
    partitions: int
    active_sets: int
    sets: int
    instances: int
    machines: int
    instances_per_machine: int
    limit: str
    set_rate: float
    shard: Shard
    page_bytes: float
    network_bytes_per_second: float
    kafka_bytes: int
    log_bytes_per_second: float
    latency: FanOut
    machine_hours: float
    cost: float | None
    notes: list[str]


def table_bytes(
    documents: int, k: int, preset: str = "auto", costs: Costs = MEASURED
) -> TableBytes:
    """Return the memory of a dedup.Table of so many evenly spread values, ids included.

    More than 2**31 - 2 are several tables. While a table grows, its design may be that for any number
    from 5/8 of its values to 5/4, and its arrays may have room for half as many again.
    """
    design = _design(documents, k, preset)
    made = design.bytes + (costs.set_bytes - SET_BYTES) * documents
    return TableBytes(round(made), max(round(made), _most_bytes(documents, k, preset, costs)))


def probe_us(documents: int, k: int, costs: Costs = MEASURED) -> float:
    """Return the CPU time of the search of one probe, in microseconds, in the slowest such table."""
    return max(ns for _, ns in _grown(documents, k, "auto")) / 1000 * costs.probe_share


def capacity(
    crawl: Crawl, machine: Machine, costs: Costs = MEASURED, price: float | None = None
) -> Cluster:
    """Return a cluster for a crawl: of those with hardly more machines than the least, fewest services.

    Fewer services make less of what every shard does for every page, CPU and network both.

    price is that of a machine-hour, in any currency. Raises UsageError for arguments out of range,
    and when no number of machines up to 100,000 does it, saying what stands in the way.
    """
    _check(crawl, machine, price)
    tries: list[_Try] = []
    why = "memory"
    for each in range(1, machine.cores + 1):
        room = machine.memory * machine.memory_share / each
        least, limit = _least_shards(crawl, room, costs)
        if least is None:
            continue
        for shards in _shard_numbers(least):
            active = _active_sets(crawl, shards, machine.core_share, costs)
            if active is None:
                why = "CPU"
                continue
            sets = max(crawl.copies, active + crawl.copies - 1)
            machines = max(-(-shards * sets // each), sets)
            found = _Try(shards, active, sets, machines, each, limit if shards == least else "CPU")
            if machines <= MOST_MACHINES:
                tries.append(found)
    if not tries:
        raise UsageError(_impossible(crawl, machine, costs, why))
    most = HARDLY_MORE * min(found.machines for found in tries)
    near = [found for found in tries if found.machines <= most]
    best = min(near, key=lambda found: (found.shards * found.sets, found.machines, found.each))
    return _cluster(crawl, machine, costs, price, best)


class _Try(msgspec.Struct, frozen=True):
    shards: int
    active: int
    sets: int
    machines: int
    each: int
    limit: str


# ------------------------------------------------------------------------------------- one shard


def _design(documents: int, k: int, preset: str) -> Design:
    """Return the design of dedup.Table with this preset; a plan lists those that are alike once."""
    found = {design.preset: design for design in plan(documents, k)}
    return found.get(preset) or found["auto"]


def _grown(documents: int, k: int, preset: str) -> list[tuple[int, float]]:
    """Return (bytes, ns a probe) of the block tables that a table of so many values may have.

    While it grows they were made for any number from 5/8 of its values to 5/4; here those that are
    powers of STEP, so that few designs are worked out.
    """
    least = math.log(max(1.0, documents * GROWN_FOR / GROWS_AT), STEP)
    steps = round(math.log(GROWS_AT, STEP))
    return [_block_tables(math.ceil(least) + i, k, preset) for i in range(steps + 1)]


@lru_cache(maxsize=4096)
def _block_tables(power: int, k: int, preset: str) -> tuple[int, float]:
    documents = round(STEP**power)
    design = _design(documents, k, preset)
    return design.bytes - SET_BYTES * documents, design.latency_ns


def _most_bytes(documents: int, k: int, preset: str, costs: Costs) -> int:
    index = max(index for index, _ in _grown(documents, k, preset))
    return round(index + costs.set_growth * costs.set_bytes * documents)


def _documents_memory(documents: int, k: int, costs: Costs) -> int:
    """Return what a shard of so many documents needs of a machine, at its worst."""
    tree = costs.tree_bytes * documents
    return round(costs.process_bytes + tree + _most_bytes(documents, k, "auto", costs))


def _least_shards(crawl: Crawl, room: float, costs: Costs) -> tuple[int | None, str]:
    """Return the fewest shards that fit in so many bytes each, and what decides it."""

    def fits(shards: int) -> bool:
        each = -(-crawl.documents // shards)
        return each <= TABLE_VALUES and _documents_memory(each, crawl.k, costs) <= room

    low = most = -(-crawl.documents // TABLE_VALUES)
    while not fits(most):  # memory for fewer documents is not always less, so: doubled, then halved
        low, most = most + 1, 2 * most
        if most > 2 * MOST_MACHINES * MOST_SETS:
            return None, "memory"
    tables = -(-crawl.documents // TABLE_VALUES)
    if most == tables:
        return most, "table" if most > 1 else "memory"
    while low < most:
        middle = (low + most) // 2
        low, most = (low, middle) if fits(middle) else (middle + 1, most)
    return most, "memory"


def _shard_numbers(least: int) -> Iterator[int]:
    """Yield numbers of shards worth trying, up to sixteen times as many."""
    yield from sorted({max(least, math.ceil(least * 2 ** (i / 4))) for i in range(17)})


def _active_sets(crawl: Crawl, shards: int, most: float, costs: Costs) -> int | None:
    """Return among how many sets the crawl is divided so that no core is busier; None: none do."""
    accepted = crawl.rate * crawl.unique / shards
    events = accepted * costs.applied_us / 1e6  # in every set, however many there are
    if events >= most:
        return None
    divided = sum(_work(crawl, shards, 1, costs)[1]) - events
    sets = max(1, math.ceil(divided / (most - events)))
    return sets if sets <= MOST_SETS else None


def _work(
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


def _at_home(shards: int, home: float, away: float) -> float:
    """Return the mean over all pages of what a page costs at its home and at another shard."""
    return (home + away * (shards - 1)) / shards


def _shard(crawl: Crawl, shards: int, active: int, costs: Costs) -> Shard:
    documents = -(-crawl.documents // shards)
    counts, shares = _work(crawl, shards, active, costs)
    search = probe_us(documents, crawl.k, costs)
    record = costs.record_bytes + crawl.key_bytes + costs.free_bytes
    snapshots = SNAPSHOTS * costs.snapshot_bytes
    changes = counts[2] + counts[3]
    asked = _at_home(shards, costs.reserve_wire_bytes, costs.away_wire_bytes)
    wire = (asked, costs.release_wire_bytes, costs.insert_wire_bytes)
    return Shard(
        documents=documents,
        table_bytes=_most_bytes(documents, crawl.k, "auto", costs),
        memory_bytes=_documents_memory(documents, crawl.k, costs),
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
        snapshot_seconds=documents * costs.snapshot_us / 1e6,
        snapshot_every_seconds=max(SNAPSHOT_DOCUMENTS, SNAPSHOT_SHARE * documents) / changes
        if changes
        else math.inf,
        index_seconds=documents * costs.index_us / 1e6,
    )


# ----------------------------------------------------------------------------------- the cluster


def _cluster(
    crawl: Crawl, machine: Machine, costs: Costs, price: float | None, found: _Try
) -> Cluster:
    shard = _shard(crawl, found.shards, found.active, costs)
    accepted = crawl.rate * crawl.unique
    standing_by = found.sets - found.active
    idle = (accepted * costs.event_bytes) * standing_by
    hours = found.machines * MONTH_HOURS
    return Cluster(
        shards=found.shards,
        partitions=found.shards * crawl.room,
        active_sets=found.active,
        sets=found.sets,
        instances=found.shards * found.sets,
        machines=found.machines,
        instances_per_machine=found.each,
        limit=found.limit,
        set_rate=crawl.rate / found.active * machine.core_share / shard.core_share,
        shard=shard,
        page_bytes=shard.network_bytes_per_second * found.shards * found.active / crawl.rate,
        network_bytes_per_second=shard.network_bytes_per_second * found.shards * found.active
        + idle,
        kafka_bytes=round(
            costs.event_bytes * crawl.documents * crawl.kafka_copies * LOG_BEFORE_COMPACTION
        ),
        log_bytes_per_second=accepted * costs.event_bytes,
        latency=latency(found.shards, shard),
        machine_hours=hours,
        cost=None if price is None else hours * price,
        notes=[*_notes(crawl, shard, found)],
    )


def latency(shards: int, shard: Shard) -> FanOut:
    """Return how long a page waits for so many shards that are as busy as this one, simulated.

    Their times are those measured for RESERVE, with the search of their size in place of that of the
    measured one. Machines stand beside each other: the network between them is not in it.
    """
    more = max(0.0, shard.probe_us - ANSWER_PROBE_US)
    draw, mean = of_quantiles(ANSWER_SHARES, [(us + more) / 1e6 for us in ANSWER_US])
    pages = max(1_000, min(LATENCY_PAGES, LATENCY_DRAWS // shards))
    return simulate(draw, mean, shards, min(shard.core_share, 0.95), pages=pages)


def _notes(crawl: Crawl, shard: Shard, found: _Try) -> Iterator[str]:
    """Yield what would hurt."""
    if found.active > 1:
        yield (
            f"One set cannot carry the rate: {found.active} whole sets share it. Two near-duplicates "
            "in flight in different sets may both be kept; give each spider one set, by site."
        )
    if shard.reserve_share > 0.5 * shard.core_share and found.shards > 1:
        yield "Most of the CPU is RESERVE, which every shard does for every page: more shards do not help."
    if shard.probe_us > 200:
        yield f"A search takes {shard.probe_us:,.0f} us at k = {crawl.k}: a smaller k is cheaper."
    if shard.rebuild_seconds > 86_400:
        yield (
            f"A lost disk takes {shard.rebuild_seconds / 86_400:.1f} days to make anew from the log: "
            "keep a standing set, copy its folder, and raise the topic's delete.retention.ms to more."
        )
    if (stall := shard.snapshot_seconds - TIMEOUT_SECONDS) > 0:
        share = min(1.0, found.shards * stall / shard.snapshot_every_seconds)
        yield (
            f"A shard answers nobody for {shard.snapshot_seconds:,.0f} s while it writes a snapshot, "
            f"once in {shard.snapshot_every_seconds / 3600:,.0f} hours. With {found.shards:,} shards "
            f"up to {share:.1%} of the pages meet that; unless a copy answers, they are kept, unjudged."
        )
    if shard.disk_bytes_per_second > 50e6:
        yield (
            f"Each shard writes {shard.disk_bytes_per_second / 1e6:,.0f} MB a second: use disks that "
            "are made for it."
        )
    if found.machines < found.shards * found.sets and found.each > 1:
        yield "Put instances of the same partitions on different machines."


# ---------------------------------------------------------------------------------- what is wrong


def _check(crawl: Crawl, machine: Machine, price: float | None) -> None:
    if number(crawl.documents, "documents") == 0:
        raise UsageError("documents is 0; it must be an int from 1 up")
    if not 0 < crawl.rate < math.inf:
        raise UsageError(f"the rate is {crawl.rate} pages a second; it must be above 0")
    if not 0 <= crawl.unique <= 1:
        raise UsageError(f"unique is {crawl.unique}; it is a share of the pages, 0 to 1")
    for name in ("copies", "kafka_copies", "room"):
        if not 1 <= getattr(crawl, name) <= 64:
            raise UsageError(f"{name} is {getattr(crawl, name)}; it must be 1 to 64")
    if not 1 <= crawl.key_bytes <= 8192:
        raise UsageError(f"key_bytes is {crawl.key_bytes}; a document key has 1 to 8192 bytes")
    if not 1 <= machine.cores <= 1024:
        raise UsageError(f"cores is {machine.cores}; it must be 1 to 1024")
    if not (0 < machine.memory_share <= 1 and 0 < machine.core_share < 1):
        raise UsageError("memory_share and core_share must be above 0; at most 1, and below 1")
    if price is not None and not 0 <= price < math.inf:
        raise UsageError(f"the price is {price}; it must be 0 or more for a machine-hour")


def _impossible(crawl: Crawl, machine: Machine, costs: Costs, why: str) -> str:
    """Say what stands in the way, and what to do."""
    if why == "memory":
        least = _documents_memory(1, crawl.k, costs)
        return (
            f"no {MOST_MACHINES:,} machines of {machine.memory:,} bytes hold {crawl.documents:,} "
            f"documents (a service alone takes {least:,}): give machines with more memory"
        )
    return (
        f"no {MOST_SETS} sets of shards carry {crawl.rate:,.0f} pages a second at k = {crawl.k}: "
        "divide the crawl among namespaces that are not compared with each other, take a smaller "
        "distance, or let a core be busier"
    )
