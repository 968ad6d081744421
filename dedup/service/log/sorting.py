"""A batch of the log, sorted by namespace: its changes, and the records that are no events.

The rule kept here: pure. A record that was applied before (its offset is below what its namespace
noted) is left out; one that is no event is kept with what is wrong with it; a record of a newer event
version ends its partition: nothing after it is read. An event in another partition than its key's is left
out, by every replica: between partitions there is no order, so that replicas would differ otherwise.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dedup.model.errors import EventInvalid
from dedup.model.events import EventNewer, decode
from dedup.model.values import Document
from dedup.wire.shards import partition_of

__all__ = ["Changes", "Sorted", "of_recipe", "sorted_batch"]

Changes = list[tuple[str, Document | None]]


class Group(NamedTuple):
    """The changes of a namespace, and the next offset of each partition they came from."""

    changes: Changes
    offsets: dict[int, int]


class Sorted(NamedTuple):
    """A sorted batch.

    groups    the changes by namespace
    bad       (partition, record, what is wrong) of records that are no events
    newer     what to tell the operator about a record of a newer version; None: there was none
    offsets   {partition: next offset} of what was read
    repeated  records left out because they were applied before
    misplaced  (partition, offset) of events that are not in their key's partition
    """

    groups: dict[str, Group]
    bad: list[tuple[int, Any, EventInvalid]]
    newer: str | None
    offsets: dict[int, int]
    repeated: int
    misplaced: list[tuple[int, int]]


def sorted_batch(
    batch: Mapping[int, list[Any]], applied: Callable[[str], Mapping[int, int]], count: int = 1
) -> Sorted:
    """Sort {partition: records}; a record has key, value and offset.

    applied(namespace) gives the next offsets that a namespace noted; count is the log's partitions.
    """
    groups: dict[str, Group] = {}
    bad: list[tuple[int, Any, EventInvalid]] = []
    misplaced: list[tuple[int, int]] = []
    newer: str | None = None
    offsets: dict[int, int] = {}
    repeated = 0
    for partition, records in batch.items():
        ends: dict[str, int] = {}  # the next offset, of each namespace in this partition
        after = records[-1].offset + 1
        skipped: dict[str, int] = {}
        for record in records:
            try:
                namespace, key, document = decode(record.key, record.value)
            except EventNewer as error:
                newer = f"partition {partition}, offset {record.offset}: {error}"
                after = record.offset
                break
            except EventInvalid as error:
                bad.append((partition, record, error))
                continue
            if count > 1 and partition_of(record.key, count) != partition:
                misplaced.append((partition, record.offset))
                continue
            group = groups.get(namespace)
            if group is None:
                group = groups[namespace] = Group([], {})
            first = skipped.get(namespace)
            if first is None:
                first = skipped[namespace] = applied(namespace).get(partition, 0)
            if record.offset < first:
                repeated += 1
                continue
            group.changes.append((key, document))
            ends[namespace] = record.offset + 1
        offsets[partition] = after
        for namespace, end in ends.items():
            groups[namespace].offsets[partition] = end
    some = {n: g for n, g in groups.items() if g.changes}
    return Sorted(some, bad, newer, offsets, repeated, misplaced)


def of_recipe(changes: Changes, recipe: str) -> tuple[Changes, int]:
    """Return the changes of a recipe, tombstones included, and how many were of other recipes."""
    if {document.page.recipe for _, document in changes if document is not None} <= {recipe}:
        return changes, 0
    kept = [c for c in changes if c[1] is None or c[1].page.recipe == recipe]
    return kept, len(changes) - len(kept)
