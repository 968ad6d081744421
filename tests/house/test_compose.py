"""docker-compose.yml and Dockerfile say what is true: options, extras and versions that there are.

Whether the containers run is seen where there is a Docker engine: the Kafka fixture starts this very
file's Kafka there.
"""

import re
import runpy
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dedup.cli import main

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]


def test_the_service_is_reached_with_a_token_and_from_this_machine_only():
    """It listens beyond loopback in its container."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) >= 3
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len(COMPOSE["x-token"]["DEDUP_TOKEN"].split(":-")[1].rstrip("}")) >= 16
    assert SERVICES["dedup"]["environment"] == SERVICES["spider"]["environment"]


def test_kafka_is_the_version_of_the_tests():
    """And KRaft: broker and controller in one, no other service beside it."""
    pom = (ROOT / "tests" / "support" / "broker_pom.xml").read_text()
    version = re.search(r"<artifactId>kafka_2.13</artifactId>\s*<version>(.*?)<", pom)[1]
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{version}"
    environment = SERVICES["kafka"]["environment"]
    assert environment["KAFKA_PROCESS_ROLES"] == "broker,controller"
    listeners = dict(each.split("://") for each in environment["KAFKA_LISTENERS"].split(","))
    protocols = environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
    assert {each.split(":")[0] for each in protocols} == set(listeners)


@pytest.mark.parametrize("name", ["dedup", "site"])
def test_commands_have_the_options_they_are_given(name):
    command, *options = SERVICES[name]["command"]
    told = CliRunner().invoke(main, [command, "--help"]).output
    for option in options:
        assert option.split("=")[0] in told, option


def test_the_image_has_extras_and_files_that_there_are():
    dockerfile = (ROOT / "Dockerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    asked = re.search(r"whl\)\[(.*?)\]", dockerfile)[1].split(",")
    assert {"service", "kafka"} <= set(asked) <= set(extras)
    assert (ROOT / "examples" / "spider.py").is_file()


def test_the_worker_has_options_that_there_are_and_reads_what_the_pages_write():
    """Of the profile `worker`: its topic is the example's, its memory is the service's."""
    command = SERVICES["worker"]["command"][0]
    told = CliRunner().invoke(main, ["worker", "--help"]).output
    for option in re.findall(r"--[a-z-]+", command):
        assert option in told, option
    topic = re.search(r"--input=(\S+)", command)[1]
    assert f'INPUT = "{topic}"' in (ROOT / "examples" / "stream.py").read_text()
    assert 'DEDUP_SERVICE="redis://:$$DEDUP_TOKEN@dedup:7700"' in command


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("dedup serve --path /data --http 0.0.0.0:7780", "http://127.0.0.1:7780/livez"),
        ("dedup serve --path /data", "http://127.0.0.1:7780/livez"),
        ("dedup serve --http none", None),
        ("dedup serve --tls-cert c --tls-key k", "https://127.0.0.1:7780/livez"),
        ("dedup worker --input a --metrics 0.0.0.0:9470", "http://127.0.0.1:9470/livez"),
        ("dedup scan pages", None),
    ],
)
def test_the_image_is_asked_where_its_command_answers(command, asked):
    """Its health check finds the port of a service, or of a worker's metrics, from the command line."""
    (path,) = re.findall(
        r'HEALTHCHECK.*\n    CMD \["python", "/(.*?)"\]', (ROOT / "Dockerfile").read_text()
    )
    assert runpy.run_path(str(ROOT / path))["address"](command.split()) == asked
