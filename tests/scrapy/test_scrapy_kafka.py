"""Real crawls against a service that writes their insert events to a real Kafka."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from crawling import (
    PATIENT,
    TEXT,
    Case,
    article,
    hub,
    run_case,
)
from logs import read
from services import Serving

from dedup.model.events import Event, decode
from dedup.wire.kafka import kafka_config

PAGES = {
    "/": hub("/a", "/b", "/c", "/raises"),
    "/a": article(1),
    "/b": article(1, frame="b"),
    "/c": article(2),
    "/raises": article(3),
}
RAISE = """
def parse(self, response):
    self.note("parsed", response)
    if response.url.endswith("/raises"):
        raise ValueError("the callback is broken")
    yield {"url": response.url}
    yield from self.links(response)
"""


@pytest.fixture
def topic() -> str:
    return f"inserts-{uuid.uuid4().hex[:12]}"


def asks(service: Serving, **settings: object) -> dict[str, object]:
    """Settings of a crawl; this machine may be busy, so it is given time."""
    where = {"DEDUP_SERVICE": f"redis://127.0.0.1:{service.port}", "DEDUP_TIMEOUT_SECONDS": 60}
    return TEXT | where | settings


def log_of(bootstrap: str, topic: str) -> list[Event]:
    """Return what a topic holds, up to its end as it is now."""
    records = asyncio.run(read(kafka_config(bootstrap, topic)))
    return [decode(record.key, record.value) for record in records]


def documents(events: list[Event]) -> set[str]:
    """Return the keys that stand when a log is read to its end."""
    last: dict[str, Any] = {event.key: event.document for event in events}
    return {key for key, document in last.items() if document is not None}


@contextmanager
def following(folder: Path, bootstrap: str, topic: str) -> Iterator[Serving]:
    """Serve a folder that is a view of a topic."""
    with Serving(folder, "--kafka", bootstrap, "--topic", topic) as service:
        yield service


def test_a_crawl_through_kafka_drops_what_an_embedded_one_drops(tmp_path, kafka, topic):
    """Accepted pages come back to the service by the log: the copy is dropped, nothing else is."""
    with following(tmp_path / "service", kafka, topic) as service:
        crawl = run_case(
            tmp_path / "crawl",
            Case(PAGES, RAISE, asks(service, DEDUP_WAIT_SECONDS=60)),
            setup=PATIENT,
        )
    assert set(crawl.dropped) == {"/b"}
    assert crawl.parsed == set(PAGES) - {"/b"}
    assert (crawl.stat("inserted"), crawl.stat("released")) == (3, 1)
    assert crawl.faults == {}
    assert documents(log_of(kafka, topic)) == {crawl.url + path for path in ("/", "/a", "/c")}
