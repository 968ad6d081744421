"""Replicas and brokers that are killed, stopped and cut off: nothing acknowledged is missing anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap

import pytest
from broker import Cluster
from logs import (
    document,
    drained,
    following,
    held,
    inserts,
    log_config,
    reached,
    read,
    replayed,
    tombstone,
    until,
    until_drained,
    write,
)

from dedup.service.replica import SERVING, Phase
from dedup.store.verify import verify_store
from dedup.wire.kafka import KafkaUnavailable, Writer, ensure_topic

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # conftest.py, one_broker

ROUNDS = int(os.environ.get("SOAK_BROKER_ROUNDS", "1"))  # of killing a broker

FOLLOWER = """
    import asyncio, sys
    from pathlib import Path
    from dedup.wire.kafka import kafka_config
    from dedup.service import replica
    from dedup.service import replica as checkpoint
    from dedup.service.core.namespaces import Namespaces
    replica.CATCHING_UP_RECORDS = replica.SERVING_RECORDS = 100
    checkpoint.MANIFEST_SECONDS = 0.05
    path = Path(sys.argv[3])

    async def main():
        namespaces = Namespaces(path)
        view = replica.Replica(kafka_config(sys.argv[1], sys.argv[2], environ={}), namespaces, path)
        await view.prepare()
        namespaces.open_all()
        running = asyncio.ensure_future(view.run())
        while not running.done():
            print(sum(view.counts.values()), flush=True)
            await asyncio.sleep(0.01)
        running.result()

    asyncio.run(main())
"""


def test_a_replica_killed_in_the_middle_of_batches_loses_and_doubles_nothing(kafka, tmp_path):
    """kill -9 at any moment: afterwards it holds exactly what the log says."""
    config = log_config(kafka)
    rng = random.Random(6)
    records = inserts(rng.choices(range(3000), k=4000)) + inserts(range(500), "other")
    records += [tombstone(i) for i in range(0, 3000, 11)]
    rng.shuffle(records)
    command = [sys.executable, "-c", textwrap.dedent(FOLLOWER)]
    command += [config.bootstrap[0], config.topic, str(tmp_path)]
    for turn in range(3):
        asyncio.run(write(config, records[turn::4]))
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            limit = rng.randrange(100, 900)  # of more than a thousand
            for line in child.stdout:
                if int(line) >= limit and child.poll() is None:
                    child.send_signal(signal.SIGKILL)
        assert child.returncode == -signal.SIGKILL

    async def main():
        await write(config, records[3::4])
        counts = await drained(config, tmp_path)
        assert counts["inserted"] > 0
        assert held(tmp_path) == replayed(await read(config))

    asyncio.run(main())
    for namespace in ("news", "other"):
        assert verify_store(tmp_path, namespace).problems == []


class Producing:
    """Writes events one small batch after another, again until Kafka acknowledges them."""

    def __init__(self, config) -> None:
        self._config = config
        self.acknowledged: set[int] = set()
        self.refused = 0
        self._task = None

    async def __aenter__(self):
        self._stop = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(self, *_):
        self._stop.set()
        await asyncio.wait_for(self._task, 120)

    async def _run(self) -> None:
        async with Writer(self._config) as writer:
            number = 0
            while not self._stop.is_set():
                batch = range(number, number + 20)
                try:
                    await writer.send_many(inserts(batch))
                except KafkaUnavailable:
                    self.refused += 1
                    await asyncio.sleep(0.1)
                    continue
                self.acknowledged.update(batch)
                number += 20
                await asyncio.sleep(0.01)


def quick(config):
    """With a broker away, to wait two seconds for an acknowledgement is long enough."""
    import msgspec

    return msgspec.structs.replace(config, request_timeout_seconds=2.0)


@contextlib.asynccontextmanager
async def under_load(brokers, tmp_path):
    """Yield configuration, two replicas that follow a log, and who produces to it."""
    config = quick(log_config(brokers.bootstrap))
    await ensure_topic(config, partitions=3)
    async with (
        following(config, tmp_path / "a") as one,
        following(config, tmp_path / "b") as two,
        Producing(config) as producing,
    ):
        await until(lambda: one.ready and two.ready and producing.acknowledged)
        yield config, one, two, producing


async def test_a_broker_killed_under_load_takes_nothing_acknowledged_with_it(one_broker, tmp_path):
    """Two replicas serve what they have meanwhile, say so, and are equal once drained."""
    async with under_load(one_broker, tmp_path) as (config, one, two, producing):
        first = document(min(producing.acknowledged)).key
        await until(lambda: (view := one.views.get("news")) is not None and view.get(first))
        for _ in range(ROUNDS):
            await asyncio.to_thread(one_broker.kill)
            await until(lambda: one.state().status == two.state().status == "stale")
            assert "Kafka has not answered" in one.state().reason
            assert one.ready
            assert one.state().away_seconds > 0
            number = min(producing.acknowledged)
            found = one.views.get("news").reserve(document(number).page, "copy")
            assert found.of == document(number).key  # served on
            before = len(producing.acknowledged)
            await asyncio.to_thread(one_broker.start)
            await until(lambda: len(producing.acknowledged) > before)  # noqa: B023
            await until(lambda: one.state().status == two.state().status == "current")
        producing._stop.set()
        await producing._task
        assert producing.refused
        await until_drained(one)
        await until_drained(two)
    await check_equal(config, tmp_path, producing.acknowledged)


async def check_equal(config, tmp_path, acknowledged: set[int]) -> None:
    """Both replicas hold what the log says, and that is at least what was acknowledged."""
    expected = replayed(await read(config))
    assert held(tmp_path / "a") == held(tmp_path / "b") == expected
    assert {document(i).key for i in acknowledged} <= expected["news"].keys()


async def test_a_leaders_death_among_three_brokers_is_survived(three_brokers, tmp_path):
    """One after another is killed under load; acknowledged records and readers go on with the others."""
    async with under_load(three_brokers, tmp_path) as (config, one, two, producing):
        for number in range(1, min(3, ROUNDS + 1) + 1):
            await asyncio.to_thread(three_brokers.kill, number)
            before = len(producing.acknowledged)
            await until(lambda: len(producing.acknowledged) > before + 100)  # noqa: B023
            await asyncio.to_thread(three_brokers.start, number)
        producing._stop.set()
        await producing._task
        await until_drained(one)
        await until_drained(two)
    await check_equal(config, tmp_path, producing.acknowledged)


async def test_a_replica_ends_within_seconds_while_kafka_is_away(one_broker: Cluster, tmp_path):
    """With its manifest written; and one that never found Kafka ends as well."""
    config = quick(log_config(one_broker.bootstrap))
    await write(config, inserts(range(10)))
    async with contextlib.AsyncExitStack() as stack:
        replica = await stack.enter_async_context(following(config, tmp_path))
        await until_drained(replica)
        await reached(replica, *SERVING)
        one_broker.kill()
        await reached(replica, Phase.STALE)
    assert len(held(tmp_path)["news"]) == 10
    starting = asyncio.ensure_future(drained(config, tmp_path))
    await asyncio.sleep(1.0)
    starting.cancel()
    await asyncio.wait({starting}, timeout=120)
    assert starting.cancelled()
    await asyncio.to_thread(one_broker.start)
    assert await drained(config, tmp_path) == {}


async def test_a_full_disk_stops_the_view_and_not_the_service(kafka, tmp_path):
    """It says so, probes go on, and with room again it goes on where it was."""
    config = log_config(kafka)
    await write(config, inserts(range(50)))
    async with following(config, tmp_path) as replica:
        await reached(replica, *SERVING)
        detector = replica.views.get("news")
        documents = detector._store._documents
        sound, full = documents.change, OSError(28, "No space left on device", "documents.mdb")

        def refuse(*_):
            raise full

        documents.change = refuse
        await write(config, inserts(range(50, 60)))
        await reached(replica, Phase.STALE)
        assert "No space left on device" in replica.state().reason
        assert replica.ready
        assert detector.reserve(document(5).page, "copy").of == document(5).key
        documents.change = sound
        await until_drained(replica)
    assert held(tmp_path) == replayed(await read(config))
