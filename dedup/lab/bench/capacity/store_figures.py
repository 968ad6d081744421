"""A store that grows: filled by a process that is killed at the end, then opened by another one.

    fill (intervals, kept beside the store) -> kill -9 -> open, judge -> StoreFigures

The rule kept here: a folder that holds documents is filled further; what was measured of them then is
in its fill.jsonl, and counts.
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from dedup.lab.bench.capacity.part_process import Limit, lines_of
from dedup.lab.bench.capacity.parts import Call, Interval, Judged, keys_of

__all__ = ["StoreFigures", "measure_stores", "store_rows"]

MILLION = 1_000_000
SMALL = 1_000_000  # documents of the small store, and at most
SMALL_SHARE = 10  # one in so many of the others
GOES_ON_SECONDS = 0.5  # before it is killed, amid the next documents
EVERY = 100_000  # documents of an interval at most; of a small store as above


class StoreFigures(msgspec.Struct, frozen=True):
    """A store filled in transactions of 1000, killed and opened. Bytes a document, unless it is said.

    *_per_second         events applied, by the clock: the first million, the last, all of them; None
                         where that was not measured
    cpu_us               of all threads, an event; written_bytes to the disk
    fill_memory_bytes    of the process while it was filled, at most, mapped files aside
    probe_most_ms        and change_most_ms, batch_most_ms: the longest while it was filled (Interval)
    documents_bytes      of documents.mdb, and index_bytes of all segments
    memory_bytes         of the process that opened it, mapped files aside; of them mapped_bytes are in
                         memory; started_bytes before it was opened
    segments             the documents of each of them
    probe_us             of CPU: their search for one value; batch_us: for each of a thousand
    limit                what held the memory down, if anything did
    """

    documents: int
    k: int
    key_bytes: float
    first_per_second: float | None
    last_per_second: float
    per_second: float
    cpu_us: float
    written_bytes: float
    last_written_bytes: float
    fill_memory_bytes: int
    probe_most_ms: float
    change_most_ms: float
    batch_most_ms: float
    documents_bytes: float
    index_bytes: float
    open_seconds: float
    open_cpu_seconds: float
    started_bytes: int
    memory_bytes: int
    mapped_bytes: int
    segments: list[int]
    probe_us: float
    batch_us: float
    calls: list[Call]
    limit: str = ""


def measure_stores(
    sizes: Iterable[int],
    k: int,
    requests: int,
    folder: Path,
    limit: Limit | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[StoreFigures]:
    """Fill one store in the folder to each size and measure it there. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for size in sorted(sizes):
        _fill(size, k, folder, limit, progress)
        with tempfile.TemporaryDirectory() as small_folder:
            (line,) = lines_of(
                "judge",
                {
                    "folder": str(folder),
                    "small_folder": small_folder,
                    "k": k,
                    "small": min(SMALL, -(-size // SMALL_SHARE)),
                    "requests": requests,
                },
                limit,
            )
        yield _figures(msgspec.convert(line, Judged), k, _noted(folder), limit)


def _log(folder: Path) -> Path:
    return folder / "fill.jsonl"


def _noted(folder: Path) -> list[Interval]:
    lines = _log(folder).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Interval) for line in lines]


def _fill(
    size: int,
    k: int,
    folder: Path,
    limit: Limit | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Fill a store until it holds so many documents, and kill the process that goes on filling it."""
    arguments = {"folder": str(folder), "k": k, "every": min(EVERY, -(-size // SMALL_SHARE))}
    with closing(lines_of("fill", arguments, limit)) as lines:
        for line in lines:
            with _log(folder).open("ab") as file:
                file.write(msgspec.json.encode(line) + b"\n")
            if progress is not None:
                progress(min(size, line["documents"]), size)
            if line["documents"] >= size:
                time.sleep(GOES_ON_SECONDS)
                break


def _figures(
    judged: Judged, k: int, filled: Sequence[Interval], limit: Limit | None
) -> StoreFigures:
    n = judged.documents
    first = [each for each in filled if each.documents <= MILLION]
    last = [each for each in filled if each.documents > filled[-1].documents - MILLION]

    def an_event(intervals: Sequence[Interval], what: str) -> float:
        total: float = sum(getattr(each, what) for each in intervals)
        return total / sum(each.count for each in intervals)

    def most(what: str) -> float:
        longest: float = max(getattr(each, what) for each in filled)
        return longest

    return StoreFigures(
        documents=n,
        k=k,
        key_bytes=sum(map(len, keys_of(0, 1000))) / 1000,
        first_per_second=1 / an_event(first, "seconds") if first else None,
        last_per_second=1 / an_event(last, "seconds"),
        per_second=1 / an_event(filled, "seconds"),
        cpu_us=an_event(filled, "cpu_seconds") * 1e6,
        written_bytes=an_event(filled, "written_bytes"),
        last_written_bytes=an_event(last, "written_bytes"),
        fill_memory_bytes=round(most("anonymous_bytes")),
        probe_most_ms=most("probe_most") * 1e3,
        change_most_ms=most("change_most") * 1e3,
        batch_most_ms=most("batch_most") * 1e3,
        documents_bytes=judged.documents_file_bytes / n,
        index_bytes=judged.index_file_bytes / n,
        open_seconds=judged.open_seconds,
        open_cpu_seconds=judged.open_cpu_seconds,
        started_bytes=judged.started_bytes,
        memory_bytes=judged.anonymous_bytes,
        mapped_bytes=judged.mapped_bytes,
        segments=judged.segments,
        probe_us=judged.probe_us,
        batch_us=judged.batch_us,
        calls=judged.calls,
        limit=str(limit or ""),
    )


def store_rows(figures: Sequence[StoreFigures]) -> list[list[str]]:
    """Return a row for each figure, with a column for each size; the first has the sizes."""
    lines: list[tuple[str, Callable[[StoreFigures], str]]] = [
        ("events/s, first million", lambda one: _rate(one.first_per_second)),
        ("events/s, last million", lambda one: _rate(one.last_per_second)),
        ("events/s, all", lambda one: _rate(one.per_second)),
        ("CPU an event", lambda one: f"{one.cpu_us:.1f} us"),
        (
            "written an event, all and last million",
            lambda one: f"{one.written_bytes:,.0f} B, {one.last_written_bytes:,.0f} B",
        ),
        ("memory while filled, at most", lambda one: f"{one.fill_memory_bytes / 1e6:,.0f} MB"),
        ("longest probe while filled", lambda one: f"{one.probe_most_ms:.1f} ms"),
        ("longest change of one document", lambda one: f"{one.change_most_ms:.1f} ms"),
        ("longest change of 999", lambda one: f"{one.batch_most_ms:.1f} ms"),
        (
            "disk a document: documents, index",
            lambda one: f"{one.documents_bytes:.1f} B, {one.index_bytes:.1f} B",
        ),
        (
            "opened after kill -9: clock, CPU",
            lambda one: f"{one.open_seconds:.2f} s, {one.open_cpu_seconds:.2f} s",
        ),
        (
            "memory of the opened process",
            lambda one: f"{(one.memory_bytes + one.mapped_bytes) / 1e6:,.0f} MB",
        ),
        (
            "of it a document: anonymous, mapped",
            lambda one: (
                f"{one.memory_bytes / one.documents:.1f} B, "
                f"{one.mapped_bytes / one.documents:.1f} B"
            ),
        ),
        ("segments by value", lambda one: f"{len(one.segments)}"),
        (
            "CPU of their search: alone, of many",
            lambda one: f"{one.probe_us:.2f} us, {one.batch_us:.2f} us",
        ),
    ]
    found = [["", *(f"{one.documents:,}" for one in figures)]]
    found += [[name, *map(text, figures)] for name, text in lines]
    for i, call in enumerate(figures[0].calls if figures else []):
        size = "" if 2 * i < len(figures[0].calls) else " in a small store"
        found.append([f"{call.what}{size}: p50, p99", *(_call(one.calls[i]) for one in figures)])
    return found


def _rate(per_second: float | None) -> str:
    return "-" if per_second is None else f"{per_second:,.0f}"


def _call(call: Call) -> str:
    return f"{call.p50_us:,.1f} us, {call.p99_us:,.1f} us"
