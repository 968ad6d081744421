"""Look a store over, byte for byte, without changing it.

The rule kept here: everything found is reported, nothing is repaired, and the first fault does not
hide the second.
"""

import errno
from pathlib import Path

import msgspec

from dedup.model.errors import StoreDamaged
from dedup.model.names import check_namespace
from dedup.store.changes import Progress
from dedup.store.database.documents import Documents
from dedup.store.open_folder import DOCUMENTS, SNAPSHOT, locked_documents
from dedup.store.snapshot import read_snapshot

__all__ = ["Report", "verify_documents", "verify_store"]

LISTED = 100  # problems put into words; the rest are only counted
STEP = 10_000  # documents between two calls of progress


class Report(msgspec.Struct, frozen=True):
    """What verifying a store came to.

    path, namespace, recipe  which store
    documents                documents in it
    snapshot                 documents that its snapshot covers; 0 without a usable one
    problems                 the first hundred, each in one sentence; empty in a sound store
    problem_count            how many there are
    """

    path: str
    namespace: str
    recipe: str
    documents: int
    snapshot: int
    problems: list[str]
    problem_count: int


def verify_store(
    path: str | Path, namespace: str = "default", progress: Progress | None = None
) -> Report:
    """Verify the store at <path>/<namespace>, reading only; no other process may have it open.

    progress is called now and then with the documents done and the documents in all.

    Raises FileNotFoundError, StoreLocked, and StoreDamaged if documents.mdb cannot be opened.
    """
    folder = Path(path) / check_namespace(namespace)
    if not (folder / DOCUMENTS).exists():
        raise FileNotFoundError(errno.ENOENT, "there is no store here", str(folder))
    with locked_documents(folder) as documents:
        return verify_documents(documents, folder, progress)


def verify_documents(  # noqa: C901 - a list of checks, read from top to bottom
    documents: Documents, folder: Path, progress: Progress | None = None
) -> Report:
    """Verify open documents and the snapshot beside them."""
    problems: list[str] = []
    count = 0

    def problem(text: str) -> None:
        nonlocal count
        count += 1
        if count <= LISTED:
            problems.append(text)

    try:
        table = read_snapshot(folder / SNAPSHOT, documents, k=0)
    except StoreDamaged as error:
        problem(f"{error}; harmless, it is rebuilt when the store is opened")
        table = None
    note = 0 if table is None else table.note
    covered = 0 if table is None else len(table)
    unreadable = 0  # of those that the snapshot covers
    total, done, last = len(documents), 0, -1
    try:
        for document_id, document in documents.scan():
            done, last = done + 1, document_id
            if isinstance(document, ValueError):
                problem(f"document {document_id}: {document}")
                unreadable += document_id < note
                continue
            if documents.id_of(document.key) != document_id:
                problem(f"document {document_id} is not found under its key {document.key!r}")
            value = document.page.value
            if document_id < note and table is not None and not table.remove(value, document_id):
                problem(f"document {document_id} is missing in the snapshot")
            if progress and done % STEP == 0:
                progress(done, total)
        if done != total or documents.key_count != total:
            problem(f"{done} documents and {documents.key_count} keys where {total} belong")
        if last >= documents.next_id:
            problem(f"the next id, {documents.next_id}, is taken")
    except StoreDamaged as error:
        problem(str(error))
    if table is not None and (left := len(table)) > unreadable:
        problem(f"the snapshot holds {left - unreadable} documents that are not there")
    if progress:
        progress(done, total)
    return Report(
        str(folder), documents.namespace, documents.recipe, total, covered, problems, count
    )
