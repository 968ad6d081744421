"""`dedup plan --cluster`: what a crawl's table service takes, of machines as they are given.

    options -> dedup.lab.capacity -> one line a figure, what limits, and what would hurt

Invariant: every figure has its unit, and those that hang on a machine are told apart.
"""

from pathlib import Path

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.terminal import size_text, time_text
from dedup.core.bulk.out_of_core import memory_bytes
from dedup.lab.capacity import MACHINE, MEASURED, Cluster, Crawl, Machine, capacity, read_costs
from dedup.model.errors import UsageError

LIMITS = {
    "memory": "what fits into a machine's memory",
    "CPU": "what a core can search and apply",
}


def plan_cluster(
    documents: int,
    distance: int,
    memory: str | None,
    as_json: bool,
    *,
    rate: float | None,
    cores: int,
    copies: int,
    unique: float,
    key_bytes: int,
    busy: float,
    kafka_copies: int,
    room: int,
    together: int,
    price: float | None,
    costs: Path | None,
) -> None:
    """Print the cluster. Raises UsageError for what is missing, or cannot be."""
    if rate is None or memory is None:
        missing = [name for name, it in (("--rate", rate), ("--memory", memory)) if it is None]
        raise UsageError(
            f"--cluster needs {' and '.join(missing)}: pages a second of the crawl, and the memory "
            "of a machine, for example --rate 2000 --memory 64G"
        )
    crawl = Crawl(
        documents, rate, distance, key_bytes, unique, copies, kafka_copies, room, together
    )
    machine = Machine(memory_bytes(memory), cores, core_share=busy)
    measured = MEASURED if costs is None else read_costs(costs.read_bytes())
    found = capacity(crawl, machine, measured, price)
    if as_json:
        terminal.out_json(msgspec.to_builtins(found))
        return
    terminal.out(terminal.table(("", "", ""), _rows(crawl, found)).lstrip("\n"))
    terminal.out("")
    for note in found.notes:
        terminal.out(click.wrap_text(note, 98, "- ", "  "))
    whose = MACHINE if costs is None else f"as {costs} has them"
    terminal.out(
        click.wrap_text(f"CPU and times: {whose}. How it is computed: docs/appendix/scale.md.", 98)
    )


def _rows(crawl: Crawl, found: Cluster) -> list[tuple[str, str, str]]:
    shard, seen = found.shard, found.latency
    return [
        ("shards", f"{found.shards:,}", f"by {LIMITS[found.limit]}"),
        ("sets of them", f"{found.sets:,}", _sets(found)),
        (
            "machines",
            f"{found.machines:,}",
            f"{found.instances:,} services, up to {found.instances_per_machine} on a machine",
        ),
        ("partitions of the topic", f"{found.partitions:,}", f"{crawl.room} a shard"),
        ("one set carries", f"{found.set_rate:,.0f}/s", "pages, with cores as full as allowed"),
        ("a shard: documents", f"{shard.documents:,}", ""),
        (
            "  memory",
            size_text(shard.memory_bytes),
            f"{size_text(shard.working_bytes)} of the process, {size_text(shard.index_bytes)} of "
            f"index files ({shard.segments} segments)",
        ),
        (
            "  disk",
            size_text(shard.disk_bytes),
            f"{size_text(shard.disk_bytes_per_second)}/s written",
        ),
        (
            "  of its core",
            f"{shard.core_share:.0%}",
            f"RESERVE {shard.reserve_share:.1%}, RELEASE {shard.release_share:.1%}, "
            f"INSERT {shard.insert_share:.1%}, others' events {shard.event_share:.1%}",
        ),
        (
            "  RESERVE",
            time_text(shard.reserve_us * 1000),
            f"{shard.reserves:,.0f}/s; up to {time_text(shard.probe_us * 1000)} of it to search",
        ),
        ("  network", f"{size_text(shard.network_bytes_per_second)}/s", ""),
        ("  opens in", _seconds(shard.open_seconds), "all of its index verified"),
        ("  rebuilt in", _seconds(shard.rebuild_seconds), "from the log"),
        (
            "a page's answer",
            f"{seen.p50 * 1e3:.2f} ms",
            f"p50; p99 {seen.p99 * 1e3:.2f} ms (simulated, the network aside)",
        ),
        (
            "network",
            f"{size_text(found.network_bytes_per_second)}/s",
            f"{size_text(found.page_bytes)} a page",
        ),
        (
            "Kafka's disks",
            size_text(found.kafka_bytes),
            f"{crawl.kafka_copies} copies, before compaction; {size_text(found.log_bytes_per_second)}/s into one",
        ),
        ("a month", f"{found.machine_hours:,.0f}", "machine-hours" + _cost(found)),
    ]


def _sets(found: Cluster) -> str:
    standing_by = found.sets - found.active_sets
    shared = (
        "one carries the crawl"
        if found.active_sets == 1
        else f"{found.active_sets} share the crawl"
    )
    return f"{shared}, {standing_by} standing by"


def _cost(found: Cluster) -> str:
    return "" if found.cost is None else f"; {found.cost:,.2f} at your price"


def _seconds(seconds: float) -> str:
    for unit, least in (("days", 86_400.0), ("hours", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * least:
            return f"{seconds / least:.1f} {unit}"
    return f"{seconds:.1f} s"
