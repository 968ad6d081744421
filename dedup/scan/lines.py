"""Pages from JSON lines: an object a line, plain or compressed (.gz, .zst).

The rules kept here: a line is read up to a limit and no further; a bad line is one broken record;
where the compression itself is torn, the rest of the file is.
"""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import msgspec

from dedup.scan.inputs import STDIN, shown
from dedup.scan.values import Broken, RawPage, Reading

__all__ = ["read_lines"]

_LARGEST_ESCAPE = 6  # bytes that JSON may take for a byte of text
_ROOM = 1 << 20  # for the fields beside the page


def read_lines(path: str, reading: Reading) -> Iterator[RawPage | Broken]:
    """Yield what each line that is not blank comes to. Raises OSError if the file cannot be opened."""
    line_bytes = _LARGEST_ESCAPE * reading.max_bytes + _ROOM
    decode = _decoder(reading)
    number, name = 0, shown(os.fsencode(path))
    with _opened(path) as (file, raw):
        while True:
            offset = 0
            try:
                line = file.readline(line_bytes)
                if not line:
                    return
                number += 1
                offset = raw.tell() if raw is not None else 0
                if len(line) == line_bytes and not line.endswith(b"\n"):
                    while (rest := file.readline(_ROOM)) and not rest.endswith(b"\n"):
                        pass
                    reason = f"longer than {line_bytes:,} bytes"
                    yield Broken(offset, name, f"line {number}", reason)
                    continue
            except (OSError, EOFError, zlib.error) as error:
                place = f"after line {number}"
                yield Broken(offset, name, place, f"the compression is torn ({error})", rest=True)
                return
            if not line.isspace():
                yield _page(line, decode, name, number, offset)


def _page(line: bytes, decode: Any, name: str, number: int, offset: int) -> RawPage | Broken:
    try:
        record = decode(line)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        return Broken(offset, name, f"line {number}", f"no JSON object with a page ({error})")
    return RawPage(record.url, None, record.html, None, offset, f"line {number}")


def _decoder(reading: Reading) -> Any:
    line = msgspec.defstruct(
        "Line",
        [("url", str), ("html", str)],
        rename={"url": reading.url_field, "html": reading.html_field},
    )
    return msgspec.json.Decoder(line).decode


@contextmanager
def _opened(path: str) -> Iterator[tuple[IO[bytes], IO[bytes] | None]]:
    """Open a file as plain bytes, and give what tells how much of it was read."""
    if path == STDIN:
        yield sys.stdin.buffer, None
        return
    with open(path, "rb") as raw:  # noqa: PTH123 - a path as text, for its errors
        if path.lower().endswith(".gz"):
            with gzip.GzipFile(fileobj=raw) as plain:
                yield io.BufferedReader(plain, 1 << 18), raw
        elif path.lower().endswith(".zst"):
            yield io.BufferedReader(_Zstd(raw), 1 << 18), raw
        else:
            yield raw, raw


class _Zstd(io.RawIOBase):
    """FastWARC's reader of Zstandard frames as Python's io has it."""

    def __init__(self, raw: IO[bytes]) -> None:
        from fastwarc.stream_io import ZstdReader

        self._reader = ZstdReader(raw)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._reader.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
