"""Records of the log, sorted out: which changes, for which namespace, and what is none.

The rule kept here: pure; a record that was applied before (its offset is below what its namespace
noted) is left out, one that is no event is kept with its fault, and nothing after a record of a newer
version is looked at in its partition.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dedup.model.errors import EventInvalid
from dedup.model.events import EventNewer, decode
from dedup.model.values import Document

__all__ = ["Changes", "Sorted", "of_recipe", "sort_out"]

Changes = list[tuple[str, Document | None]]


class Group(NamedTuple):
    """The changes of a namespace, and the next offset of each partition they came from."""

    changes: Changes
    offsets: dict[int, int]


class Sorted(NamedTuple):
    """What a batch came to.

    groups    by namespace
    bad       records that are no events, with what is wrong
    newer     what to say of a record of a newer version, if there was one
    offsets   {partition: next offset} of what was looked at
    repeated  records left out because they were applied before
    """

    groups: dict[str, Group]
    bad: list[tuple[int, Any, EventInvalid]]
    newer: str | None
    offsets: dict[int, int]
    repeated: int


def sort_out(batch: Mapping[int, list[Any]], applied: Callable[[str], Mapping[int, int]]) -> Sorted:
    """Sort out {partition: records}; a record has key, value and offset.

    applied gives the next offsets that a namespace noted.
    """
    groups: dict[str, Group] = {}
    bad: list[tuple[int, Any, EventInvalid]] = []
    newer: str | None = None
    offsets: dict[int, int] = {}
    repeated = 0
    for partition, records in batch.items():
        ends: dict[str, int] = {}  # the next offset of each namespace met here
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
    return Sorted({n: g for n, g in groups.items() if g.changes}, bad, newer, offsets, repeated)


def of_recipe(changes: Changes, recipe: str) -> tuple[Changes, int]:
    """Return the changes of a recipe (forgetting has none), and how many were of others."""
    if {document.page.recipe for _, document in changes if document is not None} <= {recipe}:
        return changes, 0
    kept = [c for c in changes if c[1] is None or c[1].page.recipe == recipe]
    return kept, len(changes) - len(kept)
