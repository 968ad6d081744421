"""`dedup store`: look after a store.

    PATH -> the store there, or those of the namespaces below -> info, verify

The rule kept here: both only read, and take the store's lock while they do. A store that is in use
or damaged is named, and does not hide the others.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from dedup.cli import terminal
from dedup.errors import DedupError, StoreDamaged
from dedup.store import verify_store

__all__ = ["store"]

DOCUMENTS, SNAPSHOT = "documents.mdb", "table.ndd"

Seen = dict[str, Any]


@click.group()
def store() -> None:
    """Look after a store: what it holds, and whether it is sound.

    PATH is the folder of a store, or one whose folders are stores (a namespace each).
    """


@store.command(epilog="Example: dedup store info .scrapy/dedup")
@click.argument("path", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def info(path: str, as_json: bool) -> None:
    """Show what the stores at PATH hold. Nothing is changed."""
    stores, failed = _each(path, _info)
    if as_json:
        terminal.out_json({"path": path, "stores": stores})
    elif sound := [s for s in stores if "error" not in s]:
        terminal.out(
            terminal.table(
                ("namespace", "documents", "recipe", "bytes", "since snapshot", "path"),
                [
                    (
                        s["namespace"],
                        s["documents"],
                        s["recipe"],
                        s["documents_file_bytes"] + s["snapshot_file_bytes"],
                        s["tail_documents"],
                        s["path"],
                    )
                    for s in sound
                ],
            )
        )
    if failed:
        click.get_current_context().exit(1)


@store.command(epilog="Example: dedup store verify .scrapy/dedup/my-spider")
@click.argument("path", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def verify(path: str, as_json: bool) -> None:
    """Read the stores at PATH to the last byte. Nothing is changed; damage gives exit code 1."""
    stores, failed = _each(path, _verify)
    unsound = [s for s in stores if not s.get("sound")]
    if as_json:
        terminal.out_json({"path": path, "sound": not unsound, "stores": stores})
    for s in stores:
        if "error" not in s and not as_json:
            documents = terminal.count(s["documents"], "document")
            state = "sound" if s["sound"] else terminal.count(s["problem_count"], "problem")
            terminal.out(f"{s['path']}: {documents}, {s['snapshot']:,} in the snapshot: {state}")
            for problem in s["problems"]:
                terminal.out(f"  {problem}")
            if (more := s["problem_count"] - len(s["problems"])) > 0:
                terminal.out(f"  and {more:,} more")
        if s.get("problems"):
            terminal.error(
                f"{s['path']} is damaged; if only {SNAPSHOT} (the snapshot) is named, remove that "
                "file and it is made anew, else restore the folder from a copy, or move it away "
                "to begin anew"
            )
    if failed or unsound:
        click.get_current_context().exit(1)


def _each(path: str, look: Callable[[Path], Seen]) -> tuple[list[Seen], bool]:
    """Look at every store at a path; return what was seen, and whether a look failed.

    Raises OSError, and DedupError if there is no store.
    """
    top = Path(path).resolve()
    folders = [top] if _is_store(top) else sorted(f for f in top.iterdir() if _is_store(f))
    if not folders:
        raise DedupError(
            f"{path}: there is no store here, nor in a folder below; give the folder of a store, "
            "or the one that holds its namespaces (Scrapy's is .scrapy/dedup)"
        )
    stores, failed = [], False
    for folder in folders:
        try:
            stores.append(look(folder))
        except (DedupError, OSError, MemoryError) as error:
            terminal.report(error)
            failed = True
            named = {"path": str(folder), "namespace": folder.name}
            stores.append(named | {"error": terminal.describe(error)})
    return stores, failed


def _is_store(folder: Path) -> bool:
    return (folder / DOCUMENTS).is_file() or (folder / SNAPSHOT).is_file()


def _check_documents(folder: Path) -> Path:
    """Return the file of documents. Raises StoreDamaged if a snapshot stands without it."""
    file = folder / DOCUMENTS
    if not file.is_file() or not file.stat().st_size:
        raise StoreDamaged(
            f"{file} is missing or empty; restore it from a copy, or move the folder away to begin "
            "anew"
        )
    return file


def _info(folder: Path) -> Seen:
    from dedup.store.documents import Documents
    from dedup.store.lock import FolderLock
    from dedup.store.records import FORMAT

    file, snapshot = _check_documents(folder), folder / SNAPSHOT
    lock = FolderLock(folder / "lock", read_only=True)
    try:
        documents = Documents(file, read_only=True)
        try:
            tail = documents.next_id - documents.snapshot_note + documents.removed_count
            return {
                "path": str(folder),
                "namespace": documents.namespace,
                "recipe": documents.recipe,
                "format": FORMAT,
                "documents": len(documents),
                "documents_file_bytes": documents.file_bytes,
                "snapshot_file_bytes": snapshot.stat().st_size if snapshot.is_file() else 0,
                "tail_documents": tail,
            }
        finally:
            documents.close()
    finally:
        lock.close()


def _verify(folder: Path) -> Seen:
    _check_documents(folder)
    report = verify_store(folder.parent, folder.name, terminal.progress(str(folder)))
    return msgspec.structs.asdict(report) | {"sound": not report.problem_count}
