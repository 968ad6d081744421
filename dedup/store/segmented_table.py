"""One logical table: a mutable table in memory, and segments on disk that are merged behind it.

    append -> table;  remove -> table, or the list of pairs removed from segments
    probe  -> table + frozen tables + segments, less the removed pairs
    freeze -> the table waits to be written; an empty one takes its place
    write  -> the frozen tables become a segment, with small ones before it
    merge  -> the newest segments become one, without the removed pairs

On disk it is a folder (docs/reference/store-format.md): segments, another of the removed pairs, and
manifest.json, a checked file (dedup/core/files.py) that lists them.

Invariants:
  - A segment is an immutable table in a file, searched where it is mapped. It is used only after every byte of it
    was read and every rule verified (native/src/segment/segment.h).
  - A pair is in one place only: the table, a frozen one, or one segment. `_removed` holds pairs of
    the latter two that were removed since. So an answer never holds a pair twice. A removed pair never
    comes back: a document is a number that is used once.
  - After write() returned, its pairs survive a crash: files are flushed and renamed before the manifest
    lists them, and deleted after it no longer does. A process killed in between leaves the old table or
    the new one; files that the manifest does not list are deleted when the table is opened. No name is
    used for two files: names are random.
  - The manifest describes the table as it was when it was frozen. A merge changes its files, never
    their meaning: it drops only what the manifest has as removed.
  - The manifest exists before the first file, so segments without one are damage.
  - The caller's lock is held while the table is probed or changed. write() and merge() take it for
    microseconds, whatever the size, and never while a file is written. One process uses the folder, and
    one thread writes there.
"""

import contextlib
import mmap
import os
import secrets
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import compress
from operator import gt
from pathlib import Path
from typing import IO, Any

import msgspec

from dedup.core.files import (
    PRIVATE,
    PRIVATE_FOLDER,
    allocate,
    read_checked,
    replace_file,
    replacing,
    write_checked,
)
from dedup.core.native import check, ffi, lib
from dedup.core.numbers import Numbers, Packed, number, pointer, zeros
from dedup.core.table import KEPT, Answer, Matches, Table, limit_number
from dedup.model.errors import StoreDamaged

RATIO = 3  # a segment smaller than this many times all newer ones is merged with them
MERGED_MOST = (
    1 << 25
)  # documents of the largest segment that a merge makes; 54 bytes each of mapped files
STEP = 1 << 16  # pairs that are looked up together
REMOVED_SHARE = 4  # a segment of which a quarter is removed is written again
READERS = 4  # threads that verify files, each one of them
NAME = "manifest.json"
FORMAT, VERSION = "dedup segments", 3  # 2 had removed pairs in another form
IN_MEMORY = 1 << 23  # bytes of a batch or a file that is made in memory; larger ones are mapped

Pairs = tuple[Packed, Packed]  # values, and the document of each


# -------------------------------------------------------------------------------------- one segment


class Segment:
    """The pairs (value, document) of a file. Immutable, so threads may share it.

    path    the file, which must not change while it is open; on Unix it may be deleted
    bytes   its size
    k       the greatest distance that it was made for, in bits
    handle  the native segment

    Raises StoreDamaged, naming the file, for one that is cut, altered, or of another format or version; OSError
    for one that cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        handle, reason = ffi.new("ndd_segment **"), ffi.new("char **")
        content = _mapped(path)
        self._content = ffi.from_buffer("uint8_t[]", content)
        status = lib.ndd_segment_open(self._content, len(content), handle, reason)
        if status != lib.NDD_OK:
            check(status, f"{path}: {ffi.string(reason[0]).decode()}")
        # From now on a page that memory lacks is read without its neighbours.
        if isinstance(content, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
            content.madvise(mmap.MADV_RANDOM)
        self.handle: Any = ffi.gc(handle[0], lib.ndd_segment_close)
        stats = ffi.new("ndd_segment_stats *")
        lib.ndd_segment_stats_get(self.handle, stats)
        self.k, self.bytes, self._documents = int(stats.k), len(content), int(stats.documents)

    def __len__(self) -> int:
        """Return the number of documents: pairs (value, document)."""
        return self._documents

    def has(self, values: Packed, documents: Packed) -> bytearray:
        """Return for each pair (values[i], documents[i]) 1 if it is there, else 0."""
        found = bytearray(len(values))
        flags = ffi.from_buffer("uint8_t[]", found, require_writable=True)
        lib.ndd_segment_has(self.handle, pointer(values), pointer(documents), len(values), flags)
        return found


def scratch_words(folder: Path, words: int) -> "memoryview[int]":
    """Allocate 64-bit words of scratch memory.

    Many are in a mapped temporary file in that folder, so that they need no memory where it is short.
    Raises OSError if the disk is full.
    """
    if 8 * words <= IN_MEMORY:
        return memoryview(zeros(words))
    from tempfile import TemporaryFile

    with TemporaryFile(dir=folder, prefix="segment-", suffix=".tmp") as file:
        allocate(file.fileno(), 8 * words)
        return memoryview(mmap.mmap(file.fileno(), 8 * words)).cast("Q")


def pairs_of(segments: Sequence[Segment]) -> tuple[Packed, Packed]:
    """Return all pairs of some segments, at least one, in no order: the values, and the document of each."""
    counts, folder, at = list(map(len, segments)), segments[0].path.parent, 0
    values, documents = scratch_words(folder, sum(counts)), scratch_words(folder, sum(counts))
    for segment, count in zip(segments, counts, strict=True):
        some = slice(at, at + count)
        lib.ndd_segment_list(segment.handle, pointer(values[some]), pointer(documents[some]))
        at += count
    return values, documents


def _mapped(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:  # which cannot be mapped, and is refused
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def write_pairs(path: Path, values: Packed, documents: Packed, k: int, note: int = 0) -> int:
    """Write the pairs (values[i], documents[i]) as a segment for distances up to k; return how many.

    A pair that is given twice is written once. k is in 0 .. 15, note in 0 .. 2**64 - 1. The batches are sorted on
    return. Takes no more than 16 MB of memory. Raises OSError when the file cannot be written; then there is none, or
    the one that was there before.
    """
    k, note = number(k, "k"), number(note, "note")
    subject, count, size = f"writing {path}", ffi.new("size_t *"), ffi.new("uint64_t *")
    pointers, scratch = (
        (pointer(values), pointer(documents)),
        scratch_words(path.parent, 2 * len(values) + 2),
    )
    check(lib.ndd_sort_pairs(*pointers, len(values), pointer(scratch), count), subject)
    check(lib.ndd_segment_size(*pointers, count[0], min(k, 1 << 31), size), subject)
    given = (*pointers, count[0], k, note, pointer(scratch))
    with replacing(path, PRIVATE) as file, _content(file, size[0]) as content:
        check(lib.ndd_segment_write(*given, content, size[0]), subject)
    return int(count[0])


@contextmanager
def _content(file: IO[bytes], size: int) -> Iterator[Any]:
    """Yield the bytes of an empty file as the native core takes them; they are in the file at the end."""
    if size <= IN_MEMORY:
        small = bytearray(size)
        yield ffi.from_buffer("uint8_t[]", small, require_writable=True)
        file.write(small)
        return
    allocate(file.fileno(), size)
    with mmap.mmap(file.fileno(), size) as large:
        with ffi.from_buffer("uint8_t[]", large, require_writable=True) as content:
            yield content
        large.flush()


# --------------------------------------------------------------------------------------- the table


class SegmentedStats(msgspec.Struct, frozen=True):
    """Contents of a table of segments.

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
    """A table that waits to be written, and the pairs removed before it was frozen."""

    table: Table
    removed: Pairs
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
        """Open the table in a folder, or create it.

        k is in 0 .. 15, in bits; segments made for a smaller one are rewritten. lock is the caller's,
        held while the table is used. read_only changes nothing in the folder.

        Raises StoreDamaged, naming the file, for one that is missing, truncated, altered or of another
        version, and OSError.
        """
        self._folder = Folder(path, k, read_only=read_only)
        self._take(self._folder.segments)
        self._answer, self._found = Answer(), ffi.new("uint64_t *")  # a single probe's
        self._pair = tuple(ffi.new("uint64_t[1]") for _ in range(3))  # append_one()'s
        self._removed = table_of(self._folder.removed)
        self._gone = len(self._removed)  # how many they are
        self._since = _none()  # removed from segments since the table was last frozen
        self._k = k
        self._table = Table(k, locked=False)
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
        """The note of the last freeze() that was written: the caller's number for what the files cover."""
        return self._folder.manifest.note

    @property
    def written(self) -> int:
        """The number of pairs that are on disk."""
        return sum(map(len, self._segments)) - len(self._folder.removed[0])

    def __len__(self) -> int:
        """Return the number of documents: pairs (value, document)."""
        return sum(map(len, self._places())) - self._gone

    def stats(self) -> SegmentedStats:
        """Return the table's contents."""
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
        """Store a pair of numbers that was never stored before. Raises MemoryError."""
        values, documents, inserted = self._pair
        values[0], documents[0] = value, document
        status = lib.ndd_table_insert(self._table.handle, values, documents, 1, inserted)
        if status != lib.NDD_OK:
            check(status, "inserting into a table")
        self.unwritten += 1

    def remove(self, values: Packed, documents: Packed) -> int:
        """Remove the pairs (values[i], documents[i]); return how many were there."""
        count = self._table.remove_many(values, documents)
        if count == len(values) or not (self._frozen or self._segments):
            return count
        older = self.has(values, documents)
        if any(older):
            removed = (
                array("Q", compress(values.tolist(), older)),
                array("Q", compress(documents.tolist(), older)),
            )
            count += self._removed.insert_many(*removed)
            self._gone = len(self._removed)
            for each, since in zip(removed, self._since, strict=True):
                since.extend(each)
        return count

    def has(self, values: Packed, documents: Packed) -> bytes:
        """Return for each pair (values[i], documents[i]) 1 if it is there, else 0."""
        there = held(self._places(), values, documents)
        if self._gone:
            there = bytes(map(gt, there, self._removed.has(values, documents)))
        return there

    def probe(self, value: int, limit: int | None = None) -> Matches:
        """Return the documents of all values within k of a value, as Table.probe() does."""
        if type(value) is not int or not 0 <= value < 1 << 64:
            value = number(value, "value")
        if limit is None:
            most = 0
        else:
            most = limit if type(limit) is int and limit > 0 else limit_number(limit)
        table = self._table.handle if self.unwritten else ffi.NULL
        segments, count = self._handles, len(self._segments)
        asked = most + 1 if most and self._gone else most  # of each place
        while True:
            answer, any_found = self._answer, self._found
            answer.query[0] = value
            status = lib.ndd_segments_probe(
                segments, count, table, answer.query, 1, self._k, asked, answer.handle, any_found
            )
            if status != lib.NDD_OK:
                check(status, f"probing {count} segments")
            found = answer.single(count + bool(self.unwritten)) if any_found[0] else Matches()
            if len(found) > KEPT:
                self._answer = Answer()  # in less memory
            for frozen in self._frozen:
                more = frozen.table.probe(value, asked or None)
                cut = found.cut or more.cut
                found += more
                found.cut = cut
            if not found:
                return found
            left = self._not_removed(found) if self._gone else found
            # where some were left out, and others are removed: are enough left of each place?
            if not found.cut or not self._gone or asked > most + len(found) - len(left):
                return nearest(left, most, cut=found.cut)
            asked *= 2

    def _not_removed(self, matches: Matches) -> Matches:
        values = array("Q", [match.value for match in matches])
        dead = self._removed.has(values, array("Q", [match.document for match in matches]))
        left = Matches(match for match, gone in zip(matches, dead, strict=True) if not gone)
        left.cut = matches.cut
        return left

    def probe_each(self, values: Packed, limit: int | None = None) -> dict[int, Matches]:
        """Return what probe() does for each of some values that has matches, by its index.

        One native call searches all segments for all of them. Only a value that has more matches than the limit where
        some are removed is probed once more by itself.
        """
        most, count = limit_number(limit), len(self._segments)
        table = self._table.handle if self.unwritten else ffi.NULL
        answer, queries = Answer(), pointer(values)
        many = len(values), self._k, most
        status = lib.ndd_segments_probe(
            self._handles, count, table, queries, *many, answer.handle, self._found
        )
        if status != lib.NDD_OK:
            check(status, f"probing {count} segments")
        found = answer.each(len(values), count + bool(self.unwritten))
        for frozen in self._frozen:
            for i, more in frozen.table.probe_each(values, most).items():
                cut = more.cut or (i in found and found[i].cut)
                found[i] = Matches([*found.get(i, ()), *more])
                found[i].cut = cut
        answers = {}
        for i, matches in found.items():
            if matches.cut and self._gone:
                left = self.probe(int(values[i]), limit)
            else:
                left = self._not_removed(matches) if self._gone else matches
                left = nearest(left, most, cut=matches.cut)
            if left:
                answers[i] = left
        return answers

    # -------------------------------------------------------------------------------------- on disk

    def freeze(self, note: int, table: Table) -> None:
        """Set the table aside for write(), with the caller's note; `table` is empty and takes its place.

        The lock is held.
        """
        self._frozen = (*self._frozen, _Frozen(self._table, self._since, note))
        self._table, self._since, self.unwritten = table, _none(), 0

    def write(self, note: int, merged_most: int = 0) -> None:
        """Write the tables frozen with this note, or before, as a segment. The lock is not held.

        Segments that would be merged with it are in it: `merged_most` documents in all, and no pair was removed.
        On return everything appended and removed before that freeze() survives a crash. Raises OSError,
        and then nothing is lost: a later call tries again.
        """
        written = [frozen for frozen in self._frozen if frozen.note <= note]
        if not written:
            return
        removed = joined([self._folder.removed, *(each.removed for each in written)])
        segments = self._folder.segments
        try:
            if any(len(each.table) for each in written):
                pairs = joined([each.table.pairs() for each in written])
                sizes = [*map(len, segments), len(pairs[0])]
                begin = _merged_from(sizes, merged_most)
                if begin is not None and not len(removed[0]):
                    pairs = joined([pairs_of(segments[begin:]), pairs])
                    segments = segments[:begin]
                segments = *segments, self._folder.write(*pairs)
                del pairs
            self._folder.commit(segments, removed, written[-1].note)
            with self._lock:
                self._frozen = self._frozen[len(written) :]
                self._take(segments)
        finally:
            self._folder.delete()

    def _take(self, segments: tuple[Segment, ...]) -> None:
        """Search these segments from now on, all in one native call."""
        self._segments = segments  # keeps the handles alive
        self._handles = ffi.new("ndd_segment *[]", [segment.handle for segment in segments])

    def merge(self, most: int = MERGED_MOST) -> bool:
        """Merge the newest segments into one of at most `most` documents; return False if it is not worth it.

        The lock is not held. Raises OSError, and then nothing has changed.
        """
        span = self._worth_merging(most)
        if span is None:
            return False
        begin, end = span
        before, removed = self._folder.segments, self._folder.removed
        pairs = pairs_of(before[begin:end])
        there = held(before[begin:end], *removed)
        kept = _less(removed, there)
        if len(kept[0]) < len(removed[0]):
            pairs = _without(pairs, table_of(removed))
        try:
            written = [self._folder.write(*pairs)] if len(pairs[0]) else []
            del pairs
            segments = (*before[:begin], *written, *before[end:])
            self._folder.commit(segments, kept, self.note)
            table = table_of(kept)
            with self._lock:
                for since in (*(each.removed for each in self._frozen), self._since):
                    table.insert_many(*since)
                self._removed, self._gone = table, len(table)
                self._take(segments)
            del before  # unmap now, without the lock: Windows does not delete a mapped file
        finally:
            self._folder.delete()
        return True

    def _worth_merging(self, most: int) -> tuple[int, int] | None:
        """Return the span of the segments to merge, or None if nothing is worth merging."""
        sizes = [len(segment) for segment in self._folder.segments]
        begin = _merged_from(sizes, most)
        if begin is not None:
            return begin, len(sizes)
        if len(
            self._folder.removed[0]
        ):  # last: new segments would come faster than these are rewritten
            for i, segment in enumerate(self._folder.segments):
                gone = segment.has(*self._folder.removed).count(1)
                if gone * REMOVED_SHARE > sizes[i] and sizes[i] <= most:
                    return i, i + 1
        return None


def _merged_from(sizes: Sequence[int], most: int) -> int | None:
    """Return from which segment on those of some sizes, at most so many documents, are to be one; None: none are."""
    newer = sum(sizes)
    for begin, size in enumerate(sizes):
        newer -= size
        if size < RATIO * newer and size + newer <= most:
            return begin
    return None


# ----------------------------------------------------------------------------------------- answers


def nearest(matches: Matches, most: int, *, cut: bool) -> Matches:
    """Return matches as an answer has them: by distance, document, value, and at most `most` of them, 0 for all.

    cut says whether some were left out before.
    """
    if len(matches) > 1:
        matches.sort(key=lambda match: (match.distance, match.document, match.value))
    matches.cut = most > 0 and (cut or len(matches) > most)
    if most:
        del matches[most:]
    return matches


# ------------------------------------------------------------------------------------------ pairs


def _none() -> "tuple[array[int], array[int]]":
    """Return no pairs."""
    return zeros(0), zeros(0)


def joined(parts: Sequence[Pairs]) -> Pairs:
    """Return all pairs of several parts."""
    parts = [part for part in parts if len(part[0])]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return _none()
    import numpy as np

    values, documents = zip(*parts, strict=True)
    return np.concatenate(values), np.concatenate(documents)


def table_of(pairs: Pairs) -> Table:
    """Return a table in memory that holds the pairs."""
    table = Table(0, locked=False)
    table.insert_many(*pairs)
    return table


def held(places: Sequence[Table | Segment], values: Packed, documents: Packed) -> bytes:
    """Return for each pair 1 if one of some places has it, else 0."""
    there = 0  # all flags as one number
    for place in places:
        there |= int.from_bytes(place.has(values, documents), "little")
    return there.to_bytes(len(values), "little")


def _less(pairs: Pairs, flags: bytes | bytearray) -> Pairs:
    """Return the pairs whose flag is 0."""
    import numpy as np

    kept = ~np.frombuffer(flags, np.bool_)
    return np.asarray(pairs[0])[kept], np.asarray(pairs[1])[kept]


def _without(pairs: Pairs, removed: Table) -> Pairs:
    """Return the pairs that are not removed. They are moved to the front of the batches."""
    import numpy as np

    values, documents = (np.frombuffer(each, np.uint64) for each in pairs)
    kept = 0
    for begin in range(0, len(values), STEP):
        some = values[begin : begin + STEP], documents[begin : begin + STEP]
        left = _less(some, removed.has(*some))
        end = kept + len(left[0])
        values[kept:end], documents[kept:end] = left
        kept = end
    return values[:kept], documents[:kept]


# ------------------------------------------------------------------------------------- the folder


class ListedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the table: its name, how many pairs it holds, and its own checksum."""

    name: str
    documents: int
    checksum: str


class TableManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of manifest.json.

    k         the greatest distance that its segments are made for
    note      the caller's number for what the files cover
    segments  from the oldest to the newest
    removed   the file of the pairs that are in a segment and were removed, if there are any
    """

    k: int
    note: int = 0
    segments: tuple[ListedFile, ...] = ()
    removed: ListedFile | None = None
    format: str = FORMAT
    version: int = VERSION

    def __post_init__(self) -> None:
        """Refuse another format or version. Raises ValueError."""
        if (self.format, self.version) != (FORMAT, VERSION):
            raise ValueError(
                f"expected {FORMAT!r} version {VERSION}, got {self.format!r} version {self.version}"
            )

    def files(self) -> set[str]:
        """Return the names of the files of the table."""
        return {listed.name for listed in self.listed()}

    def listed(self) -> list[ListedFile]:
        """Return the files of the table."""
        return [*self.segments, *([] if self.removed is None else [self.removed])]


class Folder:
    """The table on disk.

    path      the folder
    manifest  lists its files
    segments  the listed segments, from the oldest to the newest
    removed   pairs that are in a segment and were removed since
    """

    def __init__(self, path: Path, k: int, *, read_only: bool = False) -> None:
        """Open a folder for distances up to k, or create the table there.

        Raises StoreDamaged, naming the file, and OSError.
        """
        self.path = path
        manifest = read_manifest(path)
        if manifest is None and any(part.suffix == ".ndd" for part in self._parts()):
            raise StoreDamaged(f"{path}: there are segments, but {NAME} is missing")
        self.manifest = manifest or TableManifest(k)
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

    def _load(self, listed: ListedFile) -> Segment:
        path = self.path / listed.name
        try:
            segment = Segment(path)
        except FileNotFoundError as error:
            raise StoreDamaged(f"{path}: missing, but listed in {NAME}") from error
        if _listing(segment) != listed:
            raise StoreDamaged(f"{path}: not the file that {NAME} lists")
        if segment.k < self.manifest.k:
            raise StoreDamaged(
                f"{path}: made for distances up to {segment.k}, expected {self.manifest.k}"
            )
        return segment

    def _load_removed(self, listed: ListedFile | None) -> Pairs:
        if listed is None:
            return _none()
        path = self.path / listed.name
        try:
            pairs = Table.load(path, 0).pairs()
        except FileNotFoundError as error:
            raise StoreDamaged(f"{path}: missing, but listed in {NAME}") from error
        if (len(pairs[0]), own_checksum(path)) != (listed.documents, listed.checksum):
            raise StoreDamaged(f"{path}: not the file that {NAME} lists")
        if 0 in held(self.segments, *pairs):
            raise StoreDamaged(f"{path}: holds pairs that are in no segment")
        return pairs

    def _widen(self, k: int) -> None:
        """Rewrite every segment for distances up to k."""
        note, self.manifest = self.manifest.note, TableManifest(k)
        self.commit([self.write(*pairs_of([each])) for each in self.segments], self.removed, note)
        self.delete()

    def write(self, values: Packed, documents: Packed) -> Segment:
        """Write a segment of pairs, which it sorts; the manifest does not list it yet. Raises OSError."""
        self.path.mkdir(PRIVATE_FOLDER, exist_ok=True)
        if not self._begun:  # from now on a folder without a manifest is damage
            write_checked(self.path / NAME, self.manifest)
            self._begun = True
        path = self._new("segment")
        write_pairs(path, values, documents, self.manifest.k)
        return Segment(path)

    def _new(self, what: str) -> Path:
        return self.path / f"{what}-{secrets.token_hex(8)}.ndd"

    def commit(self, segments: Sequence[Segment], removed: Pairs, note: int) -> None:
        """Make these the table on disk, atomically; the former files are still there.

        Raises OSError; then the table on disk has not changed.
        """
        listed = None
        self.path.mkdir(PRIVATE_FOLDER, exist_ok=True)
        if len(removed[0]):
            path = self._new("removed")
            replace_file(path, table_of(removed).saved(), PRIVATE)
            listed = ListedFile(path.name, len(removed[0]), own_checksum(path))
        manifest = TableManifest(self.manifest.k, note, tuple(map(_listing, segments)), listed)
        write_checked(self.path / NAME, manifest)
        self.manifest, self.segments, self.removed = manifest, tuple(segments), removed

    def delete(self) -> None:
        """Delete the files that are not listed; one that cannot be deleted is tried again the next time."""
        listed = self.manifest.files()
        for part in self._parts():
            if part.name not in listed:
                with contextlib.suppress(OSError):
                    part.unlink()


def _listing(segment: Segment) -> ListedFile:
    return ListedFile(segment.path.name, len(segment), own_checksum(segment.path))


def is_part(path: Path) -> bool:
    """Return whether a file belongs to a table of segments, by its name."""
    name = path.name.removeprefix(".")
    return name.startswith(("segment-", "removed-", f"{NAME}.")) and name != NAME


def own_checksum(path: Path) -> str:
    """Return the checksum that a segment ends with, as hex digits."""
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        return file.read().hex()


def read_manifest(folder: Path) -> TableManifest | None:
    """Return the manifest of a folder, None if there is none; raises StoreDamaged, and OSError."""
    path = folder / NAME
    manifest = read_checked(path, TableManifest)
    if manifest is None:
        return None
    names = [listed.name for listed in manifest.listed()]
    wrong = [name for name in names if Path(name).name != name or not is_part(Path(name))]
    if wrong or len(set(names)) < len(names):
        raise StoreDamaged(f"{path} lists invalid or repeated names: {', '.join(wrong or names)}")
    return manifest
