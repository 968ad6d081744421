"""`--kept`: write the input once more without its near-duplicates, each file in its own format.

    dropped.jsonl (from the judge, in input order) + the input -> copies next to the target -> one rename

Invariants:
  - The input is read and never written; the target appears atomically, when all of it is written.
  - Only near-duplicates are left out; what the scan did not judge is copied, too.
  - After a kill the copy resumes at the unit it was in, which kept.json in the work folder names.
  - The lines of dropped.jsonl have the order of the input, so that both are read side by side.
"""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from dedup.core.files import replace_file, sync_folder
from dedup.model.errors import DedupError, UsageError
from dedup.scan.copies import Copy, Drops, copy_lines, copy_parquet, copy_warc
from dedup.scan.inputs import kind_of, list_units, local_path
from dedup.scan.values import STDIN, BrokenRecord, Kind, ScanJob, ScanProgress, Summary, Unit, shown

_MAGIC = re.compile(r"[*?[]")


class _Progress(msgspec.Struct, frozen=True):
    """How far a copy is: the next unit, where its drops begin, what could not be copied before it."""

    unit: int = 0
    dropped: int = 0
    bytes: int = 0
    uncopied: int = 0
    done: bool = False


def check_kept(job: ScanJob, *, begins: bool) -> None:
    """Raise UsageError for a target that the input cannot be written to. begins: nothing is done yet."""
    assert job.kept is not None
    target = Path(job.kept)
    if STDIN in job.inputs or job.kept == "-":
        raise UsageError("--kept reads the input twice and writes files: give files, not -")
    if _is_one_file(job):
        given = local_path(job.inputs[0])
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
    copy = _Copy(job, target, dropped, summary, progress, fault)
    if not copy.state.done:
        copy.run()
    if copy.beside.exists():  # else it was put in place before a kill
        if target.is_dir():
            target.rmdir()  # it is empty
        copy.beside.replace(target)
        sync_folder(target.parent)
    return copy.state.uncopied


class _Copy:
    def __init__(
        self,
        job: ScanJob,
        target: Path,
        dropped: Path,
        summary: Summary,
        progress: Callable[[ScanProgress], None] | None,
        fault: Callable[[BrokenRecord], None] | None,
    ) -> None:
        self._job, self._work, self._summary = job, dropped.parent, summary
        self._dropped = dropped
        self._progress, self._fault = progress, fault
        self._target = target
        self.beside = target.with_name(f".{target.name}.kept")
        self._root = None if _is_one_file(job) else _root(job)
        self.state = _Progress()
        self._resumed = -1
        if self._state_file.exists():
            self.state = msgspec.json.decode(self._state_file.read_bytes(), type=_Progress)
            self._resumed = self.state.unit  # some of it may have been written

    @property
    def _state_file(self) -> Path:
        return self._work / "kept.json"

    def run(self) -> None:
        if not self.state.unit:
            _remove(self.beside)  # of an abandoned scan
        self.beside.parent.mkdir(parents=True, exist_ok=True)
        if self._root is not None:
            self.beside.mkdir(exist_ok=True)
        with self._dropped.open("rb") as lines:
            for number, unit in enumerate(list_units(self._job)):
                if number < self.state.unit:
                    continue
                lines.seek(self.state.dropped)
                drops = Drops(lines, number)
                uncopied = self._copy(number, unit, drops)
                if drops.left:
                    raise DedupError(
                        f"{shown(unit.paths[0])} has changed since it was scanned; remove "
                        f"{self._work} and {self.beside} to start over"
                    )
                self.state = _Progress(
                    number + 1,
                    drops.end,
                    self.state.bytes + unit.bytes,
                    self.state.uncopied + uncopied,
                )
                self._keep_state()
        self.state = msgspec.structs.replace(self.state, done=True)
        self._keep_state()

    def _keep_state(self) -> None:
        replace_file(self._state_file, msgspec.json.encode(self.state))
        if self._progress:
            s = self._summary
            self._progress(ScanProgress(self.state.bytes, s.bytes, s.pages, 0, copying=True))

    def _copy(self, number: int, unit: Unit, drops: Drops) -> int:
        uncopied = 0
        for record, path in enumerate(unit.paths, 1):
            if unit.kind == "html" and drops.of(record) is not None:
                continue
            source = os.fsdecode(path)
            target = self._target_of(source)
            packing = str(target if self._root is not None else self._target)
            if target.exists() and number != self._resumed:
                raise DedupError(f"{shown(path)} is given twice; --kept writes each file once")
            copy = Copy(source, target, packing, self._job.max_bytes)
            reason = _unreadable(source) or _COPIERS[unit.kind](copy, drops)
            if reason is not None:
                uncopied += 1
                if unit.kind != "html":  # of which a unit has many
                    drops.skip()
                if self._fault:
                    self._fault(BrokenRecord(shown(path), "in the copy", reason))
        return uncopied

    def _target_of(self, source: str) -> Path:
        if self._root is None:
            return self.beside
        below = os.path.relpath(os.path.abspath(source), self._root)  # noqa: PTH100
        target = self.beside / below
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


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
    given = local_path(job.inputs[0])
    return (
        len(job.inputs) == 1 and os.path.lexists(given) and not os.path.isdir(given)  # noqa: PTH112
    )


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _root(job: ScanJob) -> str:
    """Return the folder that all inputs lie in: below the target, files have their path from there."""
    try:
        bases = [_base(local_path(given)) for given in job.inputs]
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
