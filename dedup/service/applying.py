"""Apply batches of the log to the stores; write invalid records to the dead letters.

    records -> sort_batch -> each namespace's own transaction
                          -> invalid ones: the dead-letter topic

Invariants: a record is applied in its namespace's own transaction exactly once, whatever ends the
process; a record that cannot be applied is counted and logged, never skipped silently. A store that
takes no changes, or a Kafka that takes no dead letters, is retried until it works; a dead letter that
Kafka refuses is logged with its place in the log, and passed.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dedup.core.faults import Backoff, SayOnce
from dedup.detector import EmbeddedDetector
from dedup.model.errors import DedupError, EventInvalid, RecipeMismatch, StoreDamaged
from dedup.model.events import EventNewer, decode
from dedup.model.page import Document
from dedup.model.recipes import recipe_of
from dedup.service.core.namespaces import Namespaces
from dedup.wire.kafka import (
    KafkaConfig,
    KafkaUnavailable,
    Outgoing,
    RecordRefused,
    Writer,
    ensure_topic,
)
from dedup.wire.kafka.writer import dead_letter
from dedup.wire.shards import partition_of

FIRST_RETRY_SECONDS = 0.5  # after a store or the dead letters failed
LONGEST_RETRY_SECONDS = 10.0

log = logging.getLogger(__name__)

Changes = list[tuple[str, Document | None]]


class NamespaceChanges(NamedTuple):
    """The changes of a namespace, and the next offset of each partition they came from."""

    changes: Changes
    offsets: dict[int, int]


class Sorted(NamedTuple):
    """A sorted batch.

    groups     the changes by namespace
    bad        dead letters of the invalid records
    offsets    {partition: next offset} after the batch
    repeated   number of records that were applied before, and are left out
    misplaced  (partition, offset) of events that are not in their key's partition
    """

    groups: dict[str, NamespaceChanges]
    bad: "list[Letter]"
    offsets: dict[int, int]
    repeated: int
    misplaced: list[tuple[int, int]]


def sort_batch(
    batch: Mapping[int, list[Any]], applied: Mapping[str, Mapping[int, int]], count: int = 1
) -> Sorted:
    """Sort {partition: records} by namespace; a record has key, value and offset. Pure.

    applied has the next offsets that each namespace noted; count is the log's number of partitions. An event in another partition than its key's is
    left out, by every replica: between partitions there is no order, so that replicas would differ.
    """
    groups: dict[str, NamespaceChanges] = {}
    bad: list[Letter] = []
    misplaced: list[tuple[int, int]] = []
    offsets: dict[int, int] = {}
    repeated = 0
    for partition, records in batch.items():
        ends: dict[str, int] = {}  # the next offset of each namespace in this partition
        firsts: dict[str, int] = {}
        for record in records:
            try:
                namespace, key, document = decode(record.key, record.value)
            except EventInvalid as error:
                bad.append(Letter(partition, record, error))
                continue
            if count > 1 and partition_of(record.key, count) != partition:
                misplaced.append((partition, record.offset))
                continue
            first = firsts.get(namespace)
            if first is None:
                first = firsts[namespace] = applied.get(namespace, {}).get(partition, 0)
            if record.offset < first:
                repeated += 1
                continue
            group = groups.get(namespace)
            if group is None:
                group = groups[namespace] = NamespaceChanges([], {})
            group.changes.append((key, document))
            ends[namespace] = record.offset + 1
        offsets[partition] = records[-1].offset + 1
        for namespace, end in ends.items():
            groups[namespace].offsets[partition] = end
    return Sorted(groups, bad, offsets, repeated, misplaced)


class Letter(NamedTuple):
    """An invalid record, its error, and how much of it its dead letter leaves out (writer.dead_letter)."""

    partition: int
    record: Any
    error: Exception
    left_out: int = 0

    def outgoing(self, config: KafkaConfig) -> Outgoing:
        """Return the letter as a record: each replica writes its own copy, which its place in the log identifies."""
        place = config.topic, self.partition, self.record.offset
        made = dead_letter(self.record, place, "decode", self.error, self.left_out)
        return Outgoing(*made, config.dead_letters, partition=0)


class Stopped(Exception):
    """stop() was called while a batch could not be applied; the next start reads it again."""


class Applying:
    """Applies batches of a log to the namespaces of a service.

    partitions  their number in the log
    applied  {namespace: {partition: next offset}}, as the stores noted
    touched  namespaces changed since this was last emptied
    counts   see replica.ReplicaState
    trouble  what keeps a batch from being applied at the moment; "" for nothing
    """

    def __init__(
        self, config: KafkaConfig, views: Namespaces, changed: Callable[[], None] = lambda: None
    ) -> None:
        """changed() is called when trouble begins or ends."""
        self._config = config
        self._views = views
        self._changed = changed
        self.partitions = 1
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

    def log_once(self, kind: str, text: str, *values: object) -> None:
        """Log an error, once of each kind."""
        self._once.log(log, kind, text, *values)

    def note_applied(self) -> None:
        """Read the offsets that the stores noted."""
        self.applied = {name: detector.store.offsets() for name, detector in self._views}

    async def batch(self, batch: Mapping[int, list[Any]], *, judge: bool) -> dict[int, int]:
        """Apply {partition: records}; return the next offsets.

        judge: count late duplicates, see EmbeddedDetector.apply(). Raises Stopped and StoreDamaged.
        """
        done = await asyncio.to_thread(sort_batch, batch, self.applied, self.partitions)
        if done.misplaced:
            self.counts["misplaced"] += len(done.misplaced)
            self.log_once(
                "misplaced",
                "partition %d, offset %d is not in the partition of its key by murmur2; all such events "
                "are skipped. Either its producer uses another partitioner (set Kafka's own, and write "
                "those events again), or the topic has got more partitions (move to a new topic: "
                "docs/use/kafka.md)",
                *done.misplaced[0],
            )
        self.counts["repeated"] += done.repeated
        for name, group in done.groups.items():
            await self._apply_group(name, group, judge=judge)
        if done.bad:
            await self._write_dead_letters(done.bad)
        return done.offsets

    async def _apply_group(self, name: str, group: NamespaceChanges, *, judge: bool) -> None:
        changes = group.changes
        detector = self._views.get(name)
        if detector is None:
            detector = self._create(name, changes)
        if detector is None:
            return
        recipe = detector.recipe.id
        if {doc.page.recipe for _, doc in changes if doc is not None} - {recipe}:
            changes = [c for c in changes if c[1] is None or c[1].page.recipe == recipe]
            self.counts["other_recipe"] += len(group.changes) - len(changes)
            self.log_once(
                f"recipe {name}",
                "the namespace %s has recipe %s: events of other recipes are skipped",
                name,
                recipe,
            )
        counts, late = await self._apply_until_stored(detector, changes, group.offsets, judge)
        for field, count in zip(counts._fields, counts, strict=True):
            self.counts[field] += count
        self.counts["late_duplicate"] += late
        self.applied.setdefault(name, {}).update(group.offsets)
        self.touched.add(name)

    def _create(self, name: str, changes: Changes) -> EmbeddedDetector | None:
        """Create a namespace with its first event's recipe; None if it cannot be created."""
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
                self.log_once(
                    "refused",
                    "events of the namespace %s are not applied: %s. Fix that, then start over with "
                    "--rebuild",
                    name,
                    error,
                )
                return None
        self.counts["other_recipe"] += sum(document is not None for _, document in changes)
        return None

    async def _apply_until_stored(
        self, detector: EmbeddedDetector, changes: Changes, offsets: dict[int, int], judge: bool
    ) -> Any:
        backoff: Backoff | None = None
        while True:
            try:
                done = await asyncio.to_thread(detector.apply, changes, offsets, judge=judge)
            except OSError as error:  # a full disk, most often; probes are still answered
                self.log_once("store", "a store takes no changes, the log waits: %s", error)
                self._set_trouble(f"a store takes no changes: {error}")
            else:
                if backoff is not None:
                    self._once.ended("store")
                    self._set_trouble("")
                return done
            backoff = backoff or Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
            await self._wait(backoff)

    async def _write_dead_letters(self, letters: Sequence[Letter]) -> None:
        """Write invalid records to the dead letters, before they count as read."""
        newer = [each for each in letters if isinstance(each.error, EventNewer)]
        self.counts["dead_letters"] += len(letters) - len(newer)
        if newer:
            self.counts["newer"] += len(newer)
            self.log_once(
                "newer",
                "partition %d, offset %d: %s, then start with --rebuild, which reads such events again; until then "
                "they are in the topic %s",
                newer[0].partition,
                newer[0].record.offset,
                newer[0].error,
                self._config.dead_letters,
            )
        first = letters[0]
        self.log_once(
            "dead letters",
            "partition %d, offset %d is not an insert event, see the topic %s: %s",
            first.partition,
            first.record.offset,
            self._config.dead_letters,
            first.error,
        )
        backoff = Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        left = list(letters)
        while left:
            try:
                left = await self._send_letters(left)
            except KafkaUnavailable as error:
                self._set_trouble(f"dead letters cannot be written: {error}")
                await self._wait(backoff)
            except DedupError as error:  # this user may not write them: the log still has them
                self.counts["dead_letters_lost"] += len(left)
                self.log_once("no dead letters", "%s; dead letters are dropped", error)
                break
        self._set_trouble("")

    async def _send_letters(self, letters: Sequence[Letter]) -> list[Letter]:
        """Send letters; return those to be sent again, smaller if Kafka refused them.

        Raises KafkaUnavailable where Kafka acknowledged none of them, TopicUnfit without a topic.
        """
        if self._letters is None:
            await ensure_topic(self._config, self._config.dead_letters, partitions=1, compact=False)
            self._letters = Writer(self._config)
        results = await self._letters.send_each([each.outgoing(self._config) for each in letters])
        left: list[Letter] = []
        away: KafkaUnavailable | None = None
        for letter, result in zip(letters, results, strict=True):
            if not isinstance(result, KafkaUnavailable):
                continue
            if not isinstance(result, RecordRefused):
                away = result
                left.append(letter)
            elif letter.left_out < 2:
                left.append(letter._replace(left_out=letter.left_out + 1))
            else:
                self.counts["dead_letters_lost"] += 1
                log.error(
                    "partition %d, offset %d is not an insert event, and its dead letter cannot be "
                    "written: %s",
                    letter.partition,
                    letter.record.offset,
                    result,
                )
        if away is not None and len(left) == len(letters):
            raise away
        return left

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
