"""Pages from JSON lines: an object a line, plain or compressed.

Invariants: a bad line is one broken record; where the compression itself is torn, the rest of the
file is.
"""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from dedup.scan.formats.inputs import shown
from dedup.scan.formats.packed import read_numbered
from dedup.scan.values import Broken, RawPage, Reading

_LARGEST_ESCAPE = 6  # bytes that JSON may take for a byte of text
_ROOM = 1 << 20  # for the fields beside the page


def read_lines(path: str, reading: Reading) -> Iterator[RawPage | Broken]:
    """Yield what each line that is not blank comes to. Raises OSError if the file cannot be read."""
    line_bytes = longest_line(reading.max_bytes)
    decode = _decoder(reading)
    name = shown(os.fsencode(path))
    for number, offset, data, error in read_numbered(path, line_bytes):
        if error is not None:
            yield Broken(0, name, f"after line {number}", error, rest=True)
        elif data is None:
            yield Broken(offset, name, f"line {number}", f"longer than {line_bytes:,} bytes")
        elif not data.isspace():
            yield _page(data, decode, name, number, offset)


def longest_line(max_bytes: int) -> int:
    """Return how many bytes of a line are read, for pages of up to max_bytes."""
    return _LARGEST_ESCAPE * max_bytes + _ROOM


def _page(line: bytes, decode: Any, name: str, number: int, offset: int) -> RawPage | Broken:
    try:
        record = decode(line)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        return Broken(
            offset,
            name,
            f"line {number}",
            f"not a JSON object with a page ({error}; other names: --url-field, --html-field)",
        )
    return RawPage(record.url, None, record.html, None, offset, f"line {number}", number)


def _decoder(reading: Reading) -> Any:
    line = msgspec.defstruct(
        "Line",
        [("url", str), ("html", str)],
        rename={"url": reading.url_field, "html": reading.html_field},
    )
    return msgspec.json.Decoder(line).decode
