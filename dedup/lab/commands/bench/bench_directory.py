"""`dedup bench directory`: what a page costs among very many of one template."""

from typing import TYPE_CHECKING

import click

from dedup.cli import terminal
from dedup.cli.common_options import json_option, quick_option

if TYPE_CHECKING:
    from dedup.lab.bench.directory import DirectoryBench

__all__ = ["directory"]


@click.command(epilog="Example: dedup bench directory --entries 100000")
@click.option(
    "--entries",
    type=click.IntRange(10),
    default=20_000,
    show_default=True,
    help="Number of pages.",
)
@quick_option("500 entries")
@json_option("Print one JSON object.")
def directory(entries: int, quick: bool, as_json: bool) -> None:
    """Time pages of one template. Each has its own title; with a store and with a service."""
    from dedup.lab.bench.directory import bench_directory

    result = bench_directory(500 if quick else entries, terminal.progress("pages"))
    terminal.out_result(result, lambda: _text(result), as_json=as_json)


def _text(result: "DirectoryBench") -> str:
    step = result.entries / len(result.embedded_us)
    rows = [
        (f"{round(step * (i + 1)):,}", f"{embedded:,.0f}", f"{service:,.0f}")
        for i, (embedded, service) in enumerate(
            zip(result.embedded_us, result.service_us, strict=True)
        )
    ]
    headers = ("up to entry", "embedded store", "table service")
    return "\n".join(
        (
            f"{result.entries:,} entries of one template with {result.distinct_values:,} values; "
            f"{result.kept:,} kept",
            "reserve and insert of a page, us of CPU: the mean of each tenth",
            "",
            terminal.table(headers, rows),
            "",
            result.machine.text(),
        )
    )
