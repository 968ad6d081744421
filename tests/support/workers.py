"""Real worker processes on a real Kafka: how the tests start them, feed them, and judge what they did.

topic = Topic.made(bootstrap, partitions=2)
topic.fill(records)
with working(topic, "--path", folder) as worker:
    worker.wait_for("partitions of")
read(bootstrap, topic.unique)
"""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pagestream
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from forking import forked

WAIT_SECONDS = 180.0


class Message(NamedTuple):
    """A record to be written, or one that was read."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int | None = None
    partition: int | None = None

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key == name]
        assert len(found) < 2, f"{name} stands twice"
        return found[0].decode() if found else None


class Topic(NamedTuple):
    """An input topic of a test's own, and the names of its outputs."""

    bootstrap: str
    name: str

    @classmethod
    def made(cls, bootstrap: str, partitions: int = 2, replicas: int = 1, **config: Any) -> Topic:
        topic = cls(bootstrap, f"pages-{uuid.uuid4().hex[:12]}")
        topic.make(topic.name, partitions, replicas, **config)
        return topic

    def make(self, name: str, partitions: int, replicas: int = 1, **config: Any) -> None:
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}

        async def make() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            try:
                new = NewTopic(name, partitions, replicas, topic_configs=settings)
                answer = await admin.create_topics([new])
                assert answer.topic_errors[0][1] == 0, answer
            finally:
                await admin.close()

        asyncio.run(make())

    @property
    def unique(self) -> str:
        return f"{self.name}.unique"

    @property
    def duplicates(self) -> str:
        return f"{self.name}.duplicates"

    @property
    def dead(self) -> str:
        return f"{self.name}.dlq"

    def fill(self, messages: Iterable[Message], transactional: bool | None = None) -> None:
        """Write messages; transactional True or False: in a transaction that commits or aborts."""

        async def fill() -> None:
            options = {} if transactional is None else {"transactional_id": uuid.uuid4().hex}
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap, linger_ms=5, max_request_size=1 << 26, **options
            )
            try:
                await producer.start()
                if transactional is not None:
                    await producer.begin_transaction()
                sent = [
                    await producer.send(
                        self.name, m.value, m.key, m.partition, m.timestamp, list(m.headers)
                    )
                    for m in messages
                ]
                await asyncio.gather(*sent)
                if transactional is not None:
                    end = "commit" if transactional else "abort"
                    await getattr(producer, f"{end}_transaction")()
            finally:
                await producer.stop()

        asyncio.run(fill())


def read(bootstrap: str, name: str) -> list[Message]:
    """Return everything a topic holds, in order within a partition; [] if there is no such topic."""

    async def read() -> list[Message]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            if name not in await consumer.topics():
                return []
            await consumer._client.add_topic(name)
            places = [TopicPartition(name, p) for p in consumer.partitions_for_topic(name) or ()]
            consumer.assign(places)
            ends = await consumer.end_offsets(places)
            found = []
            while any([await consumer.position(place) < ends[place] for place in places]):
                for part in (await consumer.getmany(timeout_ms=200)).values():
                    found += [
                        Message(r.key, r.value, tuple(r.headers), r.timestamp, r.partition)
                        for r in part
                    ]
            return found
        finally:
            await consumer.stop()

    return asyncio.run(read())


def wait_until(met: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Return when a condition is met. Raises AssertionError when the time is over."""
    until = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < until
        time.sleep(0.05)


_PROGRAM = """
import msgspec
from dedup.cli import main, worker
made = worker._config
worker._config = lambda *given: msgspec.structs.replace(made(*given), **{})
main()
"""


class WorkerProcess:
    """A `dedup worker`; its log lines are kept as they come."""

    def __init__(self, topic: Topic, *options: object) -> None:
        """Options are those of the command; a dict among them has fields of WorkerConfig that have none."""
        self.topic = topic
        given = ["worker", "--kafka", topic.bootstrap, "--input", topic.name, "--log", "json"]
        given += [str(option) for option in options if not isinstance(option, dict)]
        limits = {k: v for option in options if isinstance(option, dict) for k, v in option.items()}
        self.process = forked("service", _PROGRAM.format(limits), given)
        self.lines: list[dict[str, Any]] = []
        self.other: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.other.append(line.decode())

    def said(self, text: str) -> bool:
        return any(text in line["message"] for line in list(self.lines))

    def wait_for(self, what: str | Callable[[], bool]) -> None:
        """Return when a log line holds a text, or a condition is met, at the latest in three minutes."""
        met = (lambda: self.said(what)) if isinstance(what, str) else what
        until = time.monotonic() + WAIT_SECONDS
        while not met():
            assert self.process.poll() is None, self.told()
            assert time.monotonic() < until, f"{what} did not come: {self.told()}"
            time.sleep(0.02)

    def told(self) -> str:
        return "\n".join([*map(str, self.lines), *self.other])

    def end(self, number: int | None = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit code. None only waits."""
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=WAIT_SECONDS)
        self._reading.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def metrics(self) -> dict[str, float]:
        """Return what /metrics says: {"name{labels}": value}."""
        lines = self.get("/metrics")[1].splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def get(self, path: str) -> tuple[int, str]:
        (address,) = [line["metrics"] for line in self.lines if line.get("event") == "start"]
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@contextmanager
def working(topic: Topic, *options: object) -> Iterator[WorkerProcess]:
    """Start a worker; in the end it is killed if it still runs."""
    worker = WorkerProcess(topic, *options)
    try:
        yield worker
    finally:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.end(None)


def finish(topic: Topic, *options: object) -> WorkerProcess:
    """Have a worker do what is left, to the topic's end."""
    with working(topic, "--until-end", *options) as worker:
        code = worker.end(None)
    assert code == 0, worker.told()
    assert not worker.other, worker.told()
    return worker


def messages(pages: Sequence[tuple[int, int]], first: int = 0) -> list[Message]:
    """Return a message for each (content, copy), with the URL as its key."""
    return [
        Message(pagestream.url(*page).encode(), pagestream.value(*page), (("n", b"%d" % number),))
        for number, page in enumerate(pages, first)
    ]


class Done(NamedTuple):
    """What the three outputs of a topic hold."""

    unique: list[Message]
    duplicates: list[Message]
    dead: list[Message]


def outcome(topic: Topic) -> Done:
    return Done(*(read(topic.bootstrap, n) for n in (topic.unique, topic.duplicates, topic.dead)))


def wrongs(given: Sequence[Message], done: Done) -> list[str]:
    """Return what is wrong with the outputs of a page stream, in sentences. Repeats are allowed."""
    found = []
    values = {message.key: message.value for message in given}
    seen = {message.key for message in (*done.unique, *done.duplicates)}
    if missing := values.keys() - seen:
        found.append(f"in no output: {sorted(missing)[:5]} and others, {len(missing)} in all")
    if strange := seen - values.keys():
        found.append(f"nobody wrote {strange}")
    if done.dead:
        found.append(f"dead letters: {[m.headers for m in done.dead[:3]]}")
    found += [
        f"{message.key} was changed"
        for message in (*done.unique, *done.duplicates)
        if values.get(message.key) != message.value
    ]
    accepted = {message.key.decode() for message in done.unique if message.key}
    for message in done.duplicates:
        assert message.key is not None
        key, of = message.key.decode(), message.header("dedup.of")
        if of not in accepted:
            found.append(f"{key} was dropped for {of}, which was never accepted")
        elif of == key:
            found.append(f"{key} was dropped as its own duplicate")
        elif pagestream.content_of(of) != pagestream.content_of(key):
            found.append(f"{key} was dropped for {of}, which is another content")
    contents = {pagestream.content_of(m.key.decode()) for m in given if m.key}
    if lost := contents - {pagestream.content_of(key) for key in accepted}:
        found.append(f"contents of which no page is unique: {sorted(lost)}")
    return found
