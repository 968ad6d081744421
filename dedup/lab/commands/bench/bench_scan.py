"""`dedup bench scan`: pages a second from gzip WARC files to verdicts."""

from typing import TYPE_CHECKING

import click

from dedup.cli import terminal
from dedup.cli.common_options import json_option, quick_option, rounds_option

if TYPE_CHECKING:
    from dedup.lab.bench.scan_rate import ScanBench

__all__ = ["scan"]


@click.command(epilog="Example: dedup bench scan --pages 20000 --rounds 5")
@click.option(
    "--pages",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Number of pages in all.",
)
@click.option(
    "--files", type=click.IntRange(1), default=4, show_default=True, help="Number of WARC files."
)
@rounds_option(3)
@quick_option("500 pages, one round")
@json_option("Print one JSON object.")
def scan(pages: int, files: int, rounds: int, quick: bool, as_json: bool) -> None:
    """Time `dedup scan`. Generated WARC files are read with one process, and with one a core."""
    from dedup.lab.bench.scan_rate import bench_scan

    if quick:
        pages, rounds = 500, 1
    result = bench_scan(pages, files, rounds, terminal.progress("rounds"))
    terminal.out_result(result, lambda: _text(result), as_json=as_json)


def _text(result: "ScanBench") -> str:
    rows = [
        (
            terminal.count(way.processes, "process", "processes"),
            way.pages_per_second.text(0),
            way.pages_per_cpu_second.text(0),
            f"{way.peak_mb:,.0f}",
        )
        for way in result.ways
    ]
    headers = ("", "pages/s", "pages/s of CPU", "MB, largest process")
    return "\n".join(
        (
            f"{terminal.count(result.pages, 'page')} of {result.page_bytes / 1000:.0f} KB "
            f"({result.packed_bytes / 1000:.1f} KB compressed) in "
            f"{terminal.count(result.files, 'gzip WARC file')}, "
            f"{result.near_duplicates:,} of them near-duplicates; "
            f"{terminal.count(result.rounds, 'round')}",
            "from the start of the command to its end: median (lowest to highest)",
            "",
            terminal.table(headers, rows),
            "",
            result.machine.text(),
        )
    )
