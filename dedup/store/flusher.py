"""What was committed reaches the disk within a second, by a thread of its own.

The rule kept here: who commits does not wait for the disk, and what the disk refused is not lost on
the way: the next change raises it.
"""

import logging
import threading
from pathlib import Path

from dedup.store.database.documents import Documents

__all__ = ["Flusher"]

FLUSH_SECONDS = 1.0

log = logging.getLogger(__name__)


class Flusher:
    """The thread that flushes a store's documents, from now to end()."""

    def __init__(self, folder: Path, documents: Documents) -> None:
        """Begin; folder is the store's, for the log."""
        self._folder = folder
        self._documents = documents
        self._dirty = threading.Event()
        self._end = threading.Event()
        self._error: Exception | None = None
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
        if self._error is not None:
            error, self._error = self._error, None
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
                self._error = error
                log.error("%s was not flushed to disk: %s", self._folder, error)
            self._end.wait(FLUSH_SECONDS)
