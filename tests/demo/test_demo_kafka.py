"""The demo with Kafka: processes that are killed, and what it says about them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

PAGES = 120
SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def done(kafka):
    command = [sys.executable, SUPPORT, "demo_kafka", f"--pages={PAGES}", "--json"]
    return subprocess.run(
        command,
        env=os.environ | {"KAFKA_BOOTSTRAP_SERVERS": kafka},
        capture_output=True,
        text=True,
        timeout=1200,
    )


def test_nothing_is_lost(done):
    """Every page was parsed, or dropped as alike to an accepted one; what was accepted is known."""
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["lost"], report["forgotten"], report["unexplained"]) == ([], [], [])
    assert report["pages"] == report["parsed"] + report["dropped"] == PAGES - 1
    assert report["dropped"] > 0
    assert report["remembered"] > report["accepted_before_kill"] > 0


def test_the_demo_tells_what_it_does(done):
    """Standard error names the broker, the kill and the start anew."""
    for word in ("broker", "kill -9", "started again", "both ended"):
        assert word in done.stderr
