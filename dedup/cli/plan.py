"""`dedup plan`: what a store with a number of documents takes, and the tables for them.

--documents, --distance, --key-bytes -> store_size -> memory, disk
--documents, --distance, --memory -> dedup.plan -> a line for each design, and a recommendation
"""

import math
from decimal import Decimal
from functools import cache
from typing import NamedTuple

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import distance_option, json_option, number_option
from dedup.cli.terminal import scaled_text, size_text, time_text
from dedup.core.bulk.designs import Design
from dedup.core.bulk.designs import plan as plan_designs
from dedup.core.memory import memory_bytes
from dedup.model.recipes import NEWEST, recipe_of
from dedup.store.index import MEMORY_FULL
from dedup.store.segmented_table import MERGED_MOST, RATIO

SUFFIXES = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
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


def _number(value: str) -> int:
    """Return a number of documents, in the forms in which people write large ones."""
    try:
        text = value.replace(",", "").strip()
        times = SUFFIXES.get(text[-1:].upper(), 1)
        number = Decimal(text[:-1] if times > 1 else text) * times
        if number == (whole := int(number)) and 1 <= whole <= MOST_DOCUMENTS:
            return whole
    except (ArithmeticError, ValueError):
        pass
    raise click.BadParameter(
        f"{value!r} is no whole number from 1 to 2**63, as 1000000000 or 1e9, 200M or 1.5G."
    )


@click.command(
    epilog="Examples: dedup plan --documents 200M; dedup plan --documents 17179869184 --distance 3 --memory 512G"
)
@click.option(
    "--documents",
    type=_number,
    metavar="NUMBER",
    required=True,
    help="Number of documents to store: 1000000000, 1e9 or 1G (K, M, G, T: thousands to millions of millions).",
)
@distance_option(
    "Greatest Hamming distance in bits; 3 in Manku, Jain and Das Sarma (WWW 2007).",
    recipe_of(NEWEST).distance,
)
@click.option("--memory", metavar="SIZE", help="Memory for the tables: bytes, 512M, 16G, 1.5T.")
@number_option("--key-bytes", "Mean length of a document key, in bytes.", 67, least=1, most=8192)
@json_option("Print a JSON list, an object for each design.")
def plan(documents: int, distance: int, memory: str | None, key_bytes: int, as_json: bool) -> None:
    """Show the memory, disk and speed that a number of documents takes.

    First what a store or table service takes, as a crawl uses it. Then the designs of tables in memory:
    the best ones of Manku, Jain and Das Sarma (WWW 2007), where "6 choose 3" cuts the 64 bits into 6
    blocks and has a table for each choice of 3 blocks as the prefix, and those of dedup.Table.
    Their memory is that of the fingerprints; each document's id takes up to 8.5 bytes more.
    """
    designs = plan_designs(documents, distance, memory)
    if as_json:
        terminal.out_json([msgspec.to_builtins(design) for design in designs])
        return
    for line in _store(documents, distance, key_bytes):
        terminal.out(line)
    terminal.out(terminal.table(HEADERS, [_row(design) for design in designs]))
    terminal.out("")
    terminal.out(
        "Candidates are those of the shortest prefix, for evenly spread fingerprints; times are"
    )
    terminal.out("estimates for one core.")
    if not any(design.recommended for design in designs):
        assert memory is not None
        least = min(designs, key=lambda design: design.bytes)
        terminal.out(
            f"Nothing fits in {size_text(memory_bytes(memory))}: the smallest takes "
            f"{size_text(least.bytes)}. Divide the documents among several tables or machines."
        )


def _store(documents: int, distance: int, key_bytes: int) -> list[str]:
    one = store_size(documents, distance, key_bytes)
    return [
        f"A store or table service with {documents:,} documents at distance {distance}, keys of "
        f"{key_bytes} bytes:",
        f"  memory    {size_text(one.working_bytes + one.index_bytes)}: {size_text(one.working_bytes)} of "
        f"the process while it merges, {size_text(one.index_bytes)} of index files in the page cache",
        f"  disk      {size_text(one.disk_bytes)}, space for merging included",
        f"  opens in  {one.open_seconds:.1f} s after kill -9",
        "",
        "Tables in memory:",
    ]


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


def _candidates(number: float) -> str:
    return scaled_text(number, 1024) if number >= 1024 else f"{number:.3g}"


# ------------------------------------------------------------------------- what a store takes

PROCESS_BYTES = 38e6  # a service without documents
BUFFER_BYTES = 159e6  # the tables in memory before the segments, at most
MERGE_BYTES = 54  # each document of the segment being written, in mapped files
RECORD_BYTES = 120.2  # each document in documents.mdb, and its key
DOCUMENT_BYTES = 4  # its number in a segment (native/src/segment/segment_format.h)
COMPARED_BYTES = 8  # a value in a segment so small that it has no tables
OPEN_US = 0.22  # opening after kill -9, each document
FULL = MERGED_MOST * RATIO // (RATIO + 1)  # fewest documents of a segment that is merged no more
STEP = 2 ** (1 / 4)  # designs are computed for its powers


class StoreSize(NamedTuple):
    """What a store takes at its worst moment, while its largest segments are merged."""

    working_bytes: int  # memory of the process
    index_bytes: int  # index files, which should be in the page cache
    disk_bytes: int
    open_seconds: float


def store_size(documents: int, distance: int, key_bytes: int = 67) -> StoreSize:
    """Return the memory, disk and opening time of a store; the constants above were measured with `make bench`."""
    merged = min(documents, MERGED_MOST)
    index = _index_bytes(documents, distance)
    return StoreSize(
        working_bytes=round(PROCESS_BYTES + BUFFER_BYTES + MERGE_BYTES * merged),
        index_bytes=index,
        disk_bytes=round((RECORD_BYTES + key_bytes) * documents)
        + index
        + _index_bytes(merged, distance),
        open_seconds=documents * OPEN_US / 1e6,
    )


def _index_bytes(documents: int, distance: int) -> int:
    """Return the bytes of the segments by value, and by the digest of the key, which has distance 0."""
    return round(
        sum(size * _segment_bytes(size, k) for size in _segments(documents) for k in (distance, 0))
    )


def _segments(documents: int) -> list[int]:
    """Return the documents of each segment, the largest first, as merging leaves them.

    A segment is merged with all newer ones while it has less than RATIO times as many documents, unless
    both together exceed MERGED_MOST.
    """
    sizes, left = [FULL] * (documents // FULL), documents % FULL
    while left > MEMORY_FULL:
        sizes.append(left - left // (RATIO + 1))
        left -= sizes[-1]
    return [*sizes, left] if left else sizes


def _segment_bytes(size: int, distance: int) -> float:
    """Return the bytes a document of a segment takes."""
    return _designed_bytes(round(STEP ** math.ceil(math.log(size, STEP))), distance)


@cache  # thousands of segments have few sizes
def _designed_bytes(documents: int, distance: int) -> float:
    for design in plan_designs(documents, distance):
        if design.kind == "segment":
            return DOCUMENT_BYTES + design.bytes / documents
    return DOCUMENT_BYTES + COMPARED_BYTES
