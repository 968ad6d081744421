"""Which stores a PATH means: the one there, or those of the namespaces in the folders below.

Invariants: a store that cannot be looked at is named, and does not hide the others.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dedup.cli import terminal
from dedup.model.errors import DedupError, StoreDamaged
from dedup.store.index import KEYS, VALUES
from dedup.store.store import DOCUMENTS

Seen = dict[str, Any]


def store_folders(path: str) -> list[Path]:
    """Return the folders of the stores at a path. Raises OSError, and DedupError if there is none."""
    top = Path(path).resolve()
    folders = [top] if is_store(top) else sorted(f for f in top.iterdir() if is_store(f))
    if not folders:
        raise DedupError(
            f"{path}: there is no store here, nor in a folder below; give the folder of a store, "
            "or the one that holds its namespaces (Scrapy's is .scrapy/dedup)"
        )
    return folders


def each(path: str, look: Callable[[Path], Seen]) -> tuple[list[Seen], bool]:
    """Look at every store at a path; return what was seen, and whether a look failed.

    Raises OSError, and DedupError if there is no store.
    """
    stores, failed = [], False
    for folder in store_folders(path):
        try:
            stores.append(look(folder))
        except (DedupError, OSError, MemoryError) as error:
            terminal.report(error)
            failed = True
            named = {"path": str(folder), "namespace": folder.name}
            stores.append(named | {"error": terminal.describe(error)})
    return stores, failed


def is_store(folder: Path) -> bool:
    """Tell whether a folder holds a file of a store."""
    return (folder / DOCUMENTS).is_file() or (folder / VALUES).is_dir()


def index_bytes(folder: Path) -> int:
    """Return the size of the index of a store."""
    files = (file for name in (VALUES, KEYS) for file in (folder / name).glob("*"))
    return sum(file.stat().st_size for file in files)


def check_documents(folder: Path) -> Path:
    """Return the file of documents. Raises StoreDamaged if an index stands without it."""
    file = folder / DOCUMENTS
    if not file.is_file() or not file.stat().st_size:
        raise StoreDamaged(
            f"{file} is missing or empty; restore it from a copy, or move the folder away to start "
            "with an empty store"
        )
    return file
