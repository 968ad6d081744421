"""`dedup bench fanout`: how long a page waits for the slowest of its shards, simulated."""

from pathlib import Path

import click

from dedup.cli import terminal
from dedup.cli.common_options import json_option, quick_option

__all__ = ["fanout"]


@click.command(epilog="Example: dedup bench fanout --pages 20000 --plot fanout.svg")
@click.option(
    "--pages",
    type=click.IntRange(1000, 10_000_000),
    default=100_000,
    show_default=True,
    help="Pages simulated for each number of shards and load.",
)
@quick_option("10,000 pages")
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Seed of the simulated waits.",
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the result to an .svg or .png file.",
)
@click.option(
    "--page",
    "page_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Markdown page whose figures are replaced, between the marks `fan-out`.",
)
@json_option("Print a JSON list, an object for each case.")
def fanout(
    pages: int,
    quick: bool,
    seed: int,
    plot_file: Path | None,
    page_file: Path | None,
    as_json: bool,
) -> None:
    """Simulate how long a page waits for all shards.

    Service times are those that `dedup bench capacity` measured (dedup/lab/capacity/costs.py). In three
    cases shards are undisturbed, have stalls, or one of them is slow; each at several loads. A page
    that waits longer than 5 ms is late.
    """
    from dedup.lab.bench.capacity.fanout_page import bench_fanout, page, plot
    from dedup.lab.bench.figures import marked, put
    from dedup.lab.evaluate.recall_plot import check_plot

    if plot_file is not None:
        check_plot(plot_file)
    if page_file is not None:
        marked(page_file, "fan-out")
    results = bench_fanout(10_000 if quick else pages, seed, terminal.progress("simulations"))
    if plot_file is not None:
        plot(results, plot_file)
    if page_file is not None:
        put(page_file, "fan-out", page(results))
    terminal.out_result(results, lambda: page(results), as_json=as_json)
