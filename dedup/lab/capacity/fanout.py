"""How long a page waits for the slowest of its shards: queues, simulated.

    service times, shards, load -> a queue a shard -> each page's answer: the latest of its shards'

A page goes to all shards at once, and each of them is one server that answers in the order of arrival
(a table service is one event loop). Pages arrive at random (a Poisson process), the same for all
shards; how long each shard takes for a page is drawn for each by itself. Beside pages a shard may be
held up: by stalls, at times of its own or at the same time as all others.

The rules kept here: the same seed gives the same answer, to the bit; what a queue does is exact
(Lindley's recursion, D. V. Lindley, "The theory of queues with a single server", 1952), so that where
theory knows the answer, this comes to it.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.model.errors import UsageError

__all__ = ["Draw", "FanOut", "Stalls", "Times", "of_quantiles", "simulate", "waits"]

Times = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Times]  # a number of service times, in seconds

WARM_UP = 0.1  # of all pages: they meet queues that are still too short, and are not counted


class Stalls(msgspec.Struct, frozen=True):
    """A shard does nothing for `seconds`, once in `every_seconds`; `together`: all at the same time."""

    every_seconds: float
    seconds: float
    together: bool = False


class FanOut(msgspec.Struct, frozen=True):
    """How long pages took to be answered by every shard, in seconds.

    load        share of its time that a shard is busy with pages, stalls aside
    late_share  of pages that took longer than the timeout, which do not wait for the last answers
    """

    shards: int
    load: float
    pages: int
    mean: float
    p50: float
    p99: float
    p999: float
    late_share: float


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


def waits(arrivals: Times, services: Times) -> Times:
    """Return how long each of a server's jobs waits for its turn, in the order of arrival.

    W[i] = max(0, W[i-1] + services[i-1] - (arrivals[i] - arrivals[i-1])), without a loop: what came
    in less what could be done, less the least that this ever was.
    """
    backlog = np.concatenate(([0.0], np.cumsum(services[:-1] - np.diff(arrivals))))
    waited: Times = backlog - np.minimum.accumulate(np.minimum(backlog, 0.0))
    return waited


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
) -> FanOut:
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
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(mean / load, pages))
    shared = _stall_times(rng, stalls, arrivals[-1])
    latest = np.zeros(pages)
    for shard in range(shards):
        services = draw(rng, pages) * (slow if shard == 0 else 1.0)
        if stalls is None:
            took = waits(arrivals, services) + services
        else:
            own = shared if stalls.together else _stall_times(rng, stalls, arrivals[-1])
            took = _held_up(arrivals, services, own, stalls.seconds)
        np.maximum(latest, took, out=latest)
    latest = latest[int(pages * WARM_UP) :]
    p50, p99, p999 = np.quantile(latest, (0.5, 0.99, 0.999))
    return FanOut(
        shards=shards,
        load=load,
        pages=len(latest),
        mean=float(latest.mean()),
        p50=float(p50),
        p99=float(p99),
        p999=float(p999),
        late_share=float(np.mean(latest > timeout)),
    )


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
