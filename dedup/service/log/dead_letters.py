"""Records that are no events, on their way to the dead-letter topic.

    record and fault -> letter -> sent, each by itself -> too large? without its value -> its headers too

The rule kept here: a letter is sent until Kafka acknowledges it, and not again after that. What no
topic takes as it is becomes smaller: where it stands in the log is always said.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from dedup.wire.kafka import KafkaConfig, Writer
from dedup.wire.kafka.writer import Outgoing, TooLarge

__all__ = ["Letter", "bury"]

MESSAGE_BYTES = 1000  # of what a dead letter says is wrong


class Letter(NamedTuple):
    """A record that is no event, what is wrong with it, and how much of it is left out.

    left_out  0: nothing; 1: its value; 2: its key and its own headers, too
    """

    partition: int
    record: Any
    error: Exception
    left_out: int = 0


async def bury(writer: Writer, config: KafkaConfig, letters: Sequence[Letter]) -> list[Letter]:
    """Send letters; return those that Kafka has not acknowledged, to be sent again."""
    left = list(letters)
    while left:
        sent = await asyncio.gather(
            *(writer.send_many([outgoing(config, each)]) for each in left), return_exceptions=True
        )
        failed = [(each, result) for each, result in zip(left, sent, strict=True)
                  if isinstance(result, BaseException)]  # fmt: skip
        too_large = [each for each, fault in failed if isinstance(fault, TooLarge)]
        if len(too_large) < len(failed) or any(each.left_out == 2 for each in too_large):
            return [_smaller(e) if isinstance(f, TooLarge) else e for e, f in failed]
        left = [_smaller(each) for each in too_large]
    return []


def _smaller(letter: Letter) -> Letter:
    return letter._replace(left_out=min(2, letter.left_out + 1))


def outgoing(config: KafkaConfig, letter: Letter, stage: str = "decode") -> Outgoing:
    """Return a letter as a record for the dead letters.

    Headers, besides the record's own:

        dedup.error.topic, dedup.error.partition, dedup.error.offset   where it was read
        dedup.error.stage                                              decode
        dedup.error.class, dedup.error.message                         what is wrong with it
        dedup.error.value_bytes                                        of a value that was left out

    Key and value are unchanged, unless the letter is too large. Each replica writes its own copy: topic,
    partition and offset identify copies of one record.
    """
    record, error = letter.record, letter.error
    headers = {
        "topic": config.topic,
        "partition": str(letter.partition),
        "offset": str(record.offset),
        "stage": stage,
        "class": type(error).__name__,
        "message": str(error),
    }
    if letter.left_out:
        headers["value_bytes"] = str(len(record.value or b""))
    added = [
        (f"dedup.error.{name}", text.encode(errors="replace")[:MESSAGE_BYTES])
        for name, text in headers.items()
    ]
    own = () if letter.left_out == 2 else tuple(record.headers or ())
    return Outgoing(
        None if letter.left_out == 2 else record.key,
        None if letter.left_out else record.value,
        (*own, *added),
        config.dead_letters,
        partition=0,
    )
