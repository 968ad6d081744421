"""One shard of a table service: what it holds, what it is asked, and what that takes.

    documents, k -> segments of the index, disk, memory     a share of the crawl -> CPU, network, times

The rules kept here: what is measured stands in dedup.lab.capacity.costs, what follows from the design of
segments in dedup.plan, and nothing else is a number. Sizes are for the worst moment, not the average one:
the largest segments are being merged.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from dedup.core.bulk.designs import plan
from dedup.core.bulk.segments.segmented_table import MERGED_MOST, RATIO
from dedup.lab.capacity.costs import MEASURED, Costs
from dedup.store.index import MOST

__all__ = [
    "TOGETHER",
    "Crawl",
    "Shard",
    "estimated_us",
    "index_bytes",
    "memory_bytes_of",
    "probe_us",
    "segments_of",
    "shard_of",
    "work",
]

KEY_DISTANCE = 0  # of the table that finds a document by the digest of its key
DOCUMENT_BYTES = 4  # of a document's number in a segment (docs/segment-format.md)
COMPARE_BYTES, COMPARE_US = 8, 0.0012  # a segment so small that it is compared with value by value
FULL = MERGED_MOST * RATIO // (RATIO + 1)  # the least that a segment holds that is merged no more
TOGETHER = 16  # commands of one write, whose cost was measured
STEP = 2 ** (1 / 4)  # designs are worked out for its powers


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
    together     pages that a client sends in one write, 1 to TOGETHER
    """

    documents: int
    rate: float
    k: int
    key_bytes: int = 67
    unique: float = 1.0
    copies: int = 2
    kafka_copies: int = 3
    room: int = 4
    together: int = 1


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
    """Return the memory of the process, mapped files aside: also while its largest segment is made."""
    merged = costs.merge_bytes * min(documents, MERGED_MOST)
    return round(costs.process_bytes + costs.buffer_bytes + merged)


def memory_bytes_of(documents: int, k: int, costs: Costs) -> int:
    """Return what a shard of this size needs of a machine, at its worst."""
    return working_bytes(documents, costs) + index_bytes(documents, k)


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
    reserve = _reserve_us(crawl, shards, costs) + probe_us(documents, crawl.k, costs)
    release = _of_one_write(crawl, costs.release_us, costs.release_deep_us)
    each = (reserve, release, costs.insert_us, costs.applied_us)
    return counts, tuple(count * us / 1e6 for count, us in zip(counts, each, strict=True))


def shard_of(crawl: Crawl, shards: int, active: int, costs: Costs) -> Shard:
    """Return one of a number of shards, of one of the active sets that share the crawl."""
    documents = -(-crawl.documents // shards)
    counts, shares = work(crawl, shards, active, costs)
    search = probe_us(documents, crawl.k, costs)
    record = costs.record_bytes + crawl.key_bytes
    files = index_bytes(documents, crawl.k)
    merged = index_bytes(min(documents, MERGED_MOST), crawl.k)  # on disk beside what it is made of
    changes = counts[2] + counts[3]
    asked = _at_home(shards, costs.reserve_wire_bytes, costs.away_wire_bytes)
    wire = (asked, costs.release_wire_bytes, costs.insert_wire_bytes)
    return Shard(
        documents=documents,
        memory_bytes=working_bytes(documents, costs) + files,
        working_bytes=working_bytes(documents, costs),
        index_bytes=files,
        segments=len(segments_of(documents)),
        disk_bytes=round(record * documents) + files + merged,
        disk_bytes_per_second=changes * costs.written_bytes,
        probe_us=search,
        reserve_us=_reserve_us(crawl, shards, costs) + search,
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
    )


def _reserve_us(crawl: Crawl, shards: int, costs: Costs) -> float:
    """Return the CPU time of RESERVE, its search aside, in microseconds."""
    home = _of_one_write(crawl, costs.reserve_us, costs.reserve_deep_us)
    return _at_home(shards, home, _of_one_write(crawl, costs.away_us, costs.away_deep_us))


def _of_one_write(crawl: Crawl, alone: float, deep: float) -> float:
    """Return what a command costs that shares its write, and the work of reading it, with others."""
    shared = (1 - 1 / crawl.together) / (1 - 1 / TOGETHER)
    return alone + (deep - alone) * shared


def _at_home(shards: int, home: float, away: float) -> float:
    """Return the mean over all pages of what a page costs at its home and at another shard."""
    return (home + away * (shards - 1)) / shards
