"""Create or check the topics that are used, and identify them.

Invariant: nothing is read or written before the topic is known to keep its records. A topic that
deletes by age would silently lose documents, so it is refused.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from dedup.wire.kafka.login import KafkaConfig, KafkaUnavailable, TopicUnfit, described, ended

PARTITIONS = 8  # of a new log; their number cannot change later: it decides where a key is
BROKER_DEFAULT = -1  # of the replication factor
READY_SECONDS = 15.0
MISSING_SECONDS = 5.0

_UNKNOWN_TOPIC, _TOPIC_EXISTS, _AUTHORIZATION = 3, 36, frozenset({29, 30, 31})

log = logging.getLogger(__name__)


class Topic(msgspec.Struct, frozen=True):
    """The identity of a topic.

    cluster_id  of the Kafka cluster
    partitions  their number
    leaders     how many of them have a leader now
    replicas    the least number of brokers that one of them is kept by; 0: not known
    """

    name: str
    cluster_id: str
    partitions: int
    leaders: int
    replicas: int = 0


async def describe_topic(config: KafkaConfig, name: str | None = None) -> Topic | None:
    """Return the cluster's description of a topic (default: the log's); None if there is none.

    A broker that has just started may not know its topics yet: a topic is missing only after
    MISSING_SECONDS. Raises KafkaUnavailable, and TopicUnfit if this user may not see it.
    """
    name = name or config.topic
    until = time.monotonic() + MISSING_SECONDS
    async with _admin(config) as admin:
        while (  # noqa: ASYNC110  (Kafka has no such event)
            topic := await _describe(admin, name)
        ) is None and time.monotonic() < until:
            await asyncio.sleep(0.5)
        return topic


async def ensure_topic(
    config: KafkaConfig,
    name: str | None = None,
    *,
    partitions: int = PARTITIONS,
    compact: bool = True,
    replication: int | None = None,
    settings: dict[str, str] | None = None,
) -> Topic:
    """Return a topic (default: the log's), created if it is missing.

    partitions, replication and settings (topic configuration) are for a topic that is created. One
    that exists is checked: a log (compact=True) must have cleanup.policy compact.

    Raises KafkaUnavailable, and TopicUnfit saying what to do.
    """
    name = name or config.topic
    async with _admin(config) as admin:
        topic = await _describe(admin, name)
        is_new = topic is None
        if is_new:
            configs = ({"cleanup.policy": "compact"} if compact else {}) | (settings or {})
            await _create(admin, name, partitions, replication, configs, compact=compact)
        if compact:
            await _check(admin, name)
        ready = await _ready(admin, name)
        if is_new and ready.replicas == 1:
            log.warning(
                "created the topic %s with one replica, Kafka's default: its records are on the disk of one "
                "broker only. With several brokers, create it beforehand with three",
                name,
            )
        return ready


@asynccontextmanager
async def _admin(config: KafkaConfig) -> AsyncIterator[Any]:
    """Yield aiokafka's admin client, with a time limit; its failures become KafkaUnavailable."""
    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.errors import KafkaError

    client = AIOKafkaAdminClient(**config.options())
    try:
        try:
            async with asyncio.timeout(config.request_timeout_seconds * 3):
                await client.start()
                yield client
        finally:
            await ended(client.close(), "closing the connection to Kafka")
    except (KafkaError, OSError, TimeoutError) as error:
        login = " or refuses the login" if config.protocol != "PLAINTEXT" else ""
        raise KafkaUnavailable(
            f"Kafka at {','.join(config.bootstrap)} does not answer{login}: {described(error)}"
        ) from error


async def _describe(admin: Any, name: str) -> Topic | None:
    from aiokafka.protocol.metadata import MetadataRequest

    client = admin._client  # noqa: SLF001 - describe_topics() says nothing of the cluster
    request = MetadataRequest([name], allow_auto_topic_creation=False)
    answer = (await client.send(client.get_random_node(), request)).to_object()
    topic = answer["topics"][0]
    if topic["error_code"] == _UNKNOWN_TOPIC:
        return None
    if topic["error_code"] in _AUTHORIZATION:
        raise TopicUnfit(f"Kafka does not let this user see the topic {name!r}: grant it Describe")
    partitions = topic["partitions"]
    leaders = sum(each["leader"] >= 0 for each in partitions)
    copies = min((len(each["replicas"]) for each in partitions), default=0)
    return Topic(name, answer["cluster_id"] or "", len(partitions), leaders, copies)


async def _create(
    admin: Any,
    name: str,
    partitions: int,
    replication: int | None,
    configs: dict[str, str],
    *,
    compact: bool,
) -> None:
    from aiokafka.admin import NewTopic
    from aiokafka.errors import for_code

    new = NewTopic(name, partitions, 1, topic_configs=configs)
    new.replication_factor = replication or BROKER_DEFAULT  # a value that its constructor refuses
    answer = await admin.create_topics([new])
    for _, code, *message in answer.topic_errors:
        if code in _AUTHORIZATION:
            raise TopicUnfit(
                f"Kafka has no topic {name!r} and does not let this user create it: have it created with "
                "`kafka-topics.sh --bootstrap-server ... --create --topic "
                f"{name} --partitions {partitions}{' --config cleanup.policy=compact' * compact}`"
            )
        if code not in {0, _TOPIC_EXISTS}:  # another process may have created it
            raise TopicUnfit(
                f"Kafka did not create the topic {name!r}: {for_code(code).__name__} "
                f"({message[0] if message else ''})"
            )


async def _check(admin: Any, name: str) -> None:
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    resource = ConfigResource(ConfigResourceType.TOPIC, name, {"cleanup.policy": None})
    until = time.monotonic() + READY_SECONDS
    while True:
        (answer,) = await admin.describe_configs([resource])
        code, _message, _type, _name, entries = answer.resources[0][:5]
        if code != _UNKNOWN_TOPIC or time.monotonic() > until:
            break
        await asyncio.sleep(0.1)  # just created: not every broker knows it
    if code in _AUTHORIZATION:
        return  # this user may not see it; docs/use/kafka.md asks the operator to check it
    policies = [entry[1] for entry in entries if entry[0] == "cleanup.policy"]
    if policies and "compact" not in policies[0].split(","):
        raise TopicUnfit(
            f"the topic {name!r} has cleanup.policy={policies[0]}: it would forget documents by "
            "their age. Set it with `kafka-configs.sh --bootstrap-server ... --alter --entity-type "
            f"topics --entity-name {name} --add-config cleanup.policy=compact`"
        )


async def _ready(admin: Any, name: str) -> Topic:
    """Return the topic once each of its partitions has a leader."""
    until = time.monotonic() + READY_SECONDS
    while True:
        topic = await _describe(admin, name)
        if topic is not None and topic.partitions and topic.leaders == topic.partitions:
            return topic
        if time.monotonic() > until:
            raise KafkaUnavailable(f"partitions of the topic {name!r} have no leader")
        await asyncio.sleep(0.1)
