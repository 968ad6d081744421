"""How long a page waits for all of its shards, in a table and a plot: the queues of dedup.lab.capacity, asked.

    the answers measured for RESERVE -> shards x load x what holds shards up -> p50, p99, who is late

Invariant: nothing is measured; the same distribution and seed give the same figures, on any
machine.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np
from page_figures import figure_options, rows, show

from dedup.cli import terminal
from dedup.lab.capacity import ANSWER_SHARES, ANSWER_US, WARM_UP, FanOut, Times, fan_out, waits
from dedup.lab.evaluate.recall_plot import drawn
from dedup.model.errors import UsageError

SHARDS = (1, 2, 4, 8, 16, 32, 64)
LOADS = (0.2, 0.5, 0.8)
TIMEOUT = (
    0.005  # seconds, so that something is late: the client's usual one is a hundred times as long
)

Draw = Callable[[np.random.Generator, int], Times]  # a number of service times, in seconds


def of_quantiles(shares: Sequence[float], seconds: Sequence[float]) -> tuple[Draw, float]:
    """Return what draws times with this mean, of which this share is below a number of seconds.

    Between two shares times are evenly spread. shares rise from 0; beyond the last one times are as
    long as at it. Raises UsageError for what is no distribution.
    """
    at, values = np.array(shares, float), np.array(seconds, float)
    if len(at) != len(values) or len(at) < 2 or at[0] != 0 or not np.all(np.diff(at) > 0):
        raise UsageError("shares must rise from 0, and there must be a time for each")
    if at[-1] > 1 or values[0] < 0 or np.any(np.diff(values) < 0):
        raise UsageError("shares are at most 1, and times rise from 0")
    mean = float(np.sum(np.diff(at) * (values[:-1] + values[1:]) / 2) + (1 - at[-1]) * values[-1])

    def draw(rng: np.random.Generator, count: int) -> Times:
        times: Times = np.interp(rng.random(count), at, values)
        return times

    return draw, mean


class Stalls(msgspec.Struct, frozen=True):
    """A shard does nothing for `seconds`, once in `every_seconds`; `together`: all at the same time."""

    every_seconds: float
    seconds: float
    together: bool = False


class Simulated(FanOut, frozen=True):
    """late_share: of pages that took longer than the timeout, which do not wait for the last answers."""

    late_share: float = 0.0


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
    found: list[Simulated]


def simulate(
    draw: Draw,
    mean: float,
    shards: int,
    load: float,
    *,
    pages: int = 100_000,
    seed: int = 1,
    stalls: Stalls | None = None,
    slow: float = 1.0,
    timeout: float = float("inf"),
) -> Simulated:
    """Return how long pages wait for all of their shards.

    draw gives service times of the given mean, in seconds; load is in 0 .. 1, exclusive. With slow,
    the first shard takes that many times as long as the others for every page. timeout is in seconds;
    it changes no queue, since what was asked is answered all the same. Raises UsageError for what no queue can carry.
    """
    if shards < 1 or pages < 100:
        raise UsageError("there must be a shard at least, and 100 pages")
    if not 0 < load < 1 or load * slow >= 1:
        raise UsageError(
            f"a load of {load * max(slow, 1):.2f} cannot be carried: it must be below 1"
        )
    shared: Times = np.empty(0)

    def took(rng: np.random.Generator, arrivals: Times, shard: int) -> Times:
        nonlocal shared
        if shard == 0:
            shared = _stall_times(rng, stalls, arrivals[-1])
        services = draw(rng, pages) * (slow if shard == 0 else 1.0)
        if stalls is None:
            return waits(arrivals, services) + services
        own = shared if stalls.together else _stall_times(rng, stalls, arrivals[-1])
        return _held_up(arrivals, services, own, stalls.seconds)

    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(mean / load, pages))
    latest = np.zeros(pages)
    for shard in range(shards):
        np.maximum(latest, took(rng, arrivals, shard), out=latest)
    times = latest[int(pages * WARM_UP) :]
    late_share = float(np.mean(times > timeout))
    return Simulated(shards, load, len(times), *fan_out(times), late_share)


def _stall_times(rng: np.random.Generator, stalls: Stalls | None, until: float) -> Times:
    """Return when a shard begins to be held up: at a steady pace, from a random moment on."""
    if stalls is None:
        return np.empty(0)
    times: Times = np.arange(rng.random() * stalls.every_seconds, until, stalls.every_seconds)
    return times


def _held_up(arrivals: Times, services: Times, stalls: Times, seconds: float) -> Times:
    """Return how long each page takes at a shard that has stalls among its jobs."""
    times = np.concatenate((arrivals, stalls))
    order = np.argsort(times, kind="stable")
    work = np.concatenate((services, np.full(len(stalls), seconds)))[order]
    took = np.empty(len(times))
    took[order] = waits(times[order], work) + work
    return took[: len(arrivals)]


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
    with drawn(path, 8.4, 6.2) as figure:
        panels = figure.subplots(2, 2, sharex=True, sharey=True)
        for panel, result in zip(panels.flat, results, strict=True):
            _draw(panel, result)
        for panel in panels[-1]:
            panel.set_xlabel("shards")
        for panel in panels[:, 0]:
            panel.set_ylabel("a page's answer, ms")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", fontsize=8)


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


@figure_options("fan-out", plot=True)
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
def fanout(pages: int, quick: bool, seed: int, **given: Any) -> None:
    """Simulate how long a page waits for all shards.

    Service times are those that `python tests/bench capacity` measured (dedup/lab/capacity.py). In three
    cases shards are undisturbed, have stalls, or one of them is slow; each at several loads. A page
    that waits longer than 5 ms is late.
    """
    results = bench_fanout(10_000 if quick else pages, seed, terminal.progress("simulations"))
    show(results, given, page, {"fan-out": page}, plot)
