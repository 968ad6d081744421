"""What tests of services that follow a log share: the service, its clients, records of the log."""

import asyncio
import json
import time

import redis
from logs import RECIPE, write
from redis.backoff import NoBackoff
from redis.retry import Retry
from services import Serving
from sketches import sketch

from dedup.model.events import encode
from dedup.model.page import Document, PageFingerprint
from dedup.wire.kafka import KafkaConfig
from dedup.wire.kafka.writer import Outgoing

WAIT_SECONDS = 180.0
VALUE = 0x0123456789ABCDEF


def serving(path, config: KafkaConfig, *options: object, **more) -> Serving:
    """A service that follows a topic."""
    bootstrap = ",".join(config.bootstrap)
    return Serving(path, "--kafka", bootstrap, "--topic", config.topic, *options, **more)


def client(service: Serving) -> redis.Redis:
    return redis.Redis(
        port=service.port, decode_responses=True, retry=Retry(NoBackoff(), 0), socket_timeout=120
    )


def until(done, what: str = "") -> None:
    """Wait until done() is true."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def ready(service: Serving) -> dict:
    status, body = service.get("/readyz")
    return {"code": status, **json.loads(body)}


def write_records(config: KafkaConfig, records: list[Outgoing]) -> None:
    asyncio.run(write(config, records))


def event(key: str, value: int = VALUE, bits: int = 0) -> Outgoing:
    fingerprint = PageFingerprint(value, sketch(bits), 0, 300, RECIPE)
    return Outgoing(*encode("d", Document(key, fingerprint, "example.com", 0.0)))
