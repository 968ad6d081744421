"""The stores of a service as the view of a log: every insert event in, from all of its partitions.

    prepare: which log is this?  ->  read -> sort out -> apply, a transaction for each namespace
                                          -> what is no event: to the dead letters
             now and then: flush the stores -> manifest

The rules kept here: the log is the truth. A record is applied once in each namespace's own
transaction, or not at all, whatever ends the process; what cannot be applied is never skipped
without a count and a word. Another log than before, or one with a gap, is refused. While Kafka is
away, what was applied is served on, and `state()` says that it is stale.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from pathlib import Path
from typing import Any

from dedup.detector import Detector
from dedup.errors import DedupError, RecipeMismatch, StoreDamaged
from dedup.events import EventNewer
from dedup.kafka import KafkaConfig, KafkaUnavailable, LogLost, Reader, Topic, Writer, ensure_topic
from dedup.kafka.supervision import started
from dedup.recipes import recipe_of
from dedup.service.dead_letters import letters
from dedup.service.holding import clear, give_up_all, misplaced
from dedup.service.manifest import MANIFEST, Manifest, read_manifest, write_manifest
from dedup.service.same_log import ADVICE, check_ends, check_unknown, missing
from dedup.service.sorting import Changes, Sorted, of_recipe, sort_out
from dedup.service.state import State, Views
from dedup.shards import Share
from dedup.store.lock import FolderLock

__all__ = ["Replica"]

CATCHING_UP_RECORDS = 20_000  # of one batch, before anyone is served
SERVING_RECORDS = 1_000  # and after: a batch holds a namespace's lock for milliseconds
NEAR_THE_END = 10_000  # records behind the log's end: time to ask where it is now
MANIFEST_SECONDS = 10.0
SNAPSHOT_DOCUMENTS = 100_000  # changed since the last: more would make opening slow
SNAPSHOT_SHARE = 0.05  # of all documents, which a snapshot writes
RETRY_SECONDS = (0.5, 10.0)  # after a store or the dead letters failed

log = logging.getLogger(__name__)


class _Stopped(Exception):
    """stop() was called while a batch could not be applied; it is read again at the next start."""


class Replica:
    """Keeps the namespaces of a folder equal to a log.

    await prepare()     before the stores are opened
    await run()         once they are; until stop() or a failure, which is then raised
    """

    def __init__(
        self,
        config: KafkaConfig,
        views: Views,
        path: Path,
        *,
        share: str | None = None,
        rebuild: bool = False,
        partitions: int = 8,
        create: bool = True,
    ) -> None:
        """Partitions and create are for a topic that is missing: its number, and whether to make it.

        share says which partitions are held here, "0-3,6" say; None: all of them. rebuild empties the
        stores of the folder and starts over from the log's beginning.
        """
        self._config = config
        self._views = views
        self._path = path
        self._asked_share = share
        self.share: Share | None = None  # known once the topic is
        self._rebuild = rebuild
        self._partitions = partitions
        self._create = create
        self._topic: Topic | None = None
        self._manifest: Manifest | None = None
        self._reader: Reader | None = None
        self._letters: Writer | None = None
        self._clearing: asyncio.Task[None] | None = None  # of what was given up
        self._stop = asyncio.Event()
        self._offsets: dict[int, int] = {}
        self._applied: dict[str, dict[int, int]] = {}  # what each namespace noted
        self._touched: set[str] = set()  # namespaces with changes that no manifest covers
        self._goal: dict[int, int] | None = None  # where the log ended when it was nearly read
        self._caught_up = False
        self._failure: str = ""
        self._doing = ""  # what is done before the log is read
        self._trouble = ""  # what keeps a batch from being applied, for the moment
        self._current_at = self._manifest_at = time.monotonic()
        self._said: set[str] = set()
        self.counts: Counter[str] = Counter()

    @property
    def ready(self) -> bool:
        """Whether it has caught up once, and has not failed since."""
        return self._caught_up and not self._failure

    @property
    def cleared(self) -> bool:
        """Whether nothing is left of the partitions that were given up."""
        return self._clearing is not None and self._clearing.done()

    def state(self) -> State:
        """Return where it stands now."""
        reader, now = self._reader, time.monotonic()
        lag = 0 if reader is None else self._lag(reader)
        if self._failure:
            status, reason = "failed", self._failure
        elif reader is None:
            status, reason = "connecting", self._doing or "Kafka has not answered yet"
        elif not reader.alive:
            away = f"Kafka has not answered for {reader.away_seconds:.0f} s"
            status, reason = ("stale" if self._caught_up else "connecting"), away
        elif self._trouble:
            status, reason = ("stale" if self._caught_up else "catching_up"), self._trouble
        elif not self._caught_up:
            status, reason = "catching_up", f"{lag:,} records of the log are not applied yet"
        else:
            status, reason = "current", ""
        return State(
            status,
            reason,
            self.ready,
            lag,
            0.0 if status == "current" and not lag else now - self._current_at,
            0.0 if reader is None else reader.away_seconds,
            now - self._manifest_at,
            dict(self._offsets),
            {} if reader is None else dict(reader.ends),
            dict(self.counts),
        )

    async def prepare(self) -> None:
        """Find the log, as long as it takes Kafka to answer, and see that the stores are its view.

        Raises LogLost, TopicUnfit, StoreDamaged, StoreLocked and OSError.
        """
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            self._topic = topic = await self._found()
            asked, count = self._asked_share, topic.partitions
            self.share = Share.everything(count) if asked is None else Share.of(asked, count)
            manifest = None if self._rebuild else read_manifest(self._path)
            if manifest is not None and (why := manifest.other_log(topic)):
                raise LogLost(f"the stores in {self._path} are not of this log: {why}. {ADVICE}")
            if self._rebuild:
                await asyncio.to_thread(self._empty)
            if manifest is None:
                manifest = Manifest.of(topic, {}, {})
            self._manifest = manifest
        except Exception as error:
            self._failure = str(error)
            raise

    async def run(self) -> None:
        """Apply the log until stop(). Raises what ends it: LogLost, EventNewer, StoreDamaged."""
        assert self._manifest is not None, "prepare() comes first"
        try:
            if not await self._connected():
                return
            while not self._stop.is_set():
                await self._step()
                if self._clearing is not None and self._clearing.done():
                    self._clearing.result()  # raises what it failed by
        except _Stopped:
            pass
        except Exception as error:
            self._failure = str(error)
            log.error("the log is not applied any more: %s", error)
            raise
        finally:
            await self._end()

    def stop(self) -> None:
        """Have run() end after the batch under way, with a last manifest."""
        self._stop.set()

    async def _found(self) -> Topic:
        async def look() -> Topic:
            try:
                return await ensure_topic(
                    self._config, partitions=self._partitions, create=self._create
                )
            except KafkaUnavailable as error:
                raise ConnectionError(str(error)) from error  # which is tried again

        return await started(look, f"looking for the topic {self._config.topic}")

    def _empty(self) -> None:
        """Remove the documents of every namespace; cut short, nothing but --rebuild goes on."""
        (self._path / MANIFEST).unlink(missing_ok=True)
        for file in sorted(self._path.glob("*/documents.mdb")):
            lock = FolderLock(file.parent / "lock")
            try:
                file.unlink()
                (file.parent / "table.ndd").unlink(missing_ok=True)
            finally:
                lock.close()
            log.warning("%s was emptied, to be made anew from the log", file.parent)

    async def _connected(self) -> bool:
        """Connect, however long that takes; False if stop() came first."""
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
        assert self._topic is not None
        assert self._manifest is not None
        assert self.share is not None
        for name, detector in self._views:
            self._applied[name] = detector.offsets()
        written, path, share = read_manifest(self._path), self._path, self.share
        if written is None:
            check_unknown(path, self._views)
        manifest = self._manifest.only(share.partitions)
        manifest = manifest.without(missing(path, manifest, self._applied))
        # Before a store gives a partition up, or is made anew: what it has less then is not missed.
        if manifest != written:
            write_manifest(path, manifest)
        self._manifest = manifest
        removed = await asyncio.to_thread(
            give_up_all, self._views, path, share, self._say_what_is_done
        )
        if removed:
            self.counts["given_up"] = removed
        self._doing = ""
        for name, detector in self._views:
            noted = detector.offsets()
            self._applied[name] = {p: n for p, n in noted.items() if p in share.partitions}
        reader = Reader(
            self._config,
            self._topic,
            manifest.offsets,
            records=CATCHING_UP_RECORDS,
            partitions=share.partitions,
        )
        await reader.start()
        self._reader = reader
        self._offsets = dict(reader.positions)
        check_ends(path, self._topic, self._applied, reader.ends)

    def _say_what_is_done(self, text: str) -> None:
        self._doing = text

    async def _step(self) -> None:
        reader = self._reader
        assert reader is not None
        batch = await reader.batch(1.0 if self._caught_up else 0.2)
        if batch:
            await self._apply(batch)
        self._move_past(reader)
        if not self._caught_up:
            await self._see_whether_caught_up(reader, idle=not batch)
        if self._caught_up and reader.alive and not self._lag(reader):
            self._current_at = time.monotonic()
        if time.monotonic() - self._manifest_at > MANIFEST_SECONDS:
            await self._note()

    def _move_past(self, reader: Reader) -> None:
        """Count records that are not for us as applied."""
        for partition, position in reader.positions.items():
            self._offsets[partition] = max(self._offsets.get(partition, 0), position)

    async def _see_whether_caught_up(self, reader: Reader, *, idle: bool) -> None:
        """Caught up is who has all that lay in the log when it was asked for its end anew."""
        if not reader.alive or (self._goal is None and self._lag(reader) > NEAR_THE_END):
            return
        try:
            if self._goal is None or idle:  # what is left may be records that are not for us
                await reader.ask()
                self._move_past(reader)
        except Exception as error:
            log.debug("asking for the end of the log: %s", error)
            return
        if self._goal is None:
            self._goal = dict(reader.ends)
        if all(self._offsets.get(partition, 0) >= end for partition, end in self._goal.items()):
            self._caught_up = True
            self._clearing = asyncio.create_task(self._clear())
            self._current_at = time.monotonic()
            reader.limit(SERVING_RECORDS)
            log.info("the log is applied up to its end: %s", dict(self.counts))

    async def _clear(self) -> None:
        """Remove what was given up, now that the service answers."""
        assert self.share is not None

        def removed(name: str, count: int) -> None:
            self.counts["given_up"] += count
            self._touched.add(name)

        await clear(list(self._views), self._path, self.share, removed)

    async def _apply(self, batch: dict[int, list[Any]]) -> None:
        done = await asyncio.to_thread(sort_out, batch, self._applied_by)
        if self.share is not None and not self.share.whole:
            for partition, record, home in misplaced(batch, self.share.count):
                self.counts["misplaced"] += 1
                self._say_once(
                    "misplaced",
                    "partition %d, offset %d belongs to partition %d, by murmur2 of its key: who "
                    "wrote it spreads keys in another way, and shards need Kafka's own",
                    partition,
                    record.offset,
                    home,
                )
        self.counts["repeated"] += done.repeated
        for name, group in done.groups.items():
            await self._apply_group(name, group.changes, group.offsets)
        if done.bad:
            await self._bury(done)
        self._offsets.update(done.offsets)
        if done.newer is not None:
            assert self._topic is not None
            raise EventNewer(f"the topic {self._topic.name!r}, {done.newer}")

    def _applied_by(self, name: str) -> dict[int, int]:
        return self._applied.get(name, {})

    async def _apply_group(self, name: str, changes: Changes, offsets: dict[int, int]) -> None:
        detector = self._view(name, changes)
        if detector is None:
            return
        kept, others = of_recipe(changes, detector.recipe.id)
        if others:
            self.counts["other_recipe"] += others
            self._say_once(
                f"recipe {name}",
                "the namespace %s is of recipe %s: events of others are skipped",
                name,
                detector.recipe.id,
            )
        counts, late = await self._until_it_works(detector, kept, offsets)
        for field, count in zip(counts._fields, counts, strict=True):
            self.counts[field] += count
        self.counts["late_duplicate"] += late
        self._applied.setdefault(name, {}).update(offsets)
        self._touched.add(name)

    def _view(self, name: str, changes: Changes) -> Detector | None:
        """Return the namespace, made with the recipe of its first event; None if it cannot be."""
        detector = self._views.get(name)
        if detector is not None:
            return detector
        for _, document in changes:
            if document is None:
                continue
            try:
                recipe_of(document.page.recipe)
            except RecipeMismatch:
                continue
            try:
                return self._views.detector(name, recipe=document.page.recipe)
            except StoreDamaged:
                raise
            except DedupError as error:
                self.counts["refused"] += len(changes)
                self._say_once(
                    "refused",
                    "events of the namespace %s are not applied: %s. Once that is mended, start "
                    "over with --rebuild",
                    name,
                    error,
                )
                return None
        self.counts["other_recipe"] += sum(document is not None for _, document in changes)
        return None

    async def _until_it_works(
        self, detector: Detector, changes: Changes, offsets: dict[int, int]
    ) -> Any:
        pause, longest = RETRY_SECONDS
        while True:
            try:
                done = await asyncio.to_thread(
                    detector.apply, changes, offsets, judge=self._caught_up
                )
                self._trouble = ""
                return done
            except OSError as error:  # a full disk, most often: probes go on meanwhile
                if not self._trouble:
                    log.error("the log waits for a store: %s", error)
                self._trouble = f"a store takes no changes: {error}"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)
                raise _Stopped
            pause = min(2 * pause, longest)

    async def _bury(self, done: Sorted) -> None:
        """Write what is no event to the dead letters, unmodified, before it counts as read."""
        self.counts["dead_letters"] += len(done.bad)
        partition, record, error = done.bad[0]
        self._say_once(
            "dead letters",
            "partition %d, offset %d is no insert event, see the topic %s: %s",
            partition,
            record.offset,
            self._config.dead_letters,
            error,
        )
        pause, longest = RETRY_SECONDS
        while True:
            try:
                if self._letters is None:
                    await ensure_topic(
                        self._config, self._config.dead_letters, partitions=1, compact=False
                    )
                    self._letters = Writer(self._config)
                await self._letters.send_many(letters(self._config, done.bad))
                self._trouble = ""
                return
            except KafkaUnavailable as fault:
                self._trouble = f"dead letters cannot be written: {fault}"
            except DedupError as fault:  # no right to: the log still has them
                self._say_once(
                    "no dead letters", "%s; records that are no events are dropped", fault
                )
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)
                raise _Stopped
            pause = min(2 * pause, longest)

    async def _note(self) -> None:
        """Flush the stores, then write the manifest: what it covers is on disk."""
        assert self._topic is not None
        offsets, touched = dict(self._offsets), set(self._touched)
        namespaces = {name: dict(each) for name, each in self._applied.items() if each}
        self._manifest_at = time.monotonic()
        try:
            for name in touched:
                detector = self._views.get(name)
                if detector is not None:
                    await asyncio.to_thread(detector.sync)
                    least = max(SNAPSHOT_DOCUMENTS, int(SNAPSHOT_SHARE * len(detector)))
                    await asyncio.to_thread(detector.snapshot, least)
            manifest = Manifest.of(self._topic, offsets, namespaces)
            if manifest != self._manifest:
                await asyncio.to_thread(write_manifest, self._path, manifest)
                self._manifest = manifest
            self._touched -= touched
        except OSError as error:
            self._say_once("manifest", "%s was not written: %s", self._path / MANIFEST, error)

    async def _end(self) -> None:
        if self._clearing is not None:
            self._clearing.cancel()
            await asyncio.gather(self._clearing, return_exceptions=True)
        if self._reader is not None:
            with contextlib.suppress(Exception):
                await self._note()
            await self._reader.stop()
        if self._letters is not None:
            await self._letters.stop()

    def _lag(self, reader: Reader) -> int:
        return sum(max(0, end - self._offsets.get(p, 0)) for p, end in reader.ends.items())

    def _say_once(self, what: str, text: str, *values: object) -> None:
        if what not in self._said:
            self._said.add(what)
            log.error(text, *values)
