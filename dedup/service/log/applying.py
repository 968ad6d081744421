"""Batches of the log into the stores; records that are no events go to the dead letters.

    records -> sort by namespace -> each namespace's own transaction
                                 -> no events: to the dead-letter topic

The rule kept here: a record is applied in its namespace's own transaction once, or not at all,
whatever ends the process; what cannot be applied is counted and logged, never skipped in silence. A
store that takes no changes, or a dead-letter topic that cannot be written, is tried until it works.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from dedup.core.backoff import Backoff
from dedup.core.say_once import SayOnce
from dedup.detector import EmbeddedDetector
from dedup.model.errors import DedupError, RecipeMismatch, StoreDamaged
from dedup.model.recipes import recipe_of
from dedup.service.core.namespaces import Namespaces
from dedup.service.log.dead_letters import Letter, bury
from dedup.service.log.sorting import Changes, Sorted, of_recipe, sorted_batch
from dedup.wire.kafka import KafkaConfig, KafkaUnavailable, Writer, ensure_topic
from dedup.wire.shards import Share

__all__ = ["Applying", "Stopped"]

FIRST_RETRY_SECONDS = 0.5  # after a store or the dead letters failed
LONGEST_RETRY_SECONDS = 10.0

log = logging.getLogger(__name__)


class Stopped(Exception):
    """stop() was called while a batch could not be applied; it is read again at the next start."""


class Applying:
    """Applies batches of a log to the namespaces of a service.

    share    which partitions are held here; None: not known yet, or all
    applied  {namespace: {partition: next offset}}, as the stores noted
    touched  namespaces that changed since this was last emptied
    counts   see State
    trouble  what keeps a batch from being applied, for the moment; "" if nothing does
    """

    def __init__(
        self, config: KafkaConfig, views: Namespaces, changed: Callable[[], None] = lambda: None
    ) -> None:
        """changed() is called when trouble begins or ends."""
        self._config = config
        self._views = views
        self._changed = changed
        self.share: Share | None = None
        self.applied: dict[str, dict[int, int]] = {}
        self.touched: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.trouble = ""
        self._letters: Writer | None = None
        self._stop = asyncio.Event()
        self._once = SayOnce()

    def stop(self) -> None:
        """Stop retrying: batch() raises Stopped where it waits."""
        self._stop.set()

    async def close(self) -> None:
        """Disconnect from Kafka, within seconds."""
        if self._letters is not None:
            await self._letters.stop()

    def say_once(self, kind: str, text: str, *values: object) -> None:
        """Log an error, once of each kind."""
        if self._once.is_new(kind):
            log.error(text, *values)

    def note_applied(self) -> None:
        """Read the offsets that the stores noted, of the partitions that are held."""
        noted = {name: detector.offsets() for name, detector in self._views}
        if self.share is not None:
            held = self.share.partitions
            noted = {
                name: {p: n for p, n in offsets.items() if p in held}
                for name, offsets in noted.items()
            }
        self.applied = noted

    async def batch(
        self, batch: Mapping[int, list[Any]], *, judge: bool
    ) -> tuple[dict[int, int], str | None]:
        """Apply {partition: records}; return the next offsets, and what is wrong with a newer event.

        judge says whether late duplicates are looked for, see EmbeddedDetector.apply().
        Raises Stopped, and StoreDamaged.
        """
        count = 1 if self.share is None else self.share.count
        done = await asyncio.to_thread(sorted_batch, batch, self._applied_by, count)
        if done.misplaced:
            self.counts["misplaced"] += len(done.misplaced)
            self.say_once(
                "misplaced",
                "partition %d, offset %d is not in the partition of its key by murmur2, and is skipped "
                "like all such events: its producer uses another partitioner. Set it to Kafka's own, and "
                "write those events again",
                *done.misplaced[0],
            )
        self.counts["repeated"] += done.repeated
        for name, group in done.groups.items():
            await self._apply_group(name, group.changes, group.offsets, judge=judge)
        if done.bad:
            await self._write_dead_letters(done)
        return done.offsets, done.newer

    def _applied_by(self, name: str) -> dict[int, int]:
        return self.applied.get(name, {})

    async def _apply_group(
        self, name: str, changes: Changes, offsets: dict[int, int], *, judge: bool
    ) -> None:
        detector = self._view(name, changes)
        if detector is None:
            return
        kept, others = of_recipe(changes, detector.recipe.id)
        if others:
            self.counts["other_recipe"] += others
            self.say_once(
                f"recipe {name}",
                "the namespace %s is of recipe %s: events of others are skipped",
                name,
                detector.recipe.id,
            )
        counts, late = await self._apply_until_stored(detector, kept, offsets, judge=judge)
        for field, count in zip(counts._fields, counts, strict=True):
            self.counts[field] += count
        self.counts["late_duplicate"] += late
        self.applied.setdefault(name, {}).update(offsets)
        self.touched.add(name)

    def _view(self, name: str, changes: Changes) -> EmbeddedDetector | None:
        """Return the detector of a namespace, created with its first event's recipe if missing.

        None if it cannot be created.
        """
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
                self.say_once(
                    "refused",
                    "events of the namespace %s are not applied: %s. Once that is fixed, start over "
                    "with --rebuild",
                    name,
                    error,
                )
                return None
        self.counts["other_recipe"] += sum(document is not None for _, document in changes)
        return None

    async def _apply_until_stored(
        self, detector: EmbeddedDetector, changes: Changes, offsets: dict[int, int], *, judge: bool
    ) -> Any:
        backoff = self._backoff()
        while True:
            try:
                done = await asyncio.to_thread(detector.apply, changes, offsets, judge=judge)
            except OSError as error:  # a full disk, most often: probes go on meanwhile
                if self._once.is_new("store"):
                    log.error("the log waits for a store: %s", error)
                self._set_trouble(f"a store takes no changes: {error}")
            else:
                self._once.ended("store")
                self._set_trouble("")
                return done
            await self._wait(backoff)

    async def _write_dead_letters(self, done: Sorted) -> None:
        """Write records that are no events to the dead letters, before they count as read."""
        self.counts["dead_letters"] += len(done.bad)
        partition, record, error = done.bad[0]
        self.say_once(
            "dead letters",
            "partition %d, offset %d is no insert event, see the topic %s: %s",
            partition,
            record.offset,
            self._config.dead_letters,
            error,
        )
        backoff = self._backoff()
        left = [Letter(*each) for each in done.bad]
        while True:
            try:
                if self._letters is None:
                    await ensure_topic(
                        self._config, self._config.dead_letters, partitions=1, compact=False
                    )
                    self._letters = Writer(self._config)
                left = await bury(self._letters, self._config, left)
            except KafkaUnavailable as fault:
                self._set_trouble(f"dead letters cannot be written: {fault}")
            except DedupError as fault:  # not allowed to: the log still has them
                self.say_once(
                    "no dead letters", "%s; records that are no events are dropped", fault
                )
                break
            else:
                if not left:
                    break
                self._set_trouble("dead letters cannot be written: Kafka does not acknowledge them")
            await self._wait(backoff)
        self._set_trouble("")

    def _backoff(self) -> Backoff:
        return Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)

    async def _wait(self, backoff: Backoff) -> None:
        """Wait until the next try. Raises Stopped when stop() is called."""
        try:
            await asyncio.wait_for(self._stop.wait(), backoff.next())
        except TimeoutError:
            return
        raise Stopped

    def _set_trouble(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self._changed()
