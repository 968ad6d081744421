"""`dedup plan`: the tables for a number of documents, or with --cluster the machines.

    --documents, --distance, --memory -> dedup.plan -> a line for each design, and a recommendation
                                      -> dedup.lab.capacity -> what a store with these documents takes
    --cluster, --rate, a machine -> dedup.lab.capacity -> shards, machines, and what each carries

Invariants: exact and estimated figures are distinguished.
"""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from click.core import ParameterSource
from msgspec.inspect import Metadata, type_info
from msgspec.structs import fields

from dedup.cli import terminal
from dedup.cli.common_options import ParameterType, distance_option, json_option, number_option
from dedup.cli.terminal import scaled_text, size_text, time_text
from dedup.core.bulk.designs import Design, fewest_tables
from dedup.core.bulk.designs import plan as plan_designs
from dedup.core.memory import memory_bytes
from dedup.lab.capacity import (
    MACHINE,
    MEASURED,
    Cluster,
    Crawl,
    Machine,
    capacity,
    read_costs,
    shard_of,
)
from dedup.model.errors import UsageError
from dedup.model.recipes import NEWEST, recipe_of

F = TypeVar("F", bound=Callable[..., Any])

SUFFIXES = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
WIDTH = 64
HEADERS = (
    "design",
    "tables",
    "prefix bits",
    "candidates a table",
    "memory",
    "a probe",
    "",
)

MOST_DOCUMENTS = 2**63


class _Number(ParameterType):
    """A number of documents, in the forms in which people write large ones."""

    name = "number"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002  (click's signature)
        ctx: click.Context | None,  # noqa: ARG002
    ) -> int:
        try:
            text = str(value).replace(",", "").strip()
            times = SUFFIXES.get(text[-1:].upper(), 1)
            number = Decimal(text[:-1] if times > 1 else text) * times
            if number == (whole := int(number)) and 1 <= whole <= MOST_DOCUMENTS:
                return whole
        except (ArithmeticError, ValueError):
            pass
        return self.fail(
            f"{value!r} is no whole number from 1 to 2**63, as 1000000000 or 1e9, 200M or 1.5G."
        )


def _fields(command: F) -> F:
    """Give a command an option for each field of the model that has a text; its range is the field's."""
    for field in reversed((*fields(Machine), *fields(Crawl))):  # the last is shown first
        if isinstance(form := type_info(field.type), Metadata):
            kind: Any = form.type
            flag, text = f"--{field.encode_name.replace('_', '-')}", form.extra_json_schema
            option = number_option(
                flag, (text or {})["description"], field.default, least=kind.ge, most=kind.le
            )
            command = option(command)
    return command


@click.command(
    epilog="Examples: dedup plan --documents 200M; dedup plan --documents 17179869184 --distance 3 --memory 512G; "
    "dedup plan --cluster --documents 8000000000 --rate 2000 --memory 64G --cores 8"
)
@click.option(
    "--documents",
    type=_Number(),
    metavar="NUMBER",
    required=True,
    help="Number of documents to store: 1000000000, 1e9 or 1G (K, M, G, T: thousands to millions of millions).",
)
@distance_option(
    "Greatest Hamming distance in bits; 3 in Manku, Jain and Das Sarma (WWW 2007).",
    recipe_of(NEWEST).distance,
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Memory for the tables: bytes, 512M, 16G, 1.5T. With --cluster: memory of a machine.",
)
@click.option("--cluster", is_flag=True, help="Plan a sharded table service.")
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    metavar="PAGES",
    help="Pages a second that the crawl fetches.",
)
@_fields
@click.option(
    "--busy",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="Greatest load of a core, 0 to 1.",
)
@click.option("--price", type=click.FloatRange(0), help="Price of a machine for an hour.")
@click.option(
    "--costs",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON file with the constants of your machine, from `python tests/bench capacity --costs`.",
)
@json_option("Print a JSON list, an object for each design; with --cluster one object.")
@click.pass_context
def plan(
    context: click.Context,
    /,
    documents: int,
    distance: int,
    memory: str | None,
    cluster: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Show the memory, disk and speed that a number of documents takes.

    First the best designs of Manku, Jain and Das Sarma (WWW 2007): "6 choose 3" cuts the 64 bits into
    6 blocks and has a table for each choice of 3 blocks as the prefix. Then the designs of dedup.Table.
    Memory is that of the fingerprints; each document's id takes up to 8.5 bytes more.
    The last lines are for a store or table service, as a crawl uses it.

    With --cluster: how many shards and machines of --memory and --cores a crawl's table service takes,
    at --rate pages a second, and what each carries. It is computed from measured constants.
    """
    if cluster:
        plan_cluster(documents, distance, memory, as_json, options)
        return
    key_bytes = options.pop("key_bytes")
    for name in options:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise UsageError(f"--{name.replace('_', '-')} is for --cluster: give that, too")
    designs = plan_designs(documents, distance, memory)
    if as_json:
        terminal.out_json([_json(design) for design in designs])
        return
    terminal.out(terminal.table(HEADERS, [_row(design) for design in designs]))
    terminal.out("")
    terminal.out(_fewest(distance))
    terminal.out("Candidates are of the shortest prefix, for fingerprints spread evenly; times are")
    terminal.out("estimates for one core: docs/appendix/plan.md says from what.")
    if not any(design.recommended for design in designs):
        assert memory is not None
        least = min(designs, key=lambda design: design.bytes)
        terminal.out(
            f"Nothing fits in {size_text(memory_bytes(memory))}: the smallest takes "
            f"{size_text(least.bytes)}. Divide the documents among several tables or machines."
        )
    for line in _store(documents, distance, key_bytes):
        terminal.out(line)


def _store(documents: int, distance: int, key_bytes: int) -> list[str]:
    """Return what one store or table service with these documents takes of a machine."""
    one = shard_of(Crawl(documents, 1.0, distance, key_bytes), 1, 1, MEASURED)
    return [
        "",
        f"A store or table service with {documents:,} documents at distance {distance}, keys of "
        f"{key_bytes} bytes:",
        f"  memory    {size_text(one.memory_bytes)}: {size_text(one.working_bytes)} of the process while it "
        f"merges, {size_text(one.index_bytes)} of index files in the page cache",
        f"  disk      {size_text(one.disk_bytes)}, space for merging included",
        f"  opens in  {one.open_seconds:.1f} s after kill -9",
    ]


def _json(design: Design) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(design)
    return built


def _row(design: Design) -> list[str | int]:
    least, most = design.prefix_bits
    return [
        design.name,
        design.tables,
        f"{least}" if least == most else f"{least} to {most}",
        _candidates(design.candidates),
        size_text(design.bytes),
        time_text(design.latency_ns),
        "recommended" if design.recommended else "",
    ]


def _fewest(distance: int) -> str:
    """Return the answer to section 3.1.2: how long a prefix a number of tables can have."""
    steps: dict[int, int] = {}
    for bits in range(1, WIDTH + 1):
        if (found := fewest_tables(distance, bits)) is not None:
            steps[found[0]] = bits
    parts = [f"{tables} for {bits}" for tables, bits in list(steps.items())[:6]]
    return f"The fewest tables for a prefix length in bits: {', '.join(parts)}."


def _candidates(number: float) -> str:
    return scaled_text(number, 1024) if number >= 1024 else f"{number:.3g}"


# ----------------------------------------------------------------------------------- of a cluster


LIMITS = {
    "memory": "what fits into a machine's memory",
    "CPU": "what a core can search and apply",
}


def plan_cluster(
    documents: int, distance: int, memory: str | None, as_json: bool, options: dict[str, Any]
) -> None:
    """Print the cluster. Raises UsageError for what is missing, or cannot be."""
    rate, costs = options["rate"], options["costs"]
    if rate is None or memory is None:
        missing = [name for name, it in (("--rate", rate), ("--memory", memory)) if it is None]
        raise UsageError(
            f"--cluster needs {' and '.join(missing)}: pages a second of the crawl, and the memory "
            "of a machine, for example --rate 2000 --memory 64G"
        )
    of_crawl = {n: value for n, value in options.items() if n in Crawl.__struct_fields__}
    crawl = Crawl(documents, k=distance, **of_crawl)
    machine = Machine(memory_bytes(memory), options["cores"], core_share=options["busy"])
    measured = MEASURED if costs is None else read_costs(costs.read_bytes())
    found = capacity(crawl, machine, measured, options["price"])
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
