"""Files that are whole or not there: written beside, flushed to the disk, and put in place in one step."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["replace_file", "replacing", "sync_folder"]


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write; at the end of the block it is on the disk, at this path, in one step.

    Raises OSError; then, and when the block raises, the path holds what it held before.
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
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(fd)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """Put content at a path, as replacing() does."""
    with replacing(path) as file:
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
