"""One logical table: a mutable table in memory, and segments on disk that are merged behind it.

    append -> table;  remove -> table, or the list of what is removed from segments
    probe  -> table + table that is being written + segments, less what is removed
    freeze -> the table as it is waits to be written; another one goes on
    write  -> what is frozen becomes a segment
    merge  -> the newest segments become one, without what was removed

The rules kept here:
  - A pair lies in one place only: the table, a frozen one, or one segment. `_removed` holds pairs of
    the latter two that are in the table no longer. So an answer needs no memory of others. A pair
    that was removed never comes back: a document is a number that is used once.
  - What write() has returned for survives whatever ends the process: files are flushed and put in
    place before the manifest lists them, and deleted after it has ceased to.
  - The manifest is the table as it was when it was frozen. A merge changes its files, never what they
    mean: it takes away only what the manifest has as removed.
  - The caller's lock is held while the table is probed or changed. write() and merge() take it for
    microseconds only, whatever the size, and never while a file is written.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

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
from dedup.core.bulk.segments.segment import Segment, Segments
from dedup.core.bulk.segments.value_pairs import Pairs, held, joined, table_of
from dedup.core.matches import Found, Matches, ProbedMany
from dedup.core.numbers import Array, Numbers, many
from dedup.core.table import Table, limit_number

__all__ = ["SegmentedStats", "SegmentedTable"]

RATIO = 3  # a segment smaller than this many times all newer ones is merged with them
MERGED_MOST = 1 << 25  # documents of the largest segment that a merge makes; it takes 54 bytes each
REMOVED_SHARE = 4  # a segment of which a quarter is removed is written again


class SegmentedStats(msgspec.Struct, frozen=True):
    """What a table of segments holds.

    documents     pairs (value, document)
    segments      files on disk
    removed       pairs that are in a segment, and no longer in the table
    memory_bytes  of the table in memory; mapped files aside
    file_bytes    of all segments
    """

    documents: int
    segments: int
    removed: int
    memory_bytes: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class _Frozen:
    """A table that is being written, and what was removed before it was frozen."""

    table: Table
    removed: list[Pairs]
    note: int


class SegmentedTable:
    """A set of pairs (value, document), and the search for values within Hamming distance k.

    As dedup.Table, for more than memory holds: what is appended stays in memory until freeze() and
    write() make a segment of it.
    """

    def __init__(
        self,
        path: Path,
        k: int,
        lock: AbstractContextManager[object],
        *,
        read_only: bool = False,
    ) -> None:
        """Open the table in a folder, or begin one there.

        k is in 0 .. 15, in bits; segments that were made for a smaller one are written again. lock is
        the one under which the table is used. read_only: nothing in the folder is changed.

        Raises StoreDamaged, naming the file, for one that is missing, cut, altered or of another
        version, and OSError.
        """
        self._folder = Folder(path, k, read_only=read_only)
        self._segments = self._folder.segments
        self._together = Segments(self._segments)
        self._removed = table_of(self._folder.removed)
        self._gone = len(self._removed)  # how many they are
        self._since: list[Pairs] = []  # removed from segments since the table was last frozen
        self._k = k
        self._table = Table(k)
        self.unwritten = 0  # pairs appended since the table was last frozen
        self._frozen: tuple[_Frozen, ...] = ()
        self._lock = lock

    # ------------------------------------------------------------------------------------ contents

    @property
    def k(self) -> int:
        """The greatest distance found, in bits."""
        return self._k

    @property
    def note(self) -> int:
        """The note of the last freeze() that was written: what the files cover, as the caller counts."""
        return self._folder.manifest.note

    @property
    def written(self) -> int:
        """The number of pairs that are on disk."""
        return sum(map(len, self._segments)) - len(self._folder.removed[0])

    def __len__(self) -> int:
        """Return the number of documents: pairs (value, document)."""
        return sum(map(len, self._places())) - self._gone

    def stats(self) -> SegmentedStats:
        """Return what the table holds."""
        tables = self._tables()
        return SegmentedStats(
            documents=len(self),
            segments=len(self._segments),
            removed=self._gone,
            memory_bytes=sum(table.stats().bytes for table in [*tables, self._removed]),
            file_bytes=sum(segment.bytes for segment in self._segments),
        )

    def _places(self) -> list[Table | Segment]:
        return [*self._tables(), *self._segments]

    def _tables(self) -> list[Table]:
        return [self._table, *(frozen.table for frozen in self._frozen)]

    def append(self, values: Numbers, documents: Numbers) -> None:
        """Store the pairs (values[i], documents[i]), none of which was ever stored before."""
        self.unwritten += self._table.insert_many(values, documents)

    def append_one(self, value: int, document: int) -> None:
        """Store a pair that was never stored before."""
        self._table.insert(value, document)
        self.unwritten += 1

    def remove(self, values: Array, documents: Array) -> int:
        """Remove the pairs (values[i], documents[i]); return how many were there."""
        young = self._table.has(values, documents)
        for value, document in zip(values[young].tolist(), documents[young].tolist(), strict=True):
            self._table.remove(value, document)
        count = int(np.count_nonzero(young))
        if not self._frozen and not self._segments:
            return count
        old = ~young & self.has(values, documents)
        if np.any(old):
            removed = values[old], documents[old]
            count += self._removed.insert_many(*removed)
            self._gone = len(self._removed)
            self._since.append(removed)
        return count

    def has(self, values: Array, documents: Array) -> npt.NDArray[np.bool_]:
        """Return for each pair (values[i], documents[i]) whether it is there."""
        there = held(self._places(), values, documents)
        if self._gone:
            there &= ~self._removed.has(values, documents)
        return there

    def documents(self, value: int) -> list[int]:
        """Return the documents of a value itself, in no order; of a table for distance 0."""
        found = [match.document for match in self._table.probe(value)]
        if not self._frozen and not self._segments:
            return found
        older = self._together.documents(value)
        older += [m.document for each in self._frozen for m in each.table.probe(value)]
        if older and self._gone:
            dead = {match.document for match in self._removed.probe(value)}
            older = [document for document in older if document not in dead]
        return found + older

    def probe(self, value: int, limit: int | None = None) -> Matches:
        """Return the documents of all values within k of a value, as Table.probe() does."""
        found = self._table.probe(value, limit)
        if not self._frozen and not self._segments:
            return found
        most, newest = limit_number(limit), len(found)
        older = self._together.probe(value, self._k, most + 1 if most else 0)
        if older.cut and self._gone:
            for segment in self._segments:
                found += self._left(Segments([segment]), value, most)
        else:
            found += self._not_removed(older)
        for frozen in self._frozen:
            found += self._left(frozen.table, value, most)
        if len(found) > newest:
            in_order(found)
        found.cut = most > 0 and (found.cut or len(found) > most)
        if most:
            del found[most:]
        return found

    def _left(self, place: Table | Segments, value: int, most: int) -> Matches:
        """Return the matches of an older place that are not removed, all or the nearest; more than most if there are."""
        limit = most + 1 if most else 0
        while True:
            if isinstance(place, Table):
                found = place.probe(value, limit or None)
            else:
                found = place.probe(value, self._k, limit)
            left = self._not_removed(found)
            if not found.cut or len(left) > most:
                return left
            limit *= 2

    def _not_removed(self, matches: Matches) -> Matches:
        if matches and self._gone:
            return matches_less_removed(matches, self._removed)
        return matches

    def probe_many(self, values: Numbers, limit: int | None = None) -> ProbedMany:
        """Probe a batch of values at once, as Table.probe_many() does."""
        queries, most = many(values, "values"), limit_number(limit)
        newest = self._table.find(queries, most)
        if not self._frozen and not self._segments:
            return newest.probed()
        older = [self._left_many(place, queries, most) for place in self._places()[1:]]
        return merged([newest, *older], most).probed()

    def _left_many(self, place: Table | Segment, queries: Array, most: int) -> Found:
        """Return what _left() does of many probes, and no word on what is cut."""
        limit = most + 1 if most else 0
        while True:
            if isinstance(place, Table):
                found = place.find(queries, limit)
            else:
                found = place.find(queries, self._k, limit)
            left = found_less_removed(found, self._removed) if self._gone else found
            if not np.any(found.cut & (np.diff(left.offsets) <= most)):
                return Found(left.offsets, left.matches, np.zeros_like(found.cut))
            limit *= 2

    # -------------------------------------------------------------------------------------- on disk

    def freeze(self, note: int, table: Table) -> None:
        """Keep the table as it is for write(), with a note of the caller's; an empty one goes on.

        The lock is held.
        """
        self._frozen = (*self._frozen, _Frozen(self._table, self._since, note))
        self._table, self._since, self.unwritten = table, [], 0

    def write(self, note: int) -> None:
        """Make a segment of what was frozen with this note, or before. The lock is not held.

        When it returns, all that was appended and removed before that freeze() survives a crash.
        Raises OSError when the disk takes no more; then nothing is lost, and a later call tries again.
        """
        written = [frozen for frozen in self._frozen if frozen.note <= note]
        if not written:
            return
        removed = joined(
            [self._folder.removed, *(pairs for each in written for pairs in each.removed)]
        )
        segments = self._folder.segments
        try:
            if any(len(each.table) for each in written):
                pairs = joined([each.table.pairs() for each in written])
                segments = *segments, self._folder.write(*pairs)
            self._folder.commit(segments, removed, written[-1].note)
            with self._lock:
                self._frozen = self._frozen[len(written) :]
                self._take(segments)
        finally:
            self._folder.delete()

    def _take(self, segments: tuple[Segment, ...]) -> None:
        self._segments, self._together = segments, Segments(segments)

    def merge(self, most: int = MERGED_MOST) -> bool:
        """Make one segment of the newest ones, of `most` documents, if that is worth it; tell whether it was.

        The lock is not held. Raises OSError, and then all is as before.
        """
        span = self._worth_merging(most)
        if span is None:
            return False
        begin, end = span
        before, removed = self._folder.segments, self._folder.removed
        values, documents = joined([segment.pairs() for segment in before[begin:end]])
        left = ~held(before[begin:end], *removed)
        kept = removed[0][left], removed[1][left]
        if len(kept[0]) < len(removed[0]):
            alive = ~table_of((removed[0][~left], removed[1][~left])).has(values, documents)
            values, documents = values[alive], documents[alive]
        try:
            written = [self._folder.write(values, documents)] if len(values) else []
            del values, documents
            segments = (*before[:begin], *written, *before[end:])
            self._folder.commit(segments, kept, self.note)
            table = table_of(kept)
            with self._lock:
                for since in [
                    *(pairs for each in self._frozen for pairs in each.removed),
                    *self._since,
                ]:
                    table.insert_many(*since)
                self._removed, self._gone = table, len(table)
                self._take(segments)
            del before  # unmapped without the lock, and before: Windows deletes no mapped file
        finally:
            self._folder.delete()
        return True

    def _worth_merging(self, most: int) -> tuple[int, int] | None:
        """Return the first, and the one after the last, of segments to merge; None: nothing is to gain."""
        sizes = [len(segment) for segment in self._folder.segments]
        newer = sum(sizes)
        for start, size in enumerate(sizes):
            newer -= size
            if size < RATIO * newer and size + newer <= most:
                return start, len(sizes)
        if len(self._folder.removed[0]):  # last: else new segments would come faster than these go
            for i, segment in enumerate(self._folder.segments):
                gone = int(np.count_nonzero(segment.has(*self._folder.removed)))
                if gone * REMOVED_SHARE > sizes[i] and sizes[i] <= most:
                    return i, i + 1
        return None
