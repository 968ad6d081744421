"""The manifest: which log a folder of stores is the view of, and how much of it is on disk.

    <path>/log.json = {"cluster_id", "topic", "partitions", "offsets", "namespaces", "caught_up",
                        "last", "format"} and a line with the checksum
    apply, apply, ... -> every ten seconds: flush the stores -> log.json

Each store notes its own offsets in its own transactions (docs/reference/store-format.md); the manifest has the
log's identity, and the offsets from which it must be read again after any end, a power cut included.

Invariants: written atomically, and only with offsets below which every store was flushed. A store with
a gap, or older than its manifest, is refused, and nothing is applied to it; the log is the truth.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from dedup.core.files import FolderLock, read_checked, write_checked
from dedup.detector import EmbeddedDetector
from dedup.store import empty
from dedup.wire.kafka import LogLost, Topic
from dedup.wire.kafka.reader import MOVE, RecordMark

MANIFEST = "log.json"
FORMAT = 2

ADVICE = (
    "If the log is the right one, start over from it with --rebuild, which empties the stores "
    "first; else start with the topic and folder that belong together"
)

Applied = Mapping[str, Mapping[int, int]]  # of each namespace, {partition: next offset}

log = logging.getLogger(__name__)


class LogManifest(msgspec.Struct, frozen=True):
    """The log's identity, and how much of it is on disk.

    partitions  their number
    offsets     {partition: the offset from which it must be read}
    namespaces  {namespace: {partition: the offset up to which it is applied}}
    caught_up   whether the stores once had all of the log, so that they may be served
    last        {partition: the last record applied}; another record there is another log
    """

    cluster_id: str
    topic: str
    partitions: int
    offsets: dict[int, int]
    namespaces: dict[str, dict[int, int]]
    caught_up: bool = False
    last: dict[int, RecordMark] = {}
    format: int = FORMAT

    def __post_init__(self) -> None:
        """Raise ValueError for a format that this release does not read."""
        if self.format != FORMAT:
            raise ValueError(f"format {self.format}, where this release reads format {FORMAT}")

    @classmethod
    def of(cls, topic: Topic) -> "LogManifest":
        """Return the manifest of a topic of which nothing was read."""
        return cls(topic.cluster_id, topic.name, topic.partitions, {}, {})

    def without(self, missing: Collection[str]) -> "LogManifest":
        """Return the manifest without missing namespaces: the whole log is read again."""
        if not missing:
            return self
        left = {name: each for name, each in self.namespaces.items() if name not in missing}
        return msgspec.structs.replace(self, offsets={}, namespaces=left, caught_up=False)

    def other_log(self, topic: Topic) -> str:
        """Return why a topic is not this log, and what to do; "" if it is this log."""
        if (topic.cluster_id, topic.name) != (self.cluster_id, self.topic):
            return (
                f"they are of the topic {self.topic!r} of the cluster {self.cluster_id}, and this "
                f"is {topic.name!r} of the cluster {topic.cluster_id}. {ADVICE}"
            )
        if topic.partitions != self.partitions:
            return (
                f"the topic {topic.name!r} has {topic.partitions} partitions now, and had "
                f"{self.partitions}: keys belong to other partitions than before. {MOVE}"
            )
        return ""

    def has_grown(self, topic: Topic) -> bool:
        """Whether the topic has other partitions than it had: its old records may be in the wrong ones."""
        before = (self.cluster_id, self.topic)
        return before == (topic.cluster_id, topic.name) and self.partitions != topic.partitions


def read_manifest(folder: Path) -> LogManifest | None:
    """Return the manifest of a folder, or None if there is none. Raises StoreDamaged and OSError."""
    advice = "restore it from a copy, or start over from the log with --rebuild"
    return read_checked(folder / MANIFEST, LogManifest, advice)


def write_manifest(folder: Path, manifest: LogManifest) -> None:
    """Replace the manifest of a folder atomically. Raises OSError; then the former one is there."""
    write_checked(folder / MANIFEST, manifest, 0o666)


def missing(path: Path, manifest: LogManifest, applied: Applied) -> frozenset[str]:
    """Return the manifest's namespaces that have no store: for them the whole log is read again.

    Raises LogLost if a store has less applied than the manifest says.
    """
    gone = manifest.namespaces.keys() - applied.keys()
    for name in sorted(gone):
        log.warning("the namespace %s is missing, and is rebuilt from the log", name)
    for name, offsets in manifest.namespaces.items():
        for partition, offset in offsets.items():
            held = applied.get(name, offsets).get(partition, 0)
            if held < offset:
                raise LogLost(
                    f"the store {path / name} has partition {partition} applied up to "
                    f"offset {held}, and {MANIFEST} says {offset}: it is an older copy, which "
                    f"belongs to the {MANIFEST} of its time. {ADVICE}"
                )
    return frozenset(gone)


def check_unknown(path: Path, views: Iterable[tuple[str, EmbeddedDetector]]) -> None:
    """Raise LogLost if there are documents; for a folder without a manifest."""
    for name, detector in views:
        if len(detector):
            raise LogLost(
                f"the store {path / name} holds {len(detector):,} documents, and nothing "
                f"says which log they came from ({MANIFEST} is missing). {ADVICE}"
            )


def check_ends(path: Path, topic: Topic, applied: Applied, ends: Mapping[int, int]) -> None:
    """Raise LogLost if a store has applied more than the log has."""
    for name, offsets in applied.items():
        for partition, offset in offsets.items():
            if offset > ends.get(partition, 0):
                raise LogLost(
                    f"the store {path / name} has partition {partition} applied up to "
                    f"offset {offset}, and the topic {topic.name!r} ends at "
                    f"{ends.get(partition, 0)}: records were lost. {ADVICE}"
                )


def empty_stores(path: Path) -> None:
    """Remove the manifest and the documents of every namespace of a folder, for a rebuild.

    The manifest goes first: after an interruption the stores are refused until the next rebuild.
    Raises StoreLocked and OSError.
    """
    (path / MANIFEST).unlink(missing_ok=True)
    for file in sorted(path.glob("*/documents.mdb")):
        lock = FolderLock(file.parent / "lock")
        try:
            empty(file.parent)
        finally:
            lock.close()
        log.warning("%s was emptied, to be rebuilt from the log", file.parent)
