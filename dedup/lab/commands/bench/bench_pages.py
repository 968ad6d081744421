"""`dedup bench pages`: from a page to its fingerprint, beside other extractors."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dedup.cli import terminal
from dedup.cli.common_options import json_option, quick_option, rounds_option

if TYPE_CHECKING:
    from dedup.lab.bench.pages import PagesBench

__all__ = ["pages"]


@click.command(epilog="Example: dedup bench pages --pages crawl.jsonl.zst --count 200")
@click.option(
    "--pages",
    "source",
    type=click.Path(exists=True, path_type=Path),
    help='A folder of HTML pages, or a .jsonl or .jsonl.zst file with pages under "html" '
    "(default: generated ones of 53 KB).",
)
@click.option(
    "--count", type=click.IntRange(1), default=40, show_default=True, help="Number of pages."
)
@rounds_option(7)
@click.option(
    "--peers/--no-peers", default=True, show_default=True, help="Also measure other extractors."
)
@quick_option("10 pages, one round")
@json_option("Print one JSON object.")
def pages(
    source: Path | None, count: int, rounds: int, peers: bool, quick: bool, as_json: bool
) -> None:
    """Compare the CPU time of a fingerprint with other tools.

    From a page's bytes to its fingerprint. The others are resiliparse, trafilatura and selectolax, if
    installed (`pip install --group bench`), each followed by the package simhash.
    """
    from dedup.lab.bench.pages import bench_pages

    if quick:
        count, rounds = 10, 1
    result = bench_pages(source, count, rounds, peers, terminal.progress("rounds"))
    terminal.out_result(result, lambda: _text(result), as_json=as_json)


def _text(result: "PagesBench") -> str:
    rows = [
        (
            contender.name,
            f"{contender.page_us.median:,.1f}",
            f"{contender.pages_per_second:,.0f}",
            f"{contender.megabytes_per_second:,.1f}",
            contender.ratio.text(2 if contender.ratio.median < 10 else 0),
        )
        for contender in result.contenders
    ]
    lines = [
        f"{terminal.count(result.pages, 'page')} of {result.page_bytes / 1000:.0f} KB, "
        f"{terminal.count(result.rounds, 'round')}; CPU time of one thread, medians",
        "",
        terminal.table(("", "us a page", "pages/s", "MB/s", "times dedup (range)"), rows),
        "",
    ]
    if result.missing:
        lines += [f"not installed, and so left out: {'; '.join(result.missing)}", ""]
    return "\n".join([*lines, result.machine.text()])
