"""`--kept`: write the input once more without its near-duplicates, each file in its own format.

    dropped.jsonl (from the judge, in input order) + the input -> copies next to the target -> one rename

Invariants:
  - The input is read and never written; the target appears atomically, when all of it is written.
  - Only near-duplicates are left out; what the scan did not judge is copied, too.
  - kept.json in the work folder says that the copy is complete; after a kill before that it begins again.
  - The lines of dropped.jsonl have the order of the input, so that both are read side by side.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from dedup.core.files import replace_file, sync_folder
from dedup.model.errors import DedupError, UsageError
from dedup.scan.copies import Copy, Drops, copy_lines, copy_parquet, copy_warc
from dedup.scan.inputs import kind_of, list_units
from dedup.scan.values import STDIN, BrokenRecord, Kind, ScanJob, ScanProgress, Summary, Unit, shown

_MAGIC = re.compile(r"[*?[]")


def check_kept(job: ScanJob, *, begins: bool) -> None:
    """Raise UsageError for a target that the input cannot be written to. begins: nothing is done yet."""
    assert job.kept is not None
    target = Path(job.kept)
    if STDIN in job.inputs or job.kept == "-":
        raise UsageError("--kept reads the input twice and writes files: give files, not -")
    if _is_one_file(job):
        given = job.inputs[0]
        here, there = job.format or kind_of(given), kind_of(job.kept)
        if target.is_dir() or (there is not None and there != here):
            raise UsageError(
                f"{job.kept}: the copy of {given} has the format {here}; give a file name of that format"
            )
        if target.exists() and target.samefile(given):
            raise UsageError(f"{job.kept} is the input, which is never changed; give another name")
    elif begins and target.exists() and not _is_empty(target):
        raise UsageError(f"{job.kept} exists; give the name of a new folder")


def write_kept(
    job: ScanJob,
    dropped: Path,
    summary: Summary,
    progress: Callable[[ScanProgress], None] | None = None,
    fault: Callable[[BrokenRecord], None] | None = None,
) -> int:
    """Write what is kept; return the number of files of which a part could not be written.

    `dropped` is the file, in the folder of the completed scan, of what is left out. Idempotent.

    Raises DedupError if the input is not what it was, and OSError.
    """
    assert job.kept is not None
    target = Path(os.path.abspath(job.kept))  # noqa: PTH100 - links stay
    beside = target.with_name(f".{target.name}.kept")
    done = dropped.with_name("kept.json")
    if not done.exists():
        copied = _copy_all(job, beside, dropped, summary, progress, fault)
        replace_file(done, msgspec.json.encode(copied))
    if beside.exists():  # else it was put in place before a kill
        if target.is_dir():
            target.rmdir()  # it is empty
        beside.replace(target)
        sync_folder(target.parent)
    return msgspec.json.decode(done.read_bytes(), type=int)


def _copy_all(
    job: ScanJob,
    beside: Path,
    dropped: Path,
    summary: Summary,
    progress: Callable[[ScanProgress], None] | None,
    fault: Callable[[BrokenRecord], None] | None,
) -> int:
    """Copy every unit of a job; return the number of files of which a part could not be written."""
    root = None if _is_one_file(job) else _root(job)
    _remove(beside)  # of a copy that was interrupted
    beside.parent.mkdir(parents=True, exist_ok=True)
    if root is not None:
        beside.mkdir()
    uncopied = done_bytes = 0
    with dropped.open("rb") as lines:
        drops = Drops(lines)
        for drops.unit, unit in enumerate(list_units(job)):
            for reason, path in _copy_unit(job, unit, beside, root, drops):
                uncopied += 1
                if fault:
                    fault(BrokenRecord(shown(path), "in the copy", reason))
            if drops.left:
                raise DedupError(
                    f"{shown(unit.paths[0])} has changed since it was scanned; remove "
                    f"{dropped.parent} and {beside} to start over"
                )
            done_bytes += unit.bytes
            if progress:
                progress(ScanProgress(done_bytes, summary.bytes, summary.pages, copying=True))
    return uncopied


def _copy_unit(
    job: ScanJob, unit: Unit, beside: Path, root: str | None, drops: Drops
) -> Iterator[tuple[str, bytes]]:
    """Copy the files of a unit; yield why a part of one is missing, and its path."""
    for record, path in enumerate(unit.paths, 1):
        if unit.kind == "html" and drops.has(record):
            continue
        source, target = os.fsdecode(path), beside
        if root is not None:
            target = beside / os.path.relpath(os.path.abspath(source), root)  # noqa: PTH100
            target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            raise DedupError(f"{shown(path)} is given twice; --kept writes each file once")
        packing = str(target) if root is not None else job.kept or ""
        copy = Copy(source, target, packing, job.max_bytes)
        reason = _unreadable(source) or _COPIERS[unit.kind](copy, drops)
        if reason is not None:
            if unit.kind != "html":  # of which a unit has many
                drops.skip()
            yield reason, path


def _copy_file(copy: Copy, _drops: Drops) -> None:
    shutil.copyfile(copy.source, copy.target)


_COPIERS: dict[Kind, Callable[[Copy, Drops], str | None]] = {
    "warc": copy_warc,
    "wet": copy_warc,
    "parquet": copy_parquet,
    "jsonl": copy_lines,
    "html": _copy_file,
}  # each returns why a part of the file is missing, or None


def _unreadable(source: str) -> str | None:
    """Return why a file cannot be opened; None if it can."""
    try:
        open(source, "rb").close()  # noqa: PTH123 - a path as text
    except OSError as error:
        return error.strerror or str(error)
    return None


def _is_one_file(job: ScanJob) -> bool:
    given = job.inputs[0]
    return (
        len(job.inputs) == 1 and os.path.lexists(given) and not os.path.isdir(given)  # noqa: PTH112
    )


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _root(job: ScanJob) -> str:
    """Return the folder that all inputs lie in: below the target, files have their path from there."""
    try:
        bases = [_base(given) for given in job.inputs]
        return os.path.commonpath([os.path.abspath(base) for base in bases])  # noqa: PTH100
    except ValueError as error:  # Windows: of two drives
        raise UsageError(f"--kept: the inputs have no common folder ({error})") from error


def _base(given: str) -> str:
    """Return the folder that an input names, or lies in."""
    if os.path.isdir(given):  # noqa: PTH112
        return given
    magic = None if os.path.lexists(given) else _MAGIC.search(given)
    return os.path.dirname(given[: magic.start()] if magic else given)  # noqa: PTH120


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
