"""The Kafka of the tests is a real one, and can be killed."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from broker import Cluster, brokers_answering


def test_a_broker_answers(kafka: str) -> None:
    assert brokers_answering(kafka) >= 1


def test_a_killed_broker_comes_back_with_what_it_acknowledged(one_broker: Cluster) -> None:
    async def write() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=one_broker.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic("kept", 1, 1)])
        await admin.close()
        async with AIOKafkaProducer(
            bootstrap_servers=one_broker.bootstrap, acks="all", request_timeout_ms=60_000
        ) as producer:
            await producer.send_and_wait("kept", b"value")

    async def read() -> bytes:
        async with AIOKafkaConsumer(
            "kept", bootstrap_servers=one_broker.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            return (await asyncio.wait_for(consumer.getone(), 120)).value

    asyncio.run(write())
    one_broker.kill()
    assert brokers_answering(one_broker.bootstrap) == 0
    one_broker.start()
    assert asyncio.run(read()) == b"value"
