"""Pages from JSON lines: an object a line, plain or compressed (.gz, .zst).

Invariants: a line is read up to a limit and no further; a bad line is one broken record;
where the compression itself is torn, the rest of the file is.
"""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import msgspec

from dedup.scan.formats.inputs import STDIN, shown
from dedup.scan.values import Broken, RawPage, Reading

_LARGEST_ESCAPE = 6  # bytes that JSON may take for a byte of text
_ROOM = 1 << 20  # for the fields beside the page
_BUFFER_BYTES = 1 << 16


def read_lines(path: str, reading: Reading) -> Iterator[RawPage | Broken]:
    """Yield what each line that is not blank comes to. Raises OSError if the file cannot be read."""
    line_bytes = longest_line(reading.max_bytes)
    decode = _decoder(reading)
    number, name = 0, shown(os.fsencode(path))
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
                reason = f"longer than {line_bytes:,} bytes"
                yield Broken(offset, name, f"line {number}", reason)
            elif not line.isspace():
                yield _page(line, decode, name, number, offset)
        if unpacked is not None and unpacked.error:
            reason = f"the compression is torn ({unpacked.error})"
            yield Broken(0, name, f"after line {number}", reason, rest=True)


def longest_line(max_bytes: int) -> int:
    """Return how many bytes of a line are read, for pages of up to max_bytes."""
    return _LARGEST_ESCAPE * max_bytes + _ROOM


def _page(line: bytes, decode: Any, name: str, number: int, offset: int) -> RawPage | Broken:
    try:
        record = decode(line)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        return Broken(offset, name, f"line {number}", f"no JSON object with a page ({error})")
    return RawPage(record.url, None, record.html, None, offset, f"line {number}", number)


def _decoder(reading: Reading) -> Any:
    line = msgspec.defstruct(
        "Line",
        [("url", str), ("html", str)],
        rename={"url": reading.url_field, "html": reading.html_field},
    )
    return msgspec.json.Decoder(line).decode


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
        elif path.lower().endswith(".zst"):
            from fastwarc.stream_io import ZstdReader

            unpacked = _Unpacked(ZstdReader(raw).read)
        if unpacked is None:
            yield raw, raw, None
        else:
            yield io.BufferedReader(unpacked, _BUFFER_BYTES), raw, unpacked


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
        except (OSError, EOFError, zlib.error) as error:
            self.error = error
            return 0
        buffer[: len(data)] = data
        return len(data)
