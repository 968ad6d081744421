"""docs/use/service.md and reference/metrics.md are true: options and metrics are those of the service."""

from __future__ import annotations

import re

import pytest
from command_line import call
from logs import log_config
from procedures import DOCS, KAFKA, OPERATIONS, commands
from services import Serving

METRICS = (
    (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8").partition("## The worker")[0]
)


@pytest.mark.parametrize("page", [OPERATIONS, KAFKA], ids=lambda page: page.stem)
def test_every_option_that_the_document_names_is_one(page):
    """Of `dedup serve`, whose --help has them all with their defaults, of the worker, or of another command of the page."""
    said = "".join(call(each, "--help").output for each in ("serve", "worker"))
    option = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    named = set(option.findall(text)) - {"--help"}
    assert len(named) > 2
    others = {
        each for line in commands(page) if " serve " not in line for each in option.findall(line)
    }
    assert named - others <= set(option.findall(said))


@pytest.mark.parametrize("follows", [False, True], ids=["alone", "with Kafka"])
def test_every_metric_is_in_the_document(tmp_path, follows, request):
    """What /metrics has, the page names, and with Kafka the other way round."""
    options = []
    if follows:
        config = log_config(request.getfixturevalue("kafka"))
        options = ["--kafka", ",".join(config.bootstrap), "--topic", config.topic]
    with Serving(tmp_path, *options) as service, service.client() as client:
        client.ping()
        _, text = service.get("/metrics")
    found = set(re.findall(r"^# TYPE (\w+) ", text.decode(), re.MULTILINE))
    named = set(re.findall(r"\b(?:dedup|process)_[a-z_]+", METRICS))
    assert found <= named
    if follows:
        assert named <= found
