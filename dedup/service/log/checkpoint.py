"""What of the log is on disk: the stores are flushed, then the manifest says so.

    apply, apply, ... -> every MANIFEST_SECONDS: flush -> log.json

The rule kept here: the manifest never covers a record that some store could still lose. After a power
cut the log is read again from the manifest's offsets on.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from dedup.core.files import FolderLock
from dedup.service.core.namespaces import Namespaces
from dedup.service.log.applying import Applying
from dedup.service.log.manifest import MANIFEST, Manifest, write_manifest
from dedup.store import empty
from dedup.wire.kafka import Topic

__all__ = ["Checkpoint", "empty_stores"]

MANIFEST_SECONDS = 10.0

log = logging.getLogger(__name__)


class Checkpoint:
    """The manifest of a replica, kept up to date.

    manifest   what lies on disk, or will with the first write; None until the log is known
    caught_up  whether the stores once had all of the log, in this run or an earlier one
    """

    def __init__(self, path: Path, views: Namespaces, applying: Applying) -> None:
        self.manifest: Manifest | None = None
        self.caught_up = False
        self._path = path
        self._views = views
        self._applying = applying
        self._written = time.monotonic()

    @property
    def age_seconds(self) -> float:
        """Seconds since the last checkpoint, or since the start."""
        return time.monotonic() - self._written

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next one."""
        return self.age_seconds > MANIFEST_SECONDS

    def adopt(self, manifest: Manifest) -> None:
        """Go on from a manifest."""
        self.manifest, self.caught_up = manifest, manifest.caught_up

    async def write(self, topic: Topic, offsets: Mapping[int, int]) -> None:
        """Flush the stores, then write the manifest with these offsets. Logs what the disk refuses."""
        applying = self._applying
        touched = set(applying.touched)
        namespaces = {name: dict(each) for name, each in applying.applied.items() if each}
        manifest = Manifest.of(topic, dict(offsets), namespaces, caught_up=self.caught_up)
        self._written = time.monotonic()
        try:
            for name in touched:
                detector = self._views.get(name)
                if detector is not None:
                    await asyncio.to_thread(detector.sync)
            if manifest != self.manifest:
                await asyncio.to_thread(write_manifest, self._path, manifest)
                self.manifest = manifest
            applying.touched -= touched
        except OSError as error:
            applying.say_once("manifest", "%s was not written: %s", self._path / MANIFEST, error)


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
