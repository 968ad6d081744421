"""Fan-out, simulated: beside theory where theory is exact, and a plain loop where it is not.

Seeds are fixed, so each figure is the same on every run; tolerances are several standard errors wide.
"""

import math

import numpy as np
import pytest
from fanout_page import Stalls, of_quantiles, simulate

from dedup.lab.capacity import waits
from dedup.model.errors import UsageError

MEAN = 100e-6


def exponential(rng, count):
    return rng.exponential(MEAN, count)


def constant(rng, count):
    return np.full(count, MEAN)


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_one_shard_is_the_queue_m_m_1(load):
    """With exponential times the time in the system is exponential, with mean s / (1 - load)."""
    found = simulate(exponential, MEAN, 1, load, pages=400_000)
    mean = MEAN / (1 - load)
    assert found.mean == pytest.approx(mean, rel=0.05)
    assert found.p50 == pytest.approx(mean * math.log(2), rel=0.05)
    assert found.p99 == pytest.approx(mean * math.log(100), rel=0.1)


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_constant_times_are_the_queue_m_d_1(load):
    """With constant times the mean wait is load / (2 (1 - load)) of them (Pollaczek, Khinchine)."""
    found = simulate(constant, MEAN, 1, load, pages=400_000)
    assert found.mean - MEAN == pytest.approx(MEAN * load / (2 * (1 - load)), rel=0.05)


@pytest.mark.parametrize("shards", [1, 2, 8, 64])
def test_the_latest_of_many_exponentials(shards):
    """Where nobody waits, the latest of n takes 1 + 1/2 + .. + 1/n times as long as one."""
    found = simulate(exponential, MEAN, shards, 1e-6, pages=50_000)
    assert found.mean == pytest.approx(MEAN * sum(1 / i for i in range(1, shards + 1)), rel=0.02)
    median = -math.log(1 - 0.5 ** (1 / shards))
    assert found.p50 == pytest.approx(MEAN * median, rel=0.03)


def test_waits_are_those_of_a_plain_loop():
    """Lindley's recursion without a loop gives what it gives with one."""
    rng = np.random.default_rng(3)
    arrivals = np.cumsum(rng.exponential(1.0, 2000))
    services = rng.exponential(0.9, 2000)
    free, expected = 0.0, []
    for arrival, service in zip(arrivals, services, strict=True):
        begun = max(free, arrival)
        expected.append(begun - arrival)
        free = begun + service
    assert waits(arrivals, services) == pytest.approx(np.array(expected), abs=1e-9)


def test_the_same_seed_gives_the_same_answer():
    """To the bit; another seed another one."""
    one, same, other = (simulate(exponential, MEAN, 4, 0.5, seed=seed) for seed in (5, 5, 6))
    assert one == same
    assert one != other


def test_a_stall_lasts_as_long_as_it_lasts():
    """With no other load, the pages that come in the stalls' share of the time wait; half of it, in the mean."""
    stalls = Stalls(every_seconds=1.0, seconds=0.2)
    found = simulate(constant, MEAN, 1, 0.001, pages=100_000, stalls=stalls, timeout=0.1)
    assert found.late_share == pytest.approx(0.1, abs=0.01)  # who comes in the first half of 0.2 s
    whole = simulate(constant, MEAN, 1, 0.001, pages=100_000, stalls=stalls)
    assert whole.mean == pytest.approx(MEAN + 0.2 * 0.2 / 2, rel=0.05)


def test_stalls_of_each_its_own_hurt_as_many_times_as_there_are_shards():
    """Stalls at the same time cost what one shard's cost; each shard's own add up."""
    late = {
        together: simulate(
            constant,
            MEAN,
            8,
            0.001,
            pages=100_000,
            stalls=Stalls(1.0, 0.02, together=together),
            timeout=0.001,
        ).late_share
        for together in (True, False)
    }
    assert late[True] == pytest.approx(0.019, abs=0.002)
    assert 4 * late[True] < late[False] <= 8 * 0.02


def test_more_shards_are_never_faster():
    """Of one seed the first shards are the same, so the latest of more is later."""
    times = [simulate(exponential, MEAN, n, 0.5, pages=20_000).p99 for n in (1, 2, 4, 8, 16)]
    assert times == sorted(times)


def test_a_slow_shard_is_what_everybody_waits_for():
    """One of 8 that takes 1.5 times as long, at load 0.5, is a queue of load 0.75 by itself."""
    slow = simulate(exponential, MEAN, 8, 0.5, pages=200_000, slow=1.5)
    alone = 1.5 * MEAN / (1 - 0.75)
    assert slow.p99 >= 0.9 * alone * math.log(100)


def test_times_from_shares():
    """Times drawn have the shares they were made of, and the mean that is said."""
    draw, mean = of_quantiles((0.0, 0.5, 0.9), (1.0, 2.0, 6.0))
    assert mean == pytest.approx(0.5 * 1.5 + 0.4 * 4 + 0.1 * 6)
    times = draw(np.random.default_rng(1), 100_000)
    assert times.mean() == pytest.approx(mean, rel=0.02)
    assert np.mean(times <= 2.0) == pytest.approx(0.5, abs=0.01)
    assert times.max() == 6.0


@pytest.mark.parametrize(
    ("shares", "seconds"),
    [
        ((0, 0.5), (1,)),
        ((0.1, 0.5), (1, 2)),
        ((0, 0), (1, 2)),
        ((0, 1.5), (1, 2)),
        ((0, 1), (2, 1)),
    ],
)
def test_what_is_no_distribution(shares, seconds):
    """Shares that do not rise from 0 to 1, and times that fall, are refused."""
    with pytest.raises(UsageError):
        of_quantiles(shares, seconds)


@pytest.mark.parametrize(
    "given", [{"load": 1.0}, {"load": 0}, {"load": 0.7, "slow": 1.5}, {"shards": 0}, {"pages": 5}]
)
def test_what_no_queue_can_carry(given):
    """A load of one core and more is refused, and nothing to simulate."""
    given = {"shards": 1, "load": 0.5} | given
    with pytest.raises(UsageError):
        simulate(exponential, MEAN, **given)
