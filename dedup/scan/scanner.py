"""Run a scan from its beginning, or from where it was interrupted, to its end.

    tasks -> read_all -> ScanJudge -> Work.commit, again and again
    then: what is kept is copied -> the store is updated -> the report -> the verdicts move to their
    place -> the work goes

Each step of the end is idempotent, so a kill among them costs nothing. A scan resumes after a kill at any moment
from its work folder:

    job.json         the inputs and options; a scan with others is refused
    verdicts.jsonl   the verdicts so far
    dropped.jsonl    which records are near-duplicates (with --kept)
    kept.json        the copy is complete (dedup/scan/kept.py)
    position.0, .1   where the scan is, written alternately
    store/           what it accepted (a store as any other)
    site-blocks      what it learned of the sites' templates, now and then

A commit writes in this order: verdicts, position, store. The store's transaction makes the commit: it has the commit's
number, and the position of that number holds. Then the verdicts (and dropped.jsonl) are cut to the length that the
position states, so that every part is of one moment. (A power cut is another matter: the order of writes to a disk is
not kept, and work that does not fit together is refused.)
"""

import copy
import glob
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Literal, Self

import msgspec

from dedup.core.files import checked_line, read_checked, replace_file
from dedup.detector import EmbeddedDetector
from dedup.detector.detector import CROWD
from dedup.model.errors import DedupError, RecipeMismatch, StoreDamaged, UsageError
from dedup.model.recipes import Recipe
from dedup.scan.accepted import AcceptedLayers
from dedup.scan.copies import drop_line
from dedup.scan.inputs import ARCHIVES, NotRead, list_units
from dedup.scan.kept import check_kept, write_kept
from dedup.scan.reading import read_all
from dedup.scan.values import (
    STDIN,
    BrokenRecord,
    PageToJudge,
    Result,
    Row,
    ScanJob,
    ScanProgress,
    Summary,
    Task,
    reading_of,
    shown,
)
from dedup.scan.verdicts import ScanJudge, check_outputs, finish, to_line
from dedup.store import Store, agreed_recipe
from dedup.store.documents import Documents
from dedup.store.store import DOCUMENTS
from dedup.store.templates import Templates

COMMIT_ROWS = 1024
COMMIT_BYTES = 1 << 22
COMMIT_SECONDS = 1.0
TEMPLATES_SECONDS = (
    30.0  # between two saves of what was learned of the sites: a killed scan learns the rest again
)
UPDATE_DOCUMENTS = 4096  # of the store, in one transaction

STDOUT = "-"


def scan(
    job: ScanJob,
    *,
    progress: Callable[[ScanProgress], None] | None = None,
    fault: Callable[[BrokenRecord], None] | None = None,
    emit: Callable[[bytes], None] | None = None,
) -> Summary:
    """Run a job and return its totals.

    progress is called now and then, fault for every broken record, emit with the lines of verdicts
    as they are made, if the output is "-". What was done before an error or a kill is kept next
    to the output, for a job with resume.

    Raises UsageError, DedupError (inputs, work, a worker's end), RecipeMismatch, StoreLocked,
    StoreDamaged, and OSError.
    """
    _check(job)
    with ExitStack() as stack:
        base = _open_store(job, create=False)
        if base is not None:
            stack.enter_context(base)
        recipe = _recipe(job, base)
        folder = _folder(job, stack)
        begins = not (folder / "job.json").exists()
        if job.kept is not None:
            check_kept(job, begins=begins)
        listed = _listed(job) if begins else None  # a wrong input leaves no work behind
        work = stack.enter_context(Work(folder, job, recipe, base))
        if work.position.phase == "scan":
            _read(job, work, recipe, listed or _listed(job), progress, fault, emit)
        return _end(job, work, base, progress, fault)


def _check(job: ScanJob) -> None:
    if not job.inputs:
        raise UsageError("there is nothing to scan; give files, folders or - for stdin")
    output = None if job.output == STDOUT else job.output
    check_outputs(output, job.report)
    if output is None and job.resume and (job.kept is None or job.output == STDOUT):
        raise UsageError("only a scan with an output file can be resumed; give --output FILE")
    if job.update and job.store is None:
        raise UsageError("there is no store to update; give --store PATH")


def _folder(job: ScanJob, stack: ExitStack) -> Path:
    anchor = job.output or job.kept  # the work folder is next to it
    if anchor is None or job.output == STDOUT:
        return Path(stack.enter_context(TemporaryDirectory(prefix="dedup-scan-")))
    folder = work_folder(anchor)
    for left in folder.parent.glob(f"{glob.escape(folder.name)}.*.done"):  # a kill cut its removal
        shutil.rmtree(left, ignore_errors=True)
    if (folder / "job.json").exists() and not job.resume:
        raise DedupError(
            f"{folder} holds the work of an unfinished scan; continue it with --resume, or remove "
            "it to start over"
        )
    return folder


def _open_store(job: ScanJob, *, create: bool) -> Store | None:
    """Open the store that a scan compares with; None if there is none (yet)."""
    if job.store is None:
        return None
    try:
        folder, name = _place(job.store)
        return Store.open(folder, name, job.distance, secret=job.secret, create=create)
    except FileNotFoundError:
        if not job.update:
            raise
        return None


def _place(store: str) -> tuple[Path, str]:
    """Return the folder of a store's namespaces, and which one is meant."""
    folder = Path(store).resolve()
    return (folder.parent, folder.name) if (folder / DOCUMENTS).is_file() else (folder, "default")


def _recipe(job: ScanJob, base: Store | None) -> Recipe:
    """Return the recipe of everything in a scan. Raises RecipeMismatch where a secret is missing."""
    held = "" if base is None else base.recipe
    where = Path(job.store or "")
    recipe = agreed_recipe(where, held, None, job.secret)
    if recipe.key is None:
        raise RecipeMismatch(
            f"the store {where} holds fingerprints of recipe {held!r}, which needs its "
            "secret; set DEDUP_SECRET to it"
        )
    return recipe


# ---------------------------------------------------------------------------------- reading


def _listed(job: ScanJob) -> tuple[int, NotRead]:
    """Return how many bytes there are to be read, and the files that will not be.

    Raises what list_units() raises, and ModuleNotFoundError where a reader of the inputs, or the
    writer of the output, is not installed.
    """
    needed = {"pyarrow"} if (job.output or "").lower().endswith(".parquet") else set()
    total_bytes, not_read = 0, NotRead()
    for unit in list_units(job, not_read):
        total_bytes += unit.bytes
        if unit.kind == "wacz" and job.kept is not None:
            raise UsageError(
                f"{shown(unit.paths[0])}: --kept writes no WACZ; unzip it, and give the WARCs in its folder archive"
            )
        if unit.kind in ARCHIVES or unit.paths[0].lower().endswith(b".zst"):
            needed.add("fastwarc")
        elif unit.kind == "parquet":
            needed.add("pyarrow")
    for module in sorted(needed):
        import_module(module)
    return total_bytes, not_read


def _read(
    job: ScanJob,
    work: "Work",
    recipe: Recipe,
    listed: tuple[int, NotRead],
    progress: Callable[[ScanProgress], None] | None,
    fault: Callable[[BrokenRecord], None] | None,
    emit: Callable[[bytes], None] | None,
) -> None:
    begin = work.position
    detector = _detector(job, work, recipe)
    distance = detector.policy.distance
    total_bytes, not_read = listed
    judge = ScanJudge(detector, job.identity, copy.deepcopy(begin.summary), fault)
    judge.summary.files_not_read = not_read.count
    judge.summary.not_read_example = not_read.example
    reading = reading_of(job, recipe)
    processes = 1 if STDIN in job.inputs else job.processes
    position = begin
    lines: Lines = {name: [] for name in LINES}
    held_bytes, committed = 0, time.monotonic()

    def commit() -> None:
        now_at = msgspec.structs.replace(position, summary=copy.deepcopy(judge.summary))
        work.commit(lines, now_at)
        if emit and lines["verdicts"]:
            emit(b"".join(lines["verdicts"]))
        for each in lines.values():
            each.clear()
        if progress:
            behind = position.behind_bytes + position.offset
            progress(ScanProgress(behind, total_bytes, judge.summary.pages))

    for task, results, end in read_all(_tasks(job, begin), reading, processes):
        pages = [(each.key, each.page.value) for each in results if isinstance(each, PageToJudge)]
        work.memory.look_up(pages, distance, CROWD)
        for result in map(judge.learned, results):
            row = judge.take(result)
            if row is not None:
                _add(job, lines, task.number, result, row)
                held_bytes += len(lines["verdicts"][-1])
        position = _advance(position, task, results, end)
        if end:
            judge.summary.files += len(task.unit.paths)
            judge.summary.bytes += task.unit.bytes
        now = time.monotonic()
        late = now - committed >= COMMIT_SECONDS
        if max(len(lines["verdicts"]) / COMMIT_ROWS, held_bytes / COMMIT_BYTES, late) >= 1:
            commit()
            held_bytes, committed = 0, now
    position = msgspec.structs.replace(position, phase="end")
    commit()


def _add(job: ScanJob, lines: "Lines", unit: int, result: Result, row: Row) -> None:
    """Add what a verdict adds to each file of lines."""
    lines["verdicts"].append(to_line(row))
    if job.kept is not None and row.status == "near_duplicate":
        lines["dropped"].append(drop_line(unit, result))


def _tasks(job: ScanJob, begin: "Position") -> Iterator[Task]:
    """Yield what is left to read. Raises DedupError if the input is not what it was."""
    for number, unit in enumerate(list_units(job)):
        if number < begin.unit:
            continue
        if number == begin.unit:
            stamp = unit.paths[0].hex(), unit.bytes
            if begin.done and stamp != begin.stamp:
                raise DedupError(
                    f"{unit.paths[0].decode('utf-8', 'backslashreplace')} has changed since "
                    "the scan was interrupted; remove the work beside the output to start over"
                )
            yield Task(number, unit, begin.done)
        else:
            yield Task(number, unit)


def _advance(position: "Position", task: Task, results: list[Result], end: bool) -> "Position":
    if end:
        return msgspec.structs.replace(
            position,
            unit=task.number + 1,
            done=0,
            offset=0,
            stamp=("", 0),
            behind_bytes=position.behind_bytes + task.unit.bytes,
        )
    return msgspec.structs.replace(
        position,
        unit=task.number,
        done=position.done + len(results),
        offset=results[-1].offset,
        stamp=(task.unit.paths[0].hex(), task.unit.bytes),
    )


def _detector(job: ScanJob, work: "Work", recipe: Recipe) -> EmbeddedDetector:
    policy = job.options.policy(recipe)
    work.memory.widen(policy.distance)
    return EmbeddedDetector.over(work.memory, recipe, policy, templates=work.templates)


# --------------------------------------------------------------------------------------- the end


def _end(
    job: ScanJob,
    work: "Work",
    base: Store | None,
    progress: Callable[[ScanProgress], None] | None,
    fault: Callable[[BrokenRecord], None] | None,
) -> Summary:
    summary = copy.deepcopy(work.position.summary)
    work.close()
    if job.kept is not None:
        dropped = work.folder / "dropped.jsonl"
        summary.uncopied_files = write_kept(job, dropped, summary, progress, fault)
    if job.update:
        summary.inserted = _update(job, work, base)
    finish(summary, work.verdicts, None if job.output == STDOUT else job.output, job.report)
    work.remove()
    return summary


def _update(job: ScanJob, work: "Work", base: Store | None) -> int:
    """Insert what was accepted into the store; known keys are replaced."""
    first, count = 0, 0
    with ExitStack() as stack:
        store = base
        if store is None and (store := _open_store(job, create=True)) is not None:
            stack.enter_context(store)
        assert store is not None
        documents = stack.enter_context(closing(work.documents()))
        while batch := documents.batch(first, UPDATE_DOCUMENTS):
            store.insert_many([document for _, document in batch])
            first = batch[-1][0] + 1
            count += len(batch)
        store.sync()
        work.templates.save(store.path)
    return count


# --------------------------------------------------------------------------------- the work folder

VERSION = 5
LINES = ("verdicts", "dropped")  # files of lines; the latter may stay empty
Lines = dict[str, list[bytes]]  # what is to be added to each

Phase = Literal["scan", "end"]


class Position(msgspec.Struct, frozen=True):
    """Where a scan is.

    unit, done      number of the unit that is read, and how many of its results were taken
    offset          how many bytes of it were read
    stamp           the unit's first path (in hex) and its size, to know it again
    behind_bytes    bytes of the units that were read
    bytes           length of each file of lines: verdicts.jsonl, dropped.jsonl
    sequence        the number of the commit
    """

    sequence: int
    unit: int
    done: int
    offset: int
    stamp: tuple[str, int]
    behind_bytes: int
    bytes: dict[str, int]
    phase: Phase
    summary: Summary


class _JobFile(msgspec.Struct, frozen=True):
    version: int
    recipe: str
    job: ScanJob


_START = Position(0, 0, 0, 0, ("", 0), 0, dict.fromkeys(LINES, 0), "scan", Summary())


def work_folder(output: str) -> Path:
    """Return the hidden folder next to an output in which its work is kept."""
    target = Path(output)
    return target.with_name(f".{target.name}.scan")


class Work:
    """An open folder of work. position says where to go on."""

    def __init__(self, folder: Path, job: ScanJob, recipe: Recipe, base: Store | None) -> None:
        """Begin, or go on where the folder holds work.

        Raises DedupError if the work is of another job, or does not fit together; StoreLocked if
        another process is at it; OSError.
        """
        self.folder = folder
        begun = (folder / "job.json").exists()
        folder.mkdir(parents=True, exist_ok=True)
        self._store = Store.open(
            folder / "store", "scan", job.distance, recipe.id, secret=job.secret
        )
        try:
            self.memory = AcceptedLayers(base, self._store)
            known = folder if begun or base is None else base.path
            self.templates = Templates(recipe.id, folder, known)
            self._templates_saved = time.monotonic()
            if begun:
                self._check_job(job, recipe)
                self.memory.resumed()
                self.position = self._read_position()
            else:
                self.position = _START
                self._write_position(_START)
                self._write_job(job, recipe)
            self._files = {name: self._open_lines(name) for name in LINES}
        except BaseException:
            self._store.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def commit(self, lines: "Lines", position: Position) -> None:
        """Commit verdicts, position and accepted documents atomically.

        The fields sequence and bytes of the position are filled in here.
        """
        lengths = dict(self.position.bytes)
        for name, file in self._files.items():
            lengths[name] += file.write(b"".join(lines[name]))
            file.flush()
        self.position = msgspec.structs.replace(
            position, sequence=self.position.sequence + 1, bytes=lengths
        )
        self._write_position(self.position)
        self.memory.commit(self.position.sequence)
        if (now := time.monotonic()) - self._templates_saved >= TEMPLATES_SECONDS:
            self.templates.save()
            self._templates_saved = now

    @property
    def verdicts(self) -> Path:
        """The file of verdicts, a line each."""
        return self.folder / "verdicts.jsonl"

    def documents(self) -> Documents:
        """Close the work for writing, and open the accepted documents for reading."""
        self.close()
        return Documents(self.folder / "store" / "scan" / "documents.mdb", read_only=True)

    def close(self) -> None:
        """Close the files. The work can be resumed."""
        for file in self._files.values():
            file.close()
        self.templates.save()
        self._store.close()

    def remove(self) -> None:
        """Remove the folder; the scan is complete."""
        self.close()
        done = self.folder.with_name(f"{self.folder.name}.{os.getpid()}.done")
        self.folder.rename(done)  # atomic: half a folder would look like work
        shutil.rmtree(done)

    def _check_job(self, job: ScanJob, recipe: Recipe) -> None:
        file = self.folder / "job.json"
        try:
            held = msgspec.json.decode(file.read_bytes(), type=_JobFile)
        except ValueError as error:
            raise DedupError(f"{file} is not readable ({error}); {self._advice}") from error
        wanted = _JobFile(VERSION, recipe.id, _lasting(job))
        if held != wanted:
            names = ", ".join(
                f"{field} is {now!r}, was {then!r}"
                for field in ScanJob.__struct_fields__
                if (now := getattr(wanted.job, field)) != (then := getattr(held.job, field))
            )
            raise DedupError(
                f"the work in {self.folder} belongs to another scan ({names or 'another release'}); give "
                "the same inputs and options to resume it, or remove the folder to start over"
            )

    def _write_job(self, job: ScanJob, recipe: Recipe) -> None:
        content = msgspec.json.encode(_JobFile(VERSION, recipe.id, _lasting(job)))
        replace_file(self.folder / "job.json", content)

    def _write_position(self, position: Position) -> None:
        # not replaced: if a kill tears it, the other one holds
        self._position_file(position.sequence).write_bytes(
            checked_line(msgspec.json.encode(position))
        )

    def _read_position(self) -> Position:
        number = self.memory.committed
        with suppress(StoreDamaged):
            position = read_checked(self._position_file(number), Position)
            if position is not None and position.sequence == number:
                return position
        raise DedupError(f"the files in {self.folder} do not match each other; {self._advice}")

    def _position_file(self, number: int) -> Path:
        return self.folder / f"position.{number % 2}"

    def _open_lines(self, name: str) -> IO[bytes]:
        """Open a file of lines for more of them, cut to its size at the last commit."""
        path, size = self.folder / f"{name}.jsonl", self.position.bytes[name]
        # A scan at its end may have moved the verdicts to their place already.
        if self.position.phase == "end":
            return Path(os.devnull).open("ab")
        file = path.open("ab")
        if file.tell() >= size:
            file.truncate(size)
            return file
        file.close()
        raise DedupError(f"{path} is truncated; {self._advice}")

    @property
    def _advice(self) -> str:
        return f"remove {self.folder} to start over"


def _lasting(job: ScanJob) -> ScanJob:
    """Return a job without the options that may differ when it is resumed."""
    return msgspec.structs.replace(job, resume=False, processes=0, secret=None, report=None)
