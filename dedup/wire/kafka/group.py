"""A member of a consumer group: records of one topic, shared with the group's other members.

    start -> (assigned) -> poll, poll, ... -> commit -> (revoked: the owner finishes) -> stop

Invariants:
  - Only the owner commits offsets, once the records before them are processed.
  - When partitions go to another member, `epoch` changes first, then the owner is asked to finish:
    records of an older epoch are not the owner's any more, and the new member reads them again.
  - Nothing waits for a broker without a bound; is_stalled() tells a member that makes no progress
    although there are records to read, so that its owner can replace it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    CorruptRecordException,
    IllegalStateError,
    KafkaError,
)

from dedup.wire.kafka.login import KafkaConfig, ended
from dedup.wire.kafka.reader import read_leniently

log = logging.getLogger("dedup.wire.kafka")

Places = dict[tuple[str, int], int]

CALL_SECONDS = 5.0  # a commit, or a question to the broker
STOP_SECONDS = 10.0
SESSION_SECONDS = 10.0  # without a heartbeat, until the group takes a member for dead
POLL_SECONDS = 86_400.0  # the owner detects stalls itself: a waiting member keeps its partitions
REBALANCE_SECONDS = 60.0
FETCH_BYTES = 16 << 20
PARTITION_BYTES = 2 << 20


class Member:
    """One member. All methods are to be called on one event loop."""

    def __init__(
        self,
        config: KafkaConfig,
        group: str,
        *,
        instance: str | None = None,
        earliest: bool = True,
        session_seconds: float = SESSION_SECONDS,
        finish: Callable[[], Awaitable[None]],
    ) -> None:
        """Make a member.

        config      where the brokers are, and the topic
        instance    name of a static member: restarted within session_seconds it gets its partitions
                    back at once, without a rebalance
        earliest    where a group without offsets begins: at the first record, or after the last one
        finish      called when partitions are taken away: the owner finishes its batch, or drops it
        """
        self.topic = config.topic
        self.epoch = 0
        self._finish = finish
        self._read = time.monotonic()
        read_leniently()
        self._consumer = AIOKafkaConsumer(
            **config.options(),
            group_id=group,
            group_instance_id=instance,
            enable_auto_commit=False,
            auto_offset_reset="earliest" if earliest else "latest",
            isolation_level="read_committed",
            session_timeout_ms=round(session_seconds * 1000),
            heartbeat_interval_ms=round(session_seconds * 1000 / 4),
            rebalance_timeout_ms=round(REBALANCE_SECONDS * 1000),
            max_poll_interval_ms=round(POLL_SECONDS * 1000),
            fetch_max_bytes=FETCH_BYTES,
            max_partition_fetch_bytes=PARTITION_BYTES,
        )
        self._consumer.subscribe([config.topic], listener=_Listener(self))

    async def start(self) -> None:
        """Connect and join. Raises KafkaError if no broker answers."""
        await self._consumer.start()
        self._read = time.monotonic()

    async def poll(self, seconds: float, records: int) -> list[Any]:
        """Return at most this many records, in order within a partition; [] after the timeout.

        They belong to the epoch at the time of the return. Raises KafkaError; after
        CorruptRecordException, a record that cannot be read, this member may have lost its position:
        replace it.
        """
        try:
            found = await self._consumer.getmany(
                timeout_ms=round(seconds * 1000), max_records=records
            )
        except UnicodeDecodeError as error:  # of a header's name, in aiokafka's C code
            raise CorruptRecordException(f"a header's name is no UTF-8 ({error})") from error
        if found:
            self._read = time.monotonic()
        return [record for part in found.values() for record in part]

    async def commit(self, offsets: Places) -> bool:
        """Commit the next offsets; False if that failed: those records may be read again."""
        mine = self._consumer.assignment()
        named = {TopicPartition(*place): offset for place, offset in offsets.items()}
        named = {place: offset for place, offset in named.items() if place in mine}
        if not named:
            return False
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._consumer.commit(named)
        except (CommitFailedError, IllegalStateError) as error:
            log.info("offsets were not committed, the group has changed: %s", error)
        except (KafkaError, TimeoutError) as error:
            log.warning("offsets were not committed: %s", _say(error))
        else:
            return True
        return False

    def assigned(self) -> list[int]:
        """Return the partitions this member has."""
        return sorted(place.partition for place in self._consumer.assignment())

    async def ends(self) -> Places:
        """Return the end offset of each partition this member has, asked of the broker now.

        Raises KafkaError or TimeoutError if it does not answer.
        """
        places = self._consumer.assignment()
        if not places:
            return {}
        found = await _answer(self._consumer.end_offsets(places))
        return {(p.topic, p.partition): end for p, end in found.items()}

    async def positions(self) -> Places:
        """Return the next offset to be read of each partition this member has.

        Raises KafkaError or TimeoutError where the broker has to be asked and does not answer.
        """
        return {
            (place.topic, place.partition): await _answer(self._consumer.position(place))
            for place in self._consumer.assignment()
        }

    async def standing(self) -> dict[tuple[str, int], tuple[int | None, int]]:
        """Return what the group committed for each partition, if anything, and where it begins.

        Raises KafkaError or TimeoutError if the broker does not answer.
        """
        places = self._consumer.assignment()
        if not places:
            return {}
        first = await _answer(self._consumer.beginning_offsets(places))
        return {
            (place.topic, place.partition): (
                await _answer(self._consumer.committed(place)),
                begin,
            )
            for place, begin in first.items()
        }

    def seek(self, place: tuple[str, int], offset: int) -> None:
        """Read a partition on from an offset, if it is this member's."""
        wanted = TopicPartition(*place)
        if wanted in self._consumer.assignment():
            self._consumer.seek(wanted, offset)

    def ends_seen(self) -> Places:
        """Return the end offset of each partition as the last fetch told it; no request is sent."""
        found = {}
        for place in self._consumer.assignment():
            end = self._consumer.last_stable_offset(place)
            if end is not None and end >= 0:
                found[place.topic, place.partition] = end
        return found

    async def is_stalled(self, seconds: float) -> bool:
        """Whether nothing was read for this long although there are records to read.

        Raises KafkaError or TimeoutError if the broker does not answer.
        """
        if time.monotonic() - self._read < seconds:
            return False
        ends, positions = await self.ends(), await self.positions()
        unread = any(positions[place] < end for place, end in ends.items() if place in positions)
        return unread and time.monotonic() - self._read >= seconds

    async def stop(self) -> None:
        """Leave the group, within a bound."""
        await ended(self._consumer.stop(), "leaving the group", STOP_SECONDS)


async def _answer(asked: Awaitable[Any]) -> Any:
    try:
        async with asyncio.timeout(CALL_SECONDS):
            return await asked
    except TimeoutError:
        raise TimeoutError(f"Kafka did not answer within {CALL_SECONDS:g} s") from None


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: Member) -> None:
        self._member = member

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._member.epoch += 1
        if revoked:
            await self._member._finish()  # noqa: SLF001

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        partitions = sorted(place.partition for place in assigned)
        log.info("partitions of %s: %s", self._member.topic, partitions or "none")


def _say(error: BaseException) -> str:
    return str(error) or type(error).__name__
