"""Streams of fingerprints, read piece by piece, so that they may be larger than memory.

    array | file | arrays one after the other | function of a position -> pieces -> arrays

Invariants: a piece is read by the thread that calls its function, and not before; only arrays one after
the other are read as pieces are requested.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dedup.core.numbers import Array, many
from dedup.model.errors import StoreDamaged, UsageError

Source = (
    npt.NDArray[Any]
    | str
    | os.PathLike[str]
    | Iterable[npt.NDArray[Any]]
    | Callable[[int], Iterable[npt.NDArray[Any]]]
)
"""A stream: an array; the path of a file of little-endian uint64; arrays one after the other; or a
function that returns those from a position on."""

Piece = tuple[int, Callable[[], Array]]
"""A number of fingerprints, and the function that returns them."""

COMPRESSED_BEGINS = b"NDDSORTD"  # of files that earlier releases read, docs/appendix/plan.md


def pieces(source: Source, most: int, done: int = 0) -> tuple[Iterator[Piece], int]:
    """Return the pieces of a stream after its first `done` fingerprints, and its length or 0.

    Each has up to `most`. Raises UsageError for a stream that has less than `done` and for a file of
    compressed fingerprints, StoreDamaged for a file that ends within a fingerprint, OSError.
    """
    if isinstance(source, (str, os.PathLike)):
        return _of_file(Path(source), most, done)
    if isinstance(source, np.ndarray):
        values = many(source, "source")
        _check(done, len(values))
        return _of_arrays([values[done:]], most), len(values)
    if callable(source):
        return _of_arrays(source(done), most), 0
    return _of_arrays(_after(source, done), most), 0


def _check(done: int, total: int) -> None:
    if done > total:
        raise UsageError(
            f"the checkpoint has {done:,} fingerprints done and the stream has only {total:,}; "
            "it is another stream, or was truncated"
        )


def _after(arrays: Iterable[npt.NDArray[Any]], done: int) -> Iterator[npt.NDArray[Any]]:
    left = done
    for array in arrays:
        if left < len(array):
            yield array[left:]
        left = max(0, left - len(array))
    _check(done, done - left)


def _of_arrays(arrays: Iterable[npt.NDArray[Any]], most: int) -> Iterator[Piece]:
    for array in arrays:
        values = many(array, "source")
        for begin in range(0, len(values), most):
            part = values[begin : begin + most]
            yield len(part), partial(_same, part)


def _same(values: Array) -> Array:
    return values


def _of_file(path: Path, most: int, done: int) -> tuple[Iterator[Piece], int]:
    with path.open("rb") as file:
        if file.read(len(COMPRESSED_BEGINS)) == COMPRESSED_BEGINS:
            raise UsageError(
                f"{path} holds compressed fingerprints, which this release does not read: write them as "
                "little-endian numbers of 8 bytes"
            )
    total, odd = divmod(path.stat().st_size, 8)
    if odd:
        raise StoreDamaged(
            f"{path}: size {path.stat().st_size} is not a multiple of 8: truncated, or not fingerprints"
        )
    _check(done, total)
    counts = ((first, min(most, total - first)) for first in range(done, total, most))
    return ((count, partial(_read, path, first, count)) for first, count in counts), total


def _read(path: Path, first: int, count: int) -> Array:
    values = np.fromfile(path, dtype="<u8", count=count, offset=8 * first)
    if len(values) != count:
        raise StoreDamaged(f"{path}: truncated while it was read")
    return values.astype(np.uint64, copy=False)
