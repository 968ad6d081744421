"""How long a page waits for all of its shards: the queues of dedup.lab.capacity, asked.

    the answers measured for RESERVE -> shards x load x what holds shards up -> p50, p99, who is late

Invariant: nothing is measured; the same distribution and seed give the same figures, on any
machine.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
import numpy as np

from dedup.lab.bench import Bench, Progress, Round
from dedup.lab.capacity import ANSWER_SHARES, ANSWER_US, WARM_UP, FanOut, Times, fan_out, waits
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


@contextmanager
def open_case(pages: int, seed: int, progress: Progress | None = None) -> Iterator[Bench]:
    """Simulate every case, at every load: a row for each number of shards."""
    draw, mean = of_quantiles(ANSWER_SHARES, [us / 1e6 for us in ANSWER_US])

    def measure() -> Round:
        rows: dict[str, dict[str, float]] = {}
        for done, case in enumerate(CASES):
            for shards in SHARDS:
                row = rows[f"{case.name}: {shards}"] = {}
                for load in LOADS:
                    found = simulate(
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
                    row[f"p50 ms at {load:.0%}"] = found.p50 * 1e3
                    row[f"p99 ms at {load:.0%}"] = found.p99 * 1e3
                    row[f"late at {load:.0%}, %"] = found.late_share * 100
            if progress is not None:
                progress(done + 1, len(CASES))
        return rows

    yield Bench({"pages": pages, "seed": seed}, measure, ("numpy",))
