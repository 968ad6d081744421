"""The documents of a store: put in, read back, taken out. The truth of a store.

The rule kept here: whatever is read back is checked, and the sums in the state follow every change.
file.py says how the file is laid out, and what a transaction is.
"""

import contextlib
import itertools
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import numpy as np

from dedup.model.values import Document
from dedup.store.database.file import DocumentsFile
from dedup.store.database.record_format import (
    Pair,
    State,
    decode_offsets,
    decode_record,
    encode_offsets,
    encode_record,
    encode_records,
    key_digest,
    pack_number,
    record_checksum,
    unpack_number,
)
from dedup.store.database.structure import key_sum, key_sums

__all__ = ["Documents"]

RECENT = 4096  # documents kept in memory after reading them for a probe
WORD = 2**64 - 1
_replace = msgspec.structs.replace


class Documents(DocumentsFile):
    """The documents in the open file."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the file, or make it. Raises what DocumentsFile raises."""
        super().__init__(path, read_only=read_only)
        self._recent: dict[int, Document] = {}

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

    def snapshot_taken(self, note: int, removed: Sequence[int]) -> None:
        """Note that a snapshot of all documents with id < note lies safely on disk.

        removed are the ids of the removals that were known before it was begun.
        """

        def write(txn: Any, state: State) -> tuple[None, State]:
            for name in removed:
                txn.delete(pack_number(name), db=self._removed)
            return None, _replace(state, snapshot=note)

        self._write(write)

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


def _records_sum(records: list[bytes]) -> int:
    """Return the XOR of the records' checksums."""
    checksums = np.frombuffer(b"".join([record[:8] for record in records]), ">u8")
    return int(np.bitwise_xor.reduce(checksums))
