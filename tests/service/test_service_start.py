"""A table service that starts while Kafka is away: what it had it serves, and says that it is stale."""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import urlsplit

import msgspec
import pytest
import redis
from commands import insert, page, probe, reserve, spread
from log_services import VALUE, client, event, ready, serving, until, write_records
from logs import drained, inserts, log_config, reached, read, remade, write
from logs import until as until_async
from network import Proxy

from dedup.service import replica
from dedup.service.core.namespaces import Namespaces
from dedup.service.manifest import read_manifest, write_manifest
from dedup.service.replica import Phase, Replica
from dedup.wire.kafka import KafkaConfig


@contextlib.contextmanager
def cut_off(config: KafkaConfig, *, stalled: bool = False):
    """The same log, by a way to Kafka that is cut (or passes nothing) and can be healed."""
    port = urlsplit(f"//{config.bootstrap[0]}").port
    assert port is not None
    with Proxy(port) as way:
        (way.stall if stalled else way.cut)()
        yield way, msgspec.structs.replace(config, bootstrap=(f"127.0.0.1:{way.port}",))


def refused(at: redis.Redis, *command: object) -> str:
    with pytest.raises(redis.ResponseError) as found:
        at.execute_command(*command)
    return str(found.value)


def test_a_start_without_kafka_serves_stale_and_says_so(kafka, tmp_path):
    """Probes and reservations are answered; INSERT and FORGET wait for Kafka."""
    config = log_config(kafka)
    with serving(tmp_path, config) as service, client(service) as at:
        insert(at, "d", "http://a/1")
        until(lambda: probe(at, "d", VALUE))
        service.kill()
    write_records(config, [event("http://a/2", spread(5))])
    with cut_off(config) as (way, cut), serving(tmp_path, cut) as service, client(service) as at:
        assert ready(service)["code"] == 200
        assert ready(service)["status"] == "stale"
        assert "Kafka has not answered" in ready(service)["reason"]
        assert "log_status:stale" in at.execute_command("DEDUP.INFO")
        figures = service.get("/metrics")[1].decode()
        assert "\ndedup_log_stale 1.0" in figures
        assert "\ndedup_ready 1.0" in figures
        assert any('"message":"ready, but stale' in line for line in service.log)
        assert probe(at, "d", VALUE) == [["http://a/1", 0, "1.0000"]]
        assert reserve(at, "d", "http://b/1")[:3] == ["near_duplicate", None, "http://a/1"]
        token = reserve(at, "d", "http://b/7", value=spread(7))[1]
        assert refused(at, "DEDUP.INSERT", "d", "http://b/7", token).startswith("STORE ")
        assert refused(at, "DEDUP.FORGET", "d", "http://a/1").startswith("STORE ")
        assert len(asyncio.run(read(config))) == 2  # nothing was written to the log
        way.heal()
        until(lambda: ready(service)["status"] == "ok", "it never found Kafka")
        assert probe(at, "d", spread(5)) == [["http://a/2", 0, "1.0000"]]
        assert at.execute_command("DEDUP.INSERT", "d", "http://b/7", token) == "OK"
        until(lambda: probe(at, "d", spread(7)) == [["http://b/7", 0, "1.0000"]])


@pytest.mark.long
def test_a_log_that_was_replaced_is_refused_once_kafka_answers(kafka, tmp_path):
    """Nothing is written to the other one; and a way that passes nothing is known to be none in time."""
    config = log_config(kafka)
    with serving(tmp_path, config) as service, client(service) as at:
        insert(at, "d", "http://a/1")
        until(lambda: probe(at, "d", VALUE))
    asyncio.run(remade(config, inserts(range(3))))
    with (
        cut_off(config, stalled=True) as (way, cut),
        serving(tmp_path, cut) as service,
        client(service) as at,
    ):
        assert probe(at, "d", VALUE) == [["http://a/1", 0, "1.0000"]]
        token = reserve(at, "d", "http://b/1", value=spread(9))[1]
        way.heal()
        until(lambda: ready(service)["code"] == 503, "it was never refused")
        assert "are not of this log" in ready(service)["reason"]
        for command in (
            ("DEDUP.RESERVE", "d", "k", page()),
            ("DEDUP.INSERT", "d", "http://b/1", token),
        ):
            assert refused(at, *command).startswith("NOTREADY ")
    assert len(asyncio.run(read(config))) == 3


@pytest.mark.parametrize("why", ["not whole", "another topic", "rebuild"])
async def test_what_was_no_whole_view_waits_for_kafka(kafka, tmp_path, monkeypatch, why):
    """Stores that never had all of the log, or of what is asked for now, are not served before."""
    monkeypatch.setattr(replica, "PATIENCE_SECONDS", 0.0)
    config = log_config(kafka)
    away = msgspec.structs.replace(config, bootstrap=("127.0.0.1:1",))
    options = {}
    await write(config, inserts(range(9)))
    await drained(config, tmp_path)
    await Replica(away, Namespaces(tmp_path), tmp_path).prepare()  # all is well
    manifest, asked = read_manifest(tmp_path), away
    if why == "not whole":
        write_manifest(tmp_path, msgspec.structs.replace(manifest, caught_up=False))
    elif why == "another topic":
        asked = msgspec.structs.replace(away, topic="another")
    elif why == "rebuild":
        options["rebuild"] = True
    waiting = Replica(asked, Namespaces(tmp_path), tmp_path, **options).prepare()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting, 0.3)


@pytest.mark.parametrize("emptied", [False, True])
async def test_only_stores_with_documents_are_served_before_kafka_answers(
    kafka, tmp_path, monkeypatch, emptied
):
    """All of them: where one of the manifest's namespaces is gone, the log is waited for."""
    monkeypatch.setattr(replica, "PATIENCE_SECONDS", 0.0)
    config = log_config(kafka)
    away = msgspec.structs.replace(config, bootstrap=("127.0.0.1:1",))
    await write(config, inserts(range(9)) + inserts(range(9), "other"))
    await drained(config, tmp_path)
    if emptied:
        (tmp_path / "other" / "documents.mdb").unlink()
    namespaces = Namespaces(tmp_path)
    view = Replica(away, namespaces, tmp_path)
    await view.prepare()
    namespaces.open_all()
    running = asyncio.ensure_future(view.run())
    if not emptied:
        assert await reached(view, Phase.RESUMED) is Phase.RESUMED
    status = "connecting" if emptied else "stale"
    await until_async(lambda: view.state().status == status)
    assert view.ready is not emptied
    view.stop()
    await running
    namespaces.close()
    assert read_manifest(tmp_path).caught_up
