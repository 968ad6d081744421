"""What is there for those who deploy says what the service takes, and asks for figures it has."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from dedup.cli.serve import serve

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
SOURCE = "\n".join(
    path.read_text()
    for part in ("service", "worker")
    for path in (ROOT / "dedup" / part).rglob("*.py")
)
OPTIONS = {name for parameter in serve.params for name in parameter.opts}


@pytest.mark.parametrize(("name", "least"), [("alerts.yaml", 1), ("grafana.json", 15)])
def test_alerts_and_dashboard_ask_for_figures_that_there_are(name, least):
    """Every figure is in the tables of docs/reference/metrics.md."""
    text, page = (DEPLOY / name).read_text(), ROOT / "docs" / "reference" / "metrics.md"
    found, told = (set(re.findall(r"\bdedup_\w+", each)) for each in (text, page.read_text()))
    asked = {re.sub(r"_(total|bucket)$", "", figure) for figure in found}
    assert len(asked) >= least
    assert asked <= {figure.removesuffix("_total") for figure in told}


def test_prometheus_itself_reads_the_files_and_the_alerts_ring():
    """Where promtool is installed: alerts_test.yaml says when each alert rings, and when not."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    for command in (
        ["check", "rules", DEPLOY / "alerts.yaml"],
        ["check", "config", "--syntax-only", DEPLOY / "prometheus.yaml"],
        ["test", "rules", ROOT / "tests" / "house" / "alerts_test.yaml"],
    ):
        done = subprocess.run([promtool, *command], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("commented", [False, True])
def test_kubernetes_starts_the_service_with_options_that_it_takes(commented):
    """The container's arguments are options of `dedup serve`, also those to be commented in."""
    text = (DEPLOY / "kubernetes.yaml").read_text()
    if commented:
        text = text.replace("# - --", "- --")
    container = next(
        found["spec"]["template"]["spec"]["containers"][0]
        for found in yaml.safe_load_all(text)
        if found["kind"] == "StatefulSet"
    )
    command, *args = container["args"]
    assert command == "serve"
    assert {arg.partition("=")[0] for arg in args} <= OPTIONS
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert f'"{container[probe]["httpGet"]["path"]}"' in SOURCE
    assert container["env"][0]["name"] == "DEDUP_TOKEN"


def test_prometheus_asks_the_service_of_compose():
    """What Prometheus scrapes is a service of docker-compose.yml, under a Host that it answers to."""
    composed = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    (scraped,) = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())["scrape_configs"]
    (target,) = scraped["static_configs"][0]["targets"]
    assert f"--host-name={target.partition(':')[0]}" in composed["dedup"]["command"]
    assert "dedup" in composed
    mounted = composed["prometheus"]["volumes"][0].partition(":")[0]
    assert (ROOT / mounted / "prometheus.yaml").exists()
    kept = scraped["authorization"]["credentials_file"]
    assert composed["prometheus"]["configs"][0]["target"] == kept


def test_systemd_starts_the_service_with_options_that_it_takes():
    """The unit's command is `dedup serve` with options that there are, and it may write its stores only."""
    text = (DEPLOY / "dedup.service").read_text()
    unit = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Z]\w+=", line))
    program, command, *arguments = unit["ExecStart"].split()
    assert (Path(program).name, command) == ("dedup", "serve")
    assert {argument for argument in arguments if argument.startswith("--")} <= OPTIONS
    assert unit["ProtectSystem"] == "strict"
    assert f"/var/lib/{unit['StateDirectory']}" in arguments
