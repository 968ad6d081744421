"""Sorted runs on disk, and one sorted stream of them all: how more is sorted than memory holds.

    sorted arrays -> Runs (one file) -> merged, a bounded piece at a time

The rule kept here: whatever the number and length of the runs, a merge holds about `rows` rows.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dedup.core.numbers import Array
from dedup.core.pairs import merge as merge_pairs

__all__ = ["Runs"]

FAN = 128  # runs merged at once; more are merged in rounds
LEAST_ROWS = 64  # of a run at once


class Runs:
    """Sorted runs of fingerprints (width 1) or of pairs (width 2), in one file.

    Any number of threads may append at the same time.
    """

    def __init__(self, path: Path, width: int) -> None:
        """Make an empty file."""
        self._path, self._width = path, width
        self._bounds: list[tuple[int, int]] = []
        self._rows = 0
        self._lock = threading.Lock()
        path.write_bytes(b"")

    def append(self, pieces: Iterable[Array]) -> None:
        """Add a run: arrays of shape (n,) or (n, 2) that are sorted one after the other."""
        with self._lock:
            begin = self._rows
            with self._path.open("ab") as file:
                for rows in pieces:
                    file.write(np.ascontiguousarray(rows).data)
                    self._rows += len(rows)
            if self._rows > begin:
                self._bounds.append((begin, self._rows))

    def rows(self) -> Array:
        """Return all rows, in the order in which they came, mapped into memory."""
        shape = (self._rows,) if self._width == 1 else (self._rows, self._width)
        if not self._rows:
            return np.empty(shape, np.uint64)
        return np.memmap(self._path, np.uint64, "r", shape=shape)

    def merged(self, rows: int) -> Iterator[Array]:
        """Yield all rows in order, up to some `rows` of them at once."""
        if len(self._bounds) > FAN:
            self._merge_rounds(rows)
        yield from self._merged(self._bounds, rows)

    def _merge_rounds(self, rows: int) -> None:
        """Merge runs with each other until they are few enough."""
        while len(self._bounds) > FAN:
            fewer = Runs(self._path.with_name(self._path.name + "+"), self._width)
            for first in range(0, len(self._bounds), FAN):
                fewer.append(self._merged(self._bounds[first : first + FAN], rows))
            self._path.unlink()
            self._path, self._bounds, self._rows = fewer._path, fewer._bounds, fewer._rows

    def _merged(self, bounds: Sequence[tuple[int, int]], rows: int) -> Iterator[Array]:
        stored = self.rows()
        most = max(LEAST_ROWS, rows // max(1, len(bounds)))
        fits: Callable[[Array, Any], int]
        combine: Callable[[Sequence[Array]], Array]
        fits, combine = (_fits, _sorted) if self._width == 1 else (_fit_pairs, merge_pairs)
        cursors = list(bounds)
        heads = [np.array(stored[begin : min(end, begin + most)]) for begin, end in bounds]
        while heads:
            # What is up to the least last row of a run that goes on comes before all that follows.
            lasts = [
                head[-1].tolist()
                for head, (begin, end) in zip(heads, cursors, strict=True)
                if begin + len(head) < end
            ]
            counts = [fits(head, min(lasts)) if lasts else len(head) for head in heads]
            parts = [head[:count] for head, count in zip(heads, counts, strict=True)]
            yield combine([part for part in parts if len(part)])
            following = []
            for head, count, (begin, end) in zip(heads, counts, cursors, strict=True):
                at = begin + count
                if at == end:
                    continue
                fresh = count < len(head)
                kept = head[count:] if fresh else np.array(stored[at : min(end, at + most)])
                following.append((kept, (at, end)))
            heads, cursors = [head for head, _ in following], [cursor for _, cursor in following]


def _fits(values: Array, last: int) -> int:
    return int(np.searchsorted(values, np.uint64(last), "right"))


def _fit_pairs(pairs: Array, last: Sequence[int]) -> int:
    """Return how many rows are not after this one."""
    first = np.uint64(last[0])
    begin = int(np.searchsorted(pairs[:, 0], first, "left"))
    end = int(np.searchsorted(pairs[:, 0], first, "right"))
    return begin + int(np.searchsorted(pairs[begin:end, 1], np.uint64(last[1]), "right"))


def _sorted(parts: Sequence[Array]) -> Array:
    return np.sort(np.concatenate(parts))
