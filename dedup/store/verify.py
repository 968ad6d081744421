"""Verify a store, reading only.

Invariants: every fault found is reported and none is repaired; one fault does not hide the next.
"""

import errno
import threading
from pathlib import Path

import msgspec

from dedup.model.errors import StoreDamaged
from dedup.model.names import check_namespace
from dedup.model.recipes import recipe_of
from dedup.store.documents import Documents, Removal, key_digest
from dedup.store.index import Index, IndexUnusable
from dedup.store.store import DOCUMENTS, Progress, locked_documents

LISTED = 100  # problems that are listed; the rest are counted
STEP = 10_000  # documents between two calls of progress


class VerifyReport(msgspec.Struct, frozen=True):
    """Result of verifying a store.

    path, namespace, recipe  which store
    documents                documents in it
    indexed                  documents that its index on disk covers; 0 without a usable one
    problems                 the first hundred, each in one sentence; empty in a sound store
    problem_count            how many there are
    """

    path: str
    namespace: str
    recipe: str
    documents: int
    indexed: int
    problems: list[str]
    problem_count: int


def verify_store(
    path: str | Path, namespace: str = "default", progress: Progress | None = None
) -> VerifyReport:
    """Verify the store at <path>/<namespace>, reading only; no other process may have it open.

    progress is called now and then with the documents done and the documents in all.

    Raises FileNotFoundError, StoreLocked, and StoreDamaged if documents.mdb cannot be opened.
    """
    folder = Path(path) / check_namespace(namespace)
    if not (folder / DOCUMENTS).exists():
        raise FileNotFoundError(errno.ENOENT, "there is no store here", str(folder))
    with locked_documents(folder) as documents:
        return verify_documents(documents, None, folder, progress)


def verify_documents(  # noqa: C901 - a list of checks, read from top to bottom
    documents: Documents, index: Index | None, folder: Path, progress: Progress | None = None
) -> VerifyReport:
    """Verify open documents and their index; None opens the one in the folder."""
    problems: list[str] = []
    count = 0

    def problem(text: str) -> None:
        nonlocal count
        count += 1
        if count <= LISTED:
            problems.append(text)

    if index is None:
        try:
            k = recipe_of(documents.state.recipe or None).distance
            index = Index(folder, documents, k, threading.RLock(), read_only=True)
        except IndexUnusable as error:
            problem(f"{error}; harmless, the index is rebuilt when the store is opened")
        except StoreDamaged:
            pass  # an unreadable document, which is reported below
    total, done, last = len(documents), 0, -1
    batch: list[Removal] = []

    def indexed() -> None:
        if index is not None and batch:
            for missing in index.missing(batch):
                problem(f"document {missing} is missing in the index")
            batch.clear()

    try:
        for document_id, document in documents.scan():
            done, last = done + 1, document_id
            if isinstance(document, ValueError):
                problem(f"document {document_id}: {document}")
                continue
            batch.append((document_id, document.page.value, key_digest(document.key)))
            if done % STEP == 0:
                indexed()
                if progress:
                    progress(done, total)
        indexed()
        if done != total:
            problem(f"expected {total} documents, found {done}")
        if last >= documents.state.next:
            problem(f"the next id, {documents.state.next}, is already used")
    except StoreDamaged as error:
        problem(str(error))
    covered = 0 if index is None else index.covered
    if progress:
        progress(done, total)
    return VerifyReport(
        str(folder),
        documents.state.namespace,
        documents.state.recipe,
        total,
        covered,
        problems,
        count,
    )
