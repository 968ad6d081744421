"""How many machines a crawl's memory takes: the capacity model of the sharded table service.

    pages, pages a second, k, a machine -> documents a shard -> memory, disk, CPU -> shards, machines
                                                             -> partitions, network, Kafka, times

Documents are spread over shards by their keys, so shards divide memory, disk and the application of
events. They do not divide the crawl: every page is reserved at every shard. What one core can reserve
is the end of a set of shards, however many they are; past it the crawl is divided among several whole
sets, each with all documents (docs/appendix/scale.md).

Invariants: no I/O, no clock. No number that was not measured; the rest follows
from the design of segments in dedup.plan. Sizes are for the worst moment, not the average one: the largest
segments are being merged, a log is not compacted yet.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.core.bulk.designs import plan
from dedup.model.errors import UsageError
from dedup.store.index import MOST
from dedup.store.segmented_table import MERGED_MOST, RATIO

MOST_MACHINES = 100_000
MOST_SETS = 64
HARDLY_MORE = 1.15  # times the fewest machines
LATENCY_DRAWS = 4_000_000  # service times drawn to simulate a cluster, at most
LATENCY_PAGES = 20_000
MEANS = 1 << 16  # steps of the distribution whose mean is taken
LOG_BEFORE_COMPACTION = 2  # a topic has up to this many times the records that stay
MONTH_HOURS = 730
ANSWER_PROBE_US = 7.0  # the search in the answers measured below, by the model
KEY_DISTANCE = 0  # of the table that finds a document by the digest of its key
DOCUMENT_BYTES = 4  # of a document's number in a segment (docs/appendix/segment-format.md)
COMPARE_BYTES, COMPARE_US = 8, 0.0012  # a segment so small that it is compared with value by value
FULL = MERGED_MOST * RATIO // (RATIO + 1)  # the least that a segment holds that is merged no more
TOGETHER = 16  # commands of one write, whose cost was measured
STEP = 2 ** (1 / 4)  # designs are worked out for its powers


# ------------------------------------------------------------------------------- what is measured

MACHINE = (
    "2 shared cores of an x86-64 server, 24 GiB, Linux, Python 3.11.7, lmdb 3.0.0, "
    "others at work beside it"
)

Cost = Annotated[float, msgspec.Meta(ge=0)]


class Costs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The constants. docs/appendix/scale.md has the command that measures each."""

    process_bytes: Cost = 38e6  # B: memory of a service without documents
    buffer_bytes: Cost = 159e6  # B: the tables in memory before the segments, at most
    merge_bytes: Cost = 54.0  # B a document of the largest segment: mapped files while it is merged
    record_bytes: Cost = 120.2  # B a document: documents.mdb, and as many as the document's key has
    event_bytes: Cost = 321.9  # B a document: one copy in a broker's log, in a batch of its own
    reserve_us: Cost = 60.6  # us of CPU: RESERVE, one at a time, little to search
    away_us: Cost = 55.0  # us of CPU: the same at a shard that is not the key's home
    insert_us: Cost = 126.3  # us of CPU: INSERT through Kafka, until it is applied
    release_us: Cost = 11.6  # us of CPU: RELEASE, written with the next RESERVE
    reserve_deep_us: Cost = 27.7  # us of CPU: RESERVE, sixteen in one write
    away_deep_us: Cost = 26.0  # us of CPU: the same away from home
    release_deep_us: Cost = 8.3  # us of CPU: RELEASE, sixteen in one write
    applied_us: Cost = 56.3  # us of CPU: an event of another service, applied as it comes
    probe_share: Cost = 1.8  # a search, times the plan's estimate for segments
    segment_us: Cost = 1.0  # us of CPU: each segment of a search for a single value, beside that
    rebuild_us: Cost = 5.2  # us: an event, when a store is filled (wall time)
    written_bytes: Cost = 353.0  # B an event: written to the disk, merging included
    open_us: Cost = 0.22  # us a document: opening a store that was killed (wall time)
    reserve_wire_bytes: Cost = 326.0  # B: RESERVE and its answer, and as many as the key has
    away_wire_bytes: Cost = 394.0  # B: the same at a shard that is not the key's home
    insert_wire_bytes: Cost = 86.0  # B: INSERT and its answer, and as many as the key has
    release_wire_bytes: Cost = 86.0  # B: RELEASE and its answer, and as many as the key has


MEASURED = Costs()

# How long an answer to RESERVE took on loopback with nothing else under way, in microseconds: the
# shares of answers that took less. COMMANDS, a million documents, k = 3, 20,000 pages.
ANSWER_SHARES = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995)
ANSWER_US = (77.1, 78.9, 80.8, 82.3, 85.3, 90.3, 100.1, 123.4, 162.9, 183.1, 292.8, 1144.2)


def read_costs(data: bytes) -> Costs:
    """Return costs from JSON: an object with some of the fields of Costs; the others stay measured.

    Raises UsageError saying what is wrong with it.
    """
    try:
        return msgspec.json.decode(data, type=Costs)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"costs are a JSON object of numbers from 0 up, of: {', '.join(Costs.__struct_fields__)}; {error}"
        ) from error


# ------------------------------------------------------------------------------------- one shard


def _text(words: str) -> msgspec.Meta:
    return msgspec.Meta(description=words)


_Few = Annotated[int, msgspec.Meta(ge=1, le=64)]


class Crawl(msgspec.Struct, frozen=True):
    """What is to be remembered, and how it comes. A field's range and text are also those of `dedup plan`."""

    documents: Annotated[int, msgspec.Meta(ge=1)]
    rate: Annotated[float, msgspec.Meta(gt=0, le=1e12)]  # pages a second, each of which is judged
    k: int
    unique: Annotated[
        float, msgspec.Meta(ge=0, le=1), _text("Share of the pages that are accepted and stored.")
    ] = 1.0
    key_bytes: Annotated[
        int, msgspec.Meta(ge=1, le=8192), _text("Mean length of a document key, in bytes.")
    ] = 67
    copies: Annotated[
        _Few, _text("Copies of each shard, on different machines; all but one may fail.")
    ] = 2
    kafka_copies: Annotated[_Few, _text("Replication factor of the topic.")] = 3
    room: Annotated[_Few, _text("Partitions of a shard: it can be split into this many later.")] = 4
    together: Annotated[
        int,
        msgspec.Meta(ge=1, le=TOGETHER),
        _text("Pages that a client sends in one write: with many a page costs less."),
    ] = 1


class Shard(msgspec.Struct, frozen=True):
    """One service of the cluster. Bytes; a second's counts; CPU in cores.

    memory_bytes   that it needs: working_bytes of the process, at its worst, and index_bytes of files that
                   should be in memory, as every search reads them at random places
    probe_us       search alone; reserve_us with all that belongs to it
    core_share     of the service's one core, in all: of RESERVE, of RELEASE, of INSERT, of events
    """

    documents: int
    memory_bytes: int
    working_bytes: int
    index_bytes: int
    segments: int
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


def segments_of(documents: int) -> list[int]:
    """Return how many documents each segment has, the largest first, as merging leaves them.

    At most: a segment is merged with all newer ones while it has less than RATIO times as many, so it
    has at least that many; and no more when both would be more than MERGED_MOST.
    """
    sizes, left = [FULL] * (documents // FULL), documents % FULL
    while left > MOST:
        sizes.append(left - left // (RATIO + 1))
        left -= sizes[-1]
    return [*sizes, left] if left else sizes


def index_bytes(documents: int, k: int) -> int:
    """Return the bytes of the segments of an index: by value, for distances up to k, and by key."""
    return round(
        sum(
            size * _segment(_power(size), distance)[0]
            for size in segments_of(documents)
            for distance in (k, KEY_DISTANCE)
        )
    )


def probe_us(documents: int, k: int, costs: Costs = MEASURED) -> float:
    """Return the CPU time that the search of one value takes at most, in microseconds."""
    sizes = segments_of(documents)
    return estimated_us(sizes, k) * costs.probe_share + len(sizes) * costs.segment_us


def estimated_us(sizes: Sequence[int], k: int) -> float:
    """Return the plan's estimates of a search in segments of these sizes, one of many."""
    return sum(_segment(_power(size), k)[1] for size in sizes)


def _power(size: int) -> int:
    return math.ceil(math.log(size, STEP))


@lru_cache(maxsize=4096)
def _segment(power: int, k: int) -> tuple[float, float]:
    """Return the bytes of each document of a segment, and how long a search in it takes."""
    documents = round(STEP**power)
    for design in plan(documents, k):
        if design.kind == "segment":
            return DOCUMENT_BYTES + design.bytes / documents, design.latency_ns / 1000
    return DOCUMENT_BYTES + COMPARE_BYTES, documents * COMPARE_US


def working_bytes(documents: int, costs: Costs) -> int:
    """Return the memory of the process, and of the mapped files in which its largest segment is made."""
    merged = costs.merge_bytes * min(documents, MERGED_MOST)
    return round(costs.process_bytes + costs.buffer_bytes + merged)


def shard_of(crawl: Crawl, shards: int, active: int, costs: Costs) -> Shard:
    """Return one of a number of shards, of one of the active sets that share the crawl."""
    documents = -(-crawl.documents // shards)
    search = probe_us(documents, crawl.k, costs)
    reserve_us = search + _at_home(
        shards,
        _of_one_write(crawl, costs.reserve_us, costs.reserve_deep_us),
        _of_one_write(crawl, costs.away_us, costs.away_deep_us),
    )
    release_us = _of_one_write(crawl, costs.release_us, costs.release_deep_us)
    reserves = crawl.rate / active
    releases = reserves * (shards - 1) / shards
    changes = crawl.rate * crawl.unique / shards  # its own INSERTs, and the events of other sets
    inserts = changes / active
    shares = (
        reserves * reserve_us / 1e6,
        releases * release_us / 1e6,
        inserts * costs.insert_us / 1e6,
        (changes - inserts) * costs.applied_us / 1e6,
    )
    files = index_bytes(documents, crawl.k)
    merged = index_bytes(min(documents, MERGED_MOST), crawl.k)  # on disk beside what it is made of
    wire = (
        reserves * _at_home(shards, costs.reserve_wire_bytes, costs.away_wire_bytes)
        + releases * costs.release_wire_bytes
        + inserts * costs.insert_wire_bytes
        + (reserves + releases + inserts) * crawl.key_bytes
    )
    return Shard(
        documents=documents,
        memory_bytes=working_bytes(documents, costs) + files,
        working_bytes=working_bytes(documents, costs),
        index_bytes=files,
        segments=len(segments_of(documents)),
        disk_bytes=round((costs.record_bytes + crawl.key_bytes) * documents) + files + merged,
        disk_bytes_per_second=changes * costs.written_bytes,
        probe_us=search,
        reserve_us=reserve_us,
        reserves=reserves,
        releases=releases,
        inserts=inserts,
        events=changes - inserts,
        reserve_share=shares[0],
        release_share=shares[1],
        insert_share=shares[2],
        event_share=shares[3],
        core_share=sum(shares),
        network_bytes_per_second=wire + changes * costs.event_bytes,
        open_seconds=documents * costs.open_us / 1e6,
        rebuild_seconds=documents * costs.rebuild_us / 1e6,
    )


def _of_one_write(crawl: Crawl, alone: float, deep: float) -> float:
    """Return what a command costs that shares its write, and the work of reading it, with others."""
    shared = (1 - 1 / crawl.together) / (1 - 1 / TOGETHER)
    return alone + (deep - alone) * shared


def _at_home(shards: int, home: float, away: float) -> float:
    """Return the mean over all pages of what a page costs at its home and at another shard."""
    return (home + away * (shards - 1)) / shards


# ------------------------------------------------------------------ waiting for the slowest shard

Times = npt.NDArray[np.float64]
WARM_UP = 0.1  # of all pages: they meet queues that are still too short, and are not counted


class FanOut(msgspec.Struct, frozen=True):
    """How long pages took to be answered by every shard, in seconds.

    load  share of its time that a shard is busy with pages
    """

    shards: int
    load: float
    pages: int
    mean: float
    p50: float
    p99: float
    p999: float


def waits(arrivals: Times, services: Times) -> Times:
    """Return how long each of a server's jobs waits for its turn, in the order of arrival.

    W[i] = max(0, W[i-1] + services[i-1] - (arrivals[i] - arrivals[i-1])), without a loop: what came
    in less what could be done, less the least that this ever was.
    """
    backlog = np.concatenate(([0.0], np.cumsum(services[:-1] - np.diff(arrivals))))
    waited: Times = backlog - np.minimum.accumulate(np.minimum(backlog, 0.0))
    return waited


# ----------------------------------------------------------------------------------- the cluster


class Machine(msgspec.Struct, frozen=True):
    """A machine: bytes of memory, cores, and how much of them may be planned for.

    memory_share  of the memory; the rest is the system's, and room for mistakes
    core_share    of a core; queues grow without bound as a core comes to its end
    """

    memory: int
    cores: Annotated[
        int, msgspec.Meta(ge=1, le=1024), _text("Cores of a machine; each service uses one.")
    ] = 1
    memory_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.85
    core_share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.5


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
    _check(crawl)
    _check(machine)
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
        documents = -(-crawl.documents // shards)
        return working_bytes(documents, costs) + index_bytes(documents, crawl.k) <= room

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
    # of changes, in every set, however many there are
    events = crawl.rate * crawl.unique / shards * costs.applied_us / 1e6
    if events >= most:
        return None
    divided = shard_of(crawl, shards, 1, costs).core_share - events
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
    us = np.array(ANSWER_US) + max(0.0, shard.probe_us - ANSWER_PROBE_US)
    mean = np.interp((np.arange(MEANS) + 0.5) / MEANS, ANSWER_SHARES, us).mean() / 1e6
    pages = max(1_000, min(LATENCY_PAGES, LATENCY_DRAWS // shards))
    load = min(shard.core_share, 0.95)
    rng = np.random.default_rng(1)
    arrivals = np.cumsum(rng.exponential(mean / load, pages))
    latest = np.zeros(pages)
    for _ in range(shards):
        services = np.interp(rng.random(pages), ANSWER_SHARES, us) / 1e6
        np.maximum(latest, waits(arrivals, services) + services, out=latest)
    times = latest[int(pages * WARM_UP) :]
    return FanOut(shards, load, len(times), *fan_out(times))


def fan_out(times: Times) -> tuple[float, float, float, float]:
    """Return the mean of the times, p50, p99 and p99.9."""
    p50, p99, p999 = np.quantile(times, (0.5, 0.99, 0.999))
    return float(times.mean()), float(p50), float(p99), float(p999)


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


def _check(value: msgspec.Struct) -> None:
    """Raise UsageError for a field that is not in its range."""
    try:
        msgspec.convert(msgspec.to_builtins(value), type(value))
    except msgspec.ValidationError as error:
        raise UsageError(f"this cannot be planned: {error}") from error


def _impossible(crawl: Crawl, machine: Machine, costs: Costs, why: str) -> str:
    """Say what stands in the way, and what to do."""
    if why == "memory":
        least = working_bytes(1, costs) + index_bytes(1, crawl.k)
        return (
            f"no {MOST_MACHINES:,} machines of {machine.memory:,} bytes hold {crawl.documents:,} "
            f"documents (a service alone takes {least:,}): give machines with more memory"
        )
    return (
        f"no {MOST_SETS} sets of shards carry {crawl.rate:,.0f} pages a second at k = {crawl.k}: "
        "divide the crawl among namespaces that are not compared with each other, take a smaller "
        "distance, or let a core be busier"
    )
