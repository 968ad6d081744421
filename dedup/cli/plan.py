"""`dedup plan`: which tables for so many documents.

    --documents, --distance, --memory -> dedup.plan -> a line for each design, and which to take

The rule kept here: what is exact and what is estimated is told apart.
"""

from typing import Any

import click
import msgspec

from dedup.cli import terminal
from dedup.plan import Design, fewest_tables, memory_bytes
from dedup.plan import plan as plan_designs

__all__ = ["plan"]

PAPER_DISTANCE = 3
WIDTH = 64
UNITS = ("", "K", "M", "G", "T", "P", "E")
HEADERS = (
    "design",
    "tables",
    "prefix bits",
    "candidates a table",
    "memory",
    "compressed",
    "a probe",
    "",
)


@click.command(epilog="Example: dedup plan --documents 17179869184 --distance 3 --memory 512G")
@click.option(
    "--documents",
    type=click.IntRange(1, 2**63),
    required=True,
    help="Number of fingerprints to be stored.",
)
@click.option(
    "--distance",
    type=click.IntRange(0, 15),
    default=PAPER_DISTANCE,
    show_default=True,
    help="Greatest Hamming distance in bits. 3 is the paper's.",
)
@click.option("--memory", metavar="SIZE", help="What the tables may take: bytes, 512M, 16G, 1.5T.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, an object for each design.")
def plan(documents: int, distance: int, memory: str | None, as_json: bool) -> None:
    """List the table designs for a number of documents, and recommend one.

    First the designs of Manku, Jain and Das Sarma (WWW 2007), those that no other beats: "6 choose 3"
    cuts the 64 bits into 6 blocks and has a table for each choice of 3 to come first. Then the design
    of dedup.Table. Memory is that of the fingerprints; each document's id takes 8 bytes more.
    """
    designs = plan_designs(documents, distance, memory)
    if as_json:
        terminal.out_json([_json(design) for design in designs])
        return
    terminal.out(terminal.table(HEADERS, [_row(design) for design in designs]))
    terminal.out("")
    terminal.out(_fewest(distance))
    terminal.out("Candidates are of the shortest prefix, for fingerprints spread evenly; times are")
    terminal.out("estimates for one core: docs/plan.md says from what.")
    if not any(design.recommended for design in designs):
        assert memory is not None
        least = min(designs, key=lambda design: design.bytes)
        terminal.out(
            f"Nothing fits in {_size(memory_bytes(memory))}: the smallest takes "
            f"{_size(least.bytes)}. Divide the documents among several tables or machines."
        )


def _json(design: Design) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(design)
    return built


def _row(design: Design) -> list[str | int]:
    least, most = design.prefix_bits
    squeezed = design.compressed_bytes
    return [
        design.name,
        design.tables,
        f"{least}" if least == most else f"{least} to {most}",
        _candidates(design.candidates),
        _size(design.bytes),
        "-" if squeezed is None else _size(squeezed),
        _time(design.latency_ns),
        "recommended" if design.recommended else "",
    ]


def _fewest(distance: int) -> str:
    """Return the answer to section 3.1.2: how long a prefix so many tables can have."""
    steps: dict[int, int] = {}
    for bits in range(1, WIDTH + 1):
        if (found := fewest_tables(distance, bits)) is not None:
            steps[found[0]] = bits
    parts = [f"{tables} for {bits}" for tables, bits in list(steps.items())[:6]]
    return f"The fewest tables for prefixes of so many bits: {', '.join(parts)}."


def _candidates(number: float) -> str:
    return _scaled(number, 1024) if number >= 1024 else f"{number:.3g}"


def _size(number: int) -> str:
    return f"{_scaled(number, 1024)}{'i' if number >= 1024 else ''}B"


def _time(ns: float) -> str:
    for unit, most in (("ns", 1e3), ("us", 1e6), ("ms", 1e9)):
        if ns < most:
            return f"{ns * 1e3 / most:.3g} {unit}"
    return f"{ns / 1e9:.3g} s"


def _scaled(number: float, base: int) -> str:
    """Return a number in the largest unit of which there is at least one: "256 K"."""
    power = 0
    while number >= base and power < len(UNITS) - 1:
        number /= base
        power += 1
    text = f"{number:.4g}" if number >= 100 else f"{number:.3g}"
    return f"{text} {UNITS[power]}"
