"""Files that are written plain, with gzip or with Zstandard, by their name.

The rule kept here: what is written between two calls of end_member() unpacks by itself, and can be
taken back as long as it has not ended; the same bytes in give the same bytes out.
"""

import os
import zlib
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self

__all__ = ["PackedFile"]


class PackedFile:
    """A file that is written in members, flushed to the disk when it is closed."""

    def __init__(self, path: Path, packing: str) -> None:
        """Make or empty a file. packing is the name of a file that says by its end how to pack."""
        suffix = os.path.splitext(packing)[1].lower()  # noqa: PTH122
        packers: dict[str, type[_Packer]] = {".gz": _Gzip, ".zst": _Zstandard}
        self._pack = packers.get(suffix, _Plain)
        self._file: IO[bytes] = path.open("wb")
        self._begun = 0  # where the member begins
        self._member = self._pack(self._file)
        self._is_empty = True

    def write(self, data: bytes) -> None:
        """Write more of the member."""
        self._is_empty = self._is_empty and not data
        self._member.write(data)

    def end_member(self) -> None:
        """End the member; what is written next unpacks by itself."""
        if not self._is_empty:
            self._member.finish()
        self._begin()

    def take_back(self) -> None:
        """Forget what was written of the member."""
        if not self._is_empty:
            self._member.finish()
        self._file.seek(self._begun)
        self._file.truncate()
        self._begin()

    def _begin(self) -> None:
        self._begun = self._file.tell()
        self._member = self._pack(self._file)
        self._is_empty = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._file:
            if kind is None:
                self.end_member()
                self._file.flush()
                os.fsync(self._file.fileno())


class _Packer(Protocol):
    def __init__(self, file: IO[bytes]) -> None: ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None: ...


class _Plain:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def finish(self) -> None:
        pass


class _Gzip:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._packer = zlib.compressobj(wbits=31)

    def write(self, data: bytes) -> None:
        self._file.write(self._packer.compress(data))

    def finish(self) -> None:
        self._file.write(self._packer.flush())


class _Zstandard:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._writer: Any = None

    def write(self, data: bytes) -> None:
        if self._writer is None:
            from fastwarc.stream_io import ZstdWriter

            self._writer = ZstdWriter(self._file)
        self._writer.write(data)

    def finish(self) -> None:
        self._writer.finish()
