"""The door to Kafka: one supervised wrapper around aiokafka, used by service, worker and spiders.

    config      where the brokers are and how to log in; parsed once
    supervision start with backoff, stop within a bound
    topics      the log's topic: made with compaction, or checked; who it is
    writer      records out; every one acknowledged by all replicas in sync, or an error
    reader      every partition in, from given offsets; knows when Kafka is away

The rule kept here: nothing waits for Kafka without a bound or a way to be cancelled, and Kafka being
away is a state that is told, not an end. aiokafka is imported when a connection is made.
"""

from dedup.wire.kafka.login import KafkaConfig, kafka_config
from dedup.wire.kafka.reader import Reader, Record
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
