"""`dedup bench crawl`: what the add-on costs a Scrapy crawl."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dedup.cli import terminal
from dedup.cli.common_options import json_option, quick_option, rounds_option

if TYPE_CHECKING:
    from dedup.lab.bench.crawl.benchmark_spider import Work
    from dedup.lab.bench.crawl.crawl_comparison import CrawlBench

__all__ = ["crawl"]


@click.command(epilog="Example: dedup bench crawl --pages ~/saved-pages --rounds 9")
@click.option(
    "--pages",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of HTML pages to crawl (default: generated ones of 53 KB).",
)
@click.option(
    "--count", type=click.IntRange(1), default=500, show_default=True, help="Number of pages."
)
@rounds_option(7, "Number of crawls with and without the add-on.")
@click.option(
    "--work",
    type=click.Choice(["fetch", "parse", "follow"]),
    default="parse",
    show_default=True,
    help="The spider does nothing; makes an item with links; also makes requests for them.",
)
@click.option("--service", is_flag=True, help="Use a table service in place of a store.")
@quick_option("60 pages, one round")
@json_option("Print one JSON object.")
def crawl(
    folder: Path | None,
    count: int,
    rounds: int,
    work: "Work",
    service: bool,
    quick: bool,
    as_json: bool,
) -> None:
    """Compare crawls with and without the add-on. CPU time of the same pages, in turns."""
    from dedup.lab.bench.crawl.crawl_comparison import bench_crawl

    if quick:
        count, rounds = 60, 1
    result = bench_crawl(
        folder, count, rounds, work, service=service, progress=terminal.progress("crawls")
    )
    terminal.out_result(result, lambda: _text(result), as_json=as_json)


def _text(result: "CrawlBench") -> str:
    rows = [
        ("crawl without the add-on", result.without_us.text(0), "us a page"),
        ("crawl with the add-on", result.with_us.text(0), "us a page"),
        ("added", result.added_us.text(0), "us a page"),
        ("added", result.added_percent.text(2), "%"),
        ("the add-on's own meter", result.metered_us.text(0), "us a page"),
    ]
    rows += [(f"  {step}", f"{us:,.0f}", "us a page") for step, us in result.steps_us.items()]
    rows.append(("added once, at the start", result.startup_added_ms.text(0), "ms"))
    spider = {"fetch": "only fetches", "parse": "parses", "follow": "parses and follows links"}
    found = terminal.count(result.near_duplicates, "near-duplicate")
    pages = terminal.count(result.pages, "page")
    return "\n".join(
        (
            f"{pages} of {result.page_bytes / 1000:.0f} KB ({found}), a spider that {spider[result.work]}, "
            f"{terminal.count(result.rounds, 'round')}",
            "CPU time of the spider's process, user and system: median (lowest to highest)",
            terminal.table(("", "CPU", ""), rows),
            "",
            result.machine.text(),
        )
    )
