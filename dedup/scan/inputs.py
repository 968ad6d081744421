"""Which files an input means, and in which order: as given; globs and folders by name.

Invariants: the same arguments give the same units every time; files are listed as they are
needed, never all at once. What begins with "." or "_" is left out, as Spark does (_temporary, _SUCCESS), and so is
the scan's own output; other files of a folder whose names say no format are counted.
"""

import glob
import os
from collections.abc import Iterator
from typing import NamedTuple

from dedup.model.errors import DedupError, UsageError
from dedup.scan.values import STDIN, Kind, ScanJob, Unit, shown

FILES_A_UNIT = 64  # HTML files that one process reads in one go

_KINDS: dict[str, Kind] = {
    ".warc": "warc",
    ".wet": "wet",
    ".wacz": "wacz",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
}
ARCHIVES: frozenset[Kind] = frozenset(("warc", "wet", "wacz"))  # what FastWARC reads
_COMPRESSED: frozenset[Kind] = frozenset(("warc", "wet", "jsonl"))
_PACKED = (".gz", ".zst")


class _InputFile(NamedTuple):
    path: str
    kind: Kind
    bytes: int


class NotRead:
    """Files of folders whose names say no format: how many, and one of them."""

    count, example = 0, ""

    def add(self, path: str) -> None:
        """Count a file."""
        self.count += 1
        self.example = self.example or shown(os.fsencode(path))


def list_units(job: ScanJob, not_read: NotRead | None = None) -> Iterator[Unit]:
    """Yield the units of a job in their order; count files that are none in not_read.

    Raises DedupError for an input that is not there or holds no files to scan, and UsageError for
    a file whose name does not tell how to read it.
    """
    batch: list[_InputFile] = []
    for file in _files(job, not_read or NotRead()):
        if file.kind != "html":
            yield from _unit(batch)
            yield from _unit([file])
            batch = []
            continue
        batch.append(file)
        if len(batch) == FILES_A_UNIT:
            yield from _unit(batch)
            batch = []
    yield from _unit(batch)


def _unit(files: list[_InputFile]) -> Iterator[Unit]:
    if files:
        paths = tuple(os.fsencode(file.path) for file in files)
        yield Unit(files[0].kind, paths, sum(file.bytes for file in files))


def _files(job: ScanJob, not_read: NotRead) -> Iterator[_InputFile]:
    outputs = (job.output, job.report, job.kept)
    own = {os.path.realpath(path) for path in outputs if path not in {None, "-"}}
    for given in job.inputs:
        if given == STDIN:
            if job.format not in {None, "jsonl"}:
                raise UsageError(f"stdin is read as jsonl, not as {job.format}; give files")
            yield _InputFile(STDIN, "jsonl", 0)
            continue
        paths = [given] if os.path.lexists(given) else sorted(glob.iglob(given, recursive=True))  # noqa: PTH207
        if not paths and "://" in given:
            raise UsageError(f"{given}: a scan reads files of this machine; download it first")
        if not paths:
            raise DedupError(f"{given}: there is no such file or folder; check the path")
        empty = True
        for path in paths:
            for file in _below(path, job.format, own, not_read):
                empty = False
                yield file
        if empty:
            raise DedupError(
                f"{given}: holds nothing to scan; known are {', '.join(_KINDS)}, WARC and lines "
                "with .gz and .zst too"
            )


def _below(path: str, kind: Kind | None, own: set[str], not_read: NotRead) -> Iterator[_InputFile]:
    """Yield a file itself, or what a folder and those below it hold, by name."""
    if not os.path.isdir(path):  # noqa: PTH112 - paths here are text, millions of them
        known = kind or kind_of(path)
        if known is None:
            raise UsageError(
                f"{path}: its format is not known by its name; give --format, or name it "
                f"{', '.join(_KINDS)}"
            )
        if os.path.realpath(path) not in own:
            yield _InputFile(path, known, os.stat(path).st_size)  # noqa: PTH116
        return
    if os.path.realpath(path) in own:
        return
    with os.scandir(path) as entries:
        names = sorted((e.name, e.is_dir(follow_symlinks=False)) for e in entries)
    for name, is_folder in names:
        below = os.path.join(path, name)  # noqa: PTH118
        if is_left_out(name):
            continue
        if is_folder or ((kind or kind_of(name)) and os.path.isfile(below)):  # noqa: PTH113
            yield from _below(below, kind, own, not_read)
        elif os.path.isfile(below) and os.path.realpath(below) not in own:  # noqa: PTH113
            not_read.add(below)


def is_left_out(name: str) -> bool:
    """Tell whether Spark leaves a name out; `_day=1` is a folder of rows."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def kind_of(name: str) -> Kind | None:
    """Return what a file is by its name; None where that does not say."""
    base, suffix = os.path.splitext(name.lower())  # noqa: PTH122
    if suffix not in _PACKED:
        return _KINDS.get(suffix)
    kind = _KINDS.get(os.path.splitext(base)[1])  # noqa: PTH122
    return kind if kind in _COMPRESSED else None
