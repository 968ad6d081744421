"""The stores of a service as the view of a log: every insert event in, from all of its partitions.

    CONNECTING <-> CATCHING_UP ---> FOLLOWING <-> STALE
        |                               ^
        +-------> RESUMED --------------+            any of them -> FAILED | STOPPED

    CONNECTING   Kafka has not answered, or the log is being checked; not ready
    CATCHING_UP  reading the log for the first time in this run; not ready
    RESUMED      Kafka did not answer at the start: the stores of an earlier run, which had caught up,
                 serve until the log is found, checked and read
    FOLLOWING    everything that was in the log is applied, and new records are as they come
    STALE        caught up once, but Kafka does not answer or a store takes no writes; serves on
    FAILED       the log cannot be followed any further: the reason says why
    STOPPED      stop() was called

    prepare: identify the log  ->  run: open the reader -> read -> apply (applying.py), in a loop
                                        every ten seconds: flush the stores -> manifest.py

Invariants: the log is the truth; another log than before, or one with a gap, is refused. Its identity is
checked as soon as Kafka answers, before the stores are changed. Only move() changes the state,
along these arrows: a replica that serves does so until it fails or is stopped, so that readiness does not
flap when Kafka restarts.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from enum import Enum, auto
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dedup.detector import EmbeddedDetector
from dedup.model.errors import StoreDamaged
from dedup.model.events import encode, record_key
from dedup.model.page import Verdict
from dedup.service.applying import Applying, Stopped
from dedup.service.core.namespaces import Namespaces
from dedup.service.core.operations import LateFields
from dedup.service.manifest import (
    MANIFEST,
    LogManifest,
    check_ends,
    check_unknown,
    empty_stores,
    missing,
    read_manifest,
    write_manifest,
)
from dedup.wire.kafka import (
    KafkaConfig,
    KafkaUnavailable,
    LogLost,
    Reader,
    Topic,
    Writer,
    ensure_topic,
)
from dedup.wire.kafka.login import started

MANIFEST_SECONDS = 10.0  # between two checkpoints

log = logging.getLogger(__name__)


CATCHING_UP_RECORDS = 20_000  # of one batch, before the service is ready
SERVING_RECORDS = 1_000  # and after: a batch holds a namespace's lock for milliseconds
NEAR_THE_END = 10_000  # records behind the log's end: time to ask where it is now
PATIENCE_SECONDS = 5.0  # with Kafka at a start, before the stores of an earlier run serve


class Phase(Enum):
    """A state of a replica; see the module."""

    CONNECTING = auto()
    CATCHING_UP = auto()
    RESUMED = auto()
    FOLLOWING = auto()
    STALE = auto()
    FAILED = auto()
    STOPPED = auto()


SERVING = frozenset({Phase.RESUMED, Phase.FOLLOWING, Phase.STALE})
CAUGHT_UP = frozenset({Phase.FOLLOWING, Phase.STALE})  # in this run
ENDED = frozenset({Phase.FAILED, Phase.STOPPED})

STATUS = {phase: phase.name.lower() for phase in Phase} | {
    Phase.RESUMED: "stale",
    Phase.FOLLOWING: "current",
}  # as in DEDUP.INFO

_MOVES = {
    Phase.CONNECTING: {Phase.CATCHING_UP, Phase.RESUMED},
    Phase.CATCHING_UP: {Phase.CONNECTING, Phase.FOLLOWING},
    Phase.RESUMED: {Phase.FOLLOWING},
    Phase.FOLLOWING: {Phase.STALE},
    Phase.STALE: {Phase.FOLLOWING},
}


class ReplicaState(msgspec.Struct, frozen=True):
    """The report of a replica, in plain values.

    status           connecting, catching_up, current, stale (Kafka is away, or a store takes no
                     writes), failed, stopped: see STATUS
    reason           why it is not current, for people; "" if it is
    ready            whether it serves: it has caught up once and not failed since
    lag_records      offsets of the log, as last heard, that are not applied
    behind_seconds   since it was last known to have everything; 0 while it has
    away_seconds     since Kafka last answered; 0 while it does
    manifest_seconds since the last manifest; a restart reads the log from there
    offsets          {partition: next offset}
    ends             {partition: end offset}, as last heard
    counts           inserted, replaced, forgotten, late_duplicate, repeated, other_recipe,
                     dead_letters, newer (dead letters of a later event version), dead_letters_lost (which could not be written), refused (of
                     namespaces that cannot be created), misplaced (events in another partition than their key's, which are skipped)
    """

    status: str
    reason: str
    ready: bool
    lag_records: int
    behind_seconds: float
    away_seconds: float
    manifest_seconds: float
    offsets: dict[int, int]
    ends: dict[int, int]
    counts: dict[str, int]


class Replica:
    """Keeps the namespaces of a folder equal to a log. For one event loop.

    await prepare()        before the stores are opened
    await run()            once they are; until stop() or a failure, which is then raised
    await reached(phase)   from any other task
    await catch_up(), close(seconds)   of a service: run() as a task of its own

    phase    the current state
    reason   why it failed; "" until then
    inserts  how pages get into the log
    """

    def __init__(
        self,
        config: KafkaConfig,
        views: Namespaces,
        path: Path,
        *,
        rebuild: bool = False,
    ) -> None:
        """rebuild: start over with empty stores."""
        self.phase = Phase.CONNECTING
        self.reason = ""
        self._moved = asyncio.Event()  # with the next change of the phase
        self._config = config
        self._views = views
        self._path = path
        self._rebuild = rebuild
        self._applying = Applying(config, views, self._look)
        self._writer = Writer(config)
        self.inserts = LogInserts(self._writer, lambda: self.unwritable)
        self._manifest: LogManifest | None = (
            None  # that is on disk, or will be with the first write
        )
        self._caught_up = False  # whether the stores once had all of the log
        self._written = time.monotonic()  # the manifest
        self._topic: Topic | None = None  # once the log is identified
        self._reader: Reader | None = None  # once the log is known to be the stores' own
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._offsets: dict[int, int] = {}
        self._goal: dict[int, int] | None = None  # where the log ended when it was nearly read
        self._began = self._current_at = time.monotonic()

    def move(self, phase: Phase, reason: str = "") -> None:
        """Change the state and wake those who wait for it; an ended replica keeps its state.

        Raises ValueError for a move that the module does not show.
        """
        if phase is self.phase or self.phase in ENDED:
            return
        if phase not in ENDED and phase not in _MOVES[self.phase]:
            raise ValueError(f"a replica does not go from {self.phase.name} to {phase.name}")
        self.phase, self.reason = phase, reason
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def reached(self, *phases: Phase) -> Phase:
        """Wait for one of these states; return it. FAILED and STOPPED end the wait, too."""
        while self.phase not in phases and self.phase not in ENDED:
            await self._moved.wait()
        return self.phase

    @property
    def ready(self) -> bool:
        """Whether it serves: it has caught up, in an earlier run perhaps, and has not failed since."""
        return self.phase in SERVING

    @property
    def unwritable(self) -> str:
        """Why nothing may be written to the log now; "" if it may."""
        if self._reader is None:
            return (
                "Kafka has not answered since this service started, so its log may be another one than "
                "that of the stores; nothing is written before that is checked"
            )
        return "Kafka does not answer" if self._reader.away else ""

    @property
    def uncommitted(self) -> int:
        """Records of the log that wait for the end of a transaction."""
        return self._reader.uncommitted if self._reader else 0

    @property
    def counts(self) -> Counter[str]:
        """What became of the events, see ReplicaState."""
        return self._applying.counts

    def state(self) -> ReplicaState:
        """Return a report of the current state."""
        reader, now, phase = self._reader, time.monotonic(), self.phase
        lag = 0 if reader is None else self._lag(reader)
        unknown_seconds = now - self._began if self._topic is None else 0.0
        away_seconds = unknown_seconds if reader is None else reader.away_seconds
        return ReplicaState(
            STATUS[phase],
            self._reason(lag, away_seconds),
            self.ready,
            lag,
            0.0 if phase is Phase.FOLLOWING and not lag else now - self._current_at,
            away_seconds,
            now - self._written,
            dict(self._offsets),
            {} if reader is None else dict(reader.ends),
            dict(self.counts),
        )

    def _reason(self, lag: int, away_seconds: float) -> str:
        """Return why the status is not "current"; "" if it is."""
        phase, reader = self.phase, self._reader
        if phase is Phase.FOLLOWING:
            return ""
        if phase in (Phase.FAILED, Phase.STOPPED):
            return self.reason
        away = f"Kafka has not answered for {away_seconds:.0f} s"
        if reader is None:
            reason = away if away_seconds else "Kafka answers"
        elif not reader.alive:
            reason = reader.unreadable or away
        else:
            reason = self._applying.trouble or f"records of the log not applied yet: {lag:,}"
        if phase is Phase.RESUMED:
            reason += "; the stores are served as the last run left them"
        return reason

    def _look(self) -> None:
        """Update the phase; called when the state of reader or stores has changed."""
        reading = self._reader is not None and self._reader.alive
        match self.phase:
            case Phase.CONNECTING if reading:
                self.move(Phase.CATCHING_UP)
            case Phase.CATCHING_UP if not reading:
                self.move(Phase.CONNECTING)
            case Phase.FOLLOWING if not reading or self._applying.trouble:
                self.move(Phase.STALE)
            case Phase.STALE if reading and not self._applying.trouble:
                self.move(Phase.FOLLOWING)

    # --------------------------------------------------------------------------- identify the log

    async def prepare(self) -> None:
        """Identify the log, however long Kafka takes to answer, and check that the stores are its view.

        If the stores had caught up with it, wait PATIENCE_SECONDS only: run() keeps trying while they serve.

        Raises LogLost, TopicUnfit, UsageError, StoreDamaged, StoreLocked and OSError.
        """
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            manifest = None if self._rebuild else read_manifest(self._path)
            former = self._former_manifest() if self._rebuild else None
            if manifest is not None:
                self._adopt(manifest)
            try:
                await self._identify(PATIENCE_SECONDS if self._had_caught_up(manifest) else None)
            except KafkaUnavailable as error:
                assert manifest is not None
                log.warning("%s; the stores are served as they are until it does", error)
                self._offsets = dict(manifest.offsets)
            if self._rebuild:
                assert self._topic is not None
                if former is not None and former.has_grown(self._topic):
                    raise LogLost(f"{self._path} is not emptied: {former.other_log(self._topic)}")
                await asyncio.to_thread(empty_stores, self._path)
        except Exception as error:
            self.move(Phase.FAILED, str(error))
            raise

    def _former_manifest(self) -> LogManifest | None:
        """Return the manifest of the stores that a rebuild is about to empty, if it can be read."""
        try:
            return read_manifest(self._path)
        except StoreDamaged:
            return None

    def _had_caught_up(self, manifest: LogManifest | None) -> bool:
        """Whether the stores once had all of the log, by the manifest."""
        if manifest is None or manifest.topic != self._config.topic:
            return False
        return manifest.caught_up and len(manifest.offsets) == manifest.partitions

    async def _identify(self, within_seconds: float | None = None) -> None:
        """Find the log, and check that it is the one of the stores. Raises KafkaUnavailable."""
        config = self._config

        def look() -> Awaitable[Topic]:
            return ensure_topic(config)

        what = f"looking for the topic {config.topic}"
        topic = await started(look, what, within_seconds=within_seconds, config=config)
        manifest = self._manifest
        if manifest is None:
            self._adopt(LogManifest.of(topic))
        elif why := manifest.other_log(topic):
            raise LogLost(f"the stores in {self._path} are not of this log: {why}")
        self._topic = topic

    # ----------------------------------------------------------------------------- follow the log

    async def run(self) -> None:
        """Apply the log until stop(). Raises what ends it: LogLost, StoreDamaged."""
        assert self._manifest is not None, "prepare() comes first"
        try:
            if not await self._connected():
                return
            while not self._stop.is_set():
                await self._step()
        except Stopped:
            pass
        except Exception as error:
            self.move(Phase.FAILED, str(error))
            log.error("stopped applying the Kafka log: %s", error)
            raise
        finally:
            await self._end()

    def stop(self) -> None:
        """End run() after the current batch, with a last manifest."""
        self._stop.set()
        self._applying.stop()

    async def _connected(self) -> bool:
        """Connect, with retries; False if stop() came first."""
        connecting = asyncio.ensure_future(self._connect())
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({connecting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not connecting.done():
            connecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await connecting
            return False
        connecting.result()
        return True

    async def _connect(self) -> None:
        """Check the stores against the log, open the reader."""
        applying, path = self._applying, self._path
        assert self._manifest is not None
        self._note_applied()
        if self._topic is None:
            gone = missing(path, self._manifest, applying.applied)
            if not gone and any(len(detector) for _, detector in self._views):
                self.move(Phase.RESUMED)
            await self._identify()
            self._note_applied()
        assert self._topic is not None
        applying.partitions = self._topic.partitions
        written = read_manifest(path)
        if written is None:
            check_unknown(path, self._views)
        manifest = self._manifest.without(missing(path, self._manifest, applying.applied))
        # Written before a store is rebuilt, so that what it lacks then is expected.
        if manifest != written:
            write_manifest(path, manifest)
        self._adopt(manifest)
        reader = Reader(
            self._config,
            self._topic,
            manifest.offsets,
            records=SERVING_RECORDS if self.ready else CATCHING_UP_RECORDS,
            changed=self._look,
            last=manifest.last,
        )
        await reader.start()
        self._offsets = dict(reader.positions)
        try:
            check_ends(path, self._topic, applying.applied, reader.ends)
        except LogLost:
            await reader.stop()
            raise
        self._reader = reader
        self._look()

    def _note_applied(self) -> None:
        """Read the offsets of the stores; of namespaces that are refused, those of the manifest."""
        assert self._manifest is not None
        self._applying.note_applied()
        for name in self._views.unserved:
            if offsets := self._manifest.namespaces.get(name):
                self._applying.applied[name] = dict(offsets)

    async def _step(self) -> None:
        reader = self._reader
        assert reader is not None
        batch = await reader.batch(1.0 if self.phase in CAUGHT_UP else 0.2)
        if batch:
            await self._apply(batch)
        self._move_past(reader)
        if self.phase not in CAUGHT_UP:
            await self._see_whether_caught_up(reader, idle=not batch)
        if self.phase in CAUGHT_UP and reader.alive and not self._lag(reader):
            self._current_at = time.monotonic()
        if time.monotonic() - self._written > MANIFEST_SECONDS:
            await self.checkpoint()

    def _move_past(self, reader: Reader) -> None:
        """Count offsets without a record, such as a transaction's markers, as applied."""
        for partition, position in reader.positions.items():
            self._offsets[partition] = max(self._offsets.get(partition, 0), position)

    async def _see_whether_caught_up(self, reader: Reader, *, idle: bool) -> None:
        """Begin to follow once all is applied that was in the log when its end was last asked for."""
        if not reader.alive or (self._goal is None and self._lag(reader) > NEAR_THE_END):
            return
        try:
            if self._goal is None or idle:  # the rest may be offsets without a record
                await reader.ask()
                self._move_past(reader)
        except Exception as error:  # noqa: BLE001 - asked again in the next round
            log.debug("asking for the end of the log failed: %s", error)
            return
        if self._goal is None:
            self._goal = dict(reader.ends)
        if all(self._offsets.get(partition, 0) >= end for partition, end in self._goal.items()):
            await self._begin_following(reader)

    async def _begin_following(self, reader: Reader) -> None:
        self._look()  # Kafka may have gone away and come back since
        if self.phase is Phase.CONNECTING:
            return
        self.move(Phase.FOLLOWING)
        self._look()
        self._current_at = time.monotonic()
        reader.limit(SERVING_RECORDS)
        log.info("the log is applied up to its end: %s", dict(self.counts))
        if not self._caught_up:
            self._caught_up = True
            await self.checkpoint()

    async def _apply(self, batch: dict[int, list[Any]]) -> None:
        self._offsets.update(await self._applying.batch(batch, judge=self.phase in CAUGHT_UP))

    def _adopt(self, manifest: LogManifest) -> None:
        """Continue from a manifest."""
        self._manifest, self._caught_up = manifest, manifest.caught_up

    async def checkpoint(self) -> None:
        """Flush the stores, then write the manifest: what it covers is on disk. Logs what the disk refuses."""
        assert self._topic is not None
        assert self._reader is not None
        applying = self._applying
        touched = set(applying.touched)
        manifest = replace(
            LogManifest.of(self._topic),
            offsets=dict(sorted(self._offsets.items())),
            namespaces={
                n: dict(sorted(o.items())) for n, o in sorted(applying.applied.items()) if o
            },
            caught_up=self._caught_up,
            last=dict(sorted(self._reader.last.items())),
        )
        self._written = time.monotonic()
        try:
            for name in touched:
                detector = self._views.get(name)
                if detector is not None:
                    await asyncio.to_thread(detector.store.sync)
            if manifest != self._manifest:
                await asyncio.to_thread(write_manifest, self._path, manifest)
                self._manifest = manifest
            applying.touched -= touched
        except OSError as error:
            applying.log_once("manifest", "%s was not written: %s", self._path / MANIFEST, error)

    async def _end(self) -> None:
        if self._reader is not None:
            with contextlib.suppress(Exception):
                await self.checkpoint()
            await self._reader.stop()
        await self._applying.close()
        self.move(Phase.STOPPED, "the replica was stopped")

    def _lag(self, reader: Reader) -> int:
        return sum(max(0, end - self._offsets.get(p, 0)) for p, end in reader.ends.items())

    # ------------------------------------------------------------------- as the service has it

    async def catch_up(self) -> None:
        """Follow the log; return once the stores may be served. Raises what ends Replica.run() before."""
        self._running = asyncio.create_task(self.run())
        if await self.reached(*SERVING) not in SERVING:
            await asyncio.wait({self._running})
            self._running.result()

    @property
    def not_ready(self) -> str | None:
        """Why pages may not be answered for, or None if they may."""
        state = self.state()
        return None if state.ready else f"{state.status}: {state.reason}"

    @property
    def stale(self) -> str:
        """Why answers may be behind the log, or ""."""
        state = self.state()
        return state.reason if state.ready and state.status != "current" else ""

    async def close(self, seconds: float) -> None:
        """Wait for Kafka's acknowledgements, this long at most; stop applying; disconnect."""
        await self.inserts.drain(seconds)
        self.stop()
        if self._running is not None:
            await asyncio.wait({self._running}, timeout=seconds)
            if not self._running.done():
                self._running.cancel()
                await asyncio.wait({self._running})
            if not self._running.cancelled():
                self._running.exception()  # which was logged
        await self._writer.stop()

    def info(self) -> dict[str, object]:
        """Return the replica's state in flat fields, for DEDUP.INFO."""
        state = self.state()
        return {
            "log_status": state.status,
            "log_lag_records": state.lag_records,
            "log_behind_seconds": round(state.behind_seconds, 1),
            "log_manifest_age_seconds": round(state.manifest_seconds, 1),
        }

    def metrics(self) -> Iterable[Metric]:
        """Yield the metrics of the log."""
        state = self.state()
        for name, text, value in (
            ("dedup_log_stale", "1 if ready, but not up to date", bool(self.stale)),
            ("dedup_log_lag_records", "Records of the log not applied yet", state.lag_records),
            (
                "dedup_log_uncommitted_records",
                "Records that wait for the end of a transaction",
                self.uncommitted,
            ),
            ("dedup_log_behind_seconds", "Since it was up to date", state.behind_seconds),
            ("dedup_log_away_seconds", "Since Kafka last answered", state.away_seconds),
            ("dedup_log_manifest_age_seconds", "Since the last manifest", state.manifest_seconds),
            (
                "dedup_log_unacknowledged",
                "Inserts that wait for Kafka",
                self.inserts.unacknowledged,
            ),
        ):
            yield GaugeMetricFamily(name, text, float(value))
        for name, text, offsets in (
            ("dedup_log_applied_offset", "Next offset to be applied", state.offsets),
            ("dedup_log_end_offset", "End of the log, as last heard", state.ends),
        ):
            gauge = GaugeMetricFamily(name, text, labels=("partition",))
            for partition, offset in sorted(offsets.items()):
                gauge.add_metric((str(partition),), float(offset))
            yield gauge
        events = CounterMetricFamily("dedup_log_events", "Events by result", labels=("result",))
        for result, count in sorted(state.counts.items()):
            events.add_metric((result,), float(count))
        yield events


class LogInserts:
    """Inserts of a service that follows a log.

    OK means that Kafka acknowledged the event. The reservation is kept until the event is applied, so that no client
    gets `unique` for the same content in between; without Kafka's acknowledgement it is kept too, and the client's
    retry inserts the same page again. Nothing is written to a log before its identity was checked, nor while Kafka is
    known to be away: that is refused at once.
    """

    def __init__(self, writer: Writer, unwritable: Callable[[], str] = lambda: "") -> None:
        """unwritable() returns why nothing may be written to the log now, or ""."""
        self._writer = writer
        self._unwritable = unwritable
        self._tasks: set[asyncio.Task[Any]] = set()

    def insert(
        self, namespace: str, detector: EmbeddedDetector, verdict: Verdict, given: LateFields
    ) -> "asyncio.Future[None]":
        """Produce the event of a reserved page; the future is done when Kafka has it.

        Raises EventInvalid, and KafkaUnavailable where the log must not or cannot be written to.
        """
        self._check_log()
        assert verdict.token is not None
        document = replace(verdict.document, inserted_seconds=time.time(), **given)
        return self._task(self._insert(detector, verdict.token, *encode(namespace, document)))

    def forget(
        self, namespace: str, detector: EmbeddedDetector, key: str
    ) -> "asyncio.Future[bool]":
        """Produce a tombstone; return whether this view has the document.

        Raises KafkaUnavailable where the log must not or cannot be written to.
        """
        self._check_log()
        known = detector.get(key) is not None
        return self._task(self._forget(record_key(namespace, key), known=known))

    @property
    def unacknowledged(self) -> int:
        """Number of records that wait for Kafka."""
        return self._writer.unacknowledged

    async def drain(self, seconds: float) -> bool:
        """Wait for unacknowledged records, this many seconds at most; return whether all are done."""
        if not self._tasks:
            return True
        return not (await asyncio.wait(set(self._tasks), timeout=seconds))[1]

    def _check_log(self) -> None:
        if why := self._unwritable():
            raise KafkaUnavailable(why)

    async def _insert(
        self, detector: EmbeddedDetector, token: str, key: bytes, value: bytes
    ) -> None:
        await self._writer.send(key, value)
        detector.pin(token)  # the event will come: until now the reservation could expire

    async def _forget(self, key: bytes, *, known: bool) -> bool:
        await self._writer.send(key, None)
        return known

    def _task(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
