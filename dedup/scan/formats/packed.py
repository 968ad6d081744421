"""Files of lines, plain or compressed: .gz, .zst, .lz4. And a part of a file as a file.

Invariants: a line is read up to a limit and no further; where the compression is torn, the lines
before that place are read, and the error is kept.
"""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from dedup.scan.values import STDIN

_BUFFER_BYTES = 1 << 16
_ROOM = 1 << 20


def is_damage(error: BaseException) -> bool:
    """Tell whether an error says that packed bytes are damaged, and not that the disk failed.

    FastWARC panics on some damage, and Rust's panics are no Exceptions in Python.
    """
    if isinstance(error, OSError):
        return not error.errno
    is_known = isinstance(error, ValueError | EOFError | zlib.error)
    return is_known or type(error).__name__ == "PanicException"


class Line(NamedTuple):
    """A line of a file: its number from 1, the bytes of the file behind it, and its bytes.

    data is None for a line that is too long; error says why there are no more lines after this one.
    """

    number: int
    offset: int
    data: bytes | None
    error: str | None = None


def read_numbered(path: str, line_bytes: int) -> Iterator[Line]:
    """Yield the lines of a file; the last has the error, where its compression is torn. Raises OSError."""
    number = 0
    with opened(path) as (file, raw, unpacked):
        while line := file.readline(line_bytes):
            is_whole = line.endswith(b"\n")
            if unpacked is not None and unpacked.error and not is_whole:
                break
            number += 1
            offset = 0 if raw is None else raw.tell()
            if len(line) == line_bytes and not is_whole:
                while (rest := file.readline(_ROOM)) and not rest.endswith(b"\n"):
                    pass
                yield Line(number, offset, None)
            else:
                yield Line(number, offset, line)
        if unpacked is not None and unpacked.error:
            yield Line(number, 0, None, f"the compressed data is damaged ({unpacked.error})")


@contextmanager
def opened(path: str) -> Iterator[tuple[IO[bytes], IO[bytes] | None, "_Unpacked | None"]]:
    """Open a file as plain bytes; give what tells how much of it was read, and what unpacks it."""
    if path == STDIN:
        yield sys.stdin.buffer, None, None
        return
    with open(path, "rb") as raw:  # noqa: PTH123 - a path as text
        unpacked = None
        if path.lower().endswith(".gz"):
            unpacked = _Unpacked(gzip.GzipFile(fileobj=raw).read1)
        elif path.lower().endswith((".zst", ".lz4")):
            from fastwarc.stream_io import Lz4Reader, ZstdReader

            reader = ZstdReader if path.lower().endswith(".zst") else Lz4Reader
            unpacked = _Unpacked(reader(raw).read)
        if unpacked is None:
            yield raw, raw, None
        else:
            yield io.BufferedReader(unpacked, _BUFFER_BYTES), raw, unpacked


class Region(io.RawIOBase):
    """Some bytes of an open file, as a file of their own. Closing it leaves the file open."""

    def __init__(self, file: IO[bytes], begin: int, size: int) -> None:
        self._file, self._begin, self._size = file, begin, size
        self._at = 0

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def seekable(self) -> bool:
        """Say that it can be read from anywhere."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, which may lie behind the end."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, origin + offset)
        return self._at

    def tell(self) -> int:
        """Return the place of the next byte."""
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, fewer at the end."""
        left = max(0, self._size - self._at)
        self._file.seek(self._begin + self._at)
        data = self._file.read(left if size < 0 else min(size, left))
        self._at += len(data)
        return data


class _Unpacked(io.RawIOBase):
    """A compressed file as Python's io has it: it ends where it is torn, and keeps the error."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._read(len(buffer))
        except BaseException as error:
            if not (isinstance(error, OSError) or is_damage(error)):
                raise
            self.error = Exception(str(error)) if not isinstance(error, Exception) else error
            return 0
        buffer[: len(data)] = data
        return len(data)
