"""How many machines a crawl's memory takes: the capacity model of the sharded table service.

    pages, pages a second, k, a machine -> documents a shard -> memory, disk, CPU -> shards, machines
                                                             -> partitions, network, Kafka, times

Documents are spread over shards by their keys, so shards divide memory, disk and the application of
events. They do not divide the crawl: every page is reserved at every shard. What one core can reserve
is the end of a set of shards, however many they are; past it the crawl is divided among several whole
sets, each with all documents (docs/scale.md).

The rules kept here: no I/O, no clock; what one shard takes says dedup.lab.capacity.shard_size. Sizes are for the worst
moment, not the average one: segments that are being merged, a log before its compaction.
"""

import math
from collections.abc import Iterator

import msgspec

from dedup.core.integers import number
from dedup.lab.capacity.costs import ANSWER_SHARES, ANSWER_US, MEASURED, Costs
from dedup.lab.capacity.fanout import FanOut, of_quantiles, simulate
from dedup.lab.capacity.shard_size import TOGETHER, Crawl, Shard, memory_bytes_of, shard_of, work
from dedup.model.errors import UsageError

__all__ = [
    "Cluster",
    "Crawl",
    "Machine",
    "capacity",
    "latency",
]

MOST_MACHINES = 100_000
MOST_SETS = 64
HARDLY_MORE = 1.15  # times the fewest machines
LATENCY_DRAWS = 4_000_000  # service times drawn to simulate a cluster, at most
LATENCY_PAGES = 20_000
LOG_BEFORE_COMPACTION = 2  # a topic has up to this many times the records that stay
MONTH_HOURS = 730
ANSWER_PROBE_US = 7.0  # the search in the answers of dedup.lab.capacity.costs, by shard_size


class Machine(msgspec.Struct, frozen=True):
    """A machine: bytes of memory, cores, and how much of them may be planned for.

    memory_share  of the memory; the rest is the system's, and room for mistakes
    core_share    of a core; queues grow without bound as a core comes to its end
    """

    memory: int
    cores: int = 1
    memory_share: float = 0.85
    core_share: float = 0.5


class Cluster(msgspec.Struct, frozen=True):
    """What a crawl takes.

    shards        that divide the documents; partitions of the topic, a multiple of them
    active_sets   whole sets of shards among which the crawl is divided
    sets          with those that stand by; instances are shards times sets
    machines      and how many instances each carries
    set_rate      pages a second that one set could carry, its cores as full as allowed
    limit         what decides the number of shards: "memory" or "CPU"
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
        least = _least_shards(crawl, room, costs)
        if least is None:
            continue
        for shards in _shard_numbers(least):
            active = _active_sets(crawl, shards, machine.core_share, costs)
            if active is None:
                why = "CPU"
                continue
            sets = max(crawl.copies, active + crawl.copies - 1)
            machines = max(-(-shards * sets // each), sets)
            limit = "memory" if shards == least else "CPU"
            found = _Try(shards, active, sets, machines, each, limit)
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


# ------------------------------------------------------------------------------- how many shards


def _least_shards(crawl: Crawl, room: float, costs: Costs) -> int | None:
    """Return the fewest shards that fit in this memory each; None: none do."""

    def fits(shards: int) -> bool:
        return memory_bytes_of(-(-crawl.documents // shards), crawl.k, costs) <= room

    low = most = 1
    while not fits(most):  # memory for fewer documents is not always less, so: doubled, then halved
        low, most = most + 1, 2 * most
        if most > 2 * MOST_MACHINES * MOST_SETS:
            return None
    while low < most:
        middle = (low + most) // 2
        low, most = (low, middle) if fits(middle) else (middle + 1, most)
    return most


def _shard_numbers(least: int) -> Iterator[int]:
    """Yield numbers of shards worth trying, up to sixteen times as many."""
    yield from sorted({max(least, math.ceil(least * 2 ** (i / 4))) for i in range(17)})


def _active_sets(crawl: Crawl, shards: int, most: float, costs: Costs) -> int | None:
    """Return among how many sets the crawl is divided so that no core is busier; None: none do."""
    accepted = crawl.rate * crawl.unique / shards
    events = accepted * costs.applied_us / 1e6  # in every set, however many there are
    if events >= most:
        return None
    divided = sum(work(crawl, shards, 1, costs)[1]) - events
    sets = max(1, math.ceil(divided / (most - events)))
    return sets if sets <= MOST_SETS else None


# ----------------------------------------------------------------------------------- the cluster


def _cluster(
    crawl: Crawl, machine: Machine, costs: Costs, price: float | None, found: _Try
) -> Cluster:
    shard = shard_of(crawl, found.shards, found.active, costs)
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
    """Return how long a page waits for a number of shards as busy as this one, simulated.

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
    other = shard.reserve_share * (1 - shard.probe_us / shard.reserve_us)
    if other > 0.5 * shard.core_share and found.shards > 1:
        yield "Most of the CPU is what every shard does for every page, its search aside: more shards do not help."
    if shard.probe_us > 200:
        yield (
            f"A search takes {shard.probe_us:,.0f} us at k = {crawl.k}, in {shard.segments} segments: "
            "a smaller k is cheaper, and so are more shards."
        )
    if shard.rebuild_seconds > 86_400:
        yield (
            f"A lost disk takes {shard.rebuild_seconds / 86_400:.1f} days to rebuild from the log: "
            "keep a standing set, copy its folder, and raise the topic's delete.retention.ms to more."
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
    for name, most in (("copies", 64), ("kafka_copies", 64), ("room", 64), ("together", TOGETHER)):
        if not 1 <= getattr(crawl, name) <= most:
            raise UsageError(f"{name} is {getattr(crawl, name)}; it must be 1 to {most}")
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
        least = memory_bytes_of(1, crawl.k, costs)
        return (
            f"no {MOST_MACHINES:,} machines of {machine.memory:,} bytes hold {crawl.documents:,} "
            f"documents (a service alone takes {least:,}): give machines with more memory"
        )
    return (
        f"no {MOST_SETS} sets of shards carry {crawl.rate:,.0f} pages a second at k = {crawl.k}: "
        "divide the crawl among namespaces that are not compared with each other, take a smaller "
        "distance, or let a core be busier"
    )
