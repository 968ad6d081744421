"""`dedup worker`, a process of its own, on a real Kafka."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pagestream
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from workers import Message, Topic, finish, messages, outcome, read, wait_until, working, wrongs

from dedup.model.recipes import recipe_of

COMMITS = 'dedup_worker_events_total{event="commits"}'


@pytest.fixture
def topic(kafka):
    return Topic.made(kafka)


def test_pages_pass_through_byte_for_byte(topic, tmp_path):
    """Key, value, headers and timestamp of each output are those of its input, ours come after."""
    now = int(time.time() * 1000) - 10_000
    given = [
        Message(b"k\x00\xff", pagestream.value(1), (("a", b""), ("a", b"\xff\x00")), now, 0),
        Message(None, pagestream.value(2, 1), (), now + 1, 0),
        Message(b"", pagestream.value(1, 2), (("b", "é".encode()),), now + 2, 0),
        Message(b"short", b' {"html": "x",\n "url": "http://a/"}\n', (), now + 3, 1),
    ]
    topic.fill(given)
    finish(topic, "--path", tmp_path)
    done = outcome(topic)
    assert [m.header("dedup.status") for m in done.duplicates] == ["near_duplicate"]
    assert done.duplicates[0].header("dedup.of") == pagestream.url(1)
    assert int(done.duplicates[0].header("dedup.distance")) <= recipe_of().distance
    assert float(done.duplicates[0].header("dedup.similarity")) >= recipe_of().similarity
    assert done.duplicates[0].header("dedup.identity") == "same"
    outputs = {message.value: message for message in (*done.unique, *done.duplicates)}
    assert len(outputs) == 4
    for message in given:
        output = outputs[message.value]
        assert (output.key, output.timestamp) == (message.key, message.timestamp)
        theirs = [pair for pair in output.headers if not pair[0].startswith("dedup.")]
        assert tuple(theirs) == message.headers == output.headers[: len(theirs)]


def test_poison_is_a_dead_letter_and_the_rest_goes_on(topic, tmp_path):
    """Values that are no pages go unmodified to the dead letters, with where they were and why."""
    poison = [b"json failed to parse", None, b"\xff" * 50, b"[" * 50_000, b'{"url": 3}']
    given = messages(pagestream.stream(5, 2, seed=2))
    bad = [Message(b"bad %d" % i, value, (("x", b"y"),), None, 1) for i, value in enumerate(poison)]
    topic.fill([*given[:5], *bad, *given[5:]])
    finish(topic, "--path", tmp_path)
    done = outcome(topic)
    assert not wrongs(given, done._replace(dead=[]))
    assert {m.key: m.value for m in done.dead} == {m.key: m.value for m in bad}
    for message in done.dead:
        assert message.headers[0] == ("x", b"y")
        assert message.header("dedup.error.topic") == topic.name
        assert message.header("dedup.error.partition") == "1"
        assert message.header("dedup.error.offset").isdigit()
        assert message.header("dedup.error.stage") == "read"
        assert message.header("dedup.error.class") == "EventInvalid"
    (dump,) = [m for m in done.dead if m.value == poison[0]]
    assert "failed dump" in dump.header("dedup.error.message")


def test_what_an_output_refuses_does_not_stop_the_others(topic, tmp_path):
    """A page too large for the unique topic is a dead letter without its value; it is no original."""
    topic.make(topic.unique, 1, max_message_bytes=20_000)
    topic.make(topic.dead, 1, max_message_bytes=20_000)
    noise = random.Random(3).randbytes(30_000).hex()
    large = json.dumps({"url": "http://a.example/", "html": pagestream.html(1) + f"<!--{noise}-->"})
    given = messages([(1, 1), (2, 0), (3, 0)])
    topic.fill([Message(b"large", large.encode(), (), None, 0)])
    finish(topic, "--path", tmp_path)
    topic.fill([message._replace(partition=0) for message in given])
    finish(topic, "--path", tmp_path)
    done = outcome(topic)
    assert [m.key for m in done.unique] == [m.key for m in given]
    (dead,) = done.dead
    assert (dead.key, dead.value) == (b"large", None)
    assert dead.header("dedup.error.stage") == "produce"
    assert dead.header("dedup.error.value_bytes") == str(len(large))
    assert (dead.header("dedup.error.partition"), dead.header("dedup.error.offset")) == ("0", "0")


def test_a_timestamp_that_an_output_refuses_is_a_dead_letter(kafka, tmp_path):
    """A record from the future, which the outputs do not take, is kept whole among the dead letters."""
    topic = Topic.made(kafka, message_timestamp_after_max_ms=2**62)
    future = int(time.time() * 1000) + 10**9
    given = messages([(1, 0), (2, 0)])
    topic.fill([given[0]._replace(timestamp=future, partition=0), given[1]._replace(partition=0)])
    finish(topic, "--path", tmp_path)
    done = outcome(topic)
    assert [m.key for m in done.unique] == [given[1].key]
    assert [(m.key, m.value) for m in done.dead] == [given[0][:2]]
    assert done.dead[0].header("dedup.error.class") == "RecordRefused"


def test_what_was_aborted_is_not_seen(topic, tmp_path):
    """Only records of committed transactions are pages, and the worker comes to the end of both."""
    topic.fill(messages([(1, 0)]), transactional=False)
    topic.fill(messages([(1, 1)]), transactional=True)
    finish(topic, "--path", tmp_path)
    assert [m.key for m in outcome(topic).unique] == [pagestream.url(1, 1).encode()]


def test_sigterm_finishes_the_batch_and_commits(topic, tmp_path):
    """Told to stop under load it exits with 0; what it did is not done again, what is left is."""
    given = messages(pagestream.stream(300, 4, seed=4))
    topic.fill(given[:1100])
    options = ("--path", tmp_path, {"batch_records": 20})
    with working(topic, *options, "--metrics", "127.0.0.1:0") as worker:
        worker.wait_for("partitions of")
        worker.wait_for(lambda: worker.metrics().get(COMMITS))
        worker.process.send_signal(signal.SIGTERM)
        topic.fill(given[1100:])  # there is work left, however fast it was
        assert worker.end(None) == 0, worker.told()
    first = outcome(topic)
    assert 0 < len(first.unique) + len(first.duplicates) < len(given)
    finish(topic, *options)
    done = outcome(topic)
    assert not wrongs(given, done)
    assert len(done.unique) + len(done.duplicates) == len(given)  # nothing twice
    assert len(done.unique) == 300


def test_a_second_signal_ends_it_at_once(one_broker, tmp_path):
    """While the outputs hang, the first SIGTERM waits for them; the second one does not."""
    topic = Topic.made(one_broker.bootstrap)
    topic.fill(messages(pagestream.stream(500, 4, seed=4)))
    options = ("--path", tmp_path, {"batch_records": 20, "stop_seconds": 3600.0})
    with working(topic, *options, "--metrics", "127.0.0.1:0") as worker:
        worker.wait_for("partitions of")
        worker.wait_for(lambda: worker.metrics().get(COMMITS))
        one_broker.pause()
        worker.process.send_signal(signal.SIGTERM)
        worker.wait_for("stopping: finishing")
        assert worker.end(signal.SIGTERM) == 128 + signal.SIGTERM


@pytest.mark.long
def test_two_workers_share_the_partitions(topic, tmp_path):
    """A second worker takes over a partition and gives it back; nothing is lost, little is repeated.

    Each has a store of its own here, so a content may be unique at both.
    """
    given = messages(pagestream.stream(500, 4, seed=5))
    topic.fill(given[:1000])
    one, two = (
        ("--path", tmp_path / "1", {"batch_records": 20}),
        ("--path", tmp_path / "2", {"batch_records": 20}),
    )
    with working(topic, *one) as first:
        first.wait_for("partitions of")
        with working(topic, *two) as second:
            second.wait_for("partitions of")
            for each in (first, second):
                each.wait_for(lambda each=each: each.said(": [0]") or each.said(": [1]"))
            topic.fill(given[1000:])
            assert second.end() == 0, second.told()
        first.wait_for(lambda: len([n for n in first.lines if ": [0, 1]" in n["message"]]) == 2)
        assert first.end() == 0, first.told()
    finish(topic, *one)
    done = outcome(topic)
    assert not wrongs(given, done)
    assert len(done.unique) + len(done.duplicates) == len(given)  # it was asked in time each time


def test_a_broker_that_restarts_is_waited_for(one_broker, tmp_path):
    """Killed and started again under load, the broker finds the worker alive, and no page missing."""
    topic = Topic.made(one_broker.bootstrap)
    given = messages(pagestream.stream(500, 4, seed=6))
    topic.fill(given)
    options = ("--path", tmp_path, {"batch_records": 20})
    with working(topic, *options, "--metrics", "127.0.0.1:0") as worker:
        worker.wait_for("partitions of")
        worker.wait_for(lambda: worker.metrics().get(COMMITS))
        one_broker.kill()
        worker.wait_for("watch failed")
        worker.wait_for(lambda: worker.get("/readyz")[0] == 503)
        one_broker.start()
        topic.fill(messages([(9000, 0)]))
        key = pagestream.url(9000).encode()
        worker.wait_for(lambda: key in {m.key for m in read(topic.bootstrap, topic.unique)})
        worker.wait_for(lambda: worker.get("/readyz")[0] == 200)
        assert worker.end() == 0, worker.told()
    finish(topic, *options)
    assert not wrongs([*given, *messages([(9000, 0)])], outcome(topic))


def test_it_waits_for_a_broker_at_its_start(one_broker, tmp_path):
    """Started before Kafka it says so, is not ready, and works once Kafka is there."""
    topic = Topic.made(one_broker.bootstrap)
    topic.fill(messages([(1, 0)]))
    one_broker.kill()
    with working(topic, "--path", tmp_path, "--metrics", "127.0.0.1:0", "--until-end") as worker:
        worker.wait_for("connect failed")
        assert worker.get("/livez")[0] == 200
        assert worker.get("/readyz")[0] == 503
        one_broker.start()
        assert worker.end(None) == 0, worker.told()
    assert len(outcome(topic).unique) == 1


def test_metrics_tell_what_was_done_and_what_is_left(topic, tmp_path):
    """Pages by status, inserts, commits and the lag are at /metrics; other paths are named."""
    topic.fill([*messages([(1, 0), (1, 1), (2, 0)]), Message(b"x", b"bad")])
    with working(topic, "--path", tmp_path, "--metrics", "127.0.0.1:0") as worker:
        worker.wait_for(lambda: len(read(topic.bootstrap, topic.dead)) == 1)
        worker.wait_for(
            lambda: sum(v for n, v in worker.metrics().items() if "pages_total" in n) == 4
        )
        lag = "dedup_worker_lag_records"
        worker.wait_for(lambda: [v for n, v in worker.metrics().items() if lag in n] == [0, 0])
        figures = worker.metrics()
        assert figures['dedup_worker_pages_total{reason="",status="unique"}'] == 2
        assert figures['dedup_worker_pages_total{reason="",status="near_duplicate"}'] == 1
        assert figures['dedup_worker_pages_total{reason="",status="dead"}'] == 1
        assert figures['dedup_worker_events_total{event="inserted"}'] == 2
        assert [v for name, v in figures.items() if lag in name] == [0, 0]
        assert worker.get("/readyz") == (200, "ok\n")
        assert worker.get("/elsewhere")[0] == 404
        assert worker.end() == 0


async def delete_before(topic: Topic, partition: int, offset: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=topic.bootstrap)
    await admin.start()
    place = TopicPartition(topic.name, partition)
    await admin.delete_records({place: RecordsToDelete(offset)})
    await admin.close()


@pytest.mark.long
def test_records_that_expired_unread_are_told(topic, tmp_path):
    """Where the topic dropped records that the group had not read, an error says so; the rest is read."""
    topic.fill([m._replace(partition=0) for m in messages([(1, 0), (2, 0), (3, 0)])])
    finish(topic, "--path", tmp_path)
    topic.fill([m._replace(partition=0) for m in messages([(4, 0), (5, 0)])])
    asyncio.run(delete_before(topic, 0, 4))
    worker = finish(topic, "--path", tmp_path)
    assert worker.said("1 records of")
    assert len(outcome(topic).unique) == 4


def test_the_example_runs(kafka, tmp_path):
    """examples/stream.py, with a worker beside it, prints two unique pages and a near-duplicate."""
    topic = Topic(kafka, "example.pages")
    example = Path(__file__).parents[2] / "examples" / "stream.py"
    with subprocess.Popen(
        [sys.executable, example, kafka], stdout=subprocess.PIPE, text=True
    ) as running:
        wait_until(lambda: len(read(kafka, topic.name)) == 3)
        with working(topic, "--path", tmp_path) as worker:
            said = running.communicate(timeout=180)[0].splitlines()
            assert worker.end() == 0, worker.told()
    assert running.returncode == 0
    assert sorted(line.split(": ", 1)[1] for line in said) == [
        "https://example.org/bridge unique",
        "https://example.org/bridge?sid=7f3a near_duplicate of https://example.org/bridge",
        "https://example.org/tram unique",
    ]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--path", "{tmp}", "--format", "warc"], 2, "format 'warc' is not known"),
        ([], 2, "give either --path"),
        (["--path", "{tmp}", "--unique", "{topic}"], 2, "must be four topics"),
        (["--path", "{tmp}", "--unique", "a b"], 2, "topic 'a b' is not allowed"),
        (["--path", "{tmp}", "--metrics", "9470"], 2, "--metrics '9470' is not allowed"),
        (["--path", "{tmp}", "--namespace", "../x"], 2, "namespace '../x' is not allowed"),
        (["--path", "{tmp}", "--input", "no.such.topic"], 2, "'no.such.topic' does not exist"),
        (["--path", "/dev/null/x"], 1, "/dev/null/x"),
    ],
)
def test_what_cannot_be_is_said_and_ends_it(topic, tmp_path, options, code, said):
    """A wrong option, a missing topic or an unusable folder: one line, its exit code, no traceback."""
    filled = [o.format(tmp=tmp_path, topic=topic.name) for o in options]
    with working(topic, *filled) as worker:
        assert worker.end(None) == code
    assert said in "".join(worker.other)
    assert "Traceback" not in worker.told()


def test_an_address_in_use_ends_it(topic, tmp_path):
    """The error names the address, and the option for another one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        with working(topic, "--path", tmp_path, "--metrics", place) as worker:
            assert worker.end(None) == 1
    said = "".join(worker.other)
    assert f"cannot listen on {place}: Address already in use; give --metrics another" in said
