"""64-bit numbers on their way into the native core, checked, copied only where they must be; and sets of them.

Invariants: what is not an integer from 0 to 2**64 - 1 is refused by name; nothing is rounded or wrapped,
and a bool is not a number. numpy's integers and arrays are taken, and numpy is imported only for a batch
call that takes or returns an array: a crawl runs without it.
"""

import sys
from array import array
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex

from dedup.core.native import check, ffi, lib
from dedup.model.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.uint64]
    Flags = npt.NDArray[np.bool_]
    Numbers = npt.NDArray[Any] | Iterable[int]
    Packed = Array | array[int] | memoryview[int]
else:
    Array = Flags = Any
    Numbers = Any
    """A batch: a 1-D numpy array of integers, or ints; every one in 0 .. 2**64 - 1."""
    Packed = Any
    """A batch as contiguous 64-bit words: a uint64 array, or array("Q")."""

MAX_DISTANCE = 15  # the greatest k that tables and searches take, in bits


def number(given: SupportsIndex, name: str) -> int:
    """Return an integer from 0 to 2**64 - 1 as an int."""
    if type(given) is int and 0 <= given < 1 << 64:
        return given
    if not isinstance(given, bool):
        try:
            integer = given.__index__()
        except (AttributeError, TypeError):  # numpy's bool has __index__ and raises TypeError
            pass
        else:
            if 0 <= integer < 1 << 64:
                return integer
    raise UsageError(f"{name} is {given!r}; it must be an int in 0 .. 2**64 - 1")


def max_distance(k: SupportsIndex) -> int:
    """Return a greatest Hamming distance as an int. Raises UsageError if it is not in 0 .. 15."""
    try:
        integer = number(k, "k")
    except UsageError:
        integer = MAX_DISTANCE + 1
    if integer > MAX_DISTANCE:
        raise UsageError(f"k is {k!r}; it must be an int in 0 .. {MAX_DISTANCE}")
    return integer


def _swapped(numbers: bytes) -> bytes:
    swapped = array("Q", numbers)
    swapped.byteswap()
    return swapped.tobytes()


# Returns 64-bit numbers of this machine as little-endian bytes, or the other way round.
little_endian: Callable[[bytes], bytes] = bytes if sys.byteorder == "little" else _swapped


# ------------------------------------------------------------------------------------------- batches


def packed(numbers: Numbers, name: str) -> Packed:
    """Return a batch as contiguous words: a uint64 array as it is, what is not an array as array("Q")."""
    if hasattr(numbers, "__array__"):
        import numpy as np

        given = np.asarray(numbers)
        if given.ndim != 1:
            raise UsageError(f"{name} has shape {given.shape}; it must have one dimension")
        if given.dtype.kind in "ui":
            if given.dtype.kind == "i" and len(given) and (least := given.min()) < 0:
                raise UsageError(f"{name} holds {least}; each must be in 0 .. 2**64 - 1")
            return np.ascontiguousarray(given, dtype=np.uint64)
        if given.dtype != np.dtype(object):
            raise UsageError(f"{name} is an array of {given.dtype}; it must be one of integers")
        numbers = given.tolist()
    if isinstance(numbers, (str, bytes, bytearray, memoryview)):
        raise UsageError(f"{name} is of type {type(numbers).__name__}; it must be integers")
    if isinstance(numbers, array) and numbers.typecode == "Q":
        return numbers
    try:
        integers = list(numbers)
        if bool in map(type, integers):
            raise TypeError("a bool is not a number")
        return array("Q", integers)
    except (TypeError, OverflowError) as error:
        raise UsageError(
            f"{name} must be integers in 0 .. 2**64 - 1, in an array or a sequence ({error})"
        ) from error


def many(numbers: Numbers, name: str) -> Array:
    """Return a batch as a contiguous uint64 array, the one given where it is one."""
    import numpy as np

    words = packed(numbers, name)
    return words if isinstance(words, np.ndarray) else np.frombuffer(words, np.uint64)


def zeros(count: int) -> "array[int]":
    """Return a batch for the native core to fill."""
    return array("Q", (0,)) * count


def pointer(numbers: Packed) -> Any:
    """Return a batch as the native core takes it; it must outlive the call."""
    return ffi.from_buffer("uint64_t[]", numbers)


# ---------------------------------------------------------------------------------------------- sets


class HashSet:
    """At most `most` 64-bit hashes, the oldest are forgotten: what a crawl remembers of links and items.

    Hashes are passed as bytes, 8 for each, little-endian, as read_page() returns them, so no Python integer is made
    of one. 10 to 12.5 bytes of memory a hash (native/src/hash/hash_set.c). One is remembered at least until most / 2
    others have come.

    One thread at a time. Raises UsageError for a `most` that is not 2 to 2**32, and its methods for
    bytes that are no multiple of 8.
    """

    def __init__(self, most: int) -> None:
        made = ffi.new("ndd_hash_set **")
        check(lib.ndd_hash_set_open(most, made), "a set of hashes")
        self._set = ffi.gc(made[0], lib.ndd_hash_set_close)

    def missing(self, hashes: bytes) -> int:
        """Return how many of the hashes are not in the set."""
        if len(hashes) % 8:
            raise _torn(hashes)
        native, n = ffi.from_buffer("uint64_t[]", little_endian(hashes)), len(hashes) // 8
        missing: int = lib.ndd_hash_set_missing(self._set, native, n)
        return missing

    def add(self, hashes: bytes) -> None:
        """Add hashes; those that are there become young again. Raises MemoryError."""
        if len(hashes) % 8:
            raise _torn(hashes)
        native, n = ffi.from_buffer("uint64_t[]", little_endian(hashes)), len(hashes) // 8
        status = lib.ndd_hash_set_add(self._set, native, n)
        if status != lib.NDD_OK:
            check(status, "a set of hashes")

    def take(self, hashes: bytes) -> int:
        """Add hashes, and return how many of them were missing. Raises MemoryError."""
        if len(hashes) % 8:
            raise _torn(hashes)
        native, n = ffi.from_buffer("uint64_t[]", little_endian(hashes)), len(hashes) // 8
        missing: int = lib.ndd_hash_set_missing(self._set, native, n)
        status = lib.ndd_hash_set_add(self._set, native, n)
        if status != lib.NDD_OK:
            check(status, "a set of hashes")
        return missing

    def to_bytes(self) -> bytes:
        """Return all hashes, the older ones first: what add() of an empty set takes."""
        hashes = ffi.new("uint64_t[]", len(self))
        lib.ndd_hash_set_list(self._set, hashes)
        return little_endian(bytes(ffi.buffer(hashes)))

    def __len__(self) -> int:
        """Return how many hashes are listed; one that became young again may count twice."""
        listed, held = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        lib.ndd_hash_set_stats(self._set, listed, held)
        return int(listed[0])


def _torn(hashes: bytes) -> UsageError:
    return UsageError(f"{len(hashes)} bytes are no hashes: each has 8")
