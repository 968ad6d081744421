"""Whole-file replacement.

    write beside -> flush to the disk -> put in place in one step -> flush the folder

The rule kept here: whatever happens, a path holds all of the new content or all of the old.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replace_file", "replacing", "sync_folder"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path in the same folder, for the block to write; then put it in place of `path`.

    When the block has ended, the content is on the disk. If it raises, or anything else fails with
    OSError, `path` holds the old content and nothing is left beside it.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident():x}.tmp")
    try:
        yield beside
        fd = os.open(beside, os.O_RDWR | getattr(os, "O_BINARY", 0))
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_file(path: Path, content: memoryview) -> None:
    """Put content at a path, as replacing() does. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    with replacing(path) as beside:
        try:
            fd = os.open(beside, flags, 0o666)
        except OSError as error:
            error.filename = os.fspath(path)  # which the caller knows
            raise
        try:
            while content:
                content = content[os.write(fd, content[: 1 << 30]) :]
        finally:
            os.close(fd)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder, new and removed ones, to the disk."""
    if os.name == "nt":  # a folder has no handle to flush there
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
