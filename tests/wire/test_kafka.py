"""The wrapper around aiokafka: settings, logging in, topics, acknowledgements, and bounds on waiting."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import time

import pytest
from aiokafka.partitioner import DefaultPartitioner
from broker import Cluster
from forking import completed
from hypothesis import given
from hypothesis import strategies as st
from logs import document, drained, held, inserts, log_config, read, replayed, tombstone, write

from dedup.model.errors import UsageError
from dedup.service.core.namespaces import Namespaces
from dedup.service.replica import Replica
from dedup.wire.kafka import (
    KafkaUnavailable,
    Reader,
    TopicUnfit,
    Writer,
    describe_topic,
    ensure_topic,
    kafka_config,
    login,
)
from dedup.wire.kafka.login import ended, started
from dedup.wire.kafka.writer import partition

HANG_SECONDS = 120.0  # whatever has a bound of its own is over by then

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # conftest.py, one_broker

# ------------------------------------------------------------------------------------- settings


def test_servers_have_the_usual_port_where_none_is_given():
    config = kafka_config("a:1234, b,[::1]:9", environ={})
    assert config.bootstrap == ("a:1234", "b:9092", "[::1]:9")
    assert (config.topic, config.dead_letters) == ("dedup.inserts", "dedup.inserts.dlq")


@pytest.mark.parametrize(
    ("bootstrap", "topic", "environ", "named"),
    [
        ("", "t", {}, "''"),
        ("a:0", "t", {}, "'a:0'"),
        ("a:70000", "t", {}, "'a:70000'"),
        ("http://a:1", "t", {}, "'http://a:1'"),
        ("a,,b", "t", {}, "''"),
        ("a", "a/b", {}, "'a/b'"),
        ("a", "..", {}, "'..'"),
        ("a", "t" * 250, {}, "249"),
        ("a", "t", {"DEDUP_KAFKA_SECURITY_PROTOCOL": "TLS"}, "SASL_SSL"),
        ("a", "t", {"DEDUP_KAFKA_SASL_MECHANISM": "GSSAPI"}, "SCRAM-SHA-512"),
        ("a", "t", {"DEDUP_KAFKA_SECURITY_PROTOCOL": "SASL_SSL"}, "SASL_USERNAME"),
    ],
)
def test_a_wrong_setting_names_itself_and_what_is_allowed(bootstrap, topic, environ, named):
    with pytest.raises(UsageError) as raised:
        kafka_config(bootstrap, topic, environ=environ)
    assert named in str(raised.value)


def test_a_client_key_may_be_encrypted(tmp_path):
    """Its password is a setting; without it the start fails, names the file, and asks no terminal."""
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=x"]
    command += ["-passout", "pass:hunter2", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    environ = {
        "DEDUP_KAFKA_SECURITY_PROTOCOL": "SSL",
        "DEDUP_KAFKA_SSL_CERTFILE": str(cert),
        "DEDUP_KAFKA_SSL_KEYFILE": str(key),
    }
    with pytest.raises(UsageError, match=r"key\.pem"):
        kafka_config("a", environ=environ).options()
    config = kafka_config("a", environ=environ | {"DEDUP_KAFKA_SSL_KEY_PASSWORD": "hunter2"})
    assert config.options()["ssl_context"]
    assert "hunter2" not in repr(config)


def login_settings(user: str = "crawler", password: str = "secret") -> dict[str, str]:
    return {
        "DEDUP_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "DEDUP_KAFKA_SASL_USERNAME": user,
        "DEDUP_KAFKA_SASL_PASSWORD": password,
    }


def logged_in(cluster: Cluster, user: str = "crawler", password: str = "secret"):
    environ = login_settings(user, password) | {"DEDUP_KAFKA_SSL_CAFILE": str(cluster.ca_file)}
    return kafka_config(cluster.secured, log_config("x").topic, environ=environ)


def test_a_password_is_never_shown(one_broker):
    config = logged_in(one_broker, password="hunter2")
    assert "hunter2" not in f"{config} {config!r} {[config]}"


# ---------------------------------------------------------------------------- TLS, SASL, rights


async def test_tls_and_sasl_reach_every_client(one_broker):
    """Admin, producer and consumer log in with the same settings."""
    config = logged_in(one_broker)
    await write(config, inserts(range(3)))
    assert len(await read(config)) == 3


async def test_a_wrong_password_ends_a_service_that_says_so(one_broker, tmp_path, monkeypatch):
    """After a bounded time, with what the broker says; a broker that is away is waited for."""
    monkeypatch.setattr(login, "LOGIN_SECONDS", 0.5)
    config = logged_in(one_broker, password="wrong")
    for start in (
        lambda: Writer(config).start(),
        lambda: Replica(config, Namespaces(tmp_path), tmp_path).prepare(),
    ):
        with pytest.raises(login.LoginRefused, match="refuses the login of 'crawler'"):
            await asyncio.wait_for(start(), 60)
    away = kafka_config("127.0.0.1:1", environ=login_settings())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(Writer(away).start(), 4)


IMPATIENT = """
from dedup.wire.kafka import login
login.LOGIN_SECONDS = 0.5
from dedup.cli import main
main()
"""


def test_a_wrong_password_ends_a_worker_that_says_so(one_broker, tmp_path):
    """After a bounded time, with status 1 and one line that names the user."""
    environ = login_settings(password="not-this-one")
    environ["DEDUP_KAFKA_SSL_CAFILE"] = str(one_broker.ca_file)
    given = ["worker", "--kafka", one_broker.secured, "--input", "pages", "--path", tmp_path]
    ended = completed(IMPATIENT, given, env=os.environ | environ)
    assert ended.returncode == 1
    assert "refuses the login of 'crawler'" in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr
    assert "not-this-one" not in ended.stderr


def test_a_topic_of_one_replica_says_so_when_it_is_made(one_broker, caplog):
    """A broker's disk is all there is of it; one that is there already is not ours to judge."""
    config = log_config(one_broker.bootstrap)
    for said in (True, False):
        caplog.clear()
        asyncio.run(ensure_topic(config))
        assert ("one replica" in caplog.text) is said


async def test_a_topic_that_this_user_may_not_see_or_make_is_named(one_broker):
    config = logged_in(one_broker, user="stranger")
    with pytest.raises(TopicUnfit, match=config.topic):
        await ensure_topic(config)


# --------------------------------------------------------------------------------------- topics


async def test_a_topic_is_made_compacted_once_and_found_again(kafka):
    config = log_config(kafka)
    assert await describe_topic(config) is None
    made = await asyncio.gather(*(ensure_topic(config, partitions=3) for _ in range(3)))
    assert {each.partitions for each in made} == {3}
    assert await ensure_topic(config, partitions=5) == made[0]
    assert len(made[0].cluster_id) == 22


async def test_compaction_keeps_the_last_record_of_a_key(one_broker, tmp_path):
    """A view made from the compacted log is that of the whole log: tombstones act, then go."""
    config = log_config(one_broker.bootstrap)
    quickly = {
        "segment.bytes": "1048576",
        "segment.ms": "200",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "500",
        "min.compaction.lag.ms": "0",
    }

    await ensure_topic(config, partitions=1, settings=quickly)
    for _ in range(5):
        await write(config, inserts(range(20)))
    await write(config, [tombstone(i) for i in range(5)])
    expected = replayed(await read(config))
    deadline = time.monotonic() + 180
    while True:
        await write(config, inserts([99]))  # a record closes the segment before it
        if len(records := await read(config)) < 60:
            break
        assert time.monotonic() < deadline, len(records)
        await asyncio.sleep(0.5)
    await drained(config, tmp_path)
    documents = held(tmp_path)["news"]
    assert documents == replayed(await read(config))["news"]
    assert set(documents) == set(expected["news"]) | {document(99).key}


# --------------------------------------------------------------------------------------- writer


@given(st.binary(max_size=100), st.integers(1, 40))
def test_a_record_goes_where_aiokafka_would_send_it(key, count):
    """The writer's partitioner is in C, and says the same."""
    everyone = [*range(count)]
    assert partition(key, everyone, everyone[:1]) == DefaultPartitioner()(key, everyone, [])
    assert partition(None, everyone, everyone[:1]) == 0
    assert partition(None, everyone, []) in everyone


async def test_a_record_too_large_is_refused_and_the_next_goes_through(kafka):
    config = log_config(kafka)
    await ensure_topic(config, partitions=1)
    async with Writer(config, compression=None) as writer:
        with pytest.raises(KafkaUnavailable, match="TooLarge"):
            await writer.send(b"k", b"x" * 2_000_000)
        assert await writer.send(b"k", b"y") == (0, 0)
        assert writer.unacknowledged == 0


# --------------------------------------------------------------------------------------- bounds


def test_a_start_is_tried_again_until_it_works():
    tries = []

    async def start():
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return "there"

    assert asyncio.run(started(start, "connecting", within_seconds=60)) == "there"
    assert len(tries) == 3


def test_a_start_that_never_works_ends_in_time_with_its_reason():
    async def start():
        raise ConnectionError("nobody there")

    with pytest.raises(KafkaUnavailable, match=r"within 0\.5 seconds.*nobody there"):
        asyncio.run(started(start, "connecting", within_seconds=0.5))


async def test_a_stop_takes_no_longer_than_it_is_given():
    """Also one that hangs, that raises, and that says CancelledError, as aiokafka's does."""

    async def hangs():
        await asyncio.sleep(3600)

    async def fails():
        raise OSError("gone")

    async def cancels():
        raise asyncio.CancelledError

    async with asyncio.timeout(HANG_SECONDS):
        assert await ended(asyncio.sleep(0), "stop")
        assert not await ended(hangs(), "stop", 0.1)
        assert not await ended(fails(), "stop")
        assert not await ended(cancels(), "stop")


async def test_a_reader_that_stands_still_is_made_anew(kafka, monkeypatch):
    """A consumer that returns nothing although there is something is replaced; nothing is missed."""
    from dedup.wire.kafka import reader as module

    monkeypatch.setattr(module, "WATCH_SECONDS", 0.1)
    monkeypatch.setattr(module, "STALL_SECONDS", 1.5)  # time enough for the one that is not dead
    config = log_config(kafka)
    await write(config, inserts(range(5)))
    async with Reader(config, await describe_topic(config)) as reader:
        first = reader._consumer

        async def nothing(*_, **__):
            await asyncio.sleep(0.05)
            return {}

        first.getmany = nothing
        found = []
        deadline = time.monotonic() + HANG_SECONDS
        while len(found) < 5:
            assert time.monotonic() < deadline
            for records in (await reader.batch(0.2)).values():
                found += [record.key for record in records]
        assert reader._consumer is not first
        assert sorted(found) == sorted(record.key for record in inserts(range(5)))


UNREADABLE = """
    import asyncio, sys
    from aiokafka import AIOKafkaProducer

    class Name(str):
        def encode(self, *_):
            return bytes((255, 254))

    async def main(kafka, topic):
        async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
            for name in ("readable", Name("x"), "readable"):
                sent = dict(key=b"k", headers=[(name, b"y")], partition=0)
                await producer.send_and_wait(topic, b"{}", **sent)

    asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_record_that_cannot_be_read_is_never_skipped(kafka, monkeypatch):
    """Of the partition of what cannot be read, what is before it comes, once, and nothing after it. (A header whose name is no UTF-8.)"""
    from dedup.wire.kafka import reader as module

    monkeypatch.setattr(module, "WATCH_SECONDS", 0.1)
    monkeypatch.setattr(module, "STALL_SECONDS", 0.5)
    config = log_config(kafka)
    environment = os.environ | {"AIOKAFKA_NO_EXTENSIONS": "1"}  # C code would not take the name
    command = [sys.executable, "-c", textwrap.dedent(UNREADABLE), *config.bootstrap, config.topic]

    await write(config, inserts(range(30)))
    await asyncio.to_thread(subprocess.run, command, env=environment, check=True)
    await write(config, inserts(range(30, 60)))
    topic = await describe_topic(config)
    offsets: dict[int, list[int]] = {number: [] for number in range(topic.partitions)}
    async with Reader(config, topic) as reader:

        async def read_on() -> None:
            for number, records in (await reader.batch(0.2)).items():
                offsets[number] += [record.offset for record in records]

        deadline = time.monotonic() + HANG_SECONDS
        while not (offsets[0] and not reader.alive):
            assert time.monotonic() < deadline, (offsets, reader.alive)
            await read_on()
        for _ in range(10):
            await read_on()
        assert not reader.alive
        assert not reader.caught_up
        for number, found in offsets.items():
            assert found == list(range(len(found))), number
        assert len(offsets[0]) < reader.ends[0]
        assert f" 0 from offset {len(offsets[0])} on" in reader.unreadable
