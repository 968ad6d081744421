"""The journal beside documents.mdb: the small changes that are not in it yet, an entry each.

    append -> written, so kill -9 loses nothing -> flush() -> folded into documents.mdb by its owner -> set aside -> replaced

    entry = length of the body (4 bytes, big-endian), its bits inverted, checksum (8 bytes), body
    checksum = BLAKE2b-64 of length + body

Invariants: an entry is whole, or at the end of the file, where a write was interrupted, or has zeros in the place of a
sector that a power cut kept from the disk, and what follows it was not flushed either; any other bytes are damage.
A file that is set aside holds what documents.mdb has in its last commit, and stays until the next one: a power cut may have
kept the commit from the disk. Appending, folding and set_aside() are for one thread at a time; flush() may run beside them.
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
_SECTOR = 512  # bytes that reach a disk together


class _File:
    """An open file: what flush() notes is of this one, also where another takes its place meanwhile."""

    def __init__(self, fd: int, *, is_new: bool) -> None:
        self.fd, self.is_new = fd, is_new
        self.has_flushed = False  # the first entries at least
        self.has_unflushed = True


class Journal:
    """The journal in a folder. Its file is made with the first entry.

    size  bytes of the entries in the file
    """

    def __init__(self, folder: Path) -> None:
        self.path, self._aside = folder / JOURNAL, folder / ASIDE
        self.size = 0
        self._file: _File | None = None
        self._aside_file: _File | None = None

    def read(self) -> list[list[bytes]]:
        """Return the bodies of the entries of the file that is set aside, and of the other; append behind these.

        Raises ValueError saying what is wrong with the bytes, and OSError.
        """
        found: list[list[bytes]] = []
        for path in (self._aside, self.path):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                content = b""
            bodies, self.size = _entries(content)
            if any(content[self.size :]):
                log.warning("%s: what follows byte %d did not reach the disk", path, self.size)
            found.append(bodies)
        return found

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        return self.path.exists() or self._aside.exists()

    def append(self, body: bytes) -> int:
        """Write an entry, and return its size. Raises OSError, and then the journal is as before."""
        length = len(body)
        head = _HEADER.pack(length, length ^ _INVERSE, checksum(length.to_bytes(4, "big") + body))
        entry = head + body
        file = self._file
        try:
            if file is None:
                file = self._file = self._opened()
            written = os.write(file.fd, entry)
            while written < len(entry):  # the next call says why
                written += os.write(file.fd, entry[written:])
        except OSError as error:
            if file is not None:
                with suppress(OSError):
                    self._cut(file.fd)
            raise OSError(
                error.errno,
                f"{error.strerror} (what was stored before is safe)",
                os.fspath(self.path),
            ) from error
        self.size += len(entry)
        file.has_unflushed = True
        return len(entry)

    def _opened(self) -> _File:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(self.path, flags, PRIVATE)
        try:
            self._cut(fd)  # an entry whose write was interrupted
        except OSError:
            os.close(fd)
            raise
        return _File(fd, is_new=not self.size)

    def _cut(self, fd: int) -> None:
        """Cut a file behind its whole entries, and write there from then on."""
        os.ftruncate(fd, self.size)
        os.lseek(fd, self.size, os.SEEK_SET)

    @property
    def is_flushed(self) -> bool:
        """Whether the first entries of the file are on disk."""
        return self._file is not None and self._file.has_flushed

    def flush(self) -> None:
        """Flush the entries to disk. Raises OSError."""
        file = self._file
        if file is None and self.size:  # an earlier process wrote them
            file = self._file = self._opened()
        if file is None or not file.has_unflushed:
            return
        file.has_unflushed = False
        try:
            os.fsync(file.fd)
            if file.is_new:
                file.is_new = False
                sync_folder(self.path.parent)
        except OSError as error:
            file.has_unflushed = True
            error.filename = os.fspath(self.path)
            raise
        file.has_flushed = True

    def set_aside(self) -> None:
        """Go on with an empty file: documents.mdb has committed the entries of this one. Raises OSError."""
        if self._file is None:
            return
        self._file.has_flushed = False
        self.path.replace(self._aside)
        self.size = 0
        if self._aside_file is not None:
            os.close(self._aside_file.fd)
        self._aside_file, self._file = self._file, None  # open: flush() may have it

    def remove(self) -> None:
        """Remove all files: documents.mdb has everything on disk."""
        self.close()
        _remove(self.path)
        _remove(self._aside)
        self.size = 0

    def close(self) -> None:
        """Close the files."""
        for file in (self._file, self._aside_file):
            if file is not None:
                os.close(file.fd)
        self._file = self._aside_file = None


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
        body_at = at + _HEADER.size
        if length ^ inverse != _INVERSE:
            if _was_not_written(content, at, body_at):
                break
            raise ValueError(f"no entry begins at byte {at}")
        end = body_at + length
        if end > len(content):
            break
        body = content[body_at:end]
        if checksum(content[at : at + 4] + body) != expected:
            if _was_not_written(content, at, end):
                break
            raise ValueError(f"checksum of the entry at byte {at} does not match")
        found.append(body)
        at = end
    return found, at


def _was_not_written(content: bytes, begin: int, end: int) -> bool:
    """Whether zeros stand where an entry's header should, or in all that a sector has of the entry and what follows."""
    sectors = range(begin - begin % _SECTOR, end, _SECTOR)
    parts = (content[max(begin, at) : at + _SECTOR] for at in sectors)
    return not any(content[begin : begin + _HEADER.size]) or not all(map(any, parts))
