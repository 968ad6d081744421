"""Compressed fingerprints: a sorted table in about five bytes a value, searched as it is.

    sorted values -> compress -> bytes -> Compressed -> decode, probe

Two codecs, both exact for every input, equal values kept: "huffman" is that of Manku, Jain and Das
Sarma (WWW 2007), section 3.2, the reference; "elias-fano" is smaller and faster to decode. The bytes
(native/paper/compressed.h) are the same on every machine.

Invariant: bytes are believed only after every one of them has been checked.
"""

import numpy as np
from paper_library import check, ffi, lib

from dedup.core.numbers import Array, Numbers, many, pointer

CODECS = {"huffman": lib.NDD_HUFFMAN, "elias-fano": lib.NDD_ELIAS_FANO}


class Compressed:
    """Sorted fingerprints, as compress() made them, by their bytes, which are read in place.

    Raises StoreDamaged, saying what was found, for bytes that are cut, altered, or of another format or version.
    """

    def __init__(self, content: bytes) -> None:
        handle, reason = ffi.new("ndd_compressed **"), ffi.new("char **")
        self.bytes = content
        self._content = ffi.from_buffer("uint8_t[]", content)
        status = lib.ndd_compressed_open(self._content, len(content), handle, reason)
        if status != lib.NDD_OK:
            check(status, f"these bytes: {ffi.string(reason[0]).decode()}")
        self._handle = ffi.gc(handle[0], lib.ndd_compressed_close)
        codec, count = ffi.new("ndd_codec *"), ffi.new("uint64_t *")
        unasked = ffi.new("uint8_t **"), ffi.new("uint64_t *")
        lib.ndd_compressed_get(self._handle, *unasked, codec, count)
        self._count = int(count[0])

    def decode(self) -> Array:
        """Return all fingerprints in order, as uint64 of shape (n,)."""
        values = np.empty(self._count, np.uint64)
        buffer = ffi.from_buffer("uint64_t[]", values, require_writable=True)
        lib.ndd_compressed_decode(self._handle, buffer)
        return values

    def probe(self, value: int, k: int, prefix_bits: int) -> Array:
        """Return the fingerprints that share a prefix with a value and lie within k of it, in order.

        prefix_bits is the length of the prefix, 0 .. 64; k is in bits, 0 .. 64 (64: every candidate).
        """
        count, capacity = ffi.new("size_t *"), 64
        while True:
            values = np.empty(capacity, np.uint64)
            buffer = ffi.from_buffer("uint64_t[]", values, require_writable=True)
            asked = (self._handle, value, k, prefix_bits, buffer, capacity, count)
            check(lib.ndd_compressed_probe(*asked), "probing compressed fingerprints")
            if count[0] <= capacity:
                return values[: count[0]]
            capacity = int(count[0])


def compress(values: Numbers, codec: str = "elias-fano") -> Compressed:
    """Compress a batch of fingerprints; what is not in order is sorted first, equal ones are kept."""
    numbers = np.sort(many(values, "values"))
    handle = ffi.new("ndd_compressed **")
    status = lib.ndd_compress(CODECS[codec], pointer(numbers), len(numbers), handle)
    check(status, "compressing fingerprints")
    made = ffi.gc(handle[0], lib.ndd_compressed_close)
    content, size = ffi.new("uint8_t **"), ffi.new("uint64_t *")
    lib.ndd_compressed_get(made, content, size, ffi.new("ndd_codec *"), ffi.new("uint64_t *"))
    return Compressed(bytes(ffi.buffer(content[0], size[0])))
