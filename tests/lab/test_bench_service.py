"""`dedup bench service`: a real service, real probes, and figures that belong together."""

import json

import pytest
from click.testing import CliRunner

from dedup.cli import main
from dedup.lab.bench.service.sharded_service import ShardsPlan, bench_shards

pytestmark = pytest.mark.long


def test_it_measures_a_real_service():
    """Rates, CPU and latencies are there, in order, and for as many requests as were asked for."""
    done = CliRunner().invoke(main, ["bench", "service", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["documents"] == 100_000
    single, pipelined = result["loads"]
    for load in (single, pipelined):
        assert load["per_second"]["median"] > 0
        assert load["per_cpu_second"]["median"] > 0
    assert pipelined["depth"] > single["depth"] == 1
    half = result["half"]
    assert 0 < half["p50_ms"] <= half["p99_ms"] <= half["p999_ms"]
    assert half["count"] > 1000


def test_it_measures_shards_beside_one_service(kafka):
    """Latencies and CPU of both, and their ratios, on one log."""
    plan = ShardsPlan(500, 3, shards=2, rounds=1, seconds=1.0, pages=100)
    result = bench_shards(plan, bootstrap=kafka)
    assert (result.one.services, result.shards.services) == (1, 2)
    for fan in (result.one, result.shards):
        assert 0 < fan.p50_ms.median <= fan.p99_ms.median
        assert fan.client_us.median > 0
    assert result.p99_ratio.median == result.shards.p99_ms.median / result.one.p99_ms.median
