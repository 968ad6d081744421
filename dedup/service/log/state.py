"""A replica's two interfaces: the namespaces that it fills, and what it reports about itself."""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from dedup.detector import EmbeddedDetector

__all__ = ["State", "Views"]


class Views(Protocol):
    """The namespaces of a service: the views that the log is applied to. For the event loop's thread."""

    def get(self, name: str) -> EmbeddedDetector | None:
        """Return the detector of a namespace, or None if there is none."""

    def detector(self, name: str, *, recipe: str) -> EmbeddedDetector | None:
        """Return the detector of a namespace, created with this recipe if it is missing."""

    def __iter__(self) -> Iterator[tuple[str, EmbeddedDetector]]:
        """Yield each open namespace and its detector."""


class State(msgspec.Struct, frozen=True):
    """What a replica reports, in plain values.

    status           connecting, catching_up, current, stale (Kafka is away, or a store takes no
                     writes), failed, stopped: lifecycle.py maps its states to these
    reason           why it is not current, for people; "" if it is
    ready            whether it serves: it has caught up once and not failed since
    lag_records      offsets of the log, as last heard, that are not applied
    behind_seconds   since it was last known to have everything; 0 while it has
    away_seconds     since Kafka last answered; 0 while it does
    manifest_seconds since the last manifest; restart reads the log from there
    offsets          {partition: next offset}
    ends             {partition: end offset}, as last heard
    counts           inserted, replaced, forgotten, late_duplicate, repeated, other_recipe,
                     dead_letters, refused (of namespaces that cannot be created), given_up
                     (documents of other shards), misplaced (records in another partition than their
                     key's)
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
