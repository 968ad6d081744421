"""`dedup plan`: the tables for a number of documents.

--documents, --distance, --memory -> dedup.plan -> a line for each design, and a recommendation
"""

from decimal import Decimal

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import distance_option, json_option
from dedup.cli.terminal import scaled_text, size_text
from dedup.core.bulk.designs import Design
from dedup.core.bulk.designs import plan as plan_designs
from dedup.core.memory import memory_bytes
from dedup.model.recipes import NEWEST, recipe_of

SUFFIXES = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
HEADERS = ("design", "tables", "prefix bits", "candidates a table", "memory", "")

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
@json_option("Print a JSON list, an object for each design.")
def plan(documents: int, distance: int, memory: str | None, as_json: bool) -> None:
    """Show the tables for a number of documents: those of dedup.Table, and a segment of a store's index.

    The memory is that of the fingerprints; each document's id takes up to 8.5 bytes more. What a store or a table
    service takes in all, on disk too, is in docs/use/capacity.md.
    """
    designs = plan_designs(documents, distance, memory)
    if as_json:
        terminal.out_json([msgspec.to_builtins(design) for design in designs])
        return
    terminal.out_lines(terminal.table(HEADERS, [_row(design) for design in designs]))
    terminal.out("")
    terminal.out("Candidates are those of the shortest prefix, for evenly spread fingerprints.")
    if not any(design.recommended for design in designs):
        assert memory is not None
        least = min(designs, key=lambda design: design.bytes)
        terminal.out(
            f"Nothing fits in {size_text(memory_bytes(memory))}: the smallest takes "
            f"{size_text(least.bytes)}. Divide the documents among several tables or machines."
        )


def _row(design: Design) -> list[str | int]:
    least, most = design.prefix_bits
    number = design.candidates
    return [
        design.name,
        design.tables,
        f"{least}" if least == most else f"{least} to {most}",
        scaled_text(number, 1024) if number >= 1024 else f"{number:.3g}",
        size_text(design.bytes),
        "recommended" if design.recommended else "",
    ]
