"""Read partitions of a topic from given offsets, without a consumer group; or as a member of one (GroupMember, below).

    async with Reader(config, topic, {0: 17, 1: 4}) as reader:
        while ...:
            records = await reader.batch()     at most a second, at most 10,000 records

Invariants: batch() returns the records of a partition in order and without a gap; an offset that the
log has lost is LogLost, never a silent jump. While Kafka is away batch() returns nothing and `alive` is
False, which aiokafka alone does not report; nor is it alive while a record cannot be read, which is never skipped.
A consumer that makes no progress although there are records to read is replaced.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Self
from zlib import crc32

from dedup.wire.kafka.login import STOP_SECONDS, KafkaConfig, LogLost, described, ended, started
from dedup.wire.kafka.topics import Topic, describe_topic

COMMITTED: dict[str, Any] = {"enable_auto_commit": False, "isolation_level": "read_committed"}
RECORDS = 10_000  # of one batch
FETCH_BYTES = 8 << 20
WATCH_SECONDS = 1.0  # between two checks of an idle log
ASK_SECONDS = 5.0  # that a broker has to answer one
STALL_SECONDS = 20.0  # without a record although there are some
IDENTITY_SECONDS = 5.0  # between two checks that it is the same topic

MOVE = (
    "--rebuild would lose documents. Write the stores to a new topic (dedup store produce), and start over "
    "from that one: docs/use/kafka.md"
)  # the advice where partitions were added

log = logging.getLogger(__name__)


class RecordMark(NamedTuple):
    """A record that was read: another one at its offset means that this is another log."""

    offset: int
    timestamp_ms: int
    checksum: int

    @classmethod
    def of(cls, record: Any) -> "RecordMark":
        """Return the mark of aiokafka's ConsumerRecord."""
        content = crc32(record.value or b"", crc32(record.key or b""))
        return cls(record.offset, record.timestamp, content)


class Reader:
    """Reads a topic's partitions by assign and seek.

    positions  {partition: next offset} after what batch() has returned
    ends       {partition: end offset}, as Kafka last said
    last       {partition: the last record that batch() has returned}
    away       whether Kafka does not answer
    """

    def __init__(
        self,
        config: KafkaConfig,
        topic: Topic,
        positions: Mapping[int, int] | None = None,
        *,
        records: int = RECORDS,
        changed: Callable[[], None] = lambda: None,
        last: Mapping[int, RecordMark] | None = None,
    ) -> None:
        """Partitions that are not in positions are read from the log's beginning.

        changed() is called when `alive` has changed. last are the records that were read last before positions: start() verifies that the log
        still has them.
        """
        self._config = config
        self._topic = topic
        self._records = records
        self.positions = dict(positions or {})
        self.ends: dict[int, int] = {}
        self.last = dict(last or {})
        self.away = True
        self.uncommitted = 0  # records of open transactions, as last heard
        self._changed = changed
        self._heard = 0.0  # the monotonic clock when Kafka last answered
        self._consumer: Any = None
        self._watch: asyncio.Task[None] | None = None
        self._fault: LogLost | None = None
        self._unreadable = ""  # why a record cannot be read
        self._moved = 0.0
        self._identified = 0.0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Connect, with retries. Raises LogLost."""
        what = f"reading {self._topic.name}"
        self._consumer = await started(self._made, what, config=self._config)
        self._hear()
        self._moved = self._identified = time.monotonic()
        self._watch = asyncio.create_task(self._watching())

    def limit(self, records: int) -> None:
        """Let batch() return at most this many records from now on."""
        self._records = records

    @property
    def caught_up(self) -> bool:
        """Whether batch() has returned everything up to the ends that Kafka last said."""
        return bool(self.ends) and all(self.positions[p] >= end for p, end in self.ends.items())

    @property
    def lag(self) -> int:
        """How many offsets up to those ends batch() has not returned."""
        return sum(max(0, end - self.positions[p]) for p, end in self.ends.items())

    @property
    def away_seconds(self) -> float:
        """Seconds since Kafka last answered; 0 while it does."""
        return 0.0 if self.alive else time.monotonic() - self._heard

    @property
    def alive(self) -> bool:
        """Whether Kafka answered when it was last asked, and every record could be read."""
        return not (self.away or self._unreadable)

    @property
    def unreadable(self) -> str:
        """What cannot be read, and what to do; "" for nothing."""
        if not self._unreadable:
            return ""
        at = (
            f"{n} from offset {self.positions[n]} on"
            for n, end in self.ends.items()
            if self.positions[n] < end
        )
        return (
            f"a record of {self._topic.name} cannot be read ({self._unreadable}), of partition {' or '.join(at)}: repair "
            "the topic, or move the documents to a new one (docs/use/kafka.md)"
        )

    def _note(self, *, away: bool, unreadable: str) -> None:
        """Note whether Kafka is away, and why a record cannot be read."""
        before = self.alive
        self.away, self._unreadable = away, unreadable
        if self.alive is not before:
            self._changed()

    async def batch(self, timeout_seconds: float = 1.0) -> dict[int, list[Any]]:
        """Return the next records of each partition as soon as there are any; {} after the timeout.

        Each has offset, key, value, headers, timestamp (ms), as aiokafka's ConsumerRecord.
        Raises LogLost.
        """
        if self._fault is not None:
            raise self._fault
        batch = {}
        for partition, records in (await self._fetch(timeout_seconds)).items():
            if records:
                batch[partition.partition] = records
                self.positions[partition.partition] = records[-1].offset + 1
                self.last[partition.partition] = RecordMark.of(records[-1])
                high = self._consumer.highwater(partition)
                if high is not None:
                    number = partition.partition
                    self.ends[number] = max(self.ends.get(number, 0), high)
        if batch:
            self._moved = time.monotonic()
            self._hear()
        return batch

    async def _fetch(self, timeout_seconds: float) -> dict[Any, list[Any]]:
        """Return the next records, or {} where that fails. Raises LogLost."""
        from aiokafka.errors import (
            CorruptRecordException,
            KafkaError,
            NoOffsetForPartitionError,
            OffsetOutOfRangeError,
        )

        began = time.monotonic()
        partitions = self._partitions()
        most = 1 if self._unreadable else self._records  # what is before such a record comes
        try:
            found: dict[Any, list[Any]] = await self._consumer.getmany(
                *partitions, timeout_ms=int(timeout_seconds * 1000), max_records=most
            )
        except (OffsetOutOfRangeError, NoOffsetForPartitionError) as error:
            raise self._lost(f"it lost the offset to continue from ({error})") from error
        except (KafkaError, UnicodeDecodeError) as error:  # the latter: a header's name
            # aiokafka loses the records it had taken out of its buffers before the error: read them again
            # from the position of batch().
            for partition in partitions:
                self._consumer.seek(partition, self.positions[partition.partition])
            if isinstance(error, UnicodeDecodeError | CorruptRecordException):
                is_new = not self._unreadable
                self._note(away=self.away, unreadable=str(error))
                if is_new:
                    log.error("%s", self.unreadable)
            else:
                if self.alive:
                    log.warning("reading %s: %s", self._topic.name, described(error))
                self._note(away=True, unreadable=self._unreadable)
            await asyncio.sleep(max(0.0, timeout_seconds - (time.monotonic() - began)))
            return {}
        return found

    async def stop(self) -> None:
        """Disconnect, within seconds."""
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
            self._watch = None
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await _stopped(consumer, "closing the reader")

    async def ask(self) -> None:
        """Ask Kafka for the ends of the partitions now. Raises KafkaError or TimeoutError."""
        consumer = self._consumer
        ends = await asyncio.wait_for(consumer.end_offsets(self._partitions()), ASK_SECONDS)
        self.ends = {partition.partition: end for partition, end in ends.items()}
        # What a transaction that is still open holds back lies between the two ends.
        highs = {partition: consumer.highwater(partition) or end for partition, end in ends.items()}
        self.uncommitted = sum(max(0, highs[partition] - end) for partition, end in ends.items())
        for partition, end in ends.items():
            # Markers and aborted records of transactions, which are not returned, move it too.
            with contextlib.suppress(Exception):
                at = await asyncio.wait_for(consumer.position(partition), ASK_SECONDS)
                if at <= end:
                    number = partition.partition
                    self.positions[number] = max(self.positions[number], at)

    def _hear(self) -> None:
        """Note that Kafka answered."""
        self._heard = time.monotonic()
        self._note(away=False, unreadable="" if self.caught_up else self._unreadable)

    def _partitions(self) -> list[Any]:
        from aiokafka import TopicPartition

        return [TopicPartition(self._topic.name, n) for n in range(self._topic.partitions)]

    async def _watching(self) -> None:
        """Check an idle log: does Kafka answer, does the reader advance. By the clock: is it the same log."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = time.monotonic()
            is_due = now - self._identified > IDENTITY_SECONDS
            if self.alive and now - self._moved < WATCH_SECONDS and not is_due:
                continue
            try:
                read = dict(self.positions)
                await self.ask()
                if not self.alive or is_due:
                    await self._identify(read)
                if self.away:  # a broker may have been restored from an older copy
                    await self._replace()
                    log.info("reading %s: Kafka answers again", self._topic.name)
                self._hear()
            except asyncio.CancelledError:
                raise
            except LogLost as fault:
                self._fault = fault
                return
            except Exception as error:  # noqa: BLE001 - logged; the connection is made again
                if self.alive:
                    log.warning(
                        "reading %s: Kafka does not answer (%s); the records read so far stay in use",
                        self._topic.name,
                        described(error),
                    )
                self._note(away=True, unreadable=self._unreadable)
                continue
            if self.lag and now - self._moved > STALL_SECONDS:
                log.warning("reading %s: no progress, reconnecting", self._topic.name)
                with contextlib.suppress(LogLost):  # batch() meets it, too
                    await self._replace()

    async def _identify(self, read: Mapping[int, int]) -> None:
        """Raise LogLost if the topic is another one; read are the positions before the ends were asked for."""
        found = await describe_topic(self._config, self._topic.name)
        self._identified = time.monotonic()
        if found is None:
            raise self._lost("it was deleted")
        if found.cluster_id != self._topic.cluster_id:
            raise self._lost("it is of another cluster")
        for number, end in self.ends.items():
            if (at := read[number]) > end:
                raise self._lost(
                    f"partition {number} ends at offset {end}, and was read up to {at}"
                )
        if found.partitions != self._topic.partitions:
            raise self._lost(
                f"it has {found.partitions} partitions now, and had {self._topic.partitions}: "
                "keys belong to other partitions than before",
                MOVE,
            )

    async def _replace(self) -> None:
        """Read with a new consumer from now on. Raises LogLost if the log is another one."""
        old = self._consumer
        self._consumer = await started(self._made, f"reading {self._topic.name}")
        await _stopped(old, "closing the former reader")
        self._moved = time.monotonic()

    async def _made(self) -> Any:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            **self._config.options(),
            **COMMITTED,
            group_id=None,
            auto_offset_reset="none",
            fetch_max_wait_ms=200,
            fetch_max_bytes=4 * FETCH_BYTES,
            max_partition_fetch_bytes=FETCH_BYTES,
        )
        try:
            async with asyncio.timeout(self._config.request_timeout_seconds * 2):
                await consumer.start()
                partitions = self._partitions()
                consumer.assign(partitions)
                first = await consumer.beginning_offsets(partitions)
                last = await consumer.end_offsets(partitions)
            for partition in partitions:
                number, begin, end = partition.partition, first[partition], last[partition]
                at = self.positions.setdefault(number, begin)
                if not begin <= at <= end:
                    raise self._lost(
                        f"partition {number} goes from offset {begin} to {end}, and was read up to {at}"
                    )
                consumer.seek(partition, at)
            async with asyncio.timeout(self._config.request_timeout_seconds * 2):
                await self._verify(consumer, first, last)
            self.ends = {partition.partition: last[partition] for partition in partitions}
        except BaseException:
            await _stopped(consumer, "closing a reader that did not start", 1.0)
            raise
        return consumer

    async def _verify(
        self, consumer: Any, first: Mapping[Any, int], last: Mapping[Any, int]
    ) -> None:
        """Raise LogLost if another record is where the last one was read.

        A broker that was restored from an older copy, and written to since, has other records at offsets
        that were read. One that compaction has removed proves nothing.
        """
        from aiokafka.errors import CorruptRecordException

        unseen = {
            partition: mark
            for partition in self._partitions()
            if (mark := self.last.get(partition.partition)) is not None
            and first[partition]
            <= mark.offset
            < min(last[partition], self.positions[partition.partition])
        }
        for partition, mark in unseen.items():
            consumer.seek(partition, mark.offset)
        places = {partition: self.positions[partition.partition] for partition in unseen}
        while unseen:
            try:
                found = await consumer.getmany(*unseen, timeout_ms=200, max_records=1)
            except (CorruptRecordException, UnicodeDecodeError):  # which batch() reports
                break
            for partition, records in found.items():
                mark = unseen.pop(partition)
                if records[0].offset == mark.offset and RecordMark.of(records[0]) != mark:
                    raise self._lost(
                        f"partition {partition.partition} has another record at offset {mark.offset} than "
                        "the one that was read there, as after restoring a broker from an older copy"
                    )
            for partition in [*unseen]:  # nothing but markers of transactions left
                if await consumer.position(partition) >= last[partition]:
                    del unseen[partition]
        for partition, place in places.items():
            consumer.seek(partition, place)

    def _lost(self, why: str, advice: str = "") -> LogLost:
        return LogLost(
            f"the topic {self._topic.name!r} is not the log that was read before: {why}. "
            + (
                advice
                or "Start over from what it holds with --rebuild, or restore the topic from a copy"
            )
        )


async def _stopped(consumer: Any, what: str, seconds: float = STOP_SECONDS) -> None:
    """Stop a consumer; if that does not end in time, close its connections."""
    if not await ended(consumer.stop(), what, seconds):
        await ended(consumer._client.close(), what, 1.0)  # noqa: SLF001 - stop() did not get there


# -------------------------------------------------------------------------------- a consumer group

CALL_SECONDS = 5.0  # a commit, or a question to the broker
LEAVE_SECONDS = 10.0
SESSION_SECONDS = 10.0  # without a heartbeat, until the group takes a member for dead
POLL_SECONDS = 86_400.0  # the owner detects stalls itself: a waiting member keeps its partitions
REBALANCE_SECONDS = 60.0
GROUP_FETCH_BYTES = 16 << 20
PARTITION_BYTES = 2 << 20

Places = dict[tuple[str, int], int]


class GroupMember:
    """A member of a consumer group: records of one topic, shared with the group's other members.

        start -> (assigned) -> poll, poll, ... -> commit -> (revoked: the owner finishes) -> stop

    Only the owner commits offsets, once the records before them are processed. When partitions go to another member,
    `epoch` changes first, then the owner is asked to finish: records of an older epoch are not the owner's any more,
    and the new member reads them again. Nothing waits for a broker without a bound; is_stalled() detects a
    member that makes no progress although there are records to read, so that its owner can replace it. All methods are to be called
    on one event loop.
    """

    def __init__(
        self,
        config: KafkaConfig,
        group: str,
        *,
        instance: str | None = None,
        session_seconds: float = SESSION_SECONDS,
        finish: Callable[[], Awaitable[None]],
    ) -> None:
        """Make a member.

        config      where the brokers are, and the topic
        instance    name of a static member: restarted within session_seconds it gets its partitions
                    back at once, without a rebalance
        finish      called when partitions are taken away: the owner finishes its batch, or drops it
        """
        self.topic = config.topic
        self.epoch = 0
        self._finish = finish
        self._read = time.monotonic()
        from aiokafka import AIOKafkaConsumer

        self._consumer = AIOKafkaConsumer(
            **config.options(),
            group_id=group,
            group_instance_id=instance,
            **COMMITTED,
            auto_offset_reset="earliest",
            session_timeout_ms=round(session_seconds * 1000),
            heartbeat_interval_ms=round(session_seconds * 1000 / 4),
            rebalance_timeout_ms=round(REBALANCE_SECONDS * 1000),
            max_poll_interval_ms=round(POLL_SECONDS * 1000),
            fetch_max_bytes=GROUP_FETCH_BYTES,
            max_partition_fetch_bytes=PARTITION_BYTES,
        )
        self._consumer.subscribe([config.topic], listener=_listener(self))

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
        from aiokafka.errors import CorruptRecordException

        try:
            found = await self._consumer.getmany(
                timeout_ms=round(seconds * 1000), max_records=records
            )
        except UnicodeDecodeError as error:  # of a header's name, in aiokafka's C code
            raise CorruptRecordException(f"a header's name is not UTF-8 ({error})") from error
        if found:
            self._read = time.monotonic()
        return [record for part in found.values() for record in part]

    async def commit(self, offsets: Places) -> bool:
        """Commit the next offsets; False if that failed: those records may be read again."""
        from aiokafka import TopicPartition
        from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

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
            log.warning("offsets were not committed: %s", str(error) or type(error).__name__)
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

    def ends_seen(self) -> Places:
        """Return the end offset of each partition as of the last fetch; no request is sent."""
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
        await ended(self._consumer.stop(), "leaving the group", LEAVE_SECONDS)


async def _answer(asked: Awaitable[Any]) -> Any:
    try:
        async with asyncio.timeout(CALL_SECONDS):
            return await asked
    except TimeoutError:
        raise TimeoutError(f"Kafka did not answer within {CALL_SECONDS:g} s") from None


def _listener(member: GroupMember) -> Any:
    from aiokafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: set[Any]) -> None:
            member.epoch += 1
            if revoked:
                await member._finish()  # noqa: SLF001

        def on_partitions_assigned(self, assigned: set[Any]) -> None:
            partitions = sorted(place.partition for place in assigned)
            log.info("partitions of %s: %s", member.topic, partitions or "none")

    return Listener()
