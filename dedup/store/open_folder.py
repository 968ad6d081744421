"""Opening a store's folder: locked, checked and named, before anything is searched in it."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dedup.core.files import PRIVATE_FOLDER, FolderLock
from dedup.model.errors import RecipeMismatch, StoreDamaged, UsageError
from dedup.model.recipes import Recipe, recipe_of
from dedup.store.database.documents import Documents
from dedup.store.index import KEYS, VALUES

__all__ = [
    "DOCUMENTS",
    "FOR_ONE_CRAWL",
    "agreed_recipe",
    "empty",
    "locked_documents",
    "open_folder",
]

DOCUMENTS = "documents.mdb"
FOR_ONE_CRAWL = "crawl"  # the mark of a store that the next crawl may empty


def agreed_recipe(
    folder: Path, held: str, recipe_id: str | None = None, secret: str | None = None
) -> Recipe:
    """Return the recipe of a store that holds a recipe ("": none yet), if it is the one wanted.

    Raises RecipeMismatch naming both if it is another.
    """
    recipe = recipe_of(recipe_id or held or None, secret)
    if held and recipe.id != held:
        raise RecipeMismatch(
            f"the store {folder} holds fingerprints of recipe {held!r}, which cannot be compared "
            f"with those of {recipe.id!r}: open it with its own recipe and secret, or take "
            "another namespace"
        )
    return recipe


def open_folder(
    folder: Path, namespace: str, recipe_id: str | None, secret: str | None, *, create: bool
) -> tuple[Documents, FolderLock, Recipe]:
    """Lock the folder of a store, or make it; return its documents, its lock and its recipe.

    Raises what Store.open() raises.
    """
    file = folder / DOCUMENTS
    if create:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
    elif not file.exists():
        raise FileNotFoundError(errno.ENOENT, "there is no store here", str(folder))
    lock = FolderLock(folder / "lock")
    documents: Documents | None = None
    try:
        if (folder / VALUES).exists() and not (file.exists() and file.stat().st_size):
            raise StoreDamaged(
                f"{file} is missing or empty, but {folder / VALUES} is there: restore it from a copy, "
                "or move the folder away to start with an empty store"
            )
        documents = Documents(file)
        if create:  # who opens it to fill it wants it kept; a crawl marks its own store again
            (folder / FOR_ONE_CRAWL).unlink(missing_ok=True)
        recipe = agreed_recipe(folder, documents.recipe, recipe_id, secret)
        if not documents.recipe:
            documents.name(namespace, recipe.id)
        elif documents.namespace != namespace:
            raise UsageError(
                f"the store {folder} belongs to the namespace {documents.namespace!r}, not to "
                f"{namespace!r}"
            )
        return documents, lock, recipe
    except BaseException:
        if documents is not None:
            documents.close()
        lock.close()
        raise


def empty(folder: Path) -> None:
    """Remove the documents of a store, and its index, under its lock. Raises OSError."""
    # the index first: it is refused without the documents that it stands for
    for name in (VALUES, KEYS):
        if (folder / name).exists():
            shutil.rmtree(folder / name)
    (folder / DOCUMENTS).unlink(missing_ok=True)


@contextmanager
def locked_documents(folder: Path) -> Iterator[Documents]:
    """Open the documents of the store in a folder for reading only, under the store's lock.

    Raises StoreLocked, StoreDamaged and OSError.
    """
    lock = FolderLock(folder / "lock", read_only=True)
    try:
        documents = Documents(folder / DOCUMENTS, read_only=True)
        try:
            yield documents
        finally:
            documents.close()
    finally:
        lock.close()
