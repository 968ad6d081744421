"""documents.mdb: what was accepted, in one LMDB file. The truth of a store.

    documents  id -> record     ids rise from 0 and are never used twice
    keys       digest of a document key -> id
    removed    id -> value      documents that went since the last snapshot of the table
    meta       "state" -> state: what the store is, the next id, and sums of keys and records
               "offsets" -> how far a log was applied, in a store that follows one

The rule kept here: every change is one LMDB transaction, and whatever is read back is checked.
No method is safe against a second thread; the store's lock sees to that.
"""

import contextlib
import errno
import itertools
import os
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import lmdb
import msgspec
import numpy as np

from dedup.errors import DedupError, StoreDamaged
from dedup.store.records import (
    FORMAT,
    Pair,
    State,
    decode_offsets,
    decode_record,
    decode_state,
    encode_offsets,
    encode_record,
    encode_records,
    encode_state,
    key_digest,
    pack_number,
    record_checksum,
    unpack_number,
    wrote,
)
from dedup.store.structure import Structure, key_sum, key_sums, read_structure
from dedup.values import Document

__all__ = ["Documents"]

MAP_BYTES = 1 << 30  # address space, not disk; doubled whenever it is full
MAP_BYTES_LIMIT = 1 << 46
RECENT = 4096  # documents kept in memory after reading them for a probe
WORD = 2**64 - 1
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

T = TypeVar("T")
_replace = msgspec.structs.replace


class Documents:
    """The open file."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the file, or make it; look it over first, in time linear in its pages.

        Raises StoreDamaged if it is not what was written, DedupError if it has another format,
        and OSError with the path if it cannot be opened.
        """
        self._path = path
        self._env: Any = None
        self._state = State(FORMAT, "", "")
        self._recent: dict[int, Document] = {}
        try:
            found = read_structure(path) if path.exists() else None
            # No LMDB lock file: the store's own lock keeps other processes out, its other lock
            # other threads. No writemap: a stray write would reach the file.
            self._env = lmdb.open(
                str(path),
                subdir=False,
                map_size=MAP_BYTES,
                max_dbs=4,
                lock=False,
                sync=False,
                readonly=read_only,
                create=not read_only,
            )
            self._documents, self._keys, self._removed, self._meta = (
                self._env.open_db(name, create=not read_only)
                for name in (b"documents", b"keys", b"removed", b"meta")
            )
            self._read_state(found)
        except BaseException as error:
            self.close()
            if isinstance(error, lmdb.Error | ValueError):
                raise self._error(error) from error
            raise

    def _read_state(self, found: Structure | None) -> None:
        with self._env.begin(self._meta) as txn:
            record = txn.get(b"state")
        if record is None:
            if len(self) or self.key_count:
                raise ValueError("its state is missing")
            return
        try:
            self._state = state = decode_state(record)
        except DedupError as error:
            raise DedupError(f"{self._path} has {error}") from error
        if found is None:
            return
        if found[:4] != (len(self), len(self), state.keys_sum, state.records_sum):
            raise ValueError("its keys and records do not add up")
        for transaction, older in found.states:
            if not wrote(older, transaction):
                raise ValueError("a meta page bears another number than its transaction's")

    def name(self, namespace: str, recipe: str) -> None:
        """Write a new file's state."""
        self._write(lambda _txn, _state: (None, State(FORMAT, namespace, recipe)))

    @property
    def namespace(self) -> str:
        """The namespace it was made for; "" in a new file."""
        return self._state.namespace

    @property
    def recipe(self) -> str:
        """The id of the recipe of all its documents; "" in a new file."""
        return self._state.recipe

    @property
    def next_id(self) -> int:
        """The id that the next document gets."""
        return self._state.next

    @property
    def snapshot_note(self) -> int:
        """The id up to which the last snapshot covers documents; 0: there was none."""
        return self._state.snapshot

    def __len__(self) -> int:
        """Return the number of documents."""
        return self._entries(self._documents)

    @property
    def key_count(self) -> int:
        """The number of filed keys: the number of documents, in a sound file."""
        return self._entries(self._keys)

    @property
    def removed_count(self) -> int:
        """The number of documents removed since the last snapshot."""
        return self._entries(self._removed)

    @property
    def file_bytes(self) -> int:
        """The size of the file in bytes."""
        return self._path.stat().st_size

    def id_of(self, key: str) -> int | None:
        """Return the id of the document with this key, or None."""
        digest = key_digest(key)
        try:  # as _read() does, without its calls: this is asked for every page
            with self._env.begin(self._keys) as txn:
                found = txn.get(digest)
            return None if found is None else unpack_number(found)
        except (lmdb.Error, ValueError) as error:
            raise self._error(error) from error

    def get(self, key: str) -> Document | None:
        """Return the document with this key, or None. Raises StoreDamaged."""
        digest = key_digest(key)

        def read(txn: Any) -> Document | None:
            document_id = self._id_of(txn, digest)
            return None if document_id is None else self._document(txn, document_id, key)

        return self._read(read)

    def read(self, ids: list[int]) -> list[Document]:
        """Return the documents with these ids, in their order.

        Raises StoreDamaged if one is missing.
        """
        # Listings are alike by the hundred, and each asks for all the others: the last ones read
        # are kept. Ids are never used twice, so what is kept is never wrong.
        recent = self._recent
        missing = [i for i in ids if i not in recent]
        if missing:
            found = self._read(lambda txn: [self._document(txn, i) for i in missing])
            if len(recent) + len(missing) > RECENT:
                recent = self._recent = {i: recent[i] for i in ids if i in recent}
            recent.update(zip(missing, found, strict=True))
        return [recent[i] for i in ids]

    def scan(self, first: int = 0) -> Generator[tuple[int, Document | ValueError], None, None]:
        """Yield every (id, document) with id >= first, in the order of ids.

        In place of a document that is not readable comes the ValueError that says why.
        """
        try:
            with self._env.begin(self._documents) as txn:
                cursor = txn.cursor()
                if cursor.set_range(pack_number(first)):
                    for name, record in cursor:
                        document_id = unpack_number(name)
                        try:
                            yield document_id, decode_record(document_id, record, self.recipe)
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

    def removed(self) -> list[Pair]:
        """Return (id, value) of each document removed since the last snapshot."""

        def read(txn: Any) -> list[Pair]:
            pairs = txn.cursor(self._removed)
            return [(unpack_number(name), unpack_number(value)) for name, value in pairs]

        return self._read(read)

    def insert(self, document: Document) -> tuple[int, Pair | None]:
        """Store a document; return its new id, and (id, value) of the one it replaced."""
        return self.insert_many([document])[0]

    def insert_many(self, documents: Sequence[Document]) -> list[tuple[int, Pair | None]]:
        """Store documents in their order, all or none; return what insert() does, for each."""
        first = self._state.next
        entries = [
            (i, key_digest(document.key), encode_record(i, document), document.key)
            for i, document in enumerate(documents, first)
        ]

        def write(txn: Any, state: State) -> tuple[list[tuple[int, Pair | None]], State]:
            results = []
            keys_sum = records_sum = 0
            for document_id, digest, record, key in entries:
                replaced, state = self._remove(txn, state, digest, key)
                name = pack_number(document_id)
                if not txn.put(name, record, db=self._documents, append=True, overwrite=False):
                    raise ValueError(f"the next id {document_id} is taken")
                txn.put(digest, name, db=self._keys)
                keys_sum += key_sum(digest, document_id)
                records_sum ^= record_checksum(record)
                results.append((document_id, replaced))
            return results, _replace(
                state,
                next=first + len(entries),
                keys_sum=(state.keys_sum + keys_sum) & WORD,
                records_sum=state.records_sum ^ records_sum,
            )

        return self._write(write)

    def apply(
        self, documents: Sequence[Document], forgotten: Sequence[str], offsets: Mapping[int, int]
    ) -> tuple[int, set[str], list[Pair]]:
        """Store documents, remove others and note how far the log is applied: all or nothing.

        No key may occur twice. Offsets take the place of those noted for the same partitions.
        Returns the first document's id (the others' follow), the keys that were there before, and
        (id, value) of each document that went.
        """
        count, first = len(documents), self._state.next
        keys = [document.key for document in documents]
        digests = [*map(key_digest, keys)]
        numbers = np.arange(first, first + count, dtype=np.uint64)
        packed = numbers.astype(">u8").tobytes()
        names = [packed[i : i + 8] for i in range(0, 8 * count, 8)]
        records = encode_records(names, documents)
        halves = np.frombuffer(b"".join(digests), ">u8").astype(np.uint64).reshape(-1, 2)
        keys_sum = int(key_sums(halves[:, 0], halves[:, 1], numbers))
        records_sum = _records_sum(records)
        order = np.argsort(halves[:, 0]).tolist()  # that of the tree's pages
        entries = [(digests[i], names[i]) for i in order]
        filed = {digests[i]: keys[i] for i in order}
        filed.update((key_digest(key), key) for key in forgotten)

        def write(txn: Any, state: State) -> tuple[tuple[int, set[str], list[Pair]], State]:
            known: set[str] = set()
            removed = []
            for digest, _ in txn.cursor(self._keys).getmulti(filed):
                key = filed[bytes(digest)]
                pair, state = self._remove(txn, state, bytes(digest), key)
                assert pair is not None
                removed.append(pair)
                known.add(key)
            into = txn.cursor(self._documents)
            _, added = into.putmulti(zip(names, records, strict=True), append=True, overwrite=False)
            if added != count:
                raise ValueError(f"an id from {first} on is taken")
            txn.cursor(self._keys).putmulti(entries)
            noted = self._noted(txn) | dict(offsets)
            txn.put(b"offsets", encode_offsets(noted), db=self._meta)
            return (first, known, removed), _replace(
                state,
                next=first + count,
                keys_sum=(state.keys_sum + keys_sum) & WORD,
                records_sum=state.records_sum ^ records_sum,
            )

        return self._write(write)

    def offsets(self) -> dict[int, int]:
        """Return {partition: next offset} of the log that was applied; {}: none was."""
        return self._read(self._noted)

    def note_offsets(self, offsets: Mapping[int, int]) -> None:
        """Note how far a log is applied, in the place of all that was noted."""

        def write(txn: Any, state: State) -> tuple[None, State]:
            txn.put(b"offsets", encode_offsets(dict(offsets)), db=self._meta)
            return None, state

        self._write(write)

    def _noted(self, txn: Any) -> dict[int, int]:
        record = txn.get(b"offsets", db=self._meta)
        return {} if record is None else decode_offsets(record)

    def forget(self, key: str) -> Pair | None:
        """Remove the document with this key; return its (id, value), or None if there is none."""
        if self.id_of(key) is None:
            return None
        digest = key_digest(key)
        return self._write(lambda txn, state: self._remove(txn, state, digest, key))

    def remove_many(self, found: Sequence[tuple[int, Document]]) -> list[Pair]:
        """Remove documents as batch() has just returned them, all or none; return (id, value) of each."""
        pairs = [(document_id, document.page.value) for document_id, document in found]
        names = {key_digest(document.key): pack_number(i) for i, document in found}
        halves = np.frombuffer(b"".join(names), ">u8").astype(np.uint64).reshape(-1, 2)
        numbers = np.array([i for i, _ in pairs], np.uint64)
        keys_sum = int(key_sums(halves[:, 0], halves[:, 1], numbers))

        def write(txn: Any, state: State) -> tuple[list[Pair], State]:
            for digest in sorted(names):  # the order of the tree's pages
                if txn.pop(digest, db=self._keys) != names[digest]:
                    number = unpack_number(names[digest])
                    raise ValueError(f"document {number} is not filed under its key")
            records_sum = 0
            for document_id, value in pairs:
                name = pack_number(document_id)
                records_sum ^= record_checksum(txn.pop(name, db=self._documents))
                txn.put(name, pack_number(value), db=self._removed)
            return pairs, _replace(
                state,
                keys_sum=(state.keys_sum - keys_sum) & WORD,
                records_sum=state.records_sum ^ records_sum,
            )

        return self._write(write)

    def snapshot_taken(self, note: int) -> None:
        """Note that a snapshot of all documents with id < note lies safely on disk."""

        def write(txn: Any, state: State) -> tuple[None, State]:
            txn.drop(self._removed, delete=False)
            return None, _replace(state, snapshot=note)

        self._write(write)

    def sync(self) -> None:
        """Flush to disk what was committed; the one method that may run beside the others."""
        try:
            self._env.sync(True)
        except lmdb.Error as error:
            raise self._error(error) from error

    def close(self) -> None:
        """Close the file. Nothing else may be called afterwards."""
        if self._env is not None:
            self._env.close()

    def damaged(self, reason: str) -> StoreDamaged:
        """Return the error that names this file and what is wrong with it."""
        return StoreDamaged(
            f"{self._path} is damaged: {reason}; restore it from a copy, or move its folder away "
            "to begin anew"
        )

    def _id_of(self, txn: Any, digest: bytes) -> int | None:
        found = txn.get(digest, db=self._keys)
        return None if found is None else unpack_number(found)

    def _document(self, txn: Any, document_id: int, key: str | None = None) -> Document:
        record = txn.get(pack_number(document_id), db=self._documents)
        if record is None:
            raise ValueError(f"document {document_id} is missing")
        try:
            document = decode_record(document_id, record, self.recipe)
        except ValueError as error:
            raise ValueError(f"document {document_id}: {error}") from error
        if key is not None and document.key != key:
            raise ValueError(f"document {document_id} is filed under another key than its own")
        return document

    def _remove(self, txn: Any, state: State, digest: bytes, key: str) -> tuple[Pair | None, State]:
        document_id = self._id_of(txn, digest)
        if document_id is None:
            return None, state
        value = self._document(txn, document_id, key).page.value
        name = pack_number(document_id)
        record = txn.pop(name, db=self._documents)
        txn.delete(digest, db=self._keys)
        txn.put(name, pack_number(value), db=self._removed)
        return (document_id, value), _replace(
            state,
            keys_sum=(state.keys_sum - key_sum(digest, document_id)) & WORD,
            records_sum=state.records_sum ^ record_checksum(record),
        )

    def _entries(self, database: Any) -> int:
        return self._read(lambda txn: int(txn.stat(database)["entries"]))

    def _read(self, action: Callable[[Any], T]) -> T:
        try:
            with self._env.begin() as txn:
                return action(txn)
        except (lmdb.Error, ValueError) as error:
            raise self._error(error) from error

    def _write(self, action: Callable[[Any, State], tuple[T, State]]) -> T:
        """Run one transaction; the state changes with it, in memory only once it is committed."""
        while True:
            try:
                with self._env.begin(write=True) as txn:
                    result, state = action(txn, self._state)
                    state = _replace(state, transaction=txn.id())
                    txn.put(b"state", encode_state(state), db=self._meta)
                self._state = state
                return result
            except lmdb.MapFullError as error:
                map_bytes = 2 * self._env.info()["map_size"]
                if map_bytes > MAP_BYTES_LIMIT:
                    raise self._error(error) from error
                self._env.set_mapsize(map_bytes)
            except (lmdb.Error, ValueError) as error:
                raise self._error(error) from error

    def _disk_is_full(self) -> bool:
        with contextlib.suppress(OSError):
            return shutil.disk_usage(self._path).free < _LEAST_FREE_BYTES
        return False

    def _error(self, error: Exception) -> Exception:
        """Return the error that people are told: damage, or what the disk refused."""
        if isinstance(error, DedupError):
            return error
        if isinstance(error, _DAMAGE) or not isinstance(error, lmdb.Error):
            return self.damaged(str(error))
        code = next((c for t, c in _CODES.items() if isinstance(error, t)), errno.EIO)
        text = f"{error}; what was stored before is safe"
        if code == errno.EIO and self._disk_is_full():  # LMDB says so when only a part fitted
            code, text = errno.ENOSPC, f"No space left on device ({text})"
        return OSError(code, text, os.fspath(self._path))


def _records_sum(records: list[bytes]) -> int:
    """Return the XOR of the records' checksums."""
    checksums = np.frombuffer(b"".join([record[:8] for record in records]), ">u8")
    return int(np.bitwise_xor.reduce(checksums))
