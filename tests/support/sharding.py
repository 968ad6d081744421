"""Services that share one store by the partitions of a log, for tests.

with sharded(folder, kafka, "0-3", "4-7") as shards:
    dedup.open(urls(*shards))
    shards[0].kill()
    key_in("4-7", 5)      # belongs to shards[1]
    in_flight(shards)     # reservations at each
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from logs import log_config
from services import RECIPE, Serving
from sketches import sketch

from dedup.model.events import record_key
from dedup.model.page import PageFingerprint
from dedup.wire.kafka import KafkaConfig, ensure_topic
from dedup.wire.shards import PartitionShare, partition_of

PARTITIONS = 8
WAIT_SECONDS = 60.0

_numbers = count()


def log_of(bootstrap: str) -> KafkaConfig:
    """Return a log of its own, of 8 partitions."""
    config = log_config(bootstrap)
    asyncio.run(ensure_topic(config, partitions=PARTITIONS))
    return config


def shard(folder: Path, config: KafkaConfig, share: str, **more: object) -> Serving:
    """Return a service, not started yet, that holds a share of a log; "*": all of it."""
    options = ["--kafka", ",".join(config.bootstrap), "--topic", config.topic]
    options += [] if share == "*" else ["--partitions", share]
    return Serving(folder / f"shard{next(_numbers)}", *options, **more)


@contextmanager
def sharded(folder: Path, bootstrap: str, *shares: str) -> Iterator[list[Serving]]:
    """Serve a log of its own in shares; all of them are ready."""
    config = log_of(bootstrap)
    with ExitStack() as stack:
        services = [shard(folder, config, share, wait=False) for share in shares]
        for service in services:
            stack.enter_context(service)
        for service in services:
            service.wait_until_ready()
            service.wait = True
        yield services


def urls(*services: object) -> str:
    """Return where services listen, in their order."""
    return ",".join(f"redis://127.0.0.1:{service.port}" for service in services)


def partition(key: str, namespace: str = "default") -> int:
    """Return the partition of a document."""
    return partition_of(record_key(namespace, key), PARTITIONS)


def key_in(share: str, number: int = 0, namespace: str = "default") -> str:
    """Return a key whose document belongs to a share; another one for another number."""
    held = PartitionShare.of(share, PARTITIONS).partitions
    keys = (f"http://example.com/{number}/{n}" for n in count())
    return next(key for key in keys if partition(key, namespace) in held)


def page(number: int, bits: int = 0) -> PageFingerprint:
    """Return a page far from those of other numbers, and so many bits from others of its number."""
    value = number * 0x9E3779B97F4A7C15 % 2**64 ^ (2**bits - 1)
    return PageFingerprint(value, sketch(), 0, 300, RECIPE)


def until(done: Callable[[], object], what: str = "") -> None:
    """Wait until done() is true."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def info(service: Serving, namespace: str = "default") -> dict[str, str]:
    """Return what one service says of a namespace."""
    with service.client(decode_responses=True, socket_timeout=60) as at:
        said = at.execute_command("DEDUP.INFO", namespace)
    return dict(line.split(":", 1) for line in said.splitlines())


def in_flight(services: Sequence[Serving], namespace: str = "default") -> list[int]:
    """Return how many reservations each service holds."""
    return [int(info(service, namespace)["in_flight"]) for service in services]


def documents(services: Sequence[Serving], namespace: str = "default") -> list[int]:
    """Return how many documents each service holds."""
    return [int(info(service, namespace)["documents"]) for service in services]
