"""docs/use/service.md and reference/metrics.md are true: options and metrics are those of the service."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner
from logs import log_config
from services import Serving

from dedup.cli import main

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "use" / "service.md").read_text(encoding="utf-8")
METRICS = (
    (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8").partition("## The worker")[0]
)


def test_every_option_that_the_document_names_is_one():
    """Of `dedup serve`, whose --help has them all with their defaults."""
    said = CliRunner().invoke(main, ["serve", "--help"]).output
    named = set(re.findall(r"`(--[a-z][a-z-]+)", TEXT))
    assert named
    assert named <= set(re.findall(r"--[a-z][a-z-]+", said))


@pytest.mark.parametrize("follows", [False, True], ids=["alone", "with Kafka"])
def test_every_metric_is_in_the_document(tmp_path, follows, request):
    """What /metrics has, the page names, and with Kafka the other way round."""
    options = []
    if follows:
        config = log_config(request.getfixturevalue("kafka"))
        options = ["--kafka", ",".join(config.bootstrap), "--topic", config.topic]
    with Serving(tmp_path, *options) as service, redis.Redis(port=service.port) as client:
        client.ping()
        _, text = service.get("/metrics")
    found = set(re.findall(r"^# TYPE (\w+) ", text.decode(), re.MULTILINE))
    named = set(re.findall(r"\bdedup_[a-z_]+", METRICS))
    assert found <= named
    if follows:
        assert named <= found
