"""The folder of a table of segments: its files, written, listed, opened and deleted.

    pairs -> write -> segment (a file) -> commit: the manifest lists it -> delete what is not listed
    open  -> manifest -> every file it lists, verified

The rules kept here:
  - Files are on disk and in place before the manifest lists them, and deleted after it has ceased to:
    a process that ends in between leaves the old table or the new one.
  - No name is used for two files: names are random.
  - The manifest is there before the first file. One process uses the folder at a time, and one thread
    writes there: the lock is its caller's.
"""

import contextlib
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from dedup.core.bulk.segments.segment import Segment, write_pairs
from dedup.core.bulk.segments.segment_manifest import (
    Listed,
    Manifest,
    checksum_of,
    is_part,
    read_manifest,
    write_manifest,
)
from dedup.core.bulk.segments.value_pairs import NONE, Pairs, held, table_of
from dedup.core.files import PRIVATE, PRIVATE_FOLDER, replace_file
from dedup.core.numbers import Array
from dedup.core.table import Table
from dedup.model.errors import StoreDamaged

__all__ = ["Folder"]

READERS = 4  # threads that verify files, each one of them


class Folder:
    """The table as it is on disk.

    path      the folder
    manifest  which files make it up
    segments  those of them that hold pairs, from the oldest to the newest
    removed   pairs that are in a segment, and no longer in the table
    """

    def __init__(self, path: Path, k: int, *, read_only: bool = False) -> None:
        """Open a folder for distances up to k, or begin one there.

        Raises StoreDamaged, naming the file, and OSError.
        """
        self.path = path
        manifest = read_manifest(path)
        if manifest is None and any(part.suffix == ".ndd" for part in self._parts()):
            raise StoreDamaged(f"{path}: there are segments, but no manifest.json")
        self.manifest = manifest or Manifest(k)
        self._begun = manifest is not None
        with ThreadPoolExecutor(READERS) as pool:  # a large file takes seconds to verify
            self.segments = tuple(pool.map(self._load, self.manifest.segments))
        self.removed = self._load_removed(self.manifest.removed)
        if read_only:
            return
        self.delete()
        if k > self.manifest.k:
            self._widen(k)

    def _parts(self) -> list[Path]:
        return [each for each in self.path.iterdir() if is_part(each)] if self.path.is_dir() else []

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

    def _widen(self, k: int) -> None:
        """Write every segment again, for distances up to k."""
        note, self.manifest = self.manifest.note, Manifest(k)
        self.commit([self.write(*each.pairs()) for each in self.segments], self.removed, note)
        self.delete()

    # ------------------------------------------------------------------------------------ written

    def write(self, values: Array, documents: Array) -> Segment:
        """Make a segment of pairs, which it sorts, and which is not listed yet. Raises OSError."""
        self.path.mkdir(PRIVATE_FOLDER, exist_ok=True)
        if not self._begun:  # from now on a folder without a manifest is damaged
            write_manifest(self.path, self.manifest)
            self._begun = True
        path = self._new("segment")
        write_pairs(path, values, documents, self.manifest.k)
        return Segment(path)

    def _new(self, what: str) -> Path:
        return self.path / f"{what}-{secrets.token_hex(8)}.ndd"

    def commit(self, segments: Sequence[Segment], removed: Pairs, note: int) -> None:
        """Make these the table, in one step; the files before are still there.

        Raises OSError; then the table on disk is what it was.
        """
        listed = None
        self.path.mkdir(PRIVATE_FOLDER, exist_ok=True)
        if len(removed[0]):
            path = self._new("removed")
            replace_file(path, table_of(removed).saved(), PRIVATE)
            listed = Listed(path.name, len(removed[0]), checksum_of(path))
        manifest = Manifest(self.manifest.k, note, tuple(map(_listing, segments)), listed)
        write_manifest(self.path, manifest)
        self.manifest, self.segments, self.removed = manifest, tuple(segments), removed

    def delete(self) -> None:
        """Delete the files that are not listed; those that cannot be deleted now go the next time."""
        listed = self.manifest.files()
        for part in self._parts():
            if part.name not in listed:
                with contextlib.suppress(OSError):
                    part.unlink()


def _listing(segment: Segment) -> Listed:
    return Listed(segment.path.name, len(segment), checksum_of(segment.path))
