"""The documents of a store: put in, read back, taken out. The truth of a store.

The rule kept here: whatever is read back is checked, and the sums in the state follow every change.
file.py says how the file is laid out, and what a transaction is.
"""

import contextlib
import itertools
from collections.abc import Generator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from dedup.model.values import Document
from dedup.store.database.file import DocumentsFile
from dedup.store.database.record_format import (
    WORD,
    Pair,
    State,
    decode_offsets,
    decode_record,
    encode_offsets,
    encode_records,
    key_digest,
    pack_number,
    sum_of_keys,
    sum_of_records,
    unpack_number,
)

__all__ = ["Documents"]

RECENT = 4096  # documents kept in memory after reading them for a probe
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
            name = txn.get(digest, db=self._keys)
            return None if name is None else self._document(txn, name, key)

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
            names = [*map(pack_number, missing)]
            found = self._read(lambda txn: [self._document(txn, name) for name in names])
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
                            yield document_id, decode_record(name, record, self.recipe)
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

    def change(
        self,
        documents: Sequence[Document],
        forgotten: Sequence[str],
        offsets: Mapping[int, int],
    ) -> tuple[int, set[str], list[Pair]]:
        """Store documents, remove others and note how far a log is applied: all or nothing.

        No key may occur twice. Offsets take the place of those noted for the same partitions.
        Returns the first document's id (the others' follow), the keys that were there before, and
        (id, value) of each document that went.
        """
        first = self._state.next
        keys = [document.key for document in documents]
        digests = [*map(key_digest, keys)]
        names = [i.to_bytes(8, "big") for i in range(first, first + len(documents))]
        records = encode_records(names, documents)
        filed = dict(zip(digests, keys, strict=True))
        for key in forgotten:
            filed[key_digest(key)] = key
        keys_sum = sum_of_keys(digests, names)
        records_sum = sum_of_records(records)

        def write(txn: Any, state: State) -> tuple[tuple[int, set[str], list[Pair]], State]:
            known = set()
            removed: list[Pair] = []
            found = txn.cursor(self._keys).getmulti(filed)
            if found:
                names_before = {bytes(digest): bytes(name) for digest, name in found}
                for digest, name in names_before.items():
                    document = self._document(txn, name, filed[digest])
                    known.add(document.key)
                    removed.append((unpack_number(name), document.page.value))
                state = self._remove(txn, state, names_before, removed)
            into = txn.cursor(self._documents)
            _, added = into.putmulti(zip(names, records, strict=True), append=True, overwrite=False)
            if added != len(records):
                raise ValueError(f"an id from {first} on is taken")
            # sorted: the order of the tree's pages
            txn.cursor(self._keys).putmulti(
                sorted(zip(digests, names, strict=True), key=itemgetter(0))
            )
            if offsets:
                noted = self._noted(txn) | dict(offsets)
                txn.put(b"offsets", encode_offsets(noted), db=self._meta)
            return (first, known, removed), _replace(
                state,
                next=first + len(records),
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

    def remove_many(self, found: Sequence[tuple[int, Document]]) -> list[Pair]:
        """Remove documents as batch() has just returned them, all or none; return (id, value) of each."""
        pairs = [(document_id, document.page.value) for document_id, document in found]
        names = {key_digest(document.key): pack_number(i) for i, document in found}
        return self._write(lambda txn, state: (pairs, self._remove(txn, state, names, pairs)))

    def snapshot_taken(self, note: int, removed: Sequence[int]) -> None:
        """Note that a snapshot of all documents with id < note lies safely on disk.

        removed are the ids of the removals that were known before it was begun.
        """

        def write(txn: Any, state: State) -> tuple[None, State]:
            for name in removed:
                txn.delete(pack_number(name), db=self._removed)
            return None, _replace(state, snapshot=note)

        self._write(write)

    def _document(self, txn: Any, name: bytes, key: str | None = None) -> Document:
        """Return the document of a packed id, which must have this key if one is given."""
        record = txn.get(name, db=self._documents)
        if record is None:
            raise ValueError(f"document {unpack_number(name)} is missing")
        try:
            document = decode_record(name, record, self.recipe)
        except ValueError as error:
            raise ValueError(f"document {unpack_number(name)}: {error}") from error
        if key is not None and document.key != key:
            raise ValueError(
                f"document {unpack_number(name)} is filed under another key than its own"
            )
        return document

    def _remove(
        self, txn: Any, state: State, names: Mapping[bytes, bytes], pairs: Sequence[Pair]
    ) -> State:
        """Remove documents: names has the packed id under the digest of each key."""
        for digest in sorted(names):  # the order of the tree's pages
            if txn.pop(digest, db=self._keys) != names[digest]:
                number = unpack_number(names[digest])
                raise ValueError(f"document {number} is not filed under its key")
        records = []
        for document_id, value in pairs:
            name = pack_number(document_id)
            records.append(txn.pop(name, db=self._documents))
            txn.put(name, pack_number(value), db=self._removed)
        return _replace(
            state,
            keys_sum=(state.keys_sum - sum_of_keys([*names], [*names.values()])) & WORD,
            records_sum=state.records_sum ^ sum_of_records(records),
        )
