"""Batches of 64-bit numbers on their way into the native core: checked, copied only where they must be.

What is not an integer from 0 to 2**64 - 1 is named and refused; nothing is rounded or wrapped.
"""

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from dedup.core.native import ffi
from dedup.model.errors import UsageError

__all__ = ["Array", "Numbers", "bit_counts", "many", "pointer"]

_WORD = np.uint64

Array = npt.NDArray[np.uint64]
Numbers = npt.NDArray[Any] | Iterable[int]
"""A batch: a 1-D numpy array of integers, or ints; every one in 0 .. 2**64 - 1."""


def many(numbers: Numbers, name: str) -> Array:
    """Return a batch as a contiguous uint64 array, the one given where it is one."""
    if hasattr(numbers, "__array__"):
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
    try:
        integers = list(numbers)
        if bool in map(type, integers):
            raise TypeError("a bool is no number")
        return np.frombuffer(array("Q", integers), dtype=np.uint64)
    except (TypeError, OverflowError) as error:
        raise UsageError(
            f"{name} must be integers in 0 .. 2**64 - 1, in an array or a sequence ({error})"
        ) from error


def bit_counts(numbers: Array) -> npt.NDArray[np.uint8]:
    """Return how many bits of each number are 1; numbers is a uint64 array of any shape.

    Of the XOR of fingerprints these are Hamming distances. (Numpy has this from version 2 on.)
    """
    pairs = numbers - ((numbers >> _WORD(1)) & _WORD(0x5555555555555555))
    fours = (pairs & _WORD(0x3333333333333333)) + ((pairs >> _WORD(2)) & _WORD(0x3333333333333333))
    bytes_ = (fours + (fours >> _WORD(4))) & _WORD(0x0F0F0F0F0F0F0F0F)
    sums: npt.NDArray[np.uint8] = ((bytes_ * _WORD(0x0101010101010101)) >> _WORD(56)).astype(
        np.uint8
    )
    return sums


def pointer(numbers: Array) -> Any:
    """Return an array as the native core takes it; it must outlive the call."""
    return ffi.from_buffer("uint64_t[]", numbers)
