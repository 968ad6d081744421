"""One logical table: a mutable table in memory, and segments on disk that are merged behind it.

    insert -> table;  remove -> table, or the list of what is removed from segments
    probe  -> table + table that is being written + segments, less what is removed
    flush  -> the table as it is becomes a segment; another table goes on meanwhile
    merge  -> the newest segments become one, without what was removed

The rules kept here:
  - A pair lies in one place only: the table, the one being written, or one segment. `_removed` holds
    pairs of the latter two that are in the table no longer. So an answer needs no memory of others.
  - What flush() has returned for survives whatever ends the process: files are flushed and put in
    place before the manifest lists them, and deleted after it has ceased to.
  - The manifest is the table as it was at the last flush. A merge changes its files, never what they
    mean: it takes away only what that flush had as removed.
  - Probes see each pair once and whole: places change under a lock that probes share.
"""

import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.core.bulk.segments.folder import Folder
from dedup.core.bulk.segments.merged_answers import (
    found_less_removed,
    in_order,
    matches_less_removed,
    merged,
)
from dedup.core.bulk.segments.segment import Segment
from dedup.core.bulk.segments.value_pairs import Pairs, held, pair, table_of, take_out
from dedup.core.integers import max_distance, number
from dedup.core.matches import Matches, ProbedMany
from dedup.core.numbers import Array, Numbers, many
from dedup.core.read_write_lock import ReadWriteLock
from dedup.core.table import Table, limit_number
from dedup.model.errors import UsageError

__all__ = ["SegmentedStats", "SegmentedTable"]

SEGMENT_DOCUMENTS = 4_000_000  # in the table when it is written by itself
WAITING = 2  # with this many times as many in memory an insert waits for the disk
RATIO = 3  # a segment smaller than this many times all newer ones is merged with them
REMOVED_SHARE = 4  # when a quarter of the documents is removed, all segments are merged

log = logging.getLogger("dedup.core.bulk.segments")


class SegmentedStats(msgspec.Struct, frozen=True):
    """What a table of segments holds.

    documents     pairs (value, document)
    segments      files on disk
    removed       pairs that are in a segment, and no longer in the table
    memory_bytes  of the table in memory; mapped files aside
    file_bytes    of all segments
    k             the greatest distance found, in bits
    """

    documents: int
    segments: int
    removed: int
    memory_bytes: int
    file_bytes: int
    k: int


@dataclass(frozen=True, slots=True)
class _Frozen:
    """A table on its way to the disk, and what was removed from older places when it was taken."""

    table: Table
    removed: Pairs
    note: int


class SegmentedTable:
    """A set of pairs (value, document) in a folder, and the search for values within k bits.

    As dedup.Table, for more than memory holds: what is inserted stays in memory until flush() makes a
    segment of it; so do `segment_documents` pairs by themselves, in the background. Methods may be
    called from several threads. One process at a time has a folder open.

    Raises UsageError, from any method, for an argument that is not what is stated.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        k: int | None = None,
        *,
        segment_documents: int = SEGMENT_DOCUMENTS,
    ) -> None:
        """Open the table in a folder, or make one.

        k is in 0 .. 15, in bits; a folder keeps the k it was made with (3 by default), and may be
        opened for a smaller one. Raises StoreLocked when another process has it open, StoreDamaged,
        naming the file, for one that is missing, cut, altered or of another version, and OSError.
        """
        if k is not None:
            k = max_distance(k)
        self._most = number(segment_documents, "segment_documents")
        if self._most == 0:
            raise UsageError("segment_documents is 0; it must be an int from 1 up")
        self._folder = Folder(Path(path), k)
        self._segments = self._folder.segments
        self._removed = table_of(self._folder.removed)
        self._k = self._folder.manifest.k if k is None else k
        self._table = Table(self._k)
        self._frozen: _Frozen | None = None
        self._changed = False  # since the last flush
        self._lock = (
            ReadWriteLock()
        )  # reading: who probes; writing: who moves pairs from place to place
        self._changing = threading.Lock()  # who inserts or removes
        self._working = threading.Lock()  # who writes files
        self._executor = ThreadPoolExecutor(1, "dedup-segments")
        self._job: Future[None] | None = None
        self._closed = False

    # ------------------------------------------------------------------------------------ contents

    @property
    def k(self) -> int:
        """The greatest distance found, in bits."""
        return self._k

    @property
    def note(self) -> int:
        """The note of the last flush() that gave one: what the files cover, as the caller counts."""
        return self._folder.manifest.note

    def __len__(self) -> int:
        """Return the number of documents: pairs (value, document)."""
        return self.stats().documents

    def stats(self) -> SegmentedStats:
        """Return what the table holds."""
        with self._lock.reading:
            tables = [self._table] if self._frozen is None else [self._table, self._frozen.table]
            places: list[Table | Segment] = [*tables, *self._segments]
            return SegmentedStats(
                documents=sum(map(len, places)) - len(self._removed),
                segments=len(self._segments),
                removed=len(self._removed),
                memory_bytes=sum(table.stats().bytes for table in [*tables, self._removed]),
                file_bytes=sum(segment.bytes for segment in self._segments),
                k=self._k,
            )

    def insert(self, value: int, document: int) -> bool:
        """Store a pair; return whether it is new."""
        return self.insert_many([number(value, "value")], [number(document, "document")]) == 1

    def insert_many(self, values: Numbers, documents: Numbers) -> int:
        """Store the pairs (values[i], documents[i]) and return how many of them are new.

        When the disk takes no more, and twice `segment_documents` wait in memory, the OSError of the
        background is raised, and nothing is stored; what is in memory stays there.
        """
        value_array, document_array = many(values, "values"), many(documents, "documents")
        if len(value_array) != len(document_array):
            raise UsageError(
                f"{len(value_array)} values and {len(document_array)} documents were given; "
                "there must be one document for each value"
            )
        self._wait_for_disk()
        with self._changing:
            self._must_be_open()
            self._changed = True
            added, older = 0, self._held(value_array, document_array)
            if np.any(older):
                added = self._restore(value_array[older], document_array[older])
                value_array, document_array = value_array[~older], document_array[~older]
            added += self._table.insert_many(value_array, document_array)
        if len(self._table) >= self._most:
            self._start()
        return added

    def remove(self, value: int, document: int) -> bool:
        """Remove a pair; return whether it was there."""
        value, document = number(value, "value"), number(document, "document")
        with self._changing:
            self._must_be_open()
            gone = self._table.remove(value, document)
            if not gone and self._held(*pair(value, document))[0]:
                with self._lock.writing:
                    gone = self._removed.insert(value, document)
            self._changed = self._changed or gone
            return gone

    def _held(self, values: Array, documents: Array) -> npt.NDArray[np.bool_]:
        """Return for each pair whether a segment, or the table that is being written, has it."""
        there = held(self._segments, values, documents)
        if self._frozen is not None:
            there |= self._frozen.table.has(values, documents)
        return there

    def _restore(self, values: Array, documents: Array) -> int:
        """Make removed pairs count again; return how many there were."""
        with self._lock.writing:
            dead = self._removed.has(values, documents)
            return take_out(self._removed, values[dead], documents[dead])

    def probe(self, value: int, limit: int | None = None) -> Matches:
        """Return the documents of all values within k of a value, as Table.probe() does."""
        most = limit_number(limit)
        with self._lock.reading:
            wide = most + len(self._removed) if most else 0
            found = self._table.probe(value, limit)
            older = self._frozen.table.probe(value, wide or None) if self._frozen else Matches()
            cut = found.cut or older.cut
            for segment in self._segments:
                matches = segment.probe(value, self._k, wide)
                older += matches
                cut = cut or matches.cut
            if older and len(self._removed):
                older = matches_less_removed(older, self._removed)
        if older:
            found += older
            in_order(found)
        found.cut = most > 0 and (cut or len(found) > most)
        if most:
            del found[most:]
        return found

    def probe_many(self, values: Numbers, limit: int | None = None) -> ProbedMany:
        """Probe a batch of values at once, as Table.probe_many() does."""
        queries, most = many(values, "values"), limit_number(limit)
        with self._lock.reading:
            wide = most + len(self._removed) if most else 0
            newest = self._table.find(queries, most)
            older = [segment.find(queries, self._k, wide) for segment in self._segments]
            if self._frozen is not None:
                older.append(self._frozen.table.find(queries, wide))
            if len(self._removed):
                older = [found_less_removed(found, self._removed) for found in older]
        return merged([newest, *older], most).probed()

    # -------------------------------------------------------------------------------------- on disk

    def flush(self, note: int | None = None) -> None:
        """Put everything inserted and removed so far on disk; probes and changes go on meanwhile.

        note, if given, is kept with it (0 .. 2**64 - 1). When the call returns, all of it survives a
        crash. Raises OSError when the disk takes no more; then nothing is lost, neither on disk nor in
        memory, and a later flush tries again.
        """
        given = None if note is None else number(note, "note")
        with self._working:
            self._must_be_open()
            self._write_frozen()  # what an earlier flush had to leave
            with self._changing, self._lock.writing:
                wanted = self._folder.manifest.note if given is None else given
                if not self._changed and wanted == self._folder.manifest.note:
                    return
                self._frozen = _Frozen(self._table, self._removed.pairs(), wanted)
                self._table, self._changed = Table(self._k), False
            self._write_frozen()

    def merge(self) -> None:
        """Make one segment of all, without what is removed; raises OSError, and then all is as before.

        What is in memory is not part of it: flush() first.
        """
        with self._working:
            self._must_be_open()
            if len(self._segments) > 1 or len(self._folder.removed[0]):
                self._merge(0)

    def close(self) -> None:
        """Flush, and release the folder. Raises OSError when that fails; it is released all the same."""
        with self._changing:
            if self._closed:
                return
        try:
            if self._job is not None:
                wait([self._job])  # what went wrong there goes wrong again here, or does not
            self.flush()
        finally:
            with self._working, self._changing:
                self._closed = True
            self._executor.shutdown()
            self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _must_be_open(self) -> None:
        if self._closed:
            raise UsageError(f"the table {self._folder.path} is closed")

    def _write_frozen(self) -> None:
        """Make a segment of the frozen table, list it, and take it into use."""
        frozen = self._frozen
        if frozen is None:
            return
        segments = list(self._segments)
        if len(frozen.table):
            segments.append(self._folder.write(*frozen.table.pairs()))
        before = self._folder.commit(segments, frozen.removed, frozen.note)
        with self._changing, self._lock.writing:
            self._segments, self._frozen = tuple(segments), None
        self._folder.delete(before)

    def _merge(self, start: int) -> None:
        """Make one segment of those from `start` on, without what the manifest has as removed."""
        merged = self._segments[start:]
        parts = [segment.pairs() for segment in merged]
        values = np.concatenate([part[0] for part in parts])
        documents = np.concatenate([part[1] for part in parts])
        del parts
        dead = table_of(self._folder.removed).has(values, documents)
        dropped = values[dead], documents[dead]
        values, documents = values[~dead], documents[~dead]
        segments = list(self._segments[:start])
        if len(values):
            segments.append(self._folder.write(values, documents))
        del values, documents
        elsewhere = ~table_of(dropped).has(*self._folder.removed)
        removed = self._folder.removed[0][elsewhere], self._folder.removed[1][elsewhere]
        before = self._folder.commit(segments, removed, self._folder.manifest.note)
        with self._changing, self._lock.writing:
            self._segments = tuple(segments)
            gone = self._removed.has(*dropped)
            take_out(self._removed, dropped[0][gone], dropped[1][gone])
            # What came back since the flush lies nowhere now.
            self._table.insert_many(dropped[0][~gone], dropped[1][~gone])
        self._folder.delete(before)

    # ------------------------------------------------------------------------------- in the background

    def _wait_for_disk(self) -> None:
        """Wait for the disk when there is too much in memory; raise what went wrong there."""
        if len(self._table) >= WAITING * self._most:
            self._start()
            assert self._job is not None
            self._job.result()

    def _start(self) -> None:
        """Begin to write what is in memory, unless that is under way."""
        with self._changing:
            if not self._closed and (self._job is None or self._job.done()):
                self._job = self._executor.submit(self._work)

    def _work(self) -> None:
        try:
            self.flush()
            with self._working:
                start = self._merge_from()
                if start is not None:
                    self._merge(start)
        except Exception as error:
            log.error("%s: %s; what is not on disk stays in memory", self._folder.path, error)
            raise

    def _merge_from(self) -> int | None:
        """Return the first of the segments that are worth merging; None when there is nothing to gain."""
        sizes = [len(segment) for segment in self._segments]
        if len(self._folder.removed[0]) * REMOVED_SHARE > sum(sizes):
            return 0
        start, total = len(sizes) - 1, sum(sizes[-1:])
        while start > 0 and sizes[start - 1] < RATIO * total:
            start -= 1
            total += sizes[start]
        return start if 0 <= start < len(sizes) - 1 else None
