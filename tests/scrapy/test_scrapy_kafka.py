"""Real crawls whose insert events go to a real Kafka through the outbox."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from crawling import (
    HURRIED,
    PATIENT,
    TEXT,
    Case,
    Crawling,
    Page,
    article,
    hub,
    run_case,
    serve,
    wait_for,
)
from logs import read
from services import Serving

from dedup.model.events import Event, decode
from dedup.scrapy.memory.outbox import Outbox
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


def asks(service: Serving, bootstrap: str, topic: str, **settings: object) -> dict[str, object]:
    """Settings of a crawl; this machine may be busy, so it is given time."""
    where = {"DEDUP_SERVICE": f"redis://127.0.0.1:{service.port}", "DEDUP_TIMEOUT_SECONDS": 60}
    return TEXT | where | {"DEDUP_KAFKA": bootstrap, "DEDUP_TOPIC": topic} | settings


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
            Case(PAGES, RAISE, asks(service, kafka, topic, DEDUP_WAIT_SECONDS=60)),
            setup=PATIENT,
        )
    assert set(crawl.dropped) == {"/b"}
    assert crawl.parsed == set(PAGES) - {"/b"}
    assert (crawl.stat("inserted"), crawl.stat("released")) == (3, 1)
    assert crawl.faults == {}
    assert documents(log_of(kafka, topic)) == {crawl.url + path for path in ("/", "/a", "/c")}
    with Outbox.own(tmp_path / "crawl" / "dedup" / ".outbox") as outbox:
        assert len(outbox) == 0


@pytest.mark.long
def test_a_page_that_is_gone_is_forgotten_through_kafka(tmp_path, kafka, topic):
    """A page that was accepted and is a 404 later is on the log as a tombstone, after its event."""
    body = """
    async def parse(self, response):
        import asyncio
        self.note("parsed", response)
        yield {"url": response.url}
        if response.url.endswith("/"):
            yield response.follow("/a", self.parse, errback=self.failed)
            while self.crawler.stats.get_value("dedup/inserted", 0) < 1:
                await asyncio.sleep(0.02)
            yield response.follow("/a", self.parse, errback=self.failed, dont_filter=True)
    """
    pages = {"/": hub(), "/a": [article(1), Page(b"gone", status=404)]}
    with following(tmp_path / "service", kafka, topic) as service:
        case = Case(pages, body, asks(service, kafka, topic))
        crawl = run_case(tmp_path / "crawl", case, setup=PATIENT)
    events = [e.document is None for e in log_of(kafka, topic) if e.key == crawl.url + "/a"]
    assert events == [False, True]
    assert crawl.stat("released") == 2  # the start page, which asked for one page twice, and /a
    assert documents(log_of(kafka, topic)) == set()


def test_promise_1_nothing_is_lost_while_kafka_is_away(tmp_path, one_broker, topic):
    """A crawl without Kafka ends, its events on disk; the next one sends them before its first page."""
    bootstrap = one_broker.bootstrap
    with following(tmp_path / "service", bootstrap, topic) as service:
        settings = asks(service, bootstrap, topic)
        one_broker.kill()
        first = run_case(tmp_path, Case(PAGES, RAISE, settings), setup=HURRIED)
        assert first.stats["finish_reason"] == "finished"
        assert "insert events wait for Kafka" in first.log
        assert first.parsed == set(PAGES)  # no copy is dropped: its original is on no log yet
        assert first.stat("inserted") == 4
        one_broker.start()
        sent: list[set[str]] = []

        def look() -> None:
            sent.append(documents(log_of(bootstrap, topic)))

        # "/" was judged before "/x" was asked for
        pages = {"/": hub("/x"), "/x": Page(article(5).body, before=look)}
        second = run_case(tmp_path, Case(pages, "pass", settings), setup=PATIENT)
        assert {first.url + path for path in ("/", "/a", "/b", "/c")} <= sent[0]
        assert second.url + "/x" in documents(log_of(bootstrap, topic))


def test_promise_6_what_was_accepted_survives_a_kill_of_the_spider(tmp_path, one_broker, topic):
    """Killed with -9 while Kafka is away: the next start of the spider sends what was accepted."""
    bootstrap = one_broker.bootstrap
    pages = {"/": hub(*(f"/{n}" for n in range(8)))} | {f"/{n}": article(n + 100) for n in range(8)}
    with following(tmp_path / "service", bootstrap, topic) as service, serve(pages) as site:
        case = Case(pages, "pass", asks(service, bootstrap, topic, DOWNLOAD_DELAY=0.1))
        one_broker.kill()
        site.most = 8  # one page is never answered: it is not over when it is killed
        running = Crawling(tmp_path, {"only": (site, case)})
        wait_for(lambda: len(running.events()) >= 7)
        running.process.kill()
        running.end(-signal.SIGKILL)
        site.most = None
        left = {
            decode(kept.key, kept.value).key
            for outbox in Outbox.left_over(tmp_path / "dedup" / ".outbox")
            for kept in outbox.first(99)
        }
        assert len(left) >= 3
        one_broker.start()
        Crawling(
            tmp_path,
            {"only": (site, Case(pages, "def parse(self, response): pass", case.settings))},
            PATIENT,
            TEXT,
        ).end()
        assert left <= documents(log_of(bootstrap, topic))


@pytest.mark.long
def test_a_service_that_does_not_read_the_log_is_said(tmp_path, kafka, topic):
    """DEDUP_KAFKA with a service without --kafka: the events are kept, and the fault is counted."""
    with Serving(tmp_path / "service") as service:
        case = Case(PAGES, RAISE, asks(service, kafka, topic))
        crawl = run_case(tmp_path / "crawl", case, setup=PATIENT)
    assert crawl.parsed == set(PAGES)
    assert set(crawl.faults) == {"usage_error"}
    assert "does not learn of the pages" in crawl.log
    assert documents(log_of(kafka, topic)) >= {crawl.url + path for path in ("/", "/a", "/c")}
