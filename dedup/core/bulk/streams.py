"""Streams of fingerprints: what may hold more of them than memory does, read piece by piece.

    array | file | compressed | arrays one after the other | function of a position -> pieces -> arrays

The rule kept here: a piece is read by the thread that calls its function, and
not before; only arrays one after the other are read as pieces are asked for.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dedup.core.bulk.compressed import Compressed, load
from dedup.core.numbers import Array, many
from dedup.model.errors import StoreDamaged, UsageError

__all__ = ["Piece", "Source", "is_compressed", "pieces"]

Source = (
    npt.NDArray[Any]
    | Compressed
    | str
    | os.PathLike[str]
    | Iterable[npt.NDArray[Any]]
    | Callable[[int], Iterable[npt.NDArray[Any]]]
)
"""A stream: an array; compressed fingerprints; the path of a file of those, or of little-endian
uint64; arrays one after the other; or a function that returns those from a position on."""

Piece = tuple[int, Callable[[], Array]]
"""How many fingerprints, and what returns them."""

COMPRESSED_BEGINS = b"NDDSORTD"  # as a fingerprint of a raw file that is one in 2**64


def pieces(source: Source, most: int, done: int = 0) -> tuple[Iterator[Piece], int]:
    """Return the pieces of a stream after its first `done` fingerprints, and its length or 0.

    Each has up to `most`, or up to 8192 of compressed ones. Raises UsageError for a stream that has
    less than `done`, StoreDamaged for a file that ends within a fingerprint or was altered, OSError.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if not is_compressed(path):
            return _of_file(path, most, done)
        source = load(path)
    if isinstance(source, Compressed):
        _check(done, len(source))
        return source.pieces(max(most, 1 << 13), done), len(source)
    if isinstance(source, np.ndarray):
        values = many(source, "source")
        _check(done, len(values))
        return _of_arrays([values[done:]], most), len(values)
    if callable(source):
        return _of_arrays(source(done), most), 0
    return _of_arrays(_after(source, done), most), 0


def is_compressed(path: Path) -> bool:
    """Return whether a file begins as compressed fingerprints do. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(COMPRESSED_BEGINS)) == COMPRESSED_BEGINS


def _check(done: int, total: int) -> None:
    if done > total:
        raise UsageError(
            f"the checkpoint has {done:,} fingerprints done and the stream has only {total:,}; "
            "it is another stream, or was cut"
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
    total, odd = divmod(path.stat().st_size, 8)
    if odd:
        raise StoreDamaged(
            f"{path}: its size is no multiple of 8; it was cut, or holds no fingerprints"
        )
    _check(done, total)
    counts = ((first, min(most, total - first)) for first in range(done, total, most))
    return ((count, partial(_read, path, first, count)) for first, count in counts), total


def _read(path: Path, first: int, count: int) -> Array:
    values = np.fromfile(path, dtype="<u8", count=count, offset=8 * first)
    if len(values) != count:
        raise StoreDamaged(f"{path}: it was cut while it was read")
    return values.astype(np.uint64, copy=False)
