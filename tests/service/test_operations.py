"""docs/use/service.md is true: its options, metrics and reasons are those of the service."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner
from logs import log_config
from services import Serving

from dedup.cli import main
from dedup.model.recipes import recipe_of

TEXT = (Path(__file__).parents[2] / "docs" / "use" / "service.md").read_text(encoding="utf-8")


def test_every_option_that_the_document_names_is_one():
    """Of `dedup serve`, whose --help has them all with their defaults."""
    said = CliRunner().invoke(main, ["serve", "--help"]).output
    part = TEXT.partition("## Options")[2].partition("## Securing")[0]
    named = set(re.findall(r"--[a-z][a-z-]+", part))
    assert named <= set(re.findall(r"--[a-z][a-z-]+", said))
    for distance in re.findall(r"the recipe's, (\d+)", TEXT):
        assert int(distance) == recipe_of(None).distance


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
    named = set(re.findall(r"\bdedup_[a-z_]+", TEXT))
    assert found <= named
    if follows:
        assert named <= found
