"""Reads fingerprints from text, one a line, in chunks of whole lines.

    bytes -> chunks of a megabyte -> numbers

The rule kept here: every line is a fingerprint, or blank, or named in an error. numpy reads a chunk
only if all its bytes are plain; otherwise Python reads it line by line and finds the wrong one.
"""

import os
from collections.abc import Iterator
from typing import IO

import click
import numpy as np
import numpy.typing as npt

from dedup.cli import terminal
from dedup.model.errors import DedupError

__all__ = ["read", "read_some"]

CHUNK_BYTES = 1 << 20
LINE_BYTES = 1 << 16  # more than any fingerprint needs
LARGEST = 2**64 - 1
HEX_DIGITS = b"0123456789abcdefABCDEF"

Numbers = npt.NDArray[np.uint64]


def read(source: str, as_hex: bool) -> Numbers:
    """Return the fingerprints of a file ("-": stdin). Raises OSError, and DedupError naming a line."""
    return np.concatenate([np.empty(0, np.uint64), *read_some(source, as_hex)])


def read_some(source: str, as_hex: bool) -> Iterator[Numbers]:
    """Yield what read() returns, some at a time."""
    name = "stdin" if source == "-" else source
    show = terminal.progress("bytes read")
    with click.open_file(source, "rb") as file:
        size, done = os.fstat(file.fileno()).st_size if show else 0, 0
        for first, chunk in _chunks(file, name):
            done += len(chunk)
            if show:
                show(min(done, size or done), size)
            numbers = _plain_hex(chunk) if as_hex else _plain_decimal(chunk)
            yield _by_line(chunk, as_hex, name, first) if numbers is None else numbers
    if show and size:
        show(size, size)


def _chunks(file: IO[bytes], name: str) -> Iterator[tuple[int, bytes]]:
    """Yield a file in pieces of whole lines, with the number of the first line of each."""
    first, rest = 1, b""
    while data := file.read(CHUNK_BYTES):
        rest += data
        end = rest.rfind(b"\n") + 1
        if end:
            chunk, rest = rest[:end], rest[end:]
            yield first, chunk.replace(b"\r\n", b"\n")
            first += chunk.count(b"\n")
        if len(rest) > LINE_BYTES:
            raise DedupError(f"{name}: line {first} has no end; give one fingerprint a line")
    if rest:
        yield first, rest


def _plain_decimal(chunk: bytes) -> Numbers | None:
    """Return the numbers of a chunk of digits and newlines only, or None for another chunk."""
    if chunk.translate(None, b"0123456789\n"):
        return None
    if not chunk.strip():
        return np.empty(0, np.uint64)
    numbers = np.fromstring(chunk.decode("ascii"), dtype=np.uint64, sep="\n")
    # A number that is too large is read as the largest.
    return None if np.any(numbers == LARGEST) else numbers


def _plain_hex(chunk: bytes) -> Numbers | None:
    """Return the numbers of a chunk in which every line has 16 hex digits, or None."""
    lines, left = divmod(len(chunk), 17)
    if left or chunk[16::17] != b"\n" * lines or chunk.count(b"\n") != lines:
        return None
    if chunk.translate(None, HEX_DIGITS + b"\n"):
        return None
    return np.frombuffer(bytes.fromhex(chunk.decode("ascii")), dtype=">u8").astype(np.uint64)


def _by_line(chunk: bytes, as_hex: bool, name: str, first: int) -> Numbers:
    """Return the numbers of a chunk, or raise DedupError for the first line without one."""
    digits = HEX_DIGITS if as_hex else b"0123456789"
    numbers = []
    for row, line in enumerate(chunk.split(b"\n"), first):
        text = line.strip()
        if not text:
            continue
        number = LARGEST + 1
        if not text.translate(None, digits):
            if as_hex:
                number = int(text, 16) if len(text) <= 16 else number
            elif len(text.lstrip(b"0")) <= 20:
                number = int(text.lstrip(b"0") or b"0")
        if number > LARGEST:
            shown = line.strip()[:40].decode("utf-8", "replace")
            wanted = "1 to 16 hex digits" if as_hex else "a decimal number 0 to 2**64-1"
            looks_hex = not as_hex and not text.isdigit() and not text.translate(None, HEX_DIGITS)
            advice = "give --hex for hex digits" if looks_hex else "correct or remove it"
            raise DedupError(f"{name}: line {row}: {shown!r} is not {wanted}; {advice}")
        numbers.append(number)
    return np.array(numbers, dtype=np.uint64)
