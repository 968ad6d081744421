"""A set of 64-bit hashes that forgets the oldest: what a crawl remembers of links.

Hashes are passed as bytes, 8 for each, little-endian, as read_page() returns them, so no Python integer is
made of a link. 10 to 12.5 bytes of memory a hash (native/src/hash/hash_set.c).
"""

from typing import Any

from dedup.core.native import check, ffi, lib
from dedup.core.numbers import little_endian
from dedup.model.errors import UsageError


class HashSet:
    """At most `most` hashes; one is remembered at least until most / 2 others have come.

    One thread at a time. Raises UsageError for a `most` that is not 2 to 2**32, and its methods for
    bytes that are no multiple of 8.
    """

    def __init__(self, most: int) -> None:
        """Make an empty set."""
        made = ffi.new("ndd_hash_set **")
        check(lib.ndd_hash_set_open(most, made), "a set of hashes")
        self._set = ffi.gc(made[0], lib.ndd_hash_set_close)

    def missing(self, hashes: bytes) -> int:
        """Return how many of the hashes are not in the set."""
        native, n = _native(hashes)
        missing: int = lib.ndd_hash_set_missing(self._set, native, n)
        return missing

    def add(self, hashes: bytes) -> None:
        """Add hashes; those that are there become young again. Raises MemoryError."""
        native, n = _native(hashes)
        status = lib.ndd_hash_set_add(self._set, native, n)
        if status != lib.NDD_OK:
            check(status, "a set of hashes")

    def take(self, hashes: bytes) -> int:
        """Add hashes, and return how many of them were missing. Raises MemoryError."""
        native, n = _native(hashes)
        missing: int = lib.ndd_hash_set_missing(self._set, native, n)
        status = lib.ndd_hash_set_add(self._set, native, n)
        if status != lib.NDD_OK:
            check(status, "a set of hashes")
        return missing

    def to_bytes(self) -> bytes:
        """Return all hashes, the older ones first: what add() of an empty set takes."""
        listed = self._stats()[0]
        hashes = ffi.new("uint64_t[]", listed)
        lib.ndd_hash_set_list(self._set, hashes)
        return little_endian(bytes(ffi.buffer(hashes)))

    @property
    def memory_bytes(self) -> int:
        """The memory held."""
        return self._stats()[1]

    def __len__(self) -> int:
        """Return how many hashes are listed; one that became young again may count twice."""
        return self._stats()[0]

    def _stats(self) -> tuple[int, int]:
        listed, held = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        lib.ndd_hash_set_stats(self._set, listed, held)
        return listed[0], held[0]


def _native(hashes: bytes) -> tuple[Any, int]:
    if len(hashes) % 8:
        raise UsageError(f"{len(hashes)} bytes are no hashes: each has 8")
    return ffi.from_buffer("uint64_t[]", little_endian(hashes)), len(hashes) // 8
