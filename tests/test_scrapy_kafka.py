"""Real crawls whose insert events go to a real Kafka through the outbox."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from crawling import Case, Page, article, hub, run_case
from services import Serving

from dedup.client.outbox import Outbox
from dedup.events import Event, decode
from dedup.kafka import describe_topic, kafka_config

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


def asks(service: Serving, bootstrap: str, topic: str, **settings: object) -> dict[str, object]:
    """Settings of a crawl; this machine may be busy, so it is given time."""
    return {
        "DEDUP_SERVICE": f"redis://127.0.0.1:{service.port}",
        "DEDUP_TIMEOUT_SECONDS": 20,
        "DEDUP_KAFKA": bootstrap,
        "DEDUP_TOPIC": topic,
    } | settings


def log_of(bootstrap: str, topic: str) -> list[Event]:
    """Return what a topic holds, up to its end as it is now; [] if there is none."""

    async def read() -> list[Event]:
        found_topic = await describe_topic(kafka_config(bootstrap, topic))
        if found_topic is None:
            return []
        partitions = [TopicPartition(topic, n) for n in range(found_topic.partitions)]
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            await consumer.seek_to_beginning(*partitions)
            found: list[Event] = []
            while any([await consumer.position(p) < ends[p] for p in partitions]):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [decode(record.key, record.value) for record in records]
            return found
        finally:
            await consumer.stop()

    return asyncio.run(read())


def documents(events: list[Event]) -> set[str]:
    """Return the keys that stand when a log is read to its end."""
    last: dict[str, Any] = {event.key: event.document for event in events}
    return {key for key, document in last.items() if document is not None}


@pytest.fixture(scope="module")
def service(tmp_path_factory, kafka):
    with Serving(tmp_path_factory.mktemp("service")) as serving:
        yield serving


def test_accepted_pages_are_on_the_log(tmp_path, service, kafka, topic):
    """Each page whose callback ended well is an event, of the crawl's namespace; no other is."""
    crawl = run_case(tmp_path, Case(PAGES, RAISE, asks(service, kafka, topic)))
    events = log_of(kafka, topic)
    assert documents(events) == {crawl.url + path for path in ("/", "/a", "/b", "/c")} - {
        crawl.url + path for path in crawl.dropped
    }
    assert {event.namespace for event in events} == {"only"}
    assert crawl.stat("inserted") == len(events)
    with Outbox.own(tmp_path / "dedup" / ".outbox") as outbox:
        assert len(outbox) == 0


def test_promise_1_nothing_is_lost_while_kafka_is_away(tmp_path, service, one_broker, topic):
    """A crawl without Kafka ends, its events on disk; the next one sends them before its first page."""
    settings = asks(service, one_broker.bootstrap, topic, DEDUP_NAMESPACE="away")
    one_broker.kill()
    first = run_case(tmp_path, Case(PAGES, RAISE, settings))
    assert first.stats["finish_reason"] == "finished"
    assert "insert events wait for Kafka" in first.log
    assert first.stat("inserted") >= 3
    one_broker.start()
    sent: list[set[str]] = []
    page = Page(
        article(5).body, before=lambda: sent.append(documents(log_of(one_broker.bootstrap, topic)))
    )
    second = run_case(tmp_path, Case({"/": hub("/x"), "/x": page}, "pass", settings))
    # "/" was judged before "/x" was asked for
    assert {first.url + path for path in ("/", "/a", "/c")} <= sent[0]
    assert second.url + "/x" in documents(log_of(one_broker.bootstrap, topic))
