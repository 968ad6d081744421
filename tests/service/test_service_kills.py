"""A real service and its spiders, killed with -9 at random moments; four spiders that share one; the soaks' verdict."""

from __future__ import annotations

import uuid

import pytest
from crawling import PATIENT, TEXT, Crawling, serve
from killing import content, site_pages
from killing_service import NAMESPACE, killed_round, shared, wrongs
from seeds import seed_of
from services import Serving

import dedup

pytestmark = pytest.mark.long

ROUNDS = 1
CONTENTS = 20
FOUR = 4


@pytest.fixture(scope="module")
def site():
    with serve(site_pages(CONTENTS)) as site:
        yield site


def test_four_spiders_that_share_a_service_drop_what_one_would(tmp_path, site):
    """Of each content one page is parsed, as in one process, but for pages in flight for too long."""
    with Serving(tmp_path / "service") as service:
        where = f"redis://127.0.0.1:{service.port}"
        settings = {
            "DEDUP_SERVICE": where,
            "DEDUP_TIMEOUT_SECONDS": 60,
            "DEDUP_WAIT_SECONDS": 100,
        } | TEXT
        running = [
            Crawling(tmp_path / str(n), {"only": (site, shared(site, n, FOUR, settings))}, PATIENT)
            for n in range(FOUR)
        ]
        crawls = [crawl.end()["only"] for crawl in running]
        with dedup.open(where, namespace=NAMESPACE) as detector:
            documents = len(detector)
    parsed = [path for crawl in crawls for path in crawl.parsed if path.strip("/")[:1].isdigit()]
    dropped = {path: v["of"] for crawl in crawls for path, v in crawl.dropped.items()}
    assert sorted(map(content, parsed)) == sorted(str(n) for n in range(CONTENTS))
    assert len(dropped) == 2 * CONTENTS
    assert all(content(path) == content(of) for path, of in dropped.items())
    assert {of.removeprefix(site.url) for of in dropped.values()} <= set(parsed)
    assert sum(crawl.stat("inserted") for crawl in crawls) >= documents >= CONTENTS
    assert [crawl.faults for crawl in crawls] == [{}] * FOUR


@pytest.mark.parametrize("number", range(ROUNDS))
def test_promise_6_what_was_acknowledged_survives_kills(tmp_path, site, tell, number):
    """Service and spiders killed: acknowledged inserts are found, drops have accepted originals."""
    seed = seed_of("SERVICE_KILLS") + number
    tell(f"service and spiders killed, SERVICE_KILLS_SEED={seed}")
    assert list(wrongs(killed_round(tmp_path, site, seed))) == []


def test_promise_6_what_was_acknowledged_survives_kills_of_kafka_too(
    tmp_path, site, one_broker, tell
):
    """The same with insert events through Kafka, whose broker is among those that are killed."""
    seed, topic = seed_of("SERVICE_KILLS"), f"inserts-{uuid.uuid4().hex[:12]}"
    tell(f"service, spiders and broker killed, SERVICE_KILLS_SEED={seed}")
    assert list(wrongs(killed_round(tmp_path, site, seed, one_broker, topic))) == []
