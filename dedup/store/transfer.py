"""Documents as text and back: JSON lines, with the fields of an insert event.

    store -> export_lines -> lines -> survey (what is there, nothing written) -> import_lines

Invariants: a line is a complete document or is reported with its fault, and an import writes nothing before
every line was checked. Input is read twice, so it must be seekable.
docs/reference/store-format.md describes a line.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from dedup.model.errors import EventInvalid, RecipeMismatch, UsageError
from dedup.model.events import decode_value, encode_value
from dedup.model.page import Document
from dedup.model.recipes import recipe_of
from dedup.store.documents import key_digest
from dedup.store.store import Progress, Store, locked_documents

Fault = Callable[[int, str], None]  # number of a line, or id of a document; what is wrong with it

LINE_BYTES = 1 << 24  # of the longest line; document keys of 1 MB are far below it
BATCH_DOCUMENTS = 4096  # in one transaction
BATCH_BYTES = 1 << 23  # of their lines, so that long keys do not pile up in memory
STEP = 10_000  # lines between two calls of progress


class Survey(msgspec.Struct, frozen=True):
    """What an input holds.

    lines    lines in all, blank and bad ones too
    bad      lines that are no document, or of another recipe than their namespace's
    first    the first line number of each namespace
    recipes  the recipe of each namespace
    """

    lines: int
    bad: int
    first: dict[str, int]
    recipes: dict[str, str]


def encode_line(namespace: str, document: Document) -> bytes:
    """Return a document as a line, newline included: the value of its insert event.

    Raises EventInvalid if it cannot be said.
    """
    return encode_value(namespace, document) + b"\n"


def decode_line(line: bytes) -> tuple[str, Document]:
    """Return the namespace and the document of a line.

    Raises EventInvalid saying what is wrong with it.
    """
    namespace, document = decode_value(line)
    try:
        key_digest(document.key)
    except UsageError as error:
        raise EventInvalid(str(error)) from error
    return namespace, document


def export_lines(folder: Path, fault: Fault, progress: Progress | None = None) -> Iterator[bytes]:
    """Yield the documents of the store in a folder as lines, oldest first. Nothing is written.

    An unreadable document is reported to `fault` by its id and skipped.
    Raises StoreLocked, StoreDamaged and OSError.
    """
    with locked_documents(folder) as documents:
        total, done = len(documents), 0
        for document_id, document in documents.scan():
            done += 1
            if isinstance(document, ValueError):
                fault(document_id, str(document))
            else:
                yield encode_line(documents.state.namespace, document)
            if progress and done % STEP == 0:
                progress(done, total)
        if progress:
            progress(done, total)


def held_recipe(folder: Path) -> str:
    """Return the recipe of the store in a folder. Nothing is written; raises as export_lines()."""
    with locked_documents(folder) as documents:
        return documents.state.recipe


def count_before(folder: Path, seconds: float) -> tuple[int, int]:
    """Return how many documents of the store in a folder are older than a time, and how many not.

    Nothing is written. Raises StoreLocked, StoreDamaged and OSError.
    """
    with locked_documents(folder) as documents:
        older = 0
        for document_id, document in documents.scan():
            if isinstance(document, ValueError):
                raise documents.damaged(f"document {document_id}: {document}") from document
            older += document.inserted_seconds < seconds
        return older, len(documents) - older


def survey(
    file: IO[bytes], fault: Fault, recipe_held: Callable[[str], str] = lambda _: ""
) -> Survey:
    """Check every line of an input; bad ones are reported to `fault` by their number.

    recipe_held returns the recipe of a namespace's store, "" if there is none yet: then it is that of its first line
    whose recipe this release has. Lines of other recipes are bad.
    """
    lines = bad = 0
    first: dict[str, int] = {}
    recipes: dict[str, str] = {}
    for lines, line in _numbered(file):
        if line is not None and not line.strip():
            continue
        try:
            namespace, document = _document(line)
            recipe = document.page.recipe
            if namespace not in recipes:
                if (known := recipe_held(namespace) or recipe) == recipe:
                    recipe_of(recipe)
                    first[namespace] = lines
                    recipes[namespace] = known
            else:
                known = recipes[namespace]
            if known != recipe:
                raise EventInvalid(
                    f"has the recipe {recipe!r}, and its namespace {namespace!r} has {known!r}: they cannot be compared"
                )
        except (EventInvalid, RecipeMismatch) as error:
            bad += 1
            fault(lines, str(error))
    return Survey(lines, bad, first, recipes)


def import_lines(
    file: IO[bytes], found: Survey, stores: dict[str, Store], progress: Progress | None = None
) -> dict[str, tuple[int, int]]:
    """Store the good lines of a surveyed input; return (documents, replaced) of each namespace.

    A known key replaces its document. Committed in batches; a kill leaves the first of them, and
    importing once more completes it.
    Raises what Store.insert() raises.
    """
    counts = dict.fromkeys(stores, (0, 0))
    batches: dict[str, list[Document]] = {namespace: [] for namespace in stores}
    held_bytes = 0

    def flush(namespace: str) -> None:
        batch = batches[namespace]
        if batch:
            replaced = stores[namespace].insert_many(batch)
            done, before = counts[namespace]
            counts[namespace] = done + len(batch), before + replaced
            batch.clear()

    for number, line, namespace, document in _documents(file, found):
        batches[namespace].append(document)
        held_bytes += len(line)
        if held_bytes >= BATCH_BYTES:
            for each in batches:
                flush(each)
            held_bytes = 0
        elif len(batches[namespace]) >= BATCH_DOCUMENTS:
            flush(namespace)
        if progress and number % STEP == 0:
            progress(number, found.lines)
    for each in batches:
        flush(each)
    if progress:
        progress(found.lines, found.lines)
    return counts


def _documents(file: IO[bytes], found: Survey) -> Iterator[tuple[int, bytes, str, Document]]:
    """Yield number, line, namespace and document of each good line of a surveyed input."""
    for number, line in _numbered(file):
        if number > found.lines:  # written to since; what is new was not looked at
            return
        if line is None or not line.strip():
            continue
        try:
            namespace, document = decode_line(line)
        except EventInvalid:
            continue
        if found.recipes.get(namespace) == document.page.recipe:  # else it is a bad line
            yield number, line, namespace, document


def _document(line: bytes | None) -> tuple[str, Document]:
    if line is None:
        raise EventInvalid(f"longer than {LINE_BYTES:,} bytes")
    return decode_line(line)


def _numbered(file: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line with its number from 1; None in place of one that is too long."""
    number = 0
    while line := file.readline(LINE_BYTES):
        number += 1
        if len(line) == LINE_BYTES and not line.endswith(b"\n"):
            while (rest := file.readline(LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield number, None
        else:
            yield number, line
