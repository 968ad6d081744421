"""Files that are replaced atomically, files with a checksum, and locks on folders.

Invariants: a file is written under another name, flushed to disk and renamed, so its path never holds
half of it. A folder's lock is the operating system's, on its file `lock`, and ends with the process;
the text in that file is for people only.
"""

import errno
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from dedup.model.errors import StoreDamaged, StoreLocked

T = TypeVar("T")

# The mode of a store's files, which hold URLs that were crawled, maybe with tokens; and of its folder.
PRIVATE, PRIVATE_FOLDER = 0o600, 0o700


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Yield a file to write; at the end of the block flush it and move it to this path, atomically.

    The file gets this mode, less the process's umask. Raises OSError; then, and when the block raises,
    the path holds what it held before.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident():x}.tmp")
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC  # to read: it may be mapped
    flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        fd = os.open(beside, flags, mode)
    except OSError as error:
        error.filename = os.fspath(path)  # which the caller knows
        raise
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(fd)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_file(path: Path, content: bytes | bytearray | memoryview, mode: int = 0o666) -> None:
    """Replace the file at a path atomically. Raises OSError, and then the old one is still there."""
    with replacing(path, mode) as file:
        file.write(content)


def allocate(fd: int, size: int) -> None:
    """Give an empty file its size, and its space on disk: a full disk is an OSError here, not a signal once it is mapped."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(fd, 0, size)
            return
        except OSError as error:
            if error.errno not in {errno.EINVAL, errno.EOPNOTSUPP}:  # of some file systems
                raise
    block = bytes(min(size, 1 << 20))
    while size > 0:
        size -= os.write(fd, block[:size])


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries (files created, renamed, deleted) to disk."""
    if os.name == "nt":  # a folder has no handle to flush there
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# ---------------------------------------------------------------------------------- checked files
# A manifest, a checkpoint or a position: one line of JSON, and a line with its checksum.


CHECKSUM_BYTES = 8


def checksum(content: bytes | bytearray | memoryview) -> bytes:
    """Return the checksum of our files, records and entries: BLAKE2b-64; the native core's files have XXH64."""
    return blake2b(content, digest_size=CHECKSUM_BYTES).digest()


def checked_line(line: bytes) -> bytes:
    """Return the content of a checked file: a line, and one with its checksum as hex digits."""
    return b"%s\n%s\n" % (line, checksum(line).hex().encode())


def write_checked(path: Path, content: Any, mode: int = PRIVATE) -> None:
    """Replace a checked file atomically; content is a value that msgspec encodes as JSON.

    Raises OSError, and then the old file is still there.
    """
    replace_file(path, checked_line(msgspec.json.encode(content)), mode)


def read_checked(path: Path, form: type[T], advice: str = "") -> T | None:
    """Return the content of a checked file, or None if there is no file.

    A form that checks its version raises ValueError in __post_init__. advice ends the message of an
    error. Raises StoreDamaged, naming the file, for anything else than write_checked() wrote, and OSError.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        line = content.partition(b"\n")[0]
        if content != checked_line(line):
            raise ValueError("checksum mismatch")
        return msgspec.json.decode(line, type=form)
    except ValueError as error:
        raise StoreDamaged(f"{path} is damaged: {error}{advice and f'; {advice}'}") from error


# ---------------------------------------------------------------------------------------- folders

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30  # a byte far behind the text, so that the text stays readable

    def _take(fd: int) -> None:
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        os.lseek(fd, 0, os.SEEK_SET)

else:
    import fcntl

    def _take(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


class FolderLock:
    """An exclusive lock on a store's folder, held until close()."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Take the lock by the file `path`, which is made where it is missing.

        read_only writes nothing: a missing file then means that no process holds the store.

        Raises StoreLocked if another process (or another opening in this one) holds it, and
        OSError with the path if the file cannot be made or opened.
        """
        self._fd: int | None = None
        if read_only and not path.exists():
            return
        fd = os.open(path, os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT, PRIVATE)
        try:
            try:
                _take(fd)
            except (BlockingIOError, PermissionError) as error:
                raise StoreLocked(_refusal(path, os.read(fd, 200))) from error
            if not read_only:
                os.ftruncate(fd, 0)
                os.write(fd, f"{os.getpid()} {_program()}\n".encode(errors="replace"))
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def close(self) -> None:
        """Give the lock back. The file stays: deleting it would let two processes in."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _program() -> str:
    return Path(sys.argv[0]).name[:80] if sys.argv and sys.argv[0] else "python"


def _refusal(path: Path, text: bytes) -> str:
    pid, _, program = text.decode(errors="replace").strip().partition(" ")
    holder = f"process {pid} ({program})" if pid.isdigit() else "another process"
    return (
        f"the store {path.parent} is held by {holder}, and belongs to one process at a time: wait until "
        "that one ends, use another namespace or path, or let both share a table service (`dedup serve`)"
    )
