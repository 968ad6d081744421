"""The stores of a service as the view of a log: every insert event in, from all of its partitions.

    prepare: which log is this?  ->  read -> apply (applying.py)
             now and then: flush the stores -> manifest

The rules kept here: the log is the truth. Another log than before, or one with a gap, is refused.
While Kafka is away, what was applied is served on, and `state()` says that it is stale: at a start
too, if the stores were a whole view when the last manifest was written. Which log it is that they are
a view of is looked at as soon as Kafka answers; until then nothing of theirs is changed.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from pathlib import Path
from typing import Any

from dedup.core.folder_lock import FolderLock
from dedup.model.events import EventNewer
from dedup.service.log.applying import Applying, Stopped
from dedup.service.log.identity import ADVICE, check_ends, check_unknown, missing
from dedup.service.log.manifest import MANIFEST, Manifest, read_manifest, write_manifest
from dedup.service.log.partitions import clear, give_up_all
from dedup.service.log.state import State, Views
from dedup.wire.kafka import KafkaConfig, KafkaUnavailable, LogLost, Reader, Topic, ensure_topic
from dedup.wire.kafka.supervision import started
from dedup.wire.shards import Share

__all__ = ["Replica"]

CATCHING_UP_RECORDS = 20_000  # of one batch, before anyone is served
SERVING_RECORDS = 1_000  # and after: a batch holds a namespace's lock for milliseconds
NEAR_THE_END = 10_000  # records behind the log's end: time to ask where it is now
MANIFEST_SECONDS = 10.0
SNAPSHOT_DOCUMENTS = 100_000  # changed since the last: more would make opening slow
SNAPSHOT_SHARE = 0.05  # of all documents, which a snapshot writes
PATIENCE_SECONDS = 5.0  # with Kafka at a start, before a whole view is served as it is

log = logging.getLogger(__name__)


class Replica:
    """Keeps the namespaces of a folder equal to a log.

    await prepare()     before the stores are opened
    await run()         once they are; until stop() or a failure, which is then raised

    share     what is held of the log; None until prepare() is done
    is_known  whether the log is known to be the one of the stores
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
        self.share: Share | None = None
        self.is_known = False
        self._rebuild = rebuild
        self._partitions = partitions
        self._create = create
        self._topic: Topic | None = None
        self._manifest: Manifest | None = None
        self._reader: Reader | None = None
        self._applying = Applying(config, views)
        self._clearing: asyncio.Task[None] | None = None  # of what was given up
        self._stop = asyncio.Event()
        self._offsets: dict[int, int] = {}
        self._goal: dict[int, int] | None = None  # where the log ended when it was nearly read
        self._caught_up = False
        self._as_it_was = False  # whether what an earlier life caught up with is served
        self._failure: str = ""
        self._doing = ""  # what is done before the log is read
        self._began = self._current_at = self._manifest_at = time.monotonic()

    @property
    def ready(self) -> bool:
        """Whether it has caught up once, in an earlier life perhaps, and has not failed since."""
        return (self._caught_up or self._as_it_was) and not self._failure

    @property
    def counts(self) -> Counter[str]:
        """What became of the events, see State."""
        return self._applying.counts

    @property
    def cleared(self) -> bool:
        """Whether nothing is left of the partitions that were given up."""
        return self._clearing is not None and self._clearing.done()

    def state(self) -> State:
        """Return where it stands now."""
        reader, now = self._reader, time.monotonic()
        lag = 0 if reader is None else self._lag(reader)
        if reader is not None:
            away_seconds = reader.away_seconds
        else:
            away_seconds = now - self._began if self._topic is None else 0.0
        status, reason = self._standing(lag, away_seconds)
        return State(
            status,
            reason,
            self.ready,
            lag,
            0.0 if status == "current" and not lag else now - self._current_at,
            away_seconds,
            now - self._manifest_at,
            dict(self._offsets),
            {} if reader is None else dict(reader.ends),
            dict(self.counts),
        )

    def _standing(self, lag: int, away_seconds: float) -> tuple[str, str]:
        """Return the status, and why it is not "current"."""
        away = f"Kafka has not answered for {away_seconds:.0f} s"
        reader = self._reader
        if self._failure:
            return "failed", self._failure
        if reader is None:
            status, reason = (
                "connecting",
                self._doing or (away if away_seconds else "Kafka answers"),
            )
        elif not reader.alive:
            status, reason = "connecting", away
        elif self._applying.trouble:
            status, reason = "catching_up", self._applying.trouble
        elif not self._caught_up:
            status, reason = "catching_up", f"records of the log that are not applied yet: {lag:,}"
        else:
            return "current", ""
        if self._as_it_was and not self._caught_up:
            reason += "; since this start the stores are served as they were before"
        return "stale" if self.ready else status, reason

    async def prepare(self) -> None:
        """Find the log, as long as it takes Kafka to answer, and see that the stores are its view.

        With stores that were a whole view of it, Kafka has PATIENCE_SECONDS: then run() goes on
        looking, and they are served meanwhile.

        Raises LogLost, TopicUnfit, UsageError, StoreDamaged, StoreLocked and OSError.
        """
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            self._manifest = manifest = None if self._rebuild else read_manifest(self._path)
            try:
                await self._identify(PATIENCE_SECONDS if self._was_whole(manifest) else None)
            except KafkaUnavailable as error:
                assert manifest is not None
                log.warning("%s: the stores are served as they are meanwhile", error)
                self.share = self._share_of(manifest.partitions)
                self._offsets = dict(manifest.offsets)
            if self._rebuild:
                await asyncio.to_thread(self._empty)
        except Exception as error:
            self._failure = str(error)
            raise

    def _was_whole(self, manifest: Manifest | None) -> bool:
        """Whether the stores once had all of what is to be held of the log, as far as they say."""
        if manifest is None or manifest.topic != self._config.topic:
            return False
        held = self._share_of(manifest.partitions).partitions
        return manifest.caught_up and manifest.offsets.keys() == set(held)

    def _share_of(self, count: int) -> Share:
        asked = self._asked_share
        return Share.everything(count) if asked is None else Share.of(asked, count)

    async def _identify(self, within_seconds: float | None = None) -> None:
        """Find the log, and see that it is the one of the stores. Raises KafkaUnavailable."""
        topic, manifest = await self._found(within_seconds), self._manifest
        self.share = self._share_of(topic.partitions)
        if manifest is not None and (why := manifest.other_log(topic)):
            raise LogLost(f"the stores in {self._path} are not of this log: {why}. {ADVICE}")
        self._manifest = manifest or Manifest.of(topic, {}, {})
        self._topic = topic

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
        except Stopped:
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
        self._applying.stop()

    async def _found(self, within_seconds: float | None) -> Topic:
        async def look() -> Topic:
            try:
                return await ensure_topic(
                    self._config, partitions=self._partitions, create=self._create
                )
            except KafkaUnavailable as error:
                raise ConnectionError(str(error)) from error  # which is tried again

        what = f"looking for the topic {self._config.topic}"
        return await started(look, what, within_seconds=within_seconds)

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
        assert self._manifest is not None
        assert self.share is not None
        applying, path = self._applying, self._path
        applying.note_applied()
        if self._topic is None:
            gone = missing(path, self._manifest, applying.applied)
            self._as_it_was = not gone and any(len(detector) for _, detector in self._views)
            await self._identify()
            applying.note_applied()
        assert self._topic is not None
        applying.share = share = self.share
        written = read_manifest(path)
        if written is None:
            check_unknown(path, self._views)
        manifest = self._manifest.only(share.partitions)
        manifest = manifest.without(missing(path, manifest, applying.applied))
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
        applying.note_applied()
        reader = Reader(
            self._config,
            self._topic,
            manifest.offsets,
            records=SERVING_RECORDS if self._as_it_was else CATCHING_UP_RECORDS,
            partitions=share.partitions,
        )
        await reader.start()
        self._reader = reader
        self._offsets = dict(reader.positions)
        check_ends(path, self._topic, applying.applied, reader.ends)
        self.is_known = True

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
            assert self._manifest is not None
            if not self._manifest.caught_up:
                await self._note()

    async def _clear(self) -> None:
        """Remove what was given up, now that the service answers."""
        assert self.share is not None

        def removed(name: str, count: int) -> None:
            self.counts["given_up"] += count
            self._applying.touched.add(name)

        await clear(list(self._views), self._path, self.share, removed)

    async def _apply(self, batch: dict[int, list[Any]]) -> None:
        offsets, newer = await self._applying.batch(batch, judge=self._caught_up)
        self._offsets.update(offsets)
        if newer is not None:
            assert self._topic is not None
            raise EventNewer(f"the topic {self._topic.name!r}, {newer}")

    async def _note(self) -> None:
        """Flush the stores, then write the manifest: what it covers is on disk."""
        assert self._topic is not None
        assert self._manifest is not None
        applying = self._applying
        offsets, touched = dict(self._offsets), set(applying.touched)
        namespaces = {name: dict(each) for name, each in applying.applied.items() if each}
        caught_up = self._caught_up or self._manifest.caught_up
        self._manifest_at = time.monotonic()
        try:
            for name in touched:
                detector = self._views.get(name)
                if detector is not None:
                    await asyncio.to_thread(detector.sync)
                    least = max(SNAPSHOT_DOCUMENTS, int(SNAPSHOT_SHARE * len(detector)))
                    await asyncio.to_thread(detector.snapshot, least)
            manifest = Manifest.of(self._topic, offsets, namespaces, caught_up=caught_up)
            if manifest != self._manifest:
                await asyncio.to_thread(write_manifest, self._path, manifest)
                self._manifest = manifest
            applying.touched -= touched
        except OSError as error:
            applying.say_once("manifest", "%s was not written: %s", self._path / MANIFEST, error)

    async def _end(self) -> None:
        if self._clearing is not None:
            self._clearing.cancel()
            await asyncio.gather(self._clearing, return_exceptions=True)
        if self._reader is not None:
            if self.is_known:
                with contextlib.suppress(Exception):
                    await self._note()
            await self._reader.stop()
        await self._applying.close()

    def _lag(self, reader: Reader) -> int:
        return sum(max(0, end - self._offsets.get(p, 0)) for p, end in reader.ends.items())
