"""Kafka: a supervised layer over aiokafka, used by the service, the worker and spiders.

    login        where the brokers are, how to log in; start with back-off, stop within a bound; the errors
    topics       create the topics or check them; identify the log
    writer       write records, each acknowledged by all in-sync replicas
    reader       read partitions from given offsets, detect that Kafka is away; read as a member of a consumer group

Invariants: nothing waits for Kafka without a timeout or a way to be cancelled; Kafka being away is a
state that callers see, not an end. aiokafka is imported when a connection is made.
"""

from dedup.wire.kafka.login import (
    KafkaConfig,
    KafkaUnavailable,
    LogLost,
    RecordRefused,
    TopicUnfit,
    kafka_config,
)
from dedup.wire.kafka.reader import Reader
from dedup.wire.kafka.topics import Topic, describe_topic, ensure_topic
from dedup.wire.kafka.writer import Outgoing, Writer

__all__ = [
    "KafkaConfig",
    "KafkaUnavailable",
    "LogLost",
    "Outgoing",
    "Reader",
    "RecordRefused",
    "Topic",
    "TopicUnfit",
    "Writer",
    "describe_topic",
    "ensure_topic",
    "kafka_config",
]
