"""Records that are no events, as they are written to the dead-letter topic <topic>.dlq.

Headers, besides the record's own:

    dedup.error.topic, dedup.error.partition, dedup.error.offset   where it was read
    dedup.error.stage                                              decode
    dedup.error.class, dedup.error.message                         what is wrong with it

The rule kept here: key and value are unchanged. Each replica writes its own copy: topic, partition and
offset identify copies of one record.
"""

from collections.abc import Sequence
from typing import Any

from dedup.wire.kafka import KafkaConfig
from dedup.wire.kafka.writer import Outgoing

__all__ = ["dead_letters"]

MESSAGE_BYTES = 1000


def dead_letters(
    config: KafkaConfig, bad: Sequence[tuple[int, Any, Exception]], stage: str = "decode"
) -> list[Outgoing]:
    """Return (partition, record, fault) as records for the dead letters."""
    made = []
    for partition, record, error in bad:
        headers = {
            "topic": config.topic,
            "partition": str(partition),
            "offset": str(record.offset),
            "stage": stage,
            "class": type(error).__name__,
            "message": str(error),
        }
        added = [
            (f"dedup.error.{name}", text.encode(errors="replace")[:MESSAGE_BYTES])
            for name, text in headers.items()
        ]
        own = tuple(record.headers or ())
        made.append(
            Outgoing(record.key, record.value, (*own, *added), config.dead_letters, partition=0)
        )
    return made
