"""Compressed fingerprints: a sorted table in about five bytes a value, searched as it is.

    sorted values -> compress -> bytes -> Compressed -> decode, probe

Two codecs, both exact for every input, equal values kept: "huffman" is that of Manku, Jain and Das
Sarma (WWW 2007), section 3.2, the reference; "elias-fano" is smaller and faster to decode. The bytes
(native/paper/compressed.h) are the same on every machine.

Invariant: bytes are believed only after every one of them has been checked.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from operator import index
from pathlib import Path

import numpy as np
import numpy.typing as npt
from paper_library import check, ffi, lib

from dedup.core.numbers import Array, Numbers, many, number, pointer
from dedup.model.errors import UsageError

__all__ = ["CODECS", "Compressed", "compress", "load"]

CODECS = {"huffman": lib.NDD_HUFFMAN, "elias-fano": lib.NDD_ELIAS_FANO}
WIDTH = 64
PIECE = 1 << 20


class Compressed:
    """Sorted fingerprints, as compress() made them; immutable, so threads may share one.

    content is what `bytes` of another gave: a buffer, or a memory-mapped file. It is read in place
    and must not change while this lives. Raises StoreDamaged, saying what was found, for bytes that
    are cut, altered, or of another format or version; name says which bytes in that message.
    """

    def __init__(
        self, content: bytes | memoryview | npt.NDArray[np.uint8], name: str = "these bytes"
    ) -> None:
        handle, reason = ffi.new("ndd_compressed **"), ffi.new("char **")
        self._content = ffi.from_buffer("uint8_t[]", content)
        status = lib.ndd_compressed_open(self._content, len(self._content), handle, reason)
        if status != lib.NDD_OK:
            check(status, f"{name}: {ffi.string(reason[0]).decode()}")
        self._handle = ffi.gc(handle[0], lib.ndd_compressed_close)
        codec, count = ffi.new("ndd_codec *"), ffi.new("uint64_t *")
        lib.ndd_compressed_get(
            self._handle, ffi.new("uint8_t **"), ffi.new("uint64_t *"), codec, count
        )
        self._count = int(count[0])
        self._codec = next(name for name, number in CODECS.items() if number == codec[0])

    @property
    def codec(self) -> str:
        """The codec: "huffman" or "elias-fano"."""
        return self._codec

    @property
    def bytes(self) -> memoryview:
        """All of it as bytes."""
        return memoryview(ffi.buffer(self._content))

    def __len__(self) -> int:
        """Return the number of fingerprints."""
        return self._count

    def decode(self) -> Array:
        """Return all fingerprints in order, as uint64 of shape (n,)."""
        values = np.empty(self._count, np.uint64)
        buffer = ffi.from_buffer("uint64_t[]", values, require_writable=True)
        lib.ndd_compressed_decode(self._handle, buffer)
        return values

    def pieces(
        self, most: int = PIECE, first: int = 0
    ) -> Iterator[tuple[int, Callable[[], Array]]]:
        """Yield (count, function that decodes them) from position `first` on, piece by piece.

        A piece holds at most `most` fingerprints, which is 8192 or more. Threads may decode pieces
        at the same time. Raises UsageError for a smaller one.
        """
        if most < lib.NDD_COMPRESSED_BLOCK:
            raise UsageError(f"most is {most}; it must be {lib.NDD_COMPRESSED_BLOCK} or more")
        block, count, skipped = ffi.new("uint64_t *"), ffi.new("size_t *"), first
        while True:
            begin = int(block[0])
            lib.ndd_compressed_next(self._handle, block, ffi.NULL, most, count)
            if not count[0]:
                return
            if skipped < count[0]:
                inside = int(count[0])
                yield inside - skipped, partial(self._decode_piece, begin, inside, skipped)
            skipped = max(0, skipped - int(count[0]))

    def _decode_piece(self, block: int, count: int, skipped: int) -> Array:
        values, size = (
            np.empty(max(count, lib.NDD_COMPRESSED_BLOCK), np.uint64),
            ffi.new("size_t *"),
        )
        buffer = ffi.from_buffer("uint64_t[]", values, require_writable=True)
        capacity = len(values)
        lib.ndd_compressed_next(self._handle, ffi.new("uint64_t *", block), buffer, capacity, size)
        return values[skipped:count]

    def probe(self, value: int, k: int, prefix_bits: int) -> Array:
        """Return the fingerprints that share a prefix with a value and lie within k of it, in order.

        prefix_bits is the length of the prefix, 0 .. 64; k is in bits, 0 .. 64 (64: every candidate).
        An array of uint64, of shape (matches,). Raises UsageError for what is out of range.
        """
        value, k = number(value, "value"), _bits(k, "k")
        prefix_bits = _bits(prefix_bits, "prefix_bits")
        count, capacity = ffi.new("size_t *"), 64
        while True:
            values = np.empty(capacity, np.uint64)
            buffer = ffi.from_buffer("uint64_t[]", values, require_writable=True)
            status = lib.ndd_compressed_probe(
                self._handle, value, k, prefix_bits, buffer, capacity, count
            )
            check(status, "probing compressed fingerprints")
            if count[0] <= capacity:
                return values[: count[0]]
            capacity = int(count[0])


def compress(values: Numbers, codec: str = "elias-fano") -> Compressed:
    """Compress a batch of fingerprints; what is not in order is sorted first, equal ones are kept.

    Raises UsageError for a codec that is not one of CODECS.
    """
    if codec not in CODECS:
        raise UsageError(f"codec is {codec!r}; it must be one of {', '.join(CODECS)}")
    numbers = many(values, "values")
    if np.any(numbers[1:] < numbers[:-1]):
        numbers = np.sort(numbers)
    handle = ffi.new("ndd_compressed **")
    status = lib.ndd_compress(CODECS[codec], pointer(numbers), len(numbers), handle)
    check(status, "compressing fingerprints")
    made = ffi.gc(handle[0], lib.ndd_compressed_close)
    content, size = ffi.new("uint8_t **"), ffi.new("uint64_t *")
    lib.ndd_compressed_get(made, content, size, ffi.new("ndd_codec *"), ffi.new("uint64_t *"))
    return Compressed(bytes(ffi.buffer(content[0], size[0])))


def load(path: str | os.PathLike[str]) -> Compressed:
    """Open compressed fingerprints in a file, memory-mapped; errors name the file."""
    if Path(path).stat().st_size == 0:  # which cannot be mapped, and is refused
        return Compressed(b"", os.fspath(path))
    return Compressed(np.memmap(path, np.uint8, mode="r"), os.fspath(path))


def _bits(given: int, name: str) -> int:
    try:
        bits = index(given)
    except TypeError:
        bits = -1
    if isinstance(given, bool) or not 0 <= bits <= WIDTH:
        raise UsageError(f"{name} is {given!r}; it must be an int in 0 .. {WIDTH}")
    return bits
