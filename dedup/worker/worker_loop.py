"""The worker's loop: a group member that reads, a pipeline that settles, and a task that watches.

    poll -> fingerprints (threads) -> queue -> settle -> commit
    on a rebalance, and at the end: the batch at hand is finished, or given up and read again

The rules kept here:
  - While a batch is settled the next one is read, and no more: what waits is bounded.
  - Offsets are committed batch by batch, in order, after everything before them is done.
  - A broker or service that is away is waited for; the worker ends when it is told to, or when
    going on could lose something.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiokafka.errors import (
    AuthenticationFailedError,
    CorruptRecordException,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
)

from dedup.core.backoff import Backoff
from dedup.core.say_once import SayOnce
from dedup.model.errors import DedupError
from dedup.wire.kafka.group import Member
from dedup.wire.kafka.supervision import KafkaUnavailable, refusal
from dedup.worker.adapters import adapter
from dedup.worker.open_detector import open_detector
from dedup.worker.options import Config
from dedup.worker.outputs import OutputTopics, ensure_topics
from dedup.worker.page_batch import Batch, Reading
from dedup.worker.page_reader import Reader
from dedup.worker.pipeline import Events, Pipeline
from dedup.worker.progress import Progress
from dedup.worker.records import Record, record_of
from dedup.worker.worker_metrics import Health, Metrics

__all__ = ["Worker"]

log = logging.getLogger("dedup.worker")

POLL_SECONDS = 0.5
POLL_RECORDS = 50
WATCH_SECONDS = 2.0
UNTIL_END_SECONDS = 0.1
LIVE_SECONDS = 60.0
DRAIN_SECONDS = 20.0  # a rebalance waits so long for the batch at hand
FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 15.0

GIVE_UP_SECONDS = 15.0  # that releasing its reservations may take
FUTILE_READERS = 2  # that meet the same unreadable record before the worker says so

REFUSED = (
    AuthenticationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)


class Worker:
    """One worker. run() takes it from its start to its end."""

    def __init__(self, config: Config, metrics: Metrics, health: Health) -> None:
        """Make a worker. Nothing is opened yet."""
        self._config = config
        self._metrics = metrics
        self._health = health
        self._outputs = OutputTopics(config.kafka, config.topics)
        self._pipeline: Pipeline
        self._member: Member | None = None
        self._queue: asyncio.Queue[tuple[int, list[Reading]]] = asyncio.Queue(1)
        self._settling: asyncio.Task[None] | None = None
        self._progress = Progress(config, metrics)
        self._stopping = False
        self._once = SayOnce(again_seconds=10.0)
        self._ticked = time.monotonic()
        self._health.alive = lambda: time.monotonic() - self._ticked < LIVE_SECONDS

    # ---------------------------------------------------------------------- from start to end

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop, or (until_end) until the topic's end.

        Raises UsageError for topics that are not there, and what must end a worker.
        """
        try:
            await self._until(stop, self._work())
        finally:
            self._health.joined = False
        log.info("stopped", extra={"fields": {"event": "stop", "pages": self._progress.done}})

    async def _work(self) -> None:
        config = self._config
        async with await open_detector(config, self._fault) as detector:
            self._pipeline = Pipeline(
                detector,
                self._outputs,
                Events(self._fault, self._count),
                wait_seconds=config.wait_seconds,
                clock=time.monotonic,
            )
            fault = _threadsafe(asyncio.get_running_loop(), self._fault)
            read = adapter(config.format, max_bytes=config.max_bytes)
            with Reader(read, detector.recipe, config.threads, fault) as reader:
                try:
                    await self._supervise(reader)
                finally:
                    self._health.joined = False
                    await self._end_batch(config.stop_seconds)
                    if self._member is not None:
                        await self._member.stop()
                    await self._outputs.stop()

    async def _until(self, stop: asyncio.Event, working: Awaitable[None]) -> None:
        """Work until it ends or fails, or until told to stop."""
        work = asyncio.ensure_future(working)
        told = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({work, told}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            told.cancel()
            self._stopping = True
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
        if not work.cancelled():
            work.result()

    async def _supervise(self, reader: Reader) -> None:
        """Join, read, settle and watch; replace the member when it stalls."""
        await self._patiently(lambda: ensure_topics(self._config.kafka, self._config.topics))
        futile, done = 0, -1  # readers in a row that got nothing done
        backoff = Backoff(FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS)
        while True:
            await self._patiently(self._join)
            if self._stopping:  # and the cancellation was swallowed on its way
                raise asyncio.CancelledError
            self._health.joined = True
            tasks = [
                asyncio.create_task(self._read(reader)),
                asyncio.create_task(self._settle()),
                asyncio.create_task(self._watch()),
            ]
            try:
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _cancelled(tasks)
            await self._end_batch(DRAIN_SECONDS)
            if done == self._progress.total:
                futile += 1
            else:
                futile = 0
                backoff.reset()
            done = self._progress.total
            for task in ended:
                try:
                    task.result()
                except _AtEnd:
                    return
                except REFUSED as error:
                    raise DedupError(f"Kafka refuses the worker: {error}") from error
                except CorruptRecordException as error:
                    if futile >= FUTILE_READERS:
                        raise self._unreadable(error) from error
                    self._fault("read", error)
                except KafkaError as error:
                    self._fault("read", error)
            log.warning("the reader is replaced")
            self._count("rebuilt", 1)
            assert self._member is not None
            await self._member.stop()
            await asyncio.sleep(backoff.next())

    def _unreadable(self, error: Exception) -> DedupError:
        config = self._config
        return DedupError(
            f"Kafka's client cannot read a record of {config.topics.input}, soon after what the group "
            f"{config.group} committed: {error}; find it with another client, and move the group past "
            "it (kafka-consumer-groups --reset-offsets)"
        )

    async def _join(self) -> None:
        config = self._config
        self._queue = asyncio.Queue(1)
        self._progress.disown()
        self._progress.at_hand = 0
        self._member = Member(
            config.kafka,
            config.group,
            instance=config.instance,
            earliest=config.begin == "earliest",
            session_seconds=config.session_seconds,
            finish=self._revoked,
        )
        try:
            await self._member.start()
        except BaseException:
            await self._member.stop()
            raise

    async def _patiently(self, act: Callable[[], Awaitable[None]]) -> None:
        """Try until Kafka answers, or refuses the login for long (LoginRefused)."""
        began, backoff = time.monotonic(), Backoff(FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS)
        while not self._stopping:
            try:
                await act()
            except REFUSED as error:
                raise DedupError(f"Kafka refuses the worker: {error}") from error
            except (KafkaError, KafkaUnavailable, OSError) as error:
                refused = await refusal(self._config.kafka, time.monotonic() - began)
                self._fault("connect", error)
                self._health.hindered["kafka"] = refused or _text(error)
                await asyncio.sleep(backoff.next())
                self._ticked = time.monotonic()
            else:
                self._health.hindered.pop("kafka", None)
                return

    # -------------------------------------------------------------------------------- reading

    async def _read(self, reader: Reader) -> None:
        assert self._member is not None
        while True:
            epoch, records = await self._gather(self._member)
            if records:
                readings = await reader.read(records)
                await self._queue.put((epoch, readings))

    async def _gather(self, member: Member) -> tuple[int, list[Record]]:
        """Return records up to a batch's bounds, and the epoch they are of."""
        config = self._config
        found = await member.poll(POLL_SECONDS, min(POLL_RECORDS, config.batch_records))
        epoch, size, records = member.epoch, 0, list[Record]()
        while found:
            self._progress.at_hand += len(found)
            if member.epoch != epoch:  # what came before belongs to another member now
                self._progress.at_hand -= len(records)
                epoch, size, records = member.epoch, 0, []
            records += [record_of(each) for each in found]
            size += sum(len(each.value or b"") for each in found)
            left = config.batch_records - len(records)
            if left <= 0 or size >= config.batch_bytes:
                break
            found = await member.poll(0, min(POLL_RECORDS, left))
        return epoch, records

    # ------------------------------------------------------------------------------- settling

    async def _settle(self) -> None:
        assert self._member is not None
        member = self._member
        while True:
            epoch, readings = await self._queue.get()
            if epoch != member.epoch:
                self._progress.at_hand -= len(readings)
                continue
            self._settling = asyncio.create_task(
                self._take(Batch(readings, guard=self._config.identity), member)
            )
            await asyncio.wait({self._settling})
            if not self._settling.cancelled():
                self._settling.result()  # raises what must end the worker

    async def _take(self, batch: Batch, member: Member) -> None:
        begun = time.monotonic()
        try:
            await self._pipeline.settle(batch)
        except BaseException:
            self._count("abandoned", 1)
            self._progress.at_hand -= len(batch)
            await self._pipeline.give_up(batch)
            raise
        for step in ("reserve", "write", "insert"):
            self._health.hindered.pop(step, None)
        self._progress.finished(batch)
        await self._progress.commit(member)
        self._metrics.batch_seconds.observe(time.monotonic() - begun)
        self._progress.show(member)

    async def _revoked(self) -> None:
        """Finish the batch at hand before its partitions are another member's."""
        await self._end_batch(DRAIN_SECONDS)
        self._progress.disown()

    async def _end_batch(self, seconds: float) -> None:
        """Wait for the batch at hand; give it up after so long."""
        settling = self._settling
        if settling is None:
            return
        if not settling.done():
            await asyncio.wait({settling}, timeout=seconds)
        if not settling.done():
            log.warning("the batch at hand is given up; it will be read again")
            await _cancelled([settling], GIVE_UP_SECONDS)
        if self._settling is settling:
            self._settling = None
        if not settling.cancelled() and (error := settling.exception()) is not None:
            log.error("the batch at hand failed and will be read again: %s", _text(error))

    # ------------------------------------------------------------------------------- watching

    async def _watch(self) -> None:
        """Return when the member must be replaced."""
        assert self._member is not None
        member, epoch = self._member, -1
        while True:
            self._ticked = time.monotonic()
            try:
                if member.assigned() and epoch != member.epoch:
                    epoch = member.epoch
                    await self._progress.own(member)
                await self._progress.commit(member)
                if await self._progress.look_further(member):
                    raise _AtEnd
                if self._queue.empty() and await member.is_stalled(self._config.stall_seconds):
                    return
            except (KafkaError, TimeoutError) as error:
                self._fault("watch", error)
                self._health.hindered["kafka"] = _text(error)
            else:
                self._health.hindered.pop("kafka", None)
            self._progress.show(member)
            await asyncio.sleep(UNTIL_END_SECONDS if self._config.until_end else WATCH_SECONDS)

    # ---------------------------------------------------------------------------- bookkeeping

    def _count(self, name: str, number: int) -> None:
        self._metrics.events.labels(name).inc(number)

    def _fault(self, step: str, error: Exception) -> None:
        """Count a fault, and say it: the same at most every ten seconds."""
        kind = type(error).__name__
        self._metrics.faults.labels(step, kind).inc()
        if step in ("reserve", "write", "insert"):
            self._health.hindered[step] = _text(error)
        if self._once.is_new(f"{step}/{kind}", time.monotonic()):
            log.error("%s failed: %s: %s", step, kind, _text(error))


async def _cancelled(tasks: Iterable[asyncio.Task[Any]], again_seconds: float = 1.0) -> None:
    """Cancel tasks, again and again: before Python 3.12 asyncio.wait_for may swallow it."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=again_seconds)


class _AtEnd(Exception):
    """What there was at the start is done."""


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _threadsafe(
    loop: asyncio.AbstractEventLoop, function: Callable[[str, Exception], None]
) -> Callable[[str, Exception], None]:
    def call(step: str, error: Exception) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(function, step, error)

    return call
