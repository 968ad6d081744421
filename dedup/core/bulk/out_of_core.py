"""All pairs and clusters of more fingerprints than memory holds, exactly those of core.pairs.

    stream -> sorted runs -> distinct values -> for each of k + 1 blocks: parts with equal bits
           -> pairs of each part, in threads -> sorted runs -> merged
           -> or: what the pairs connect -> members by their cluster -> merged

Two fingerprints within k bits are equal in one of k + 1 blocks (Manku, Jain and Das Sarma, WWW 2007,
section 3), so they lie in one part of that block; a part is joined in memory.

Invariants:
  - Arrays take no more than the memory that was given, whatever the data: a part that does not fit,
    or has too many pairs, is halved, and its halves are joined with each other.
  - A merge of sorted runs holds about `rows` rows, whatever the number and length of the runs.
  - All files lie in one temporary folder, which is deleted once the result was taken or the work stopped.
"""

import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dedup.core.bulk.batch import Source, pieces_of
from dedup.core.native import check, cores, lib
from dedup.core.numbers import Array, max_distance, number, pointer
from dedup.core.pairs import find_part, merge
from dedup.model.errors import UsageError

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
        fits, combine = (_fits, _sorted) if self._width == 1 else (_fit_pairs, merge)
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


LEAST_MEMORY = 16 << 20
VALUE_BYTES, PAIR_BYTES = 96, 128  # taken while they are joined, or sorted; each is half of it
BUCKET_BITS = 16  # of a block, that parts are made by
WIDTH = 64

Progress = Callable[[int, int], None]


def memory_bytes(memory: int | str) -> int:
    """Return memory in bytes: a number of them, or text like "16G", "512M", "1.5T" (powers of 1024)."""
    if not isinstance(memory, str):
        size: float = number(memory, "memory")
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:i?B)?\s*", memory, re.IGNORECASE)
        if found is None:
            raise UsageError(f"memory is {memory!r}; give bytes, or for example 512M or 16G")
        size = float(found[1]) * 1024.0 ** " KMGTP".index(found[2].upper() or " ")
    if not 1 <= size < 2**WIDTH:
        raise UsageError(f"memory is {memory!r}; it must be at least one byte, and below 16 EiB")
    return int(size)


def find_all(
    source: Source,
    k: int,
    memory: int,
    *,
    folder: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Array]:
    """Yield the rows of dedup.find_all() in order, some at a time, as uint64 of shape (n, 2).

    source   a stream of fingerprints, as dedup.core.bulk.batch.Queries.probe_stream() takes it
    memory   what the arrays may take, in bytes, 16 MiB or more
    folder   where temporary files go: 16 bytes a fingerprint, 16 to 32 a pair
    threads  how many to use; the cores of this process if not given
    progress called with (done, total) fingerprints joined, each of them once in every block

    Raises UsageError, StoreDamaged for a damaged source, OSError.
    """
    job = _job(k, memory, threads, progress)
    with tempfile.TemporaryDirectory(prefix="dedup-", dir=folder) as path:
        found, _ = _pairs(source, job, Path(path))
        yield from found.merged(job.pairs)


def find_clusters(
    source: Source,
    k: int,
    memory: int,
    *,
    folder: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Array, Array]]:
    """Yield (members, sizes) of all clusters of two or more, some at a time.

    members are fingerprints, every occurrence of each, those of a cluster side by side and sorted;
    clusters come in the order of their least members, and sizes tells how many members each has.
    They are what the pairs of find_all() connect, so members of one may lie further apart than k.
    A cluster is given as a whole and so must fit in memory. The arguments are those of find_all();
    24 bytes more a fingerprint go to temporary files, some of which are mapped into memory.
    """
    job = _job(k, memory, threads, progress)
    with tempfile.TemporaryDirectory(prefix="dedup-", dir=folder) as path:
        found, stored = _pairs(source, job, Path(path))
        yield from _clusters(found, stored, job, Path(path))


class _Job(NamedTuple):
    k: int
    values: int  # in memory at once
    pairs: int
    threads: int
    progress: Progress | None


def _job(k: int, memory: int, threads: int | None, progress: Progress | None) -> _Job:
    k, memory = max_distance(k), number(memory, "memory")
    workers = cores() if threads is None else number(threads, "threads")
    if not workers:
        raise UsageError("threads is 0; it must be an int from 1 up, or None for every core")
    if memory < LEAST_MEMORY:
        raise UsageError(f"memory is {memory:,} bytes; it must be {LEAST_MEMORY:,} or more")
    half = memory // 2
    return _Job(k, half // VALUE_BYTES, half // PAIR_BYTES, workers, progress)


# --------------------------------------------------------------------------------- distinct values


class _Stored(NamedTuple):
    """Distinct values, sorted, and the number of each that occurs more than once."""

    distinct: Array
    repeated: Array  # (n, 2): the value, and how often


def _store(source: Source, job: _Job, path: Path) -> _Stored:
    runs, distinct, repeated = (
        Runs(path / name, width) for name, width in (("input", 1), ("distinct", 1), ("repeated", 2))
    )
    waiting: list[Array] = []
    for count, load in pieces_of(source, min(job.values, 1 << 20))[0]:
        if sum(map(len, waiting)) + count > job.values:
            runs.append([np.sort(np.concatenate(waiting))] if waiting else [])
            waiting = []
        waiting.append(load())
    runs.append([np.sort(np.concatenate(waiting))] if waiting else [])
    waiting = []
    last, times = np.empty(0, np.uint64), np.empty(0, np.int64)
    for part in runs.merged(job.values):
        values, counts = np.unique(part, return_counts=True)
        if len(last) and last[0] == values[0]:
            counts[0] += times[0]
        else:
            _add(last, times, distinct, repeated)
        _add(values[:-1], counts[:-1], distinct, repeated)
        last, times = values[-1:], counts[-1:]
    _add(last, times, distinct, repeated)
    (path / "input").unlink(missing_ok=True)
    return _Stored(distinct.rows(), repeated.rows())


def _add(values: Array, counts: npt.NDArray[np.int64], distinct: Runs, repeated: Runs) -> None:
    distinct.append([values])
    many = counts > 1
    repeated.append([np.column_stack((values[many], counts[many].astype(np.uint64)))])


# ------------------------------------------------------------------------------------------- pairs


def _pairs(source: Source, job: _Job, path: Path) -> tuple[Runs, _Stored]:
    """Return all pairs, in sorted runs, and what was read."""
    stored = _store(source, job, path)
    found = Runs(path / "pairs", 2)
    same = stored.repeated[:, 0]
    found.append(np.column_stack((part, part)) for part in _slices(same, job.pairs))
    if job.k == 0:
        return found, stored
    starts = [WIDTH * i // (job.k + 1) for i in range(job.k + 2)]
    masks = np.array([(1 << high) - (1 << low) for low, high in pairwise(starts)], np.uint64)
    done, total = 0, len(stored.distinct) * len(masks)
    with ThreadPoolExecutor(job.threads, "dedup-out-of-core") as pool:
        for block, (low, high) in enumerate(pairwise(starts)):
            file = path / f"block-{block}"
            parts = _parts(stored.distinct, low, high, job, file)
            joins = _Joins(found, job, masks, block)
            for count in pool.map(joins.join_part, parts):
                done += count
                if job.progress:
                    job.progress(done, total)
            joins.flush()
            del parts
            file.unlink()
    return found, stored


def _slices(rows: Array, most: int) -> Iterator[Array]:
    for begin in range(0, len(rows), most):
        yield rows[begin : begin + most]


def _parts(distinct: Array, low: int, high: int, job: _Job, path: Path) -> list[Array]:
    """Write the values in the order of parts: in a part, those with some of bits low .. high - 1.

    A part fits in a thread's memory unless it is of one bucket. Its values are sorted.
    """
    bits = min(BUCKET_BITS, high - low)
    shift, ones = np.uint64(high - bits), np.uint64((1 << bits) - 1)
    sizes = np.zeros(1 << bits, np.int64)
    for values in _slices(distinct, job.values):
        sizes += np.bincount((values >> shift & ones).astype(np.intp), minlength=1 << bits)
    most, part = job.values // job.threads, 0
    part_of = np.zeros(1 << bits, np.int64)
    held = [0]
    for bucket, size in enumerate(sizes.tolist()):
        if held[part] and held[part] + size > most:
            held.append(0)
            part += 1
        held[part] += size
        part_of[bucket] = part
    ends = np.cumsum(held)
    at = ends - held
    with path.open("wb", buffering=0) as file:
        for values in _slices(distinct, job.values // 4):
            parts = part_of[(values >> shift & ones).astype(np.intp)]
            order = np.argsort(parts, kind="stable")
            ordered, counts = values[order], np.bincount(parts, minlength=len(held))
            begin = 0
            for number_ in np.flatnonzero(counts).tolist():
                count = int(counts[number_])
                file.seek(8 * int(at[number_]))
                ordered[begin : begin + count].tofile(file)
                at[number_] += count
                begin += count
    if not len(distinct):
        return []
    stored = np.memmap(path, np.uint64, "r")
    return [stored[end - size : end] for end, size in zip(ends.tolist(), held, strict=True)]


class _Joins:
    """Joins parts of one block; the pairs go to `found`. For any number of threads."""

    def __init__(self, found: Runs, job: _Job, masks: Array, block: int) -> None:
        self._found, self._k = found, job.k
        self._masks, self._block = masks, block
        self._values = job.values // job.threads
        self._pairs = max(1, job.pairs // (job.threads + 1))  # for those that wait too
        self._waiting: list[Array] = []
        self._lock = threading.RLock()

    def join_part(self, values: Array) -> int:
        self._join(values)
        return len(values)

    def _join(self, values: Array) -> None:
        if self._fits(values, 0):
            return
        middle = len(values) // 2
        self._join(values[:middle])
        self._join(values[middle:])
        self._join_halves(values[:middle], values[middle:])

    def _join_halves(self, low: Array, high: Array) -> None:
        """Find the pairs of one from `low` and one from `high`, where all are greater."""
        if len(low) + len(high) <= self._values and self._fits(
            np.concatenate((low, high)), int(high[0])
        ):
            return
        if len(low) >= len(high):
            middle = len(low) // 2
            self._join_halves(low[:middle], high)
            self._join_halves(low[middle:], high)
        else:
            middle = len(high) // 2
            self._join_halves(low, high[:middle])
            self._join_halves(low, high[middle:])

    def _fits(self, values: Array, split: int) -> bool:
        if len(values) > self._values:
            return False
        found = find_part(
            np.ascontiguousarray(values),
            self._k,
            self._masks,
            self._block,
            split=split,
            most=self._pairs,
        )
        if found is None:
            return False
        with self._lock:
            self._waiting.append(found)
            if sum(map(len, self._waiting)) >= self._pairs:
                self.flush()
        return True

    def flush(self) -> None:
        """Write what was found to a run."""
        self._found.append([merge(self._waiting)])
        self._waiting = []


# ---------------------------------------------------------------------------------------- clusters


def _clusters(found: Runs, stored: _Stored, job: _Job, path: Path) -> Iterator[tuple[Array, Array]]:
    distinct, repeated = stored
    if not len(distinct):
        return
    parents = np.memmap(path / "parents", np.uint64, "w+", shape=distinct.shape)
    shown = np.memmap(path / "shown", np.bool_, "w+", shape=distinct.shape)
    for begin in range(0, len(parents), job.values):
        end = min(len(parents), begin + job.values)
        parents[begin:end] = np.arange(begin, end, dtype=np.uint64)
    for pairs in _slices(found.rows(), job.pairs):
        places = np.searchsorted(distinct, pairs.ravel())
        shown[places] = True
        status = lib.ndd_connect(
            pointer(parents), len(parents), pointer(places.astype(np.uint64)), len(pairs)
        )
        check(status, "finding clusters")
    lib.ndd_flatten(pointer(parents), len(parents))
    members = Runs(path / "members", 2)
    for begin in range(0, len(parents), job.pairs):
        places = begin + np.flatnonzero(shown[begin : begin + job.pairs])
        roots = parents[places]
        order = np.argsort(roots, kind="stable")
        ordered = distinct[roots[order].astype(np.intp)], distinct[places[order]]
        members.append([np.column_stack(ordered)])
    left = np.empty((0, 2), np.uint64)
    for part in members.merged(job.pairs):
        rows = np.concatenate((left, part))
        begins = np.flatnonzero(np.diff(rows[:, 0], prepend=~rows[:1, 0]))
        left = rows[begins[-1] :]
        if len(begins) > 1:
            yield _occurrences(rows[: begins[-1], 1], begins[:-1], repeated)
    if len(left):
        yield _occurrences(left[:, 1], np.zeros(1, np.intp), repeated)


def _occurrences(
    members: Array, begins: npt.NDArray[np.intp], repeated: Array
) -> tuple[Array, Array]:
    """Return each member as often as it occurs, and the sizes of the clusters that begin there."""
    times = np.ones(len(members), np.int64)
    if len(repeated):
        at = np.minimum(np.searchsorted(repeated[:, 0], members), len(repeated) - 1)
        found = repeated[at, 0] == members
        times[found] = repeated[at[found], 1]
    return np.repeat(members, times), np.add.reduceat(times, begins).astype(np.uint64)
