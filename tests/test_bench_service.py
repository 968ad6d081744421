"""`dedup bench service`: a real service, real probes, and figures that belong together."""

import json

from click.testing import CliRunner

from dedup.cli import main


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
