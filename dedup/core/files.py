"""Files that are whole or not there: written beside, flushed to the disk, and put in place in one step."""

import os
import threading
from pathlib import Path

__all__ = ["replace_file", "sync_folder"]


def replace_file(path: Path, content: memoryview) -> None:
    """Put content at a path so that the path always holds all of it, or all of the old content.

    When the call returns, it is on the disk. Raises OSError; then the path holds the old content.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident():x}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        fd = os.open(beside, flags, 0o666)
    except OSError as error:
        error.filename = os.fspath(path)  # which the caller knows
        raise
    try:
        try:
            while content:
                content = content[os.write(fd, content[: 1 << 30]) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush what was put into a folder, or taken out of it, to the disk."""
    if os.name == "nt":  # a folder has no handle to flush there
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
