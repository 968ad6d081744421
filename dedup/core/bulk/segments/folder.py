"""The folder of a table of segments: its files, written, listed, opened and deleted.

    pairs -> write -> segment (a file) -> commit: the manifest lists it -> delete what is listed no longer
    open  -> manifest -> every file it lists, verified

The rules kept here:
  - Files are on disk and in place before the manifest lists them, and deleted after it has ceased to:
    a process that ends in between leaves the old table or the new one.
  - No number is used for two files, though one came to nothing.
  - One process at a time has a folder open.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dedup.core.bulk.segments.segment import Segment, write_segment
from dedup.core.bulk.segments.segment_manifest import (
    Listed,
    Manifest,
    checksum_of,
    is_part,
    read_manifest,
    write_manifest,
)
from dedup.core.bulk.segments.value_pairs import NONE, Pairs, held, table_of
from dedup.core.files import FolderLock
from dedup.core.numbers import Array
from dedup.core.table import Table
from dedup.model.errors import StoreDamaged, UsageError

__all__ = ["Folder"]

DEFAULT_DISTANCE = 3


class Folder:
    """The table as it is on disk.

    path      the folder
    manifest  which files make it up
    segments  those of them that hold pairs, from the oldest to the newest
    removed   pairs that are in a segment, and no longer in the table
    """

    def __init__(self, path: Path, k: int | None) -> None:
        """Open a folder, or make one, for distances up to k; None: its own, or 3.

        Raises StoreLocked, StoreDamaged, naming the file, UsageError for a k beyond its own, OSError.
        """
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(path / "lock")
        try:
            self.manifest = self._read(k)
            self.segments = tuple(self._load(listed) for listed in self.manifest.segments)
            self.removed = self._load_removed(self.manifest.removed)
            for part in self._parts():
                if part.name not in self.manifest.files():
                    part.unlink()
        except BaseException:
            self._lock.close()
            raise
        self._next = self.manifest.next

    def close(self) -> None:
        """Release the folder's lock."""
        self._lock.close()

    def _parts(self) -> list[Path]:
        return [path for path in self.path.iterdir() if is_part(path)]

    # ------------------------------------------------------------------------------------- opened

    def _read(self, k: int | None) -> Manifest:
        manifest = read_manifest(self.path)
        if manifest is None:
            if any(part.suffix == ".ndd" for part in self._parts()):
                raise StoreDamaged(f"{self.path}: there are segments, but no manifest.json")
            manifest = Manifest(k=DEFAULT_DISTANCE if k is None else k)
            write_manifest(self.path, manifest)
        if k is not None and k > manifest.k:
            raise UsageError(
                f"k is {k}; {self.path} was made for distances up to {manifest.k}: "
                "make another table, for a larger k"
            )
        return manifest

    def _load(self, listed: Listed) -> Segment:
        path = self.path / listed.name
        try:
            segment = Segment(path)
        except FileNotFoundError as error:
            raise StoreDamaged(f"{path}: the manifest lists it, and it is missing") from error
        if _listing(segment) != listed:
            raise StoreDamaged(f"{path}: it is not the file that the manifest lists")
        if segment.k < self.manifest.k:
            raise StoreDamaged(f"{path}: it was made for distances up to {segment.k} only")
        return segment

    def _load_removed(self, listed: Listed | None) -> Pairs:
        if listed is None:
            return NONE
        path = self.path / listed.name
        try:
            pairs = Table.load(path, 0).pairs()
        except FileNotFoundError as error:
            raise StoreDamaged(f"{path}: the manifest lists it, and it is missing") from error
        if (len(pairs[0]), checksum_of(path)) != (listed.documents, listed.checksum):
            raise StoreDamaged(f"{path}: it is not the file that the manifest lists")
        if not np.all(held(self.segments, *pairs)):
            raise StoreDamaged(f"{path}: it holds what is in no segment")
        return pairs

    # ------------------------------------------------------------------------------------ written

    def write(self, values: Array, documents: Array) -> Segment:
        """Make a segment of pairs, which is not listed yet. Raises OSError, and then there is none."""
        path = self.path / self._name("segment")
        write_segment(path, values, documents, self.manifest.k)
        return Segment(path)

    def _name(self, what: str) -> str:
        self._next += 1
        return f"{what}-{self._next - 1:08d}.ndd"

    def commit(self, segments: Sequence[Segment], removed: Pairs, note: int) -> Manifest:
        """Make these the table, in one step; return the manifest before, whose files are still there.

        Raises OSError; then the table on disk is what it was.
        """
        before, listed = self.manifest, None
        if len(removed[0]):
            path = self.path / self._name("removed")
            table_of(removed).save(path)
            listed = Listed(path.name, len(removed[0]), checksum_of(path))
        listing = tuple(map(_listing, segments))
        manifest = Manifest(before.k, note, self._next, listing, listed)
        write_manifest(self.path, manifest)
        self.manifest, self.segments, self.removed = manifest, tuple(segments), removed
        return before

    def delete(self, before: Manifest) -> None:
        """Delete the files that are listed no longer; those that cannot be go when it is opened."""
        for name in before.files() - self.manifest.files():
            try:
                (self.path / name).unlink(missing_ok=True)
            except OSError:
                continue


def _listing(segment: Segment) -> Listed:
    return Listed(segment.path.name, len(segment), checksum_of(segment.path))
