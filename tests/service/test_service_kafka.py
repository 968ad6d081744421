"""The table service and a real Kafka: inserts through the log, replicas, and what Kafka's faults do."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest
import redis
from commands import command, insert, page, probe, reserve, spread
from log_services import VALUE, client, ready, serving, until
from logs import log_config, read, replayed
from services import Serving


def test_an_insert_goes_through_the_log_to_every_replica(kafka, tmp_path):
    """OK means it is in the log; then each service finds it, also one that starts later."""
    config = log_config(kafka)
    with serving(tmp_path / "a", config) as a, client(a) as at_a:
        insert(at_a, "d", "http://a/1")
        records = asyncio.run(read(config))
        assert list(replayed(records)["d"]) == ["http://a/1"]
        with serving(tmp_path / "b", config) as b, client(b) as at_b:
            for each in (at_a, at_b):
                until(lambda each=each: probe(each, "d", VALUE) == [["http://a/1", 0, "1.0000"]])
            insert(at_b, "d", "http://b/1", value=spread(5))
            until(lambda: probe(at_a, "d", spread(5)) == [["http://b/1", 0, "1.0000"]])
            assert reserve(at_a, "d", "http://c/1", value=spread(5))[:3] == [
                "near_duplicate",
                None,
                "http://b/1",
            ]
            assert at_a.execute_command("DEDUP.FORGET", "d", "http://b/1") == 1
            for each in (at_a, at_b):
                until(lambda each=each: probe(each, "d", spread(5)) == [])


def test_the_reservation_stands_until_the_event_is_applied(kafka, tmp_path):
    """Between OK and the applied event, a near-duplicate is pending, never unique."""
    config = log_config(kafka)
    with serving(tmp_path, config) as service, client(service) as at:
        for i in range(30):
            token = reserve(at, "d", f"http://a/{i}", value=spread(i))[1]
            assert at.execute_command("DEDUP.INSERT", "d", f"http://a/{i}", token)
            status = reserve(at, "d", f"http://b/{i}", value=spread(i))[0]
            assert status in {"pending", "near_duplicate"}
            assert reserve(at, "d", f"http://a/{i}", value=spread(i))[0] == "refetch"


def test_without_kafka_it_is_not_ready_and_says_why(tmp_path):
    """Before Kafka has answered: -NOTREADY, /readyz 503 with the reason, /livez 200; SIGTERM ends it."""
    with Serving(tmp_path, "--kafka", "127.0.0.1:1", wait=False) as service, client(service) as at:
        for command in (
            ("DEDUP.PROBE", "d", page()),
            ("DEDUP.RESERVE", "d", "k", page()),
        ):
            with pytest.raises(redis.ResponseError, match="^NOTREADY .*Kafka"):
                at.execute_command(*command)
        assert ready(service)["code"] == 503
        assert "Kafka" in ready(service)["reason"]
        assert service.get("/livez")[0] == 200
        assert at.ping()


def test_while_kafka_is_away_it_serves_stale_and_says_so(one_broker, tmp_path):
    """Probes go on, /readyz stays 200 and says stale, INSERT fails and keeps its reservation."""
    config = log_config(one_broker.bootstrap)
    with serving(tmp_path, config) as service, client(service) as at:
        insert(at, "d", "http://a/1")
        until(lambda: probe(at, "d", VALUE))
        token = reserve(at, "d", "http://b/1", value=spread(9))[1]
        one_broker.kill(1)
        until(lambda: ready(service)["status"] == "stale", "it never said stale")
        assert ready(service)["code"] == 200
        assert probe(at, "d", VALUE) == [["http://a/1", 0, "1.0000"]]
        with pytest.raises(redis.ResponseError, match="^STORE .*Kafka"):
            at.execute_command("DEDUP.INSERT", "d", "http://b/1", token)
        assert probe(at, "d", spread(9)) == []
        one_broker.start(1)
        until(lambda: ready(service)["status"] == "ok", "it never came back")

        def inserted() -> bool:
            with contextlib.suppress(redis.ResponseError):
                return at.execute_command("DEDUP.INSERT", "d", "http://b/1", token) == "OK"
            return False

        until(inserted)
        until(lambda: probe(at, "d", spread(9)) == [["http://b/1", 0, "1.0000"]])


def test_an_insert_is_refused_at_once_while_kafka_hangs(one_broker, tmp_path):
    """A stale service knows that Kafka does not answer: no client waits for its timeout."""
    config = log_config(one_broker.bootstrap)
    with serving(tmp_path, config) as service, client(service) as at:
        insert(at, "d", "http://a/1")
        token = reserve(at, "d", "http://b/1", value=spread(9))[1]
        one_broker.pause(1)
        until(lambda: ready(service)["status"] == "stale", "it never said stale")
        for command in (
            ("DEDUP.INSERT", "d", "http://b/1", token),
            ("DEDUP.FORGET", "d", "http://a/1"),
        ):
            began = time.monotonic()
            with pytest.raises(redis.ResponseError, match="^STORE .*Kafka does not answer"):
                at.execute_command(*command)
            assert time.monotonic() - began < 2
        one_broker.resume(1)
        until(lambda: ready(service)["status"] == "ok", "it never came back")
        assert at.execute_command("DEDUP.INSERT", "d", "http://b/1", token) == "OK"


def test_sigterm_waits_for_kafkas_acknowledgements(kafka, tmp_path):
    """Inserts under way when the service is told to stop are answered, and in the log."""
    config = log_config(kafka)
    with serving(tmp_path, config) as service, client(service) as at:
        pipeline = at.pipeline(transaction=False)
        for i in range(300):
            reserve(pipeline, "d", f"k{i}", "EXEMPT", "start", value=spread(i))
        tokens = [answer[1] for answer in pipeline.execute()]
        with service.connect() as plain:
            inserts = [command("DEDUP.INSERT", "d", f"k{i}", each) for i, each in enumerate(tokens)]
            plain.sendall(b"".join(inserts))
            answers = plain.recv(5)  # of the first one; the others are under way
            assert service.stop() == 0
            answers += b"".join(iter(lambda: plain.recv(65536), b""))
    acknowledged = answers.count(b"+OK\r\n")
    assert answers == b"+OK\r\n" * acknowledged
    assert acknowledged
    inserted = replayed(asyncio.run(read(config)))["d"]
    assert {f"k{i}" for i in range(acknowledged)} <= set(inserted)
