"""Which log a folder of stores is the view of, and how far all of it is on disk.

    <path>/log.json = {"format", "cluster_id", "topic", "topic_id", "partitions", "offsets",
                        "namespaces", "caught_up", "checksum"}

Each store notes its own offsets in its own transactions (docs/store-format.md); the manifest has the
log's identity, and the offsets from which it has to be read again after any end, a power cut included.

The rule kept here: written atomically, and only with offsets below which every store was flushed.
"""

from collections.abc import Collection
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec

from dedup.core.files import replace_file
from dedup.model.errors import StoreDamaged
from dedup.wire.kafka import Topic

__all__ = ["MANIFEST", "Manifest", "read_manifest", "write_manifest"]

MANIFEST = "log.json"
FORMAT = 1


class Manifest(msgspec.Struct, frozen=True):
    """The log's identity, and how far it is on disk.

    partitions  how many the topic has
    offsets     {partition: the offset from which it has to be read}
    namespaces  {namespace: {partition: the offset up to which it is applied}}
    caught_up   whether the stores once had all that the log held, so that they may be served
    """

    cluster_id: str
    topic: str
    topic_id: str
    partitions: int
    offsets: dict[int, int]
    namespaces: dict[str, dict[int, int]]
    caught_up: bool = False

    @classmethod
    def of(
        cls,
        topic: Topic,
        offsets: dict[int, int],
        namespaces: dict[str, dict[int, int]],
        *,
        caught_up: bool = False,
    ) -> "Manifest":
        """Return the manifest of a topic."""
        identity = topic.cluster_id, topic.name, topic.topic_id, topic.partitions
        return cls(*identity, offsets, namespaces, caught_up)

    def only(self, partitions: Collection[int]) -> "Manifest":
        """Return the manifest of a service that holds these partitions of the log only."""
        return msgspec.structs.replace(
            self,
            offsets={p: n for p, n in self.offsets.items() if p in partitions},
            namespaces={
                name: {p: n for p, n in each.items() if p in partitions}
                for name, each in self.namespaces.items()
            },
            caught_up=self.caught_up and set(partitions) <= self.offsets.keys(),
        )

    def without(self, missing: Collection[str]) -> "Manifest":
        """Return the manifest without namespaces that are missing: the whole log is read again."""
        if not missing:
            return self
        left = {name: each for name, each in self.namespaces.items() if name not in missing}
        return msgspec.structs.replace(self, offsets={}, namespaces=left, caught_up=False)

    def other_log(self, topic: Topic) -> str:
        """Return why a topic is not this log, in words; "" if it is."""
        if (topic.cluster_id, topic.name) != (self.cluster_id, self.topic):
            return (
                f"they are of the topic {self.topic!r} of the cluster {self.cluster_id}, and this "
                f"is {topic.name!r} of the cluster {topic.cluster_id}"
            )
        if topic.topic_id != self.topic_id:
            return f"the topic {topic.name!r} was deleted and made again since"
        if topic.partitions != self.partitions:
            return (
                f"the topic {topic.name!r} has {topic.partitions} partitions now, and had "
                f"{self.partitions}: keys lie in other partitions than before"
            )
        return ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    cluster_id: str
    topic: str
    topic_id: str
    partitions: int
    offsets: dict[int, int]
    namespaces: dict[str, dict[int, int]]
    caught_up: Literal[True] | msgspec.UnsetType = msgspec.UNSET  # earlier releases did not say
    checksum: str = ""


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a folder, or None if there is none. Raises StoreDamaged and OSError."""
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        file = msgspec.json.decode(data, type=_File)
        if file.checksum != _checksum(file):
            raise ValueError("its checksum does not fit")
        if file.format != FORMAT:
            raise ValueError(f"format {file.format}, where this release reads format {FORMAT}")
    except ValueError as error:
        raise StoreDamaged(
            f"{path} is damaged: {error}; restore it from a copy, or start over from the log with "
            "--rebuild"
        ) from error
    return Manifest(
        file.cluster_id,
        file.topic,
        file.topic_id,
        file.partitions,
        file.offsets,
        file.namespaces,
        file.caught_up is True,
    )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of a folder in one step. Raises OSError; then the former one is there."""
    file = _File(
        FORMAT,
        manifest.cluster_id,
        manifest.topic,
        manifest.topic_id,
        manifest.partitions,
        dict(sorted(manifest.offsets.items())),
        {name: dict(sorted(each.items())) for name, each in sorted(manifest.namespaces.items())},
        True if manifest.caught_up else msgspec.UNSET,
    )
    data = msgspec.json.encode(msgspec.structs.replace(file, checksum=_checksum(file)))
    replace_file(folder / MANIFEST, memoryview(data + b"\n"))


def _checksum(file: _File) -> str:
    body = msgspec.json.encode(msgspec.structs.replace(file, checksum=""))
    return blake2b(body, digest_size=8).hexdigest()
