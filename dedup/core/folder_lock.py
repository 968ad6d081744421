"""The lock that keeps a store to one process: an exclusive lock on the file `lock`.

The rule kept here: the operating system's lock decides, and ends with its process however that
ends; the text inside only tells people who holds it.
"""

import os
import sys
from pathlib import Path

from dedup.model.errors import StoreLocked

__all__ = ["FolderLock"]

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
        fd = os.open(path, os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT, 0o666)
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
