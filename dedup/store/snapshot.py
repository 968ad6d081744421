"""table.ndd: the table of a store on disk, so that opening need not read every document.

    table = snapshot (documents with id < note) - removed + documents with id >= note (the tail)

The rule kept here: the documents are the truth. A snapshot that is missing, damaged, of another
version, or that does not come out at the documents' count is named in the log, and the table is
rebuilt from the documents.

A kill between the steps of save_table leaves one of two states, and both are right:
  - the old snapshot, and every removal since it;
  - the new snapshot, and removals that it already knows, which remove nothing when replayed.
Removals are cleared only when the new snapshot is on disk, and only those from before it was begun:
while it is written the store is used on. What comes and goes meanwhile may be in it or not; the tail
and the removals say it once more.
"""

import logging
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from dedup.core.files import PRIVATE, replace_file
from dedup.core.table import Table
from dedup.model.errors import StoreDamaged
from dedup.store.database.documents import Documents

__all__ = ["load_table", "read_snapshot", "save_table"]

BATCH = 65_536  # documents put into a table at once
TAIL_AT_OPEN = 10_000  # documents read at opening that are worth a new snapshot

log = logging.getLogger(__name__)


def load_table(path: Path, documents: Documents, k: int) -> tuple[Table, bool]:
    """Return the table of all documents, and whether a new snapshot is due.

    Raises StoreDamaged if a document is not readable.
    """
    try:
        table = read_snapshot(path, documents, k)
        if table is not None:
            replayed = _append(table, documents, table.note)
            if len(table) == len(documents):
                return table, replayed >= TAIL_AT_OPEN
            raise _UnusableSnapshot(
                f"{path} comes to {len(table)} documents where {len(documents)} belong"
            )
        due = len(documents) >= TAIL_AT_OPEN
    except _UnusableSnapshot as error:
        log.warning("%s; the table is rebuilt from the documents", error)
        due = True
    table = Table(k)
    _append(table, documents, 0)
    return table, due


def read_snapshot(path: Path, documents: Documents, k: int) -> Table | None:
    """Return the snapshot without what was removed since, or None in a store that has none yet.

    Raises StoreDamaged if it is missing, not readable, or newer than the documents.
    """
    if not path.exists():
        if documents.snapshot_note:
            raise _UnusableSnapshot(f"{path} is missing")
        return None
    try:
        table = Table.load(path, k)
    except (StoreDamaged, OSError) as error:
        raise _UnusableSnapshot(f"{path} is not readable ({error})") from error
    if table.note > documents.next_id:
        raise _UnusableSnapshot(f"{path} is newer than the documents")
    for document_id, value in documents.removed():
        table.remove(value, document_id)
    return table


def save_table(
    table: Table, path: Path, documents: Documents, lock: AbstractContextManager[object]
) -> None:
    """Write the snapshot. Raises OSError; then the one before still stands.

    lock is the one under which documents are changed; it is not held while files are written.
    """
    with lock:
        note, removed = documents.next_id, [name for name, _ in documents.removed()]
    content = table.saved(note, by_parts=True)
    documents.sync()  # never a snapshot on disk of documents that are not
    replace_file(path, content, PRIVATE)  # on disk when it returns, and its folder too
    with lock:
        documents.snapshot_taken(note, removed)


class _UnusableSnapshot(StoreDamaged):
    """The snapshot cannot be used; the documents can."""


def _append(table: Table, documents: Documents, first: int) -> int:
    """Put the documents with id >= first into the table and return their number."""
    count = 0
    ids: list[int] = []
    values: list[int] = []
    for document_id, document in documents.scan(first):
        if isinstance(document, ValueError):
            raise documents.damaged(f"document {document_id}: {document}") from document
        ids.append(document_id)
        values.append(document.page.value)
        if len(ids) == BATCH:
            count += _put(table, ids, values)
            ids, values = [], []
    return count + _put(table, ids, values)


def _put(table: Table, ids: list[int], values: list[int]) -> int:
    table.insert_many(np.array(values, dtype=np.uint64), np.array(ids, dtype=np.uint64))
    return len(ids)
