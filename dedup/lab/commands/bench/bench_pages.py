"""`dedup bench pages`: from a page to its fingerprint, beside other extractors."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dedup.cli import terminal

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
@click.option("--count", type=click.IntRange(1), default=40, show_default=True, help="Pages.")
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="Turns each.")
@click.option("--peers/--no-peers", default=True, show_default=True, help="Others beside ours.")
@click.option("--quick", is_flag=True, help="A first look: 10 pages, one round.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def pages(
    source: Path | None, count: int, rounds: int, peers: bool, quick: bool, as_json: bool
) -> None:
    """Measure the CPU time from a page's bytes to its fingerprint, ours and that of other tools.

    The others are those of resiliparse, trafilatura and selectolax that are installed, each with the
    package simhash behind it; `pip install --group bench` brings them.
    """
    from dedup.lab.bench.pages import bench_pages

    if quick:
        count, rounds = 10, 1
    result = bench_pages(source, count, rounds, peers, terminal.progress("rounds"))
    if as_json:
        import msgspec

        terminal.out_json(msgspec.to_builtins(result))
    else:
        terminal.out(_text(result))


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
