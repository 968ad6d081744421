"""Events that a service applies: a Kafka topic of documents, read from its beginning by a new `dedup serve`.

Invariants: the CPU time is that of the service's whole process from its start until all is applied, less that of a
service whose topic has a thousand events.
"""

import asyncio
import os
import random
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

from broker import Cluster
from runner import DISTANCE, Bench, case, number
from service_costs import WAIT_SECONDS, Connection, cpu_seconds, serving
from store_costs import NAMESPACE, page_of

from dedup.model.events import encode
from dedup.model.page import Document
from dedup.wire.kafka import KafkaConfig, Outgoing, Writer, ensure_topic, kafka_config

FEW = 1000


@case("events", number("events", 400_000, "Number of events."), DISTANCE, rounds=3, events=5_000)
def command(events, distance):
    """Time how a service applies a Kafka topic of documents: CPU time from its start until it has all.

    On a Kafka that is started for it, or the one of KAFKA_BOOTSTRAP_SERVERS.
    """
    rng = random.Random(1)
    values = [rng.getrandbits(64) for _ in range(FEW + events)]
    with ExitStack() as stack:
        bootstrap = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
        bootstrap = bootstrap or stack.enter_context(Cluster()).bootstrap
        configs = []
        for some in (values, values[:FEW]):
            config = kafka_config(bootstrap, f"dedup-bench-{uuid.uuid4()}", environ={})
            asyncio.run(_write(config, some))
            configs.append((config, len(some)))

        def measure():
            all_of_them, few = (_cpu(*config, distance) for config in configs)
            seconds = max(all_of_them - few, 1e-9)
            return {
                "events applied": {"a CPU second": events / seconds, "us": seconds / events * 1e6}
            }

        yield Bench({"events": events, "distance": distance}, measure, ("aiokafka",))


async def _write(config: KafkaConfig, values: list[int]) -> None:
    await ensure_topic(config)
    async with Writer(config) as writer:
        for first in range(0, len(values), 10_000):
            some = enumerate(values[first : first + 10_000], first)
            await writer.send_many(
                [Outgoing(*encode(NAMESPACE, _document(*each))) for each in some]
            )


def _document(number: int, value: int) -> Document:
    return Document(f"http://example.com/articles/{number}", page_of(value))


def _cpu(config: KafkaConfig, count: int, distance: int) -> float:
    """Return the CPU time of a new service until it has applied all events of a topic."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(
            Path(folder), distance, "--kafka", ",".join(config.bootstrap), "--topic", config.topic
        ) as (process, port),
    ):
        connection = Connection(port)
        try:
            deadline = time.monotonic() + WAIT_SECONDS
            while f"documents:{count}\r\n" not in (
                said := connection.ask([("DEDUP.INFO", NAMESPACE)])[0].decode()
            ):
                if time.monotonic() > deadline:
                    raise OSError(f"a service has not applied {count:,} events: {said}")
                time.sleep(0.05)
            return cpu_seconds(process)
        finally:
            connection.close()
