"""Kafka: one supervised wrapper around aiokafka, used by service, worker and spiders.

    login             where the brokers are and how to log in; parsed once
    supervision       start with back-off, stop within a bound
    topics            the log's topic: created with compaction, or checked; its identity
    writer            writes records; each is acknowledged by all in-sync replicas, or an error
    partition_reader  reads partitions from given offsets; knows when Kafka is away
    group             reads as a member of a consumer group

The rule kept here: nothing waits for Kafka without a bound or a way to be cancelled, and Kafka being
away is a state that callers see, not an end. aiokafka is imported when a connection is made.
"""

from dedup.wire.kafka.login import KafkaConfig, kafka_config
from dedup.wire.kafka.partition_reader import Reader, Record
from dedup.wire.kafka.supervision import KafkaUnavailable, LogLost, TopicUnfit
from dedup.wire.kafka.topics import Topic, describe_topic, ensure_topic
from dedup.wire.kafka.writer import Writer

__all__ = [
    "KafkaConfig",
    "KafkaUnavailable",
    "LogLost",
    "Reader",
    "Record",
    "Topic",
    "TopicUnfit",
    "Writer",
    "describe_topic",
    "ensure_topic",
    "kafka_config",
]
