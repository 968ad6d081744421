"""The journal beside documents.mdb: the small changes that are not in it yet, an entry each.

    append -> written, so kill -9 loses nothing -> flush() -> folded into documents.mdb by its owner -> set aside -> removed

    entry = length of the body (4 bytes, big-endian), its bits inverted, checksum (8 bytes), body
    checksum = BLAKE2b-64 of length + body

Invariants: an entry is whole or at the end of the file, where a write was interrupted; any other bytes are damage.
A file that is set aside holds nothing that documents.mdb has not committed, and is removed once that is flushed.
Appending, folding and set_aside() are for one thread at a time; flush() and remove_aside() may run beside them.
"""

import logging
import os
import struct
from contextlib import suppress
from pathlib import Path

from dedup.core.files import CHECKSUM_BYTES, PRIVATE, checksum, sync_folder

JOURNAL = "documents.journal"
ASIDE = "documents.journal.folded"

log = logging.getLogger(__name__)

_HEADER = struct.Struct(f">II{CHECKSUM_BYTES}s")
_INVERSE = 0xFFFF_FFFF


class Journal:
    """The journal in a folder. Its file is made with the first entry.

    size  bytes of the entries in the file
    """

    def __init__(self, folder: Path) -> None:
        self.path, self._aside = folder / JOURNAL, folder / ASIDE
        self.size = 0
        self._fd: int | None = None
        self._aside_fd: int | None = None  # of the file that is set aside
        self._unflushed = self._is_new = False

    def read(self) -> list[bytes]:
        """Return the bodies of all entries, and append behind them from then on.

        Raises ValueError saying what is wrong with the bytes, and OSError.
        """
        found: list[bytes] = []
        for path in (self._aside, self.path):
            with suppress(FileNotFoundError):
                bodies, self.size = _entries(path.read_bytes())
                found += bodies
                continue
            self.size = 0
        return found

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        return self.path.exists() or self._aside.exists()

    @property
    def is_aside(self) -> bool:
        """Whether a file that was set aside is still there."""
        return self._aside_fd is not None

    def append(self, body: bytes) -> None:
        """Write an entry. Raises OSError, and then the journal is as before."""
        length = len(body)
        head = _HEADER.pack(length, length ^ _INVERSE, checksum(length.to_bytes(4, "big") + body))
        try:
            if self._fd is None:
                self._fd = self._opened()
            entry = head + body
            written = os.write(self._fd, entry)
            while written < len(entry):  # the next call says why
                written += os.write(self._fd, entry[written:])
        except OSError as error:
            if self._fd is not None:
                with suppress(OSError):
                    self._cut(self._fd)
            raise OSError(
                error.errno,
                f"{error.strerror} (what was stored before is safe)",
                os.fspath(self.path),
            ) from error
        self.size += len(entry)
        self._unflushed = True

    def _opened(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(self.path, flags, PRIVATE)
        try:
            self._is_new = not self.size
            self._cut(fd)  # an entry whose write was interrupted
        except OSError:
            os.close(fd)
            raise
        return fd

    def _cut(self, fd: int) -> None:
        """Cut a file behind its whole entries, and write there from then on."""
        os.ftruncate(fd, self.size)
        os.lseek(fd, self.size, os.SEEK_SET)

    def flush(self) -> None:
        """Flush the entries to disk. Raises OSError."""
        fd = self._fd
        if fd is None or not self._unflushed:
            return
        self._unflushed = False
        try:
            os.fsync(fd)
            if self._is_new:
                self._is_new = False
                sync_folder(self.path.parent)
        except OSError as error:
            self._unflushed = True
            error.filename = os.fspath(self.path)
            raise

    def set_aside(self) -> None:
        """Go on with an empty file: documents.mdb has committed the entries of this one. Raises OSError."""
        if self._fd is None or self._aside_fd is not None:
            return
        self.path.replace(self._aside)
        self._aside_fd, self._fd = self._fd, None  # open until flush() cannot have it any more
        self.size, self._unflushed = 0, False

    def remove_aside(self) -> None:
        """Remove the file that was set aside."""
        fd = self._aside_fd
        if fd is not None:
            os.close(fd)
            _remove(self._aside)
            self._aside_fd = None

    def remove(self) -> None:
        """Remove all files: documents.mdb has everything on disk."""
        self.close()
        _remove(self.path)
        _remove(self._aside)
        self.size, self._unflushed = 0, False

    def close(self) -> None:
        """Close the files."""
        for fd in (self._fd, self._aside_fd):
            if fd is not None:
                os.close(fd)
        self._fd = self._aside_fd = None


def _remove(path: Path) -> None:
    try:
        if path.exists():
            path.unlink()
    except OSError as error:  # its entries are skipped at the next opening
        log.warning("%s cannot be removed: %s", path, error)


def _entries(content: bytes) -> tuple[list[bytes], int]:
    """Return the bodies of the whole entries, and where they end. Raises ValueError."""
    found: list[bytes] = []
    at = 0
    while at + _HEADER.size <= len(content):
        length, inverse, expected = _HEADER.unpack_from(content, at)
        if length ^ inverse != _INVERSE:
            if not content[at:].strip(b"\0"):
                break  # a file system that had noted the length, and not written, before a power cut
            raise ValueError(f"no entry begins at byte {at}")
        end = at + _HEADER.size + length
        if end > len(content):
            break
        body = content[at + _HEADER.size : end]
        if checksum(content[at : at + 4] + body) != expected:
            raise ValueError(f"checksum of the entry at byte {at} does not match")
        found.append(body)
        at = end
    return found, at
