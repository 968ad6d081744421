"""The documents of a store: put in, read back, taken out. The truth of a store.

The rule kept here: whatever is read back is checked, and the sum in the state follows every change.
file.py says how the file is laid out, and what a transaction is.
"""

import contextlib
import itertools
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from dedup.model.values import Document
from dedup.store.database.file import DocumentsFile
from dedup.store.database.record_format import (
    Removal,
    State,
    decode_offsets,
    decode_record,
    decode_removal,
    encode_offsets,
    encode_records,
    pack_number,
    pack_removal,
    sum_of_records,
    unpack_number,
    unpack_removal,
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

    def tail(self, first: int, count: int) -> list[Removal]:
        """Return (id, value, key digest) of the next `count` documents with id >= first.

        Raises StoreDamaged if one is not readable.
        """

        def read(txn: Any) -> list[Removal]:
            cursor = txn.cursor(self._documents)
            there = cursor.set_range(pack_number(first))
            return [decode_removal(*each) for each in itertools.islice(cursor, count * there)]

        return self._read(read)

    def removed(self) -> list[Removal]:
        """Return (id, value, key digest) of each document removed since the index was last written."""

        def read(txn: Any) -> list[Removal]:
            return [unpack_removal(*each) for each in txn.cursor(self._removed)]

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
        first = self._state.next
        names = [i.to_bytes(8, "big") for i in range(first, first + len(documents))]
        records = encode_records(names, documents)
        records_sum = sum_of_records(records)

        def write(txn: Any, state: State) -> tuple[int, State]:
            gone = [self._remove(txn, removal) for removal in removed]
            into = txn.cursor(self._documents)
            _, added = into.putmulti(zip(names, records, strict=True), append=True, overwrite=False)
            if added != len(records):
                raise ValueError(f"an id from {first} on is taken")
            if offsets:
                noted = self._noted(txn) | dict(offsets)
                txn.put(b"offsets", encode_offsets(noted), db=self._meta)
            return first, _replace(
                state,
                next=first + len(records),
                records_sum=state.records_sum ^ records_sum ^ sum_of_records(gone),
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

    def index_written(self, note: int, removed: Sequence[int]) -> None:
        """Note that an index of all documents with id < note lies safely on disk.

        removed are the ids of the removals that were known before it was begun.
        """

        def write(txn: Any, state: State) -> tuple[None, State]:
            for name in removed:
                txn.delete(pack_number(name), db=self._removed)
            return None, _replace(state, indexed=note)

        self._write(write)

    def _document(self, txn: Any, name: bytes) -> Document:
        """Return the document of a packed id."""
        record = txn.get(name, db=self._documents)
        if record is None:
            raise ValueError(f"document {unpack_number(name)} is missing")
        try:
            return decode_record(name, record, self.recipe)
        except ValueError as error:
            raise ValueError(f"document {unpack_number(name)}: {error}") from error

    def _remove(self, txn: Any, removal: Removal) -> bytes:
        """Remove a document and note that; return its record."""
        name, noted = pack_removal(removal)
        record = txn.pop(name, db=self._documents)
        if record is None:
            raise ValueError(f"document {removal[0]} is missing")
        txn.put(name, noted, db=self._removed)
        return bytes(record)
