"""Workers of one group that share a real table service, on a real Kafka."""

from __future__ import annotations

import json
import random
import signal
import time

import pagestream
import pytest
from services import Serving
from workers import Topic, finish, messages, outcome, read, working, wrongs

COMMITS = 'dedup_worker_events_total{event="commits"}'


@pytest.fixture
def topic(kafka):
    return Topic.made(kafka, partitions=4)


@pytest.fixture
def service(tmp_path):
    with Serving(tmp_path / "service") as serving:
        yield serving


def url_of(service: Serving) -> str:
    return f"redis://127.0.0.1:{service.port}"


def test_a_killed_worker_leaves_nothing_undone(topic, service):
    """kill -9 of one worker of two: the other, or its next life, does what it left; nothing is lost."""
    chance = random.Random(8)
    given = messages(pagestream.stream(300, 4, seed=8))
    topic.fill(given)
    options = ("--service", url_of(service), {"batch_records": 25})
    with working(topic, *options, "--instance", "other") as other:
        for _ in range(3):
            with working(topic, *options, "--instance", "killed") as killed:
                killed.wait_for("partitions of")
                time.sleep(chance.random() * 0.5)
                killed.end(signal.SIGKILL)
        with working(topic, *options, "--instance", "killed") as last:
            last.wait_for("partitions of")
            keys = {message.key for message in given}

            def written() -> bool:
                both = (topic.unique, topic.duplicates)
                return keys == {m.key for name in both for m in read(topic.bootstrap, name)}

            other.wait_for(written)
            assert last.end() == 0
        assert other.end() == 0
    assert not wrongs(given, outcome(topic))


def test_a_service_that_is_killed_is_waited_for(topic, service):
    """kill -9 of the service under load: the worker says so, waits, and goes on once it is back."""
    given = messages(pagestream.stream(300, 4, seed=7))
    topic.fill(given[:1000])
    options = ("--service", url_of(service), {"batch_records": 20})
    with working(topic, *options, "--metrics", "127.0.0.1:0") as worker:
        worker.wait_for("partitions of")
        worker.wait_for(lambda: worker.metrics().get(COMMITS))
        service.kill()
        topic.fill(given[1000:])  # there is something to ask it, however fast the worker was
        worker.wait_for(lambda: worker.said("reserve failed") or worker.said("insert failed"))
        worker.wait_for(lambda: worker.get("/readyz")[0] == 503)
        service.start()
        worker.wait_for(lambda: worker.get("/readyz")[0] == 200)
        assert worker.end() == 0, worker.told()
    finish(topic, *options)
    assert not wrongs(given, outcome(topic))


def moved(data: bytes) -> bytes:
    return data.replace(b"//example.com/", b"//bbc.co.uk/")


def test_shards_have_the_pages_of_their_domains(topic, service, tmp_path):
    """Two lists of services: each has a domain, and the verdicts are those of one."""
    given = [
        each._replace(key=moved(each.key), value=moved(each.value))
        if pagestream.content_of(each.key.decode()) % 2
        else each
        for each in messages(pagestream.stream(40, 3, seed=3))
    ]
    topic.fill(given)
    with Serving(tmp_path / "second") as second:
        shards = ("--service", url_of(service), "--service", url_of(second))
        with working(topic, *shards) as worker:
            assert worker.end(None) == 2
            assert "need the scope 'site'" in worker.told()
        finish(topic, *shards, "--scope", "site")
        assert not wrongs(given, outcome(topic))
        for shard, domain in ((service, "bbc.co.uk"), (second, "example.com")):
            found = shard.get("/v1/export?ns=default")[1].splitlines()
            assert found
            assert {json.loads(line)["domain"] for line in found} == {domain}


def test_a_wrong_token_ends_it_without_telling_it(topic, tmp_path):
    """A service that refuses the token is an error; the token stands in no line."""
    wrong = "a-wrong-token-of-as-many-letters"
    with Serving(tmp_path / "service", token="the-right-token-of-32-characters") as service:
        where = f"redis://:{wrong}@127.0.0.1:{service.port}"
        with working(topic, "--service", where) as worker:
            worker.wait_for("connect failed")
            assert worker.end() == 0
            assert wrong not in worker.told()
