"""A real service and the spiders that share it, killed with -9 at random moments."""

from __future__ import annotations

import uuid

import pytest
from crawling import serve
from killing import site_pages
from killing_service import killed_round, wrongs
from seeds import seed_of

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site():
    with serve(site_pages(20)) as site:
        yield site


def test_promise_6_what_was_acknowledged_survives_kills(tmp_path, site, tell):
    """Service and spiders killed: acknowledged inserts are found, drops have accepted originals."""
    seed = seed_of("SERVICE_KILLS")
    tell(f"service and spiders killed, SERVICE_KILLS_SEED={seed}")
    assert list(wrongs(killed_round(tmp_path, site, seed))) == []


def test_promise_6_what_was_acknowledged_survives_kills_of_kafka_too(
    tmp_path, site, one_broker, tell
):
    """The same with insert events through Kafka, whose broker is among those that are killed."""
    seed, topic = seed_of("SERVICE_KILLS"), f"inserts-{uuid.uuid4().hex[:12]}"
    tell(f"service, spiders and broker killed, SERVICE_KILLS_SEED={seed}")
    assert list(wrongs(killed_round(tmp_path, site, seed, one_broker, topic))) == []
