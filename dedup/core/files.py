"""Files that are whole or not there, and folders that one process holds.

The rules kept here: a file is written beside, flushed to the disk, and put in place in one step. A
folder is held by the operating system's lock on its file `lock`, which ends with its process however
that ends; the text inside only tells people who holds it.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dedup.model.errors import StoreLocked

__all__ = ["PRIVATE", "PRIVATE_FOLDER", "FolderLock", "replace_file", "replacing", "sync_folder"]

# The mode of a store's files, which hold URLs that were crawled, maybe with tokens; and of its folder.
PRIVATE, PRIVATE_FOLDER = 0o600, 0o700


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Give a file to write; at the end of the block it is on the disk, at this path, in one step.

    It is made with this mode, less what the process's umask takes. Raises OSError; then, and when the
    block raises, the path holds what it held before.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident():x}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
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


def replace_file(path: Path, content: bytes | memoryview, mode: int = 0o666) -> None:
    """Put content at a path, as replacing() does."""
    with replacing(path, mode) as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """Flush what was put into a folder, or taken out of it, to the disk."""
    if os.name == "nt":  # a folder has no handle to flush there
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


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
        f"the store {path.parent} is held by {holder}; a store belongs to one process at a time: "
        "wait until that one ends, give this one a namespace or path of its own, or let both "
        "share a table service (`dedup serve`)"
    )
