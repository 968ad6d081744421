"""documents.mdb and its journal: the documents of a store, and the truth of what it holds.

    a change -> the journal (journal.py), and memory -> folded into documents.mdb, many at once

    documents  id -> record     ids rise from 0 and are never used twice
    removed    id -> value and key digest of a document removed since the index was last written
    meta       "state" -> state: namespace, recipe, the next id, and the checksum of all records
               "offsets" -> how far a log was applied, in a store that follows one

    record = checksum (8 bytes) + MessagePack array
    checksum = BLAKE2b-64 of id (8 bytes, big-endian) + MessagePack array

The array holds the fields of dedup.model.page by their `place`. docs/reference/store-format.md specifies the records.

Invariants:
  - Bytes that are not exactly what was written in this place are refused: the structure is verified before LMDB opens
    the file, each record when it is read.
  - Every change is one entry of the journal; the state in memory follows once it is written. An entry says which state
    it follows, so it is applied once, and to no other file.
  - A transaction is committed only when the one before it is on disk, and the first of the entries that follow that one.
    So in whatever order writes reach the disk, one of LMDB's two states is whole, and the journal goes on from it.
  - The file bears its name only once its state is in it: what was interrupted before was empty, and is made again.
  - An error names the file, and is damage or the disk's refusal, never LMDB's own.
  - A change does not wait for the disk: a thread flushes it within ten seconds, and its error is raised by the next
    change.
Documents is for one thread at a time, under the store's lock.
"""

import contextlib
import errno
import itertools
import logging
import mmap
import operator
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import lmdb
import msgspec

from dedup.core.files import CHECKSUM_BYTES, PRIVATE, checksum, sync_folder
from dedup.core.native import check, ffi, lib
from dedup.model.errors import DedupError, StoreDamaged, UsageError
from dedup.model.forms import Record, of_record, to_record
from dedup.model.page import Document
from dedup.store.journal import Journal

RECENT = (
    8192  # documents kept in memory after reading them for a probe: as many as one is compared with
)
FLUSH_SECONDS = 10.0  # at most from a change to its flush: what a power cut may lose
FLUSH_BYTES = 1 << 17  # of unflushed changes that are flushed sooner
FLUSH_PAUSE_SECONDS = 1.0  # between two flushes, and two looks at those bytes
FOLD_BYTES = 1 << 19  # of changes in the journal that are folded into documents.mdb
FOLD_CHANGES = 2048  # the same by their number: documents added and removed
FOLD_URGENT = 2  # times as much: it is flushed at once
FOLD_LATEST = 4  # times as much: the next change waits until it is
HALF_MADE_BYTES = 1 << 15  # of a file whose making was interrupted, at most
META_BYTES = slice(16, 152)  # of a meta page, what LMDB writes with each transaction
MAP_BYTES = 1 << 30  # address space, not disk; doubled whenever it is full
MAP_BYTES_LIMIT = 1 << 46
_LEAST_FREE_BYTES = 1 << 16  # with less, what the disk did not take was too much for it

_DAMAGE = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.NotFoundError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
    lmdb.PanicError,
)
_CODES: dict[type[lmdb.Error], int] = {
    lmdb.DiskError: errno.ENOSPC,
    lmdb.ReadonlyError: errno.EROFS,
    lmdb.MapFullError: errno.ENOMEM,
    lmdb.MemoryError: errno.ENOMEM,
}

log = logging.getLogger(__name__)

T = TypeVar("T")
_replace = msgspec.structs.replace


# -------------------------------------------------------------- records: bytes in, values out

FORMAT = 4

Removal = tuple[
    int, int, int
]  # (document id, value, key digest): what the index holds of a document

DATABASES = (b"documents", b"removed", b"meta")

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class StoreState(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a store is, and the sums of what it holds.

    next         the id that the next document gets
    indexed      the id up to which the index on disk covers documents; 0: there is none
    records_sum  XOR of all records' checksums
    unused       0
    entries      the number of journal entries that are folded into it: each transaction has more than the one before
    """

    format: int
    namespace: str
    recipe: str
    next: int = 0
    indexed: int = 0
    records_sum: int = 0
    unused: int = 0
    entries: int = 0


class JournalEntry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A change in the journal.

    number       of the entry; StoreState.entries of the state that it follows
    records_sum  of the state that it follows
    first        id of the first of its records
    records      of documents that were added
    removed      of documents that were removed: id, value, key digest
    offsets      {partition: next offset} that were noted
    """

    number: int
    records_sum: int
    first: int
    records: list[bytes]
    removed: list[Removal] = []
    offsets: dict[_Natural, _Natural] = {}


# operator.index: numpy's integers are integers
_encode = msgspec.msgpack.Encoder(enc_hook=operator.index).encode
_decode: Any = msgspec.msgpack.Decoder(Record).decode
_decode_offsets = msgspec.msgpack.Decoder(dict[_Natural, _Natural]).decode
_decode_state = msgspec.msgpack.Decoder(StoreState).decode
_decode_entry = msgspec.msgpack.Decoder(JournalEntry).decode


def _follows(entry: JournalEntry, state: StoreState) -> bool:
    """Tell whether a change was made to a state."""
    return (entry.number, entry.records_sum, entry.first) == (state.entries, state.records_sum, state.next)  # fmt: skip


# The packed ids under which the state and the offsets are summed; no document gets that far.
STATE_NAME = (2**64 - 1).to_bytes(8, "big")
OFFSETS_NAME = (2**64 - 2).to_bytes(8, "big")


def pack_number(number: int) -> bytes:
    """Return a number as 8 bytes, big-endian, so that ids sort as numbers."""
    return number.to_bytes(8, "big")


def unpack_number(data: bytes) -> int:
    """Return the number that pack_number wrote. Raises ValueError for any other length than 8."""
    if len(data) != 8:
        raise ValueError(f"expected 8 bytes, got {len(data)}")
    return int.from_bytes(data, "big")


def key_digest(key: str) -> int:
    """Return the 64-bit digest under which a document key is indexed; two keys may share one.

    Raises UsageError for a key that is no text, or not valid Unicode.
    """
    try:
        return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")
    except (UnicodeEncodeError, AttributeError) as error:
        raise UsageError(f"document key {key!r} is not valid Unicode text") from error


def pack_removal(removal: Removal) -> tuple[bytes, bytes]:
    """Return the name and the record of a removed document."""
    document_id, value, digest = removal
    return pack_number(document_id), pack_number(value) + pack_number(digest)


def unpack_removal(name: bytes, record: bytes) -> Removal:
    """Return what pack_removal() wrote. Raises ValueError for another length."""
    return unpack_number(name), unpack_number(record[:8]), unpack_number(record[8:])


def encode_records(
    names: Iterable[bytes], documents: Iterable[Document]
) -> tuple[list[bytes], int]:
    """Return the records of documents, given their packed ids, and the XOR of their checksums.

    The recipe is the store's and is not written again.
    """
    records, checksums = [], 0
    for name, document in zip(names, documents, strict=True):
        body = _encode(to_record(document))
        made = checksum(name + body)
        records.append(made + body)
        checksums ^= int.from_bytes(made, "big")
    return records, checksums


def decode_record(name: bytes, record: bytes, recipe: str) -> Document:
    """Return the document of a record and a packed id.

    Raises ValueError saying what is wrong with the bytes.
    """
    # msgspec.DecodeError is a ValueError
    return of_record(_decode(_body(name, record, "its")), recipe)


def decode_removal(name: bytes, record: bytes) -> Removal:
    """Return what the index holds of a document; raises ValueError naming it."""
    try:
        r = _decode(_body(name, record, "its"))
    except ValueError as error:
        raise ValueError(f"document {unpack_number(name)}: {error}") from error
    return unpack_number(name), r.value, key_digest(r.key)


def encode_state(state: StoreState) -> bytes:
    """Return the state as a record."""
    return _signed(STATE_NAME, _encode(state))


def decode_state(record: bytes) -> StoreState:
    """Return the state of a record.

    Raises ValueError saying what is wrong with the bytes, and DedupError for another format.
    """
    body = _body(STATE_NAME, record, "the state's")
    fields = msgspec.msgpack.decode(body)  # msgspec.DecodeError is a ValueError
    if not isinstance(fields, list) or not fields:
        raise ValueError("the state is not a list")
    version = fields[0]
    if version != FORMAT:
        # Opening never rewrites a store of another format.
        advice = (
            "upgrade crawl-dedup, or migrate it as text, with `dedup store export` of the release that "
            "wrote it and `dedup store import` of this one"
            if isinstance(version, int) and version > FORMAT
            else "this store is of an unreleased version; use a new path or namespace"
        )
        raise DedupError(f"format {version}, where this release reads format {FORMAT}: {advice}")
    return _decode_state(body)


def encode_offsets(offsets: Mapping[int, int]) -> bytes:
    """Return {partition: next offset} as a record."""
    return _signed(OFFSETS_NAME, _encode(dict(sorted(offsets.items()))))


def decode_offsets(record: bytes) -> dict[int, int]:
    """Return {partition: next offset}. Raises ValueError saying what is wrong with the bytes."""
    return _decode_offsets(_body(OFFSETS_NAME, record, "the offsets'"))


def _signed(name: bytes, body: bytes) -> bytes:
    """Return a record: the checksum of its packed id and its body, then the body."""
    return checksum(name + body) + body


def _body(name: bytes, record: bytes, whose: str) -> bytes:
    """Return the body of a record. Raises ValueError if its checksum is another."""
    body = record[CHECKSUM_BYTES:]
    if checksum(name + body) != record[:CHECKSUM_BYTES]:
        raise ValueError(f"{whose} checksum does not match")
    return body


# ------------------------------------------------------------------------------------ the file


class Documents:
    """The open file.

    state   what the store is, and where its ids and records stand
    dirty   set while there is something to flush; urgent: a fold waits for it
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the file, whose structure is verified first, in time linear in its pages; and its journal.

        Raises StoreDamaged if it is not what was written, DedupError if it has another format,
        and OSError with the path if it cannot be opened.
        """
        self._path = path
        self._env: Any = None
        self.state = StoreState(FORMAT, "", "")
        self._recent: dict[int, Document] = {}
        self._journal = Journal(path.parent)
        # Of the journal's entries that are not folded, by packed id: records that were added, removals, and those of
        # them that documents.mdb still has.
        self._pending: dict[bytes, bytes] = {}
        self._pending_removed: dict[bytes, bytes] = {}
        self._gone: set[bytes] = set()
        self._pending_bytes = 0
        self._offsets: dict[int, int] = {}
        self._offsets_changed = False
        self._unfolded = False  # whether there are any, be they empty
        self._count = self._removed_count = 0
        self._unflushed = True  # whether documents.mdb has a commit that is not flushed: an earlier process's, maybe
        self._fell_back = False
        self.dirty, self.urgent = threading.Event(), threading.Event()
        self._syncing = threading.Lock()
        self.unflushed_bytes = 0
        try:
            try:
                verify_structure(path)
            except ValueError as error:
                self._fall_back(error)
            # No LMDB lock file: the store's own lock keeps other processes out, its other lock
            # other threads. No writemap: a stray write would reach the file.
            self._env = lmdb.open(
                str(path),
                subdir=False,
                map_size=MAP_BYTES,
                max_dbs=3,
                lock=False,
                sync=False,
                readonly=read_only,
                create=False,
                mode=PRIVATE,
            )
            self._documents, self._removed, self._meta = (
                self._env.open_db(name, create=False) for name in DATABASES
            )
            self._read_state()
            self._read_journal(read_only)
        except BaseException as error:
            self.close()
            if isinstance(error, lmdb.Error | ValueError):
                raise self._error(error) from error
            if type(error) is DedupError:
                raise DedupError(f"{path} has {error}") from error
            raise

    def _read_state(self) -> None:
        with self._env.begin(self._meta) as txn:
            record = txn.get(b"state")
            noted = txn.get(b"offsets")
            self._count_entries(txn)
        if record is None:
            raise ValueError("its state is missing")
        self.state = decode_state(record)
        self._offsets = {} if noted is None else decode_offsets(noted)

    def _fall_back(self, fault: ValueError) -> None:
        """Make the file what it was before the last commit, which a power cut kept from the disk.

        Raises the fault if that state is not whole either, or the journal does not go on from it.
        """
        try:
            found = verify_structure(self._path, older=True)
            if found is None:
                raise fault
            older, newer = found.metas
            state = decode_state(older.state)
            entries = map(_decode_entry, itertools.chain(*self._journal.read()))
            if not any(_follows(entry, state) for entry in entries):
                raise fault
        except (ValueError, DedupError):
            raise fault from None
        log.warning("%s: transaction %d did not reach the disk (%s): the journal is applied to transaction %d",
                    self._path, newer.transaction, fault, older.transaction)  # fmt: skip
        with self._path.open("r+b") as file:
            file.seek(older.place + META_BYTES.start)
            meta = file.read(META_BYTES.stop - META_BYTES.start)
            file.seek(newer.place + META_BYTES.start)
            file.write(meta)
            file.flush()
            os.fsync(file.fileno())
        self._fell_back = True

    def _read_journal(self, read_only: bool) -> None:
        """Apply the journal's entries that are not in documents.mdb; fold them, where something may be written."""
        try:
            aside, current = ([*map(_decode_entry, bodies)] for bodies in self._journal.read())
            for entry in aside:
                self._replay(entry)
            # whether the end of the file that was set aside did not reach the disk
            lost = self._unfolded and bool(current) and current[0].number > self.state.entries
            for entry in () if lost else current:
                self._replay(entry)
        except ValueError as error:
            raise _damaged(self._journal.path, str(error)) from error
        if not read_only and self._journal.exists:
            try:
                self.settle()
            except OSError as error:  # it stays in the journal: what is stored can be read
                if self._fell_back or lost:
                    raise
                log.error("%s: the journal cannot be folded: %s", self._path, error)

    def _replay(self, entry: JournalEntry) -> None:
        """Apply an entry to what is in memory, unless documents.mdb has it. Raises ValueError."""
        state = self.state
        if entry.number < state.entries:
            return
        if not _follows(entry, state):
            raise ValueError(
                f"entry {entry.number} does not follow {self._path.name}, one of them is another store's or an "
                "older copy"
            )
        names = [pack_number(entry.first + i) for i in range(len(entry.records))]
        left = state.records_sum
        for record in entry.records:
            left ^= int.from_bytes(record[:CHECKSUM_BYTES], "big")
        for removal in entry.removed:
            left ^= int.from_bytes(self._record(pack_number(removal[0]))[:CHECKSUM_BYTES], "big")
        self._note(names, entry.records, entry.removed, entry.offsets, left)

    def _note(
        self,
        names: Sequence[bytes],
        records: Sequence[bytes],
        removed: Sequence[Removal],
        offsets: Mapping[int, int],
        records_sum: int,
    ) -> None:
        """Have what is in memory follow an entry of the journal."""
        self._unfolded = True
        for removal in removed:
            name, noted = pack_removal(removal)
            if self._pending.pop(name, None) is None:
                self._gone.add(name)
            self._pending_removed[name] = noted
        self._pending.update(zip(names, records, strict=True))
        self._pending_bytes += sum(map(len, records))
        self._count += len(records) - len(removed)
        self._removed_count += len(removed)
        if offsets:
            self._offsets = {**self._offsets, **offsets}
            self._offsets_changed = True
        state = self.state
        self.state = _replace(
            state,
            next=state.next + len(records),
            records_sum=records_sum,
            entries=state.entries + 1,
        )

    def __len__(self) -> int:
        """Return the number of documents."""
        return self._count

    @property
    def unindexed(self) -> int:
        """The number of documents added or removed since the index was last written."""
        return self.state.next - self.state.indexed + self._removed_count

    @property
    def file_bytes(self) -> int:
        """The size of the file in bytes."""
        return self._path.stat().st_size

    def sync(self) -> None:
        """Flush the changes to disk; the one method that may run while another does. Raises OSError."""
        with self._syncing:
            self.unflushed_bytes = 0
            self._journal.flush()
            if not self._unflushed:
                return
            try:
                self._env.sync(True)
            except lmdb.Error as error:
                raise self._error(error) from error
            self._unflushed = False

    def settle(self) -> None:
        """Fold the journal into documents.mdb, flush that, and remove the journal. Raises OSError."""
        if self._unfolded:
            self._write()
        self.sync()
        self._journal.remove()

    def close(self) -> None:
        """Close the file. Nothing else may be called afterwards."""
        if self._env is not None:
            self._env.close()
        self._journal.close()

    def damaged(self, reason: str) -> StoreDamaged:
        """Return the error that names this file and what is wrong with it."""
        return _damaged(self._path, reason)

    def read(self, ids: list[int]) -> list[Document]:
        """Return the documents with these ids, in their order.

        Raises StoreDamaged if one is missing.
        """
        # Listings are alike by the hundred, and each asks for all the others: the last ones read
        # are kept. Ids are never used twice, so what is kept is never wrong.
        recent = self._recent
        missing = [i for i in ids if i not in recent]
        if missing:
            try:
                with self._env.begin() as txn:
                    found = [self._document(txn, i) for i in missing]
            except (lmdb.Error, ValueError) as error:
                raise self._error(error) from error
            if len(recent) + len(missing) > RECENT:
                recent = self._recent = {i: recent[i] for i in ids if i in recent}
            recent.update(zip(missing, found, strict=True))
        return [recent[i] for i in ids]

    def scan(self, first: int = 0) -> Generator[tuple[int, Document | ValueError], None, None]:
        """Yield every (id, document) with id >= first, in the order of ids.

        In place of a document that is not readable comes the ValueError that says why.
        """
        try:
            with self._env.begin() as txn:
                for name, record in self._records(txn, first):
                    document_id = unpack_number(name)
                    try:
                        yield document_id, decode_record(name, record, self.state.recipe)
                    except ValueError as error:
                        yield document_id, error
        except lmdb.Error as error:
            raise self._error(error) from error

    def batch(self, first: int, count: int) -> list[tuple[int, Document]]:
        """Return the next `count` (id, document) with id >= first, fewer at the end.

        Raises StoreDamaged if one is not readable.
        """
        found = []
        with contextlib.closing(self.scan(first)) as scan:  # ends its transaction before a write
            for document_id, document in itertools.islice(scan, count):
                if isinstance(document, ValueError):
                    raise self.damaged(f"document {document_id}: {document}") from document
                found.append((document_id, document))
        return found

    def tail(self, first: int, count: int) -> list[Removal]:
        """Return (id, value, key digest) of the next `count` documents with id >= first.

        Raises StoreDamaged if one is not readable.
        """

        def read(txn: Any) -> list[Removal]:
            some = itertools.islice(self._records(txn, first), count)
            return [decode_removal(*each) for each in some]

        return self._read(read)

    def _records(self, txn: Any, first: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield packed id and record of every document with id >= first, in the order of ids."""
        begin, gone = pack_number(first), self._gone
        cursor = txn.cursor(self._documents)
        if cursor.set_range(begin):
            yield from (each for each in cursor if each[0] not in gone) if gone else cursor
        # the journal's ids are greater than all of documents.mdb
        yield from [each for each in self._pending.items() if each[0] >= begin]

    def sample(self, count: int) -> list[Removal]:
        """Return (id, value, key digest) of up to `count` documents spread over all, and of the last.

        Raises StoreDamaged if one is not readable.
        """
        step = max(1, self.state.next // count)

        def read(txn: Any) -> list[Removal]:
            cursor = txn.cursor(self._documents)
            found = {}
            for first in range(0, self.state.next, step):
                if cursor.set_range(pack_number(first)):
                    found[cursor.key()] = cursor.value()
            if cursor.last():
                found[cursor.key()] = cursor.value()
            found.update(itertools.islice(reversed(self._pending.items()), 1))
            return [decode_removal(*each) for each in found.items() if each[0] not in self._gone]

        return self._read(read)

    def removed(self) -> list[Removal]:
        """Return (id, value, key digest) of each document removed since the index was last written."""

        def read(txn: Any) -> list[Removal]:
            noted = itertools.chain(txn.cursor(self._removed), self._pending_removed.items())
            return [unpack_removal(*each) for each in noted]

        return self._read(read)

    def change(
        self,
        documents: Sequence[Document],
        removed: Sequence[Removal],
        offsets: Mapping[int, int],
    ) -> int:
        """Store documents, remove others and note how far a log is applied: all or nothing.

        Offsets take the place of those noted for the same partitions. Returns the id of the first of
        the documents; the others' follow.
        """
        state = self.state
        first = state.next
        if not (documents or removed or offsets):
            return first
        names = [i.to_bytes(8, "big") for i in range(first, first + len(documents))]
        records, records_sum = encode_records(names, documents)
        changes = len(self._pending) + len(self._pending_removed)
        due = max(self._pending_bytes // FOLD_BYTES, changes // FOLD_CHANGES)
        if due and (self._may_commit or due >= FOLD_LATEST):
            self._fold()
            state = self.state
        records_sum ^= state.records_sum
        try:
            for removal in removed:
                record = self._record(pack_number(removal[0]))
                records_sum ^= int.from_bytes(record[:CHECKSUM_BYTES], "big")
        except (lmdb.Error, ValueError) as error:
            raise self._error(error) from error
        entry = JournalEntry(state.entries, state.records_sum, first, records, list(removed), dict(offsets))  # fmt: skip
        self.unflushed_bytes += self._journal.append(_encode(entry))
        self._note(names, records, removed, offsets, records_sum)
        if not self.dirty.is_set():
            self.dirty.set()
        if due >= FOLD_URGENT:
            self.urgent.set()
        return first

    def offsets(self) -> dict[int, int]:
        """Return {partition: next offset} of the log that was applied; {}: none was."""
        return dict(self._offsets)

    def index_written(self, note: int, removed: Sequence[int]) -> None:
        """Note that an index of all documents with id < note lies safely on disk.

        removed are the ids of the removals that were known before it was begun.
        """
        if not self._unfolded:  # the entry with which the journal goes on from the state before
            state = self.state
            entry = JournalEntry(state.entries, state.records_sum, state.next, [])
            self.unflushed_bytes += self._journal.append(_encode(entry))
            self._note((), (), (), {}, state.records_sum)
        self._fold(map(pack_number, removed), indexed=note)

    def _record(self, name: bytes) -> bytes:
        """Return the record of a packed id. Raises ValueError if there is none."""
        if (record := self._pending.get(name)) is not None:
            return record
        with self._env.begin(self._documents) as txn:
            return self._stored(txn, name)

    def _stored(self, txn: Any, name: bytes) -> bytes:
        record = txn.get(name, db=self._documents)
        if record is None or name in self._gone:
            raise ValueError(f"document {unpack_number(name)} is missing")
        return bytes(record)

    def _document(self, txn: Any, document_id: int) -> Document:
        name = document_id.to_bytes(8, "big")
        record = self._pending.get(name) or self._stored(txn, name)
        try:
            return decode_record(name, record, self.state.recipe)
        except ValueError as error:
            raise ValueError(f"document {document_id}: {error}") from error

    def _add(self, txn: Any, names: Sequence[bytes], records: Sequence[bytes]) -> None:
        into = txn.cursor(self._documents)
        pairs = zip(names, records, strict=True)
        if into.putmulti(pairs, append=True, overwrite=False)[1] != len(records):
            raise ValueError(f"an id from {unpack_number(names[0])} on is taken")

    @property
    def _may_commit(self) -> bool:
        """Whether a commit may follow: the one before it is on disk, and the first entry of the journal."""
        return not self._unflushed and self._journal.is_flushed

    def _fold(self, known: Iterable[bytes] = (), **changes: int) -> None:
        """Commit the journal's entries to documents.mdb, and set the journal aside until the next time. Raises OSError.

        known are the removals that the index on disk has; changes those of the state.
        """
        self._write(known, **changes)
        try:
            self._journal.set_aside()
        except OSError as error:  # its entries are skipped at the next opening
            log.warning("%s: cannot be renamed: %s", self._journal.path, error)
        self.unflushed_bytes = max(self.unflushed_bytes, FLUSH_BYTES)

    def _put_pending(self, txn: Any) -> None:
        """Write what is in the journal only."""
        for name in self._gone:
            if not txn.delete(name, db=self._documents):
                raise ValueError(f"document {unpack_number(name)} is missing")
        for name, noted in self._pending_removed.items():
            txn.put(name, noted, db=self._removed)
        if self._pending:
            self._add(txn, [*self._pending], [*self._pending.values()])
        if self._offsets_changed:
            txn.put(b"offsets", encode_offsets(self._offsets), db=self._meta)

    def _count_entries(self, txn: Any) -> None:
        counts = (txn.stat(db)["entries"] for db in (self._documents, self._removed))
        self._count, self._removed_count = map(int, counts)

    def _read(self, action: Callable[[Any], T]) -> T:
        try:
            with self._env.begin() as txn:
                return action(txn)
        except (lmdb.Error, ValueError) as error:
            raise self._error(error) from error

    def _write(self, known: Iterable[bytes] = (), **changes: int) -> None:
        """Commit what is in the journal only; what is in memory follows once it is committed."""
        if not self._may_commit:
            self.sync()
        known = [*known]
        while True:
            try:
                with self._env.begin(write=True) as txn:
                    self._put_pending(txn)
                    for name in known:
                        txn.delete(name, db=self._removed)
                    state = _replace(self.state, **changes)
                    txn.put(b"state", encode_state(state), db=self._meta)
                break
            except lmdb.MapFullError as error:
                map_bytes = 2 * self._env.info()["map_size"]
                if map_bytes > MAP_BYTES_LIMIT:
                    raise self._error(error) from error
                self._env.set_mapsize(map_bytes)
            except (lmdb.Error, ValueError) as error:
                raise self._error(error) from error
        self.state, self._unflushed = state, True
        self._pending, self._pending_removed, self._gone = {}, {}, set()
        self._pending_bytes = 0
        self._offsets_changed = self._unfolded = False
        with self._env.begin() as txn:
            self._count_entries(txn)

    def _disk_is_full(self) -> bool:
        with contextlib.suppress(OSError):
            return shutil.disk_usage(self._path).free < _LEAST_FREE_BYTES
        return False

    def _error(self, error: Exception) -> Exception:
        """Return the error to raise for LMDB's: damage, or the disk's refusal."""
        if isinstance(error, DedupError):
            return error
        if isinstance(error, _DAMAGE) or not isinstance(error, lmdb.Error):
            return self.damaged(str(error))
        code = next((c for t, c in _CODES.items() if isinstance(error, t)), errno.EIO)
        text = f"{error}; what was stored before is safe"
        if code == errno.EIO and self._disk_is_full():  # LMDB says so when only a part fitted
            code, text = errno.ENOSPC, f"No space left on device ({text})"
        return OSError(code, text, os.fspath(self._path))


def _damaged(path: Path, reason: str) -> StoreDamaged:
    return StoreDamaged(
        f"{path} is damaged: {reason}; restore it from a copy, or move its folder away to start with an empty store"
    )


def is_half_made(path: Path) -> bool:
    """Tell whether a file of documents was interrupted while it was made, before anything was in it.

    make() leaves none: it is empty, or LMDB's, sound, and never had a state. Raises OSError.
    """
    size = path.stat().st_size
    if not size:
        return True
    if size > HALF_MADE_BYTES or b"state" in path.read_bytes():
        return False
    try:
        found = read_structure(path)
    except ValueError as error:
        return str(error).startswith("names: ")
    return found is not None and not found.documents


def make(path: Path, namespace: str, recipe: str) -> None:
    """Make a file without documents. It gets its name once it is complete. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    try:
        env = lmdb.open(
            str(new), subdir=False, map_size=MAP_BYTES, max_dbs=len(DATABASES), lock=False, mode=PRIVATE
        )  # fmt: skip
        try:
            *_, meta = [env.open_db(name) for name in DATABASES]
            with env.begin(write=True) as txn:
                state = StoreState(FORMAT, namespace, recipe)
                txn.put(b"state", encode_state(state), db=meta)
        finally:
            env.close()
    except lmdb.Error as error:
        code = next((c for t, c in _CODES.items() if isinstance(error, t)), errno.EIO)
        raise OSError(code, str(error), os.fspath(path)) from error
    new.replace(path)
    sync_folder(path.parent)


class Meta(NamedTuple):
    """One of the two meta pages of a file.

    transaction  the number of the transaction that wrote it
    place        where it is, in bytes
    state        the state record in force after it; empty where an older one cannot be read any more
    """

    transaction: int
    place: int
    state: bytes


class Structure(NamedTuple):
    """What a sound file holds: the number of documents, and the XOR of the checksums of their records.

    metas  its meta pages, the older one first
    """

    documents: int
    records_sum: int
    metas: list[Meta]


def read_structure(path: Path, *, older: bool = False) -> Structure | None:
    """Verify the pages of a file, which LMDB trusts (native/src/lmdb/pages.c); time is linear in their number.

    older: those of the state before the last transaction. None for a new file, and for a layout that LMDB verifies
    itself. Raises ValueError saying what is wrong, and OSError.
    """
    if sys.byteorder != "little" or sys.maxsize < 2**32:
        return None
    if not path.exists() or not path.stat().st_size:
        return None
    found, reason = ffi.new("ndd_lmdb *"), ffi.new("char[]", 100)
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ffi.from_buffer("uint8_t[]", content) as data,
    ):
        status = lib.ndd_lmdb_check(data, len(content), older, found, reason, len(reason))
        if status == lib.NDD_BAD_VERSION:
            return None
        if status == lib.NDD_DAMAGED:
            raise ValueError(ffi.string(reason).decode())
        check(status, f"verifying {path}")
        metas = [
            Meta(int(number), i * int(found.page), content[at : at + size])
            for i, (number, at, size) in enumerate(
                zip(found.transaction, found.state_at, found.state_size, strict=True)
            )
        ]
    return Structure(int(found.documents), int(found.records_sum), sorted(metas))


def verify_structure(path: Path, *, older: bool = False) -> Structure | None:
    """Do what read_structure() does, and compare with the state record. Raises DedupError for another format."""
    found = read_structure(path, older=older)
    if found is None:
        return None
    before, last = found.metas
    record = before.state if older else last.state
    if not record:
        raise ValueError("its state is missing")
    state = decode_state(record)
    if state.records_sum != found.records_sum:
        raise ValueError("checksum of the records does not match the state record")
    try:
        entries = 0 if older else decode_state(before.state).entries
    except (ValueError, DedupError):  # its page is in use again
        entries = 0
    if entries > state.entries:
        raise ValueError("the state under the older meta page is the newer one")
    return found


class Flusher:
    """The thread that flushes a store's documents, from now to end()."""

    def __init__(self, folder: Path, documents: Documents) -> None:
        """Start the thread; folder is the store's, for the log."""
        self._folder = folder
        self._documents = documents
        self._ended = False
        self.error: Exception | None = None  # of the last flush
        self._thread = threading.Thread(target=self._run, name="dedup-flush", daemon=True)
        self._thread.start()

    def sync(self) -> None:
        """Flush now. Raises OSError."""
        self._documents.dirty.clear()
        self._documents.sync()

    def raise_error(self) -> None:
        """Raise the error of the last flush, once."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def end(self) -> None:
        """End the thread and wait for it."""
        self._ended = True
        self._documents.urgent.set()
        self._documents.dirty.set()
        self._thread.join()

    def _run(self) -> None:
        documents, urgent = self._documents, self._documents.urgent
        while True:
            documents.dirty.wait()
            documents.dirty.clear()
            latest = time.monotonic() + FLUSH_SECONDS
            while documents.unflushed_bytes < FLUSH_BYTES and time.monotonic() < latest:
                if urgent.wait(FLUSH_PAUSE_SECONDS):
                    break
            if self._ended:
                return  # close() flushes
            urgent.clear()
            try:
                documents.sync()
            except Exception as error:  # noqa: BLE001 - kept: the next change raises it
                self.error = error
                log.error("%s was not flushed to disk: %s", self._folder, error)
            urgent.wait(FLUSH_PAUSE_SECONDS)
