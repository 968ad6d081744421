"""One number on its way into the native core: an integer from 0 to 2**64 - 1, or an error that names it.

The rule kept here: nothing is rounded or wrapped, and a bool is no number. numpy's integers are
taken, and numpy is not imported: a page becomes a fingerprint without it.
"""

import sys
from array import array
from typing import SupportsIndex

from dedup.model.errors import UsageError

__all__ = ["MAX_DISTANCE", "little_endian", "max_distance", "number"]

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


def little_endian(numbers: bytes) -> bytes:
    """Return 64-bit numbers of this machine as little-endian bytes, or the other way round."""
    if sys.byteorder == "little":
        return numbers
    swapped = array("Q", numbers)
    swapped.byteswap()
    return swapped.tobytes()


def max_distance(k: SupportsIndex) -> int:
    """Return a greatest Hamming distance as an int. Raises UsageError if it is none in 0 .. 15."""
    try:
        integer = number(k, "k")
    except UsageError:
        integer = MAX_DISTANCE + 1
    if integer > MAX_DISTANCE:
        raise UsageError(f"k is {k!r}; it must be an int in 0 .. {MAX_DISTANCE}")
    return integer
