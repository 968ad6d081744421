"""How long a page waits for all of its shards, in a table and a plot: dedup.lab.capacity.fanout, asked.

    the answers measured for RESERVE -> shards x load x what holds shards up -> p50, p99, who is late

The rule kept here: nothing is measured; the same distribution and seed give the same figures, on any
machine.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
from page_figures import marked, put, rows

from dedup.cli import terminal
from dedup.cli.common_options import json_option
from dedup.lab.capacity import ANSWER_SHARES, ANSWER_US, FanOut, Stalls, of_quantiles, simulate

SHARDS = (1, 2, 4, 8, 16, 32, 64)
LOADS = (0.2, 0.5, 0.8)
TIMEOUT = (
    0.005  # seconds, so that something is late: the client's usual one is a hundred times as long
)


class Case(msgspec.Struct, frozen=True):
    """What holds shards up. slow: the first shard takes that many times as long."""

    name: str
    stalls: Stalls | None = None
    slow: float = 1.0


CASES = (
    Case("nothing"),
    Case("stalls of 10 ms, each shard's own", Stalls(1.0, 0.010)),
    Case("the same, of all at once", Stalls(1.0, 0.010, together=True)),
    Case("one shard takes 1.2 times as long", slow=1.2),
)


class FanOuts(msgspec.Struct, frozen=True):
    """One case: what each number of shards comes to at each load, in the order of SHARDS, LOADS."""

    case: Case
    found: list[FanOut]


def bench_fanout(
    pages: int = 100_000, seed: int = 1, progress: Callable[[int, int], None] | None = None
) -> list[FanOuts]:
    """Simulate every case."""
    draw, mean = of_quantiles(ANSWER_SHARES, [us / 1e6 for us in ANSWER_US])
    results, done = [], 0
    for case in CASES:
        found = []
        for shards in SHARDS:
            for load in LOADS:
                found.append(
                    simulate(
                        draw,
                        mean,
                        shards,
                        load,
                        pages=pages,
                        seed=seed,
                        stalls=case.stalls,
                        slow=case.slow,
                        timeout=TIMEOUT,
                    )
                )
                done += 1
                if progress:
                    progress(done, len(CASES) * len(SHARDS) * len(LOADS))
        results.append(FanOuts(case, found))
    return results


def page(results: list[FanOuts]) -> str:
    """Return it as Markdown."""
    parts = []
    for result in results:
        cells = []
        for shards in SHARDS:
            at = {one.load: one for one in result.found if one.shards == shards}
            cells.append(
                [
                    str(shards),
                    *(f"{at[load].p50 * 1e3:.2f}, {at[load].p99 * 1e3:.2f}" for load in LOADS),
                    *(f"{at[load].late_share:.2%}" for load in LOADS),
                ]
            )
        headers = [
            "shards",
            *(f"p50, p99 at {load:.0%}, ms" for load in LOADS),
            *(f"late at {load:.0%}" for load in LOADS),
        ]
        parts.append(f"**Held up by: {result.case.name}**\n\n" + rows(headers, cells))
    return "\n\n".join(parts)


def plot(results: list[FanOuts], path: Path) -> None:
    """Draw p50 and p99 against the shards, a panel a case. Raises OSError."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "dedup", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(8.4, 6.2), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(2, 2, sharex=True, sharey=True)
        for panel, result in zip(panels.flat, results, strict=True):
            _draw(panel, result)
        for panel in panels[-1]:
            panel.set_xlabel("shards")
        for panel in panels[:, 0]:
            panel.set_ylabel("a page's answer, ms")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", fontsize=8)
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
        figure.savefig(path, metadata=metadata)


def _draw(panel: Any, result: FanOuts) -> None:
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    for load, colour in zip(LOADS, ("#3a7d44", "#1b6ca8", "#c1440e"), strict=True):
        points = [one for one in result.found if one.load == load]
        for name, line, marker in (("p50", "--", "o"), ("p99", "-", "s")):
            panel.plot(
                [one.shards for one in points],
                [getattr(one, name) * 1e3 for one in points],
                line,
                color=colour,
                marker=marker,
                markersize=3.5,
                linewidth=1.2,
                label=f"{name}, cores {load:.0%} busy",
            )
    panel.set_title(f"held up by: {result.case.name}", fontsize=9)
    panel.set_xticks(SHARDS, [str(shards) for shards in SHARDS])
    panel.grid(visible=True, which="major", linewidth=0.3)


@click.command(epilog="Example: python tests/bench fanout --pages 20000 --plot fanout.svg")
@click.option(
    "--pages",
    type=click.IntRange(1000, 10_000_000),
    default=100_000,
    show_default=True,
    help="Pages simulated for each number of shards and load.",
)
@click.option("--quick", is_flag=True, help="A first look: 10,000 pages.")
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

    Service times are those that `python tests/bench capacity` measured (dedup/lab/capacity.py). In three
    cases shards are undisturbed, have stalls, or one of them is slow; each at several loads. A page
    that waits longer than 5 ms is late.
    """
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
