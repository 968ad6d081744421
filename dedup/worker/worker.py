"""The worker: a group member that reads, a pipeline that settles, and a task that watches.

    poll -> PageReader: fingerprints (threads) -> queue -> Pipeline: settle -> PartitionProgress: commit
    on a rebalance, and at the end: the current batch is finished, or dropped and read again

Invariants:
  - While a batch is settled the next one is read, and no more: queues are bounded.
  - Offsets are committed batch by batch, in order, after everything before them is done.
  - A broker or service that is away is waited for; the worker ends on a signal, or when continuing
    could lose something.
  - Counting never fails a page; names and labels of metrics hold no page's URL. /metrics, /livez and /readyz are
    answered in a thread.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from socketserver import ThreadingMixIn
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import msgspec
from aiokafka.errors import (
    AuthenticationFailedError,
    CorruptRecordException,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dedup.core.faults import Backoff, SayOnce
from dedup.core.fingerprint import fingerprint_text, read_page
from dedup.detector import AsyncDetector, AsyncEmbeddedDetector, open_embedded
from dedup.model.addresses import HostPort
from dedup.model.errors import DedupError, EventInvalid, ServiceUnavailable, UsageError
from dedup.model.page import PageFingerprint
from dedup.model.recipes import Recipe
from dedup.wire.kafka import (
    KafkaConfig,
    KafkaUnavailable,
    Writer,
    describe_topic,
    ensure_topic,
)
from dedup.wire.kafka.login import refusal
from dedup.wire.kafka.reader import GroupMember
from dedup.wire.metrics import Durations, Metrics, counters
from dedup.worker.adapters import RecordPage, Topics, WorkerConfig, adapter
from dedup.worker.pipeline import (
    Batch,
    InputRecord,
    Offsets,
    Pipeline,
    ReadRecord,
    record_of,
)

BATCH_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class WorkerMetrics(Metrics):
    """The metrics of one worker.

    pages   records done, by status and reason
    events  inserted, late_duplicate, released, commits, abandoned batches, rebuilt readers, dead_lost: dead letters that
            could not be written
    faults  by step and kind
    lags    (topic, partition, records, seconds)
    """

    def __init__(self) -> None:
        super().__init__()
        self.pages: Counter[tuple[str, str]] = Counter()
        self.events: Counter[str] = Counter()
        self.faults: Counter[tuple[str, str]] = Counter()
        self.batch_seconds = Durations(BATCH_SECONDS)
        self.lags: Sequence[tuple[str, int, int, float]] = ()
        self.expired = 0

    def batch(self, counts: dict[str, int]) -> None:
        """Add what a batch counted: {"status/reason": number}."""
        for name, number in counts.items():
            status, _, reason = name.partition("/")
            self.pages[status, reason] += number

    def collect(self) -> Iterable[Metric]:
        """Yield every metric."""
        text = "Records done, by status and reason; dead: dead letters"
        yield counters("dedup_worker_pages", text, ["status", "reason"], self.pages)
        text = "Steps of the worker, documents inserted and released, dead letters lost"
        yield counters("dedup_worker_events", text, ["event"], self.events)
        text = "Faults, by step and kind"
        yield counters("dedup_worker_faults", text, ["step", "kind"], self.faults)
        text = "From the first verdict of a batch to its commit"
        yield self.batch_seconds.family("dedup_worker_batch_seconds", text)
        labels = ("topic", "partition")
        records = GaugeMetricFamily(
            "dedup_worker_lag_records", "Records of the partition that are not done", labels=labels
        )
        seconds = GaugeMetricFamily(
            "dedup_worker_lag_seconds",
            "Age of the last record that is done, while others wait",
            labels=labels,
        )
        for topic, partition, behind, age in self.lags:
            records.add_metric((topic, str(partition)), float(behind))
            seconds.add_metric((topic, str(partition)), age)
        yield records
        yield seconds
        text = "Records that the topic dropped before they were read"
        yield CounterMetricFamily("dedup_worker_expired_records", text, self.expired)


class WorkerHealth:
    """The faults that hinder a worker, by kind; it is ready once it joined its group, without faults."""

    def __init__(self) -> None:
        self.joined = False
        self.hindered: dict[str, str] = {}
        self.alive: Callable[[], bool] = lambda: True

    @property
    def ready(self) -> bool:
        """Whether records come in and go out."""
        return self.joined and not self.hindered

    def text(self) -> str:
        """Return why it is not ready, or "ok"."""
        if self.hindered:
            return "; ".join(f"{kind}: {said}" for kind, said in sorted(self.hindered.items()))
        return "ok" if self.joined else "has not joined its group yet"


class MetricsServer:
    """Answers on HTTP in a thread. A context manager; `address` holds the real port."""

    def __init__(self, address: HostPort, metrics: WorkerMetrics, health: WorkerHealth) -> None:
        """Listen. Raises OSError that names the address if it cannot be had."""

        def answer(environ: dict[str, Any], start: Any) -> Any:
            path = environ["PATH_INFO"]
            if path == "/metrics":
                start("200 OK", [("Content-Type", metrics.media_type)])
                return [metrics.text()]
            if path == "/livez":
                good, text = health.alive(), "the event loop is blocked"
            elif path == "/readyz":
                good, text = health.ready, health.text()
            else:
                start("404 Not Found", [("Content-Type", "text/plain")])
                return [b"not found; paths: /metrics, /livez, /readyz\n"]
            status = "200 OK" if good else "503 Service Unavailable"
            start(status, [("Content-Type", "text/plain; charset=utf-8")])
            return [("ok\n" if good else text + "\n").encode()]

        try:
            self._server = make_server(address.host, address.port, answer, _Server, _Quiet)
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot listen on {address}: {error.strerror}; give --metrics another address",
            ) from error
        self.address = HostPort(address.host, self._server.server_port)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went away."""


class _Quiet(WSGIRequestHandler):
    timeout = 10.0  # of an idle client

    def log_message(self, *_: object) -> None:
        """Keep the log for pages."""


log = logging.getLogger("dedup.worker")

POLL_SECONDS = 0.5
POLL_RECORDS = 50
WATCH_SECONDS = 2.0
UNTIL_END_SECONDS = 0.1
LIVE_SECONDS = 60.0
DRAIN_SECONDS = 20.0  # that a rebalance waits for the current batch
FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 15.0
CHUNK = 16  # records read by a thread at a time
SERVICE_TIMEOUT_SECONDS = 5.0  # of a whole batch: a stream is in no hurry
STOP_SECONDS = 10.0  # for closing the producer
GIVE_UP_SECONDS = 15.0  # for releasing the reservations of a dropped batch
FUTILE_READERS = 2  # that meet the same unreadable record before the worker says so

REFUSED = (
    AuthenticationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)


class PageReader:
    """Reads and fingerprints records in a thread; the native core releases the GIL. A context manager.

    A record that cannot be read becomes an error, a page that cannot be fingerprinted is kept: neither
    affects the others of its batch.
    """

    def __init__(
        self,
        adapter: Callable[[bytes | None], RecordPage],
        recipe: Recipe,
        fault: Callable[[str, Exception], None],
    ) -> None:
        """Read with an adapter, fingerprint under a recipe; call fault for each internal error."""
        self._adapter = adapter
        self._recipe = recipe
        self._fault = fault
        self._pool = ThreadPoolExecutor(1, "dedup-read")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    async def read(self, records: Sequence[InputRecord]) -> list[ReadRecord]:
        """Return a reading of each record, in order."""
        loop = asyncio.get_running_loop()
        chunks = [
            loop.run_in_executor(self._pool, self._read_chunk, records[i : i + CHUNK])
            for i in range(0, len(records), CHUNK)
        ]
        return [reading for chunk in chunks for reading in await chunk]

    def _read_chunk(self, records: Sequence[InputRecord]) -> list[ReadRecord]:
        return [self.read_one(record) for record in records]

    def read_one(self, record: InputRecord) -> ReadRecord:
        """Return the reading of a record; never raises."""
        try:
            page = self._adapter(record.value)
        except EventInvalid as error:
            return ReadRecord(record, error=error)
        except Exception as error:  # noqa: BLE001 - counted; the record is a dead letter, or its page is kept
            self._fault("adapt", error)
            return ReadRecord(record, error=error)
        if page.exempt is not None:
            return ReadRecord(record, page.key, page.url, exempt=page.exempt)
        try:
            found = self._fingerprint(page)
        except Exception as error:  # noqa: BLE001 - counted; the record is a dead letter, or its page is kept
            self._fault("fingerprint", error)
            return ReadRecord(record, page.key, page.url, exempt="error")
        if found is None:
            return ReadRecord(record, page.key, page.url, exempt="data_page")
        fingerprint, blocks = found
        return ReadRecord(record, page.key, page.url, fingerprint, blocks=blocks)

    def _fingerprint(self, page: RecordPage) -> tuple[PageFingerprint, bytes] | None:
        """Return the fingerprint of a page, and the list of its blocks; None for one that is mostly data."""
        if page.is_text:
            assert isinstance(page.content, str)
            return fingerprint_text(page.content, recipe=self._recipe), b""
        try:
            reading = read_page(
                page.content,
                encoding=page.encoding,
                url=page.url,
                recipe=self._recipe,
                blocks=True,
            )
        except UsageError:  # an unknown encoding: as the page itself declares
            reading = read_page(page.content, url=page.url, recipe=self._recipe, blocks=True)
        if reading.data_bytes > reading.text_bytes:
            return None
        return reading.fingerprint, reading.blocks


async def ensure_topics(config: KafkaConfig, topics: Topics) -> None:
    """Create missing outputs, with as many partitions as the input has.

    Raises UsageError if there is no input, TopicUnfit if an output may not be created, and
    KafkaUnavailable.
    """
    found = await describe_topic(config, topics.input)
    if found is None:
        raise UsageError(
            f"the input topic {topics.input!r} does not exist at {','.join(config.bootstrap)}; "
            "create it, or check --input"
        )
    for name in (topics.unique, topics.duplicates, topics.dead):
        await ensure_topic(config, name, partitions=found.partitions, compact=False)


class PartitionProgress:
    """How far a worker has read, finished and committed each of its partitions.

    at_hand  number of records that were read and are not done
    done     number of records done since the start, by status/reason

    Invariants: an offset is committed once everything before it is done. Partitions that are taken away
    are forgotten.
    """

    def __init__(self, config: WorkerConfig, metrics: WorkerMetrics) -> None:
        self.at_hand = 0
        self.done: dict[str, int] = {}
        self._until_end = config.until_end
        self._metrics = metrics
        self._settled: Offsets = {}  # the next offsets that are not done
        self._due: Offsets = {}  # of those, to be committed
        self._committing = asyncio.Lock()
        self._last_ms: dict[tuple[str, int], int] = {}  # timestamps of the last records done
        self._targets: Offsets | None = None  # with until_end

    @property
    def total(self) -> int:
        """The number of records that are done, since the start."""
        return sum(self.done.values())

    def finished(self, batch: Batch) -> None:
        """Record that a batch is done."""
        self._metrics.batch(batch.counts)
        for name, number in batch.counts.items():
            self.done[name] = self.done.get(name, 0) + number
        offsets = batch.offsets()
        self._settled |= offsets
        self._due |= offsets
        self._last_ms |= batch.timestamps()
        self.at_hand -= len(batch)

    async def commit(self, member: GroupMember) -> None:
        """Commit finished offsets; failed ones are retried with the next call."""
        async with self._committing:
            due = dict(self._due)
            if due and await member.commit(due):
                self._metrics.events["commits"] += 1
                for place, offset in due.items():
                    if self._due.get(place) == offset:
                        del self._due[place]

    def disown(self) -> None:
        """Forget the offsets of partitions that were taken away or assigned again."""
        self._settled.clear()
        self._last_ms.clear()
        self._due.clear()

    async def own(self, member: GroupMember) -> None:
        """Read where new partitions begin; count records that the topic dropped before they were read."""
        for place, (committed, begin) in (await member.standing()).items():
            if place not in self._settled:
                self._settled[place] = begin if committed is None else committed
            if committed is not None and committed < begin:
                self._metrics.expired += begin - committed
                log.error(
                    "%d records of %s, partition %d, were dropped by the topic before they were "
                    "read; lengthen its retention, or add workers",
                    begin - committed,
                    *place,
                )

    async def look_further(self, member: GroupMember) -> bool:
        """Update positions where no record is in work; return whether all up to the start's end is done."""
        ends = await member.ends()  # asked in any case: it shows that the broker answers
        if self._until_end and self._targets is None and ends:
            self._targets = ends
        epoch, positions = member.epoch, await member.positions()
        if self.at_hand or self._due or epoch != member.epoch or not positions:
            return False
        self._settled |= positions  # further than the last record where a transaction ended
        targets = self._targets
        return targets is not None and all(
            position >= targets.get(place, 0) for place, position in positions.items()
        )

    def show(self, member: GroupMember) -> None:
        """Update the lag metrics. Sends no request."""
        now = time.time()
        places = []
        for place, end in member.ends_seen().items():
            behind = max(0, end - self._settled.get(place, end))
            last = self._last_ms.get(place)
            seconds = max(0.0, now - last / 1000) if behind and last is not None else 0.0
            places.append((*place, behind, seconds))
        self._metrics.lags = places


async def open_detector(
    config: WorkerConfig, fault: Callable[[str, Exception], None]
) -> AsyncDetector:
    """Open the detector, an embedded store or a table service; wait for a service that is away.

    fault is called for each failed attempt.

    Raises UsageError, RecipeMismatch, and what opening a store raises.
    """
    if not config.service:
        assert config.path is not None
        return AsyncEmbeddedDetector(open_embedded(config.path, config.detector))
    from dedup.detector.remote import open_remote

    options = msgspec.structs.replace(config.detector, timeout_seconds=SERVICE_TIMEOUT_SECONDS)
    shards = [urls.split(",") for urls in config.service]
    backoff = Backoff(FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS)
    while True:
        try:
            return await open_remote(shards, options)
        except ServiceUnavailable as error:
            fault("connect", error)
            await asyncio.sleep(backoff.next())


class Worker:
    """One worker, from its start to its end: run()."""

    def __init__(self, config: WorkerConfig, metrics: WorkerMetrics, health: WorkerHealth) -> None:
        self._config = config
        self._metrics = metrics
        self._health = health
        self._outputs = Writer(config.kafka)  # which connects at the first record
        self._pipeline: Pipeline
        self._member: GroupMember | None = None
        self._queue: asyncio.Queue[tuple[int, list[ReadRecord]]] = asyncio.Queue(1)
        self._settling: asyncio.Task[None] | None = None
        self._progress = PartitionProgress(config, metrics)
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
                self._fault,
                self._count,
                wait_seconds=config.wait_seconds,
                clock=time.monotonic,
            )
            fault = _threadsafe(asyncio.get_running_loop(), self._fault)
            read = adapter(config.format, max_bytes=config.max_bytes)
            with PageReader(read, detector.recipe, fault) as reader:
                try:
                    await self._supervise(reader)
                finally:
                    self._health.joined = False
                    await self._end_batch(config.stop_seconds)
                    if self._member is not None:
                        await self._member.stop()
                    await self._outputs.stop(STOP_SECONDS)

    async def _until(self, stop: asyncio.Event, working: Awaitable[None]) -> None:
        """Work until it ends or fails, or until told to stop."""
        work = asyncio.ensure_future(working)
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            self._stopping = True
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
        if not work.cancelled():
            work.result()

    async def _supervise(self, reader: PageReader) -> None:
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
            log.warning("restarting the Kafka reader")
            self._count("rebuilt", 1)
            assert self._member is not None
            await self._member.stop()
            await asyncio.sleep(backoff.next())

    def _unreadable(self, error: Exception) -> DedupError:
        config = self._config
        return DedupError(
            f"Kafka's client cannot read a record of {config.topics.input}, soon after the offset that the "
            f"group {config.group} committed: {error}; find it with another client, and move the group past "
            "it (kafka-consumer-groups --reset-offsets)"
        )

    async def _join(self) -> None:
        config = self._config
        self._queue = asyncio.Queue(1)
        self._progress.disown()
        self._progress.at_hand = 0
        self._member = GroupMember(
            config.kafka,
            config.group,
            instance=config.instance,
            session_seconds=config.session_seconds,
            finish=self._revoked,
        )
        try:
            await self._member.start()
        except BaseException:
            await self._member.stop()
            raise

    async def _patiently(self, act: Callable[[], Awaitable[None]]) -> None:
        """Retry until Kafka answers, or has refused the login for long (LoginRefused)."""
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

    async def _read(self, reader: PageReader) -> None:
        assert self._member is not None
        while True:
            epoch, records = await self._gather(self._member)
            if records:
                readings = await reader.read(records)
                await self._queue.put((epoch, readings))

    async def _gather(self, member: GroupMember) -> tuple[int, list[InputRecord]]:
        """Return records up to a batch's bounds, and the epoch they are of."""
        config = self._config
        found = await member.poll(POLL_SECONDS, min(POLL_RECORDS, config.batch_records))
        epoch, size, records = member.epoch, 0, list[InputRecord]()
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
            batch = Batch(readings, self._config.topics, guard=self._config.identity)
            settling = self._settling = asyncio.create_task(self._take(batch, member))
            await asyncio.wait({settling})  # a rebalance may have forgotten it by then
            if not settling.cancelled():
                settling.result()  # raises what must end the worker

    async def _take(self, batch: Batch, member: GroupMember) -> None:
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
        self._metrics.batch_seconds.note(time.monotonic() - begun)
        self._progress.show(member)

    async def _revoked(self) -> None:
        """Finish the current batch before its partitions are another member's."""
        await self._end_batch(DRAIN_SECONDS)
        self._progress.disown()

    async def _end_batch(self, seconds: float) -> None:
        """Wait for the current batch; drop it after this many seconds."""
        settling = self._settling
        if settling is None:
            return
        if not settling.done():
            await asyncio.wait({settling}, timeout=seconds)
        if not settling.done():
            log.warning("the current batch was abandoned; it will be read again")
            await _cancelled([settling], GIVE_UP_SECONDS)
        if self._settling is settling:
            self._settling = None
        if not settling.cancelled() and (error := settling.exception()) is not None:
            log.error("the current batch failed and will be read again: %s", _text(error))

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
        self._metrics.events[name] += number

    def _fault(self, step: str, error: Exception) -> None:
        """Count a fault and log it, each kind at most every ten seconds."""
        kind = type(error).__name__
        self._metrics.faults[step, kind] += 1
        if step in ("reserve", "write", "insert"):
            self._health.hindered[step] = _text(error)
        self._once.log(log, f"{step}/{kind}", "%s failed: %s: %s", step, kind, _text(error))


async def _cancelled(tasks: Iterable[asyncio.Task[Any]], again_seconds: float = 1.0) -> None:
    """Cancel tasks until they end: before Python 3.12 asyncio.wait_for may swallow a cancellation."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=again_seconds)


class _AtEnd(Exception):
    """All records up to the end at the start are done."""


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _threadsafe(
    loop: asyncio.AbstractEventLoop, function: Callable[[str, Exception], None]
) -> Callable[[str, Exception], None]:
    def call(step: str, error: Exception) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(function, step, error)

    return call
