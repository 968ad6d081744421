"""The Kafka of the tests: a real one, and no test is skipped for want of it.

    KAFKA_BOOTSTRAP_SERVERS, else Docker Compose, else brokers of our own (dedup/demo/broker.py)

What the brokers of our own lack, Java and Maven, is installed where that may be done.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dedup.demo.broker
from dedup.demo.broker import NoBroker, brokers_answering, free_ports

__all__ = ["Cluster", "NoBroker", "any_broker", "brokers_answering", "free_ports"]

COMPOSE = Path(__file__).parent.parent / "docker-compose.yml"


class Cluster(dedup.demo.broker.Cluster):
    """Brokers of our own."""

    def __init__(self, nodes: int = 1, **settings: object) -> None:
        super().__init__(nodes, install=True, **settings)


@contextlib.contextmanager
def composed() -> Iterator[str | None]:
    """Start the Kafka of docker-compose.yml and yield its address; None without a Docker engine."""
    docker = shutil.which("docker")
    if not docker or any(
        subprocess.run([docker, *asked], check=False, capture_output=True).returncode
        for asked in (["info"], ["compose", "version"])
    ):
        yield None
        return
    port = free_ports(1)[0]
    environment = {**os.environ, "DEDUP_KAFKA_PORT": str(port)}
    compose = [docker, "compose", "-f", str(COMPOSE), "-p", f"dedup-tests-{os.getpid()}"]
    try:
        up = [*compose, "up", "--wait", "--detach", "kafka"]
        done = subprocess.run(up, check=False, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise NoBroker(f"`docker compose up kafka` failed: {done.stderr[-2000:]}")
        yield f"127.0.0.1:{port}"
    finally:
        down = [*compose, "down", "--volumes"]
        subprocess.run(down, check=False, capture_output=True, env=environment)


@contextlib.contextmanager
def any_broker() -> Iterator[str]:
    """Yield the address of a Kafka: the one that is set, else Docker's, else one of our own."""
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if given:
        if not brokers_answering(given):
            raise NoBroker(f"KAFKA_BOOTSTRAP_SERVERS is {given!r}, and no Kafka answers there")
        yield given
        return
    with composed() as address:
        if address is not None:
            yield address
            return
    with Cluster() as cluster:
        yield cluster.bootstrap
