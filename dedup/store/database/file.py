"""documents.mdb as a file: looked over when it is opened, changed by whole transactions.

    documents  id -> record     ids rise from 0 and are never used twice
    removed    id -> value and key digest of a document that went since the index was last written
    meta       "state" -> state: what the store is, the next id, and the sum of records
               "offsets" -> how far a log was applied, in a store that follows one

The rule kept here: every change is one LMDB transaction, which the state in memory follows once it is
committed; and an error names the file, and is damage or what the disk refused, never LMDB's.
Who commits does not wait for the disk: a thread of its own flushes within a second, and what the disk
refused then is raised by the next change.
No method is safe against a second thread; the store's lock sees to that.
"""

import contextlib
import errno
import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import lmdb
import msgspec

from dedup.core.files import PRIVATE
from dedup.model.errors import DedupError, StoreDamaged
from dedup.store.database.record_format import FORMAT, State, decode_state, encode_state, wrote
from dedup.store.database.structure import Structure, read_structure

__all__ = ["DocumentsFile", "Flusher"]

FLUSH_SECONDS = 1.0
MAP_BYTES = 1 << 30  # address space, not disk; doubled whenever it is full
MAP_BYTES_LIMIT = 1 << 46
_LEAST_FREE_BYTES = 1 << 16  # with less, what the disk did not take was too much for it

_DAMAGE = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.NotFoundError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
    lmdb.PanicError,
)
_CODES: dict[type[lmdb.Error], int] = {
    lmdb.DiskError: errno.ENOSPC,
    lmdb.ReadonlyError: errno.EROFS,
    lmdb.MapFullError: errno.ENOMEM,
    lmdb.MemoryError: errno.ENOMEM,
}

log = logging.getLogger(__name__)

T = TypeVar("T")
_replace = msgspec.structs.replace


class DocumentsFile:
    """The open file."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the file, or make it; look it over first, in time linear in its pages.

        Raises StoreDamaged if it is not what was written, DedupError if it has another format,
        and OSError with the path if it cannot be opened.
        """
        self._path = path
        self._env: Any = None
        self._state = State(FORMAT, "", "")
        try:
            found = read_structure(path) if path.exists() else None
            # No LMDB lock file: the store's own lock keeps other processes out, its other lock
            # other threads. No writemap: a stray write would reach the file.
            self._env = lmdb.open(
                str(path),
                subdir=False,
                map_size=MAP_BYTES,
                max_dbs=3,
                lock=False,
                sync=False,
                readonly=read_only,
                create=not read_only,
                mode=PRIVATE,
            )
            self._documents, self._removed, self._meta = (
                self._env.open_db(name, create=not read_only)
                for name in (b"documents", b"removed", b"meta")
            )
            self._read_state(found)
        except BaseException as error:
            self.close()
            if isinstance(error, lmdb.Error | ValueError):
                raise self._error(error) from error
            raise

    def _read_state(self, found: Structure | None) -> None:
        with self._env.begin(self._meta) as txn:
            record = txn.get(b"state")
        if record is None:
            if len(self):
                raise ValueError("its state is missing")
            return
        try:
            self._state = state = decode_state(record)
        except DedupError as error:
            raise DedupError(f"{self._path} has {error}") from error
        if found is None:
            return
        if found[:2] != (len(self), state.records_sum):
            raise ValueError("its records do not add up")
        for transaction, older in found.states:
            if not wrote(older, transaction):
                raise ValueError("a meta page bears another number than its transaction's")

    def name(self, namespace: str, recipe: str) -> None:
        """Write a new file's state."""
        self._write(lambda _txn, _state: (None, State(FORMAT, namespace, recipe)))

    @property
    def namespace(self) -> str:
        """The namespace it was made for; "" in a new file."""
        return self._state.namespace

    @property
    def recipe(self) -> str:
        """The id of the recipe of all its documents; "" in a new file."""
        return self._state.recipe

    @property
    def next_id(self) -> int:
        """The id that the next document gets."""
        return self._state.next

    @property
    def indexed(self) -> int:
        """The id up to which the index on disk covers documents; 0: there is none."""
        return self._state.indexed

    def __len__(self) -> int:
        """Return the number of documents."""
        return self._entries(self._documents)

    @property
    def removed_count(self) -> int:
        """The number of documents removed since the index was last written."""
        return self._entries(self._removed)

    @property
    def unindexed(self) -> int:
        """The number of documents added or removed since the index was last written."""
        return self.next_id - self.indexed + self.removed_count

    @property
    def file_bytes(self) -> int:
        """The size of the file in bytes."""
        return self._path.stat().st_size

    def sync(self) -> None:
        """Flush to disk what was committed; the one method that may run beside the others."""
        try:
            self._env.sync(True)
        except lmdb.Error as error:
            raise self._error(error) from error

    def close(self) -> None:
        """Close the file. Nothing else may be called afterwards."""
        if self._env is not None:
            self._env.close()

    def damaged(self, reason: str) -> StoreDamaged:
        """Return the error that names this file and what is wrong with it."""
        return StoreDamaged(
            f"{self._path} is damaged: {reason}; restore it from a copy, or move its folder away "
            "to start with an empty store"
        )

    def _entries(self, database: Any) -> int:
        return self._read(lambda txn: int(txn.stat(database)["entries"]))

    def _read(self, action: Callable[[Any], T]) -> T:
        try:
            with self._env.begin() as txn:
                return action(txn)
        except (lmdb.Error, ValueError) as error:
            raise self._error(error) from error

    def _write(self, action: Callable[[Any, State], tuple[T, State]]) -> T:
        """Run one transaction; the state changes with it, in memory only once it is committed."""
        while True:
            try:
                with self._env.begin(write=True) as txn:
                    result, state = action(txn, self._state)
                    state = _replace(state, transaction=txn.id())
                    txn.put(b"state", encode_state(state), db=self._meta)
                self._state = state
                return result
            except lmdb.MapFullError as error:
                map_bytes = 2 * self._env.info()["map_size"]
                if map_bytes > MAP_BYTES_LIMIT:
                    raise self._error(error) from error
                self._env.set_mapsize(map_bytes)
            except (lmdb.Error, ValueError) as error:
                raise self._error(error) from error

    def _disk_is_full(self) -> bool:
        with contextlib.suppress(OSError):
            return shutil.disk_usage(self._path).free < _LEAST_FREE_BYTES
        return False

    def _error(self, error: Exception) -> Exception:
        """Return the error that people are told: damage, or what the disk refused."""
        if isinstance(error, DedupError):
            return error
        if isinstance(error, _DAMAGE) or not isinstance(error, lmdb.Error):
            return self.damaged(str(error))
        code = next((c for t, c in _CODES.items() if isinstance(error, t)), errno.EIO)
        text = f"{error}; what was stored before is safe"
        if code == errno.EIO and self._disk_is_full():  # LMDB says so when only a part fitted
            code, text = errno.ENOSPC, f"No space left on device ({text})"
        return OSError(code, text, os.fspath(self._path))


class Flusher:
    """The thread that flushes a store's documents, from now to end()."""

    def __init__(self, folder: Path, documents: DocumentsFile) -> None:
        """Begin; folder is the store's, for the log."""
        self._folder = folder
        self._documents = documents
        self._dirty = threading.Event()
        self._end = threading.Event()
        self.error: Exception | None = None  # what the last flush failed with
        self._thread = threading.Thread(target=self._run, name="dedup-flush", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Flush soon: something was committed."""
        if not self._dirty.is_set():
            self._dirty.set()

    def sync(self) -> None:
        """Flush now. Raises OSError."""
        self._dirty.clear()
        self._documents.sync()

    def raise_error(self) -> None:
        """Raise what the last flush failed with, once."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def end(self) -> None:
        """Have the thread end, and wait for it."""
        self._end.set()
        self._dirty.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.is_set():
            self._dirty.wait()
            self._dirty.clear()
            try:
                self._documents.sync()
            except Exception as error:  # the next change raises it
                self.error = error
                log.error("%s was not flushed to disk: %s", self._folder, error)
            self._end.wait(FLUSH_SECONDS)
