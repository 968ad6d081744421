"""The work folder of a scan, from which it resumes after a kill at any moment.

    job.json         the inputs and options; a scan with others is refused
    verdicts.jsonl   the verdicts so far
    dropped.jsonl    which records are near-duplicates, and of which page (with --kept)
    kept.json        how far the copy is (dedup/scan/kept.py)
    position.0, .1   where the scan is, written alternately
    store/           what it accepted (a store as any other)

A commit writes in this order: verdicts, position, store. The store's transaction makes the commit:
it has the commit's number, and the position of that number holds. Then the verdicts (and dropped.jsonl) are
cut to the length that the position states, so that every part is of one moment.
(A power cut is another matter: the order of writes to a disk is not kept, and work that does not fit
together is refused.)
"""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal, Self

import msgspec

from dedup.core.files import checksum, read_checked, replace_file
from dedup.model.errors import DedupError, StoreDamaged
from dedup.model.recipes import Recipe
from dedup.scan.accepted import Memory
from dedup.scan.values import Job, Summary
from dedup.store import Store
from dedup.store.documents import Documents

VERSION = 4

Phase = Literal["scan", "end"]


class Position(msgspec.Struct, frozen=True):
    """Where a scan is.

    unit, done      number of the unit that is read, and how many of its results were taken
    offset          where in it reading can resume, or 0: its results are counted from the start
    record          the number of the record there
    stamp           the unit's first path (in hex) and its size, to know it again
    behind_bytes    bytes of the units that were read
    verdict_bytes   length of verdicts.jsonl, and dropped_bytes of dropped.jsonl
    sequence        the number of the commit
    """

    sequence: int
    unit: int
    done: int
    offset: int
    record: int
    stamp: tuple[str, int]
    behind_bytes: int
    verdict_bytes: int
    dropped_bytes: int
    phase: Phase
    summary: Summary


class _JobFile(msgspec.Struct, frozen=True):
    version: int
    recipe: str
    job: Job


_START = Position(0, 0, 0, 0, 0, ("", 0), 0, 0, 0, "scan", Summary())


def work_folder(output: str) -> Path:
    """Return the hidden folder next to an output in which its work is kept."""
    target = Path(output)
    return target.with_name(f".{target.name}.scan")


class Work:
    """An open folder of work. position says where to go on."""

    def __init__(self, folder: Path, job: Job, recipe: Recipe, base: Store | None) -> None:
        """Begin, or go on where the folder holds work.

        Raises DedupError if the work is of another job, or does not fit together; StoreLocked if
        another process is at it; OSError.
        """
        self.folder = folder
        self._verdicts_path = folder / "verdicts.jsonl"
        begun = (folder / "job.json").exists()
        folder.mkdir(parents=True, exist_ok=True)
        self._store = Store.open(
            folder / "store", "scan", job.distance, recipe.id, secret=job.secret
        )
        try:
            self.memory = Memory(base, self._store)
            if begun:
                self._check_job(job, recipe)
                self.memory.resumed()
                self.position = self._read_position()
            else:
                self.position = _START
                self._write_position(_START)
                self._write_job(job, recipe)
            self._verdicts = self._open_lines(self._verdicts_path, self.position.verdict_bytes)
            self._dropped = self._open_lines(
                folder / "dropped.jsonl" if job.kept else Path(os.devnull),
                self.position.dropped_bytes,
            )
        except BaseException:
            self._store.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def commit(
        self, lines: Sequence[bytes], position: Position, dropped: Sequence[bytes] = ()
    ) -> None:
        """Commit verdicts, position and accepted documents atomically.

        The fields sequence, verdict_bytes and dropped_bytes of the position are filled in here.
        """
        data, drops = b"".join(lines), b"".join(dropped)
        for file, part in ((self._verdicts, data), (self._dropped, drops)):
            file.write(part)
            file.flush()
        self.position = msgspec.structs.replace(
            position,
            sequence=self.position.sequence + 1,
            verdict_bytes=self.position.verdict_bytes + len(data),
            dropped_bytes=self.position.dropped_bytes + len(drops),
        )
        self._write_position(self.position)
        self.memory.commit(self.position.sequence)

    @property
    def verdicts(self) -> Path:
        """The file of verdicts, a line each."""
        return self._verdicts_path

    def documents(self) -> Documents:
        """Close the work for writing, and open the accepted documents for reading."""
        self.close()
        return Documents(self.folder / "store" / "scan" / "documents.mdb", read_only=True)

    def close(self) -> None:
        """Close the files. The work can be resumed."""
        self._verdicts.close()
        self._dropped.close()
        self._store.close()

    def remove(self) -> None:
        """Remove the folder; the scan is complete."""
        self.close()
        done = self.folder.with_name(f"{self.folder.name}.{os.getpid()}.done")
        self.folder.rename(done)  # atomic: half a folder would look like work
        shutil.rmtree(done)

    def _check_job(self, job: Job, recipe: Recipe) -> None:
        file = self.folder / "job.json"
        try:
            held = msgspec.json.decode(file.read_bytes(), type=_JobFile)
        except ValueError as error:
            raise DedupError(f"{file} is not readable ({error}); {self._advice}") from error
        wanted = _JobFile(VERSION, recipe.id, _lasting(job))
        if held != wanted:
            names = ", ".join(
                f"{field} is {now!r}, was {then!r}"
                for field in Job.__struct_fields__
                if (now := getattr(wanted.job, field)) != (then := getattr(held.job, field))
            )
            raise DedupError(
                f"the work in {self.folder} belongs to another scan ({names or 'another release'}); give "
                "the same inputs and options to resume it, or remove the folder to start over"
            )

    def _write_job(self, job: Job, recipe: Recipe) -> None:
        content = msgspec.json.encode(_JobFile(VERSION, recipe.id, _lasting(job)))
        replace_file(self.folder / "job.json", content)

    def _write_position(self, position: Position) -> None:
        line = msgspec.json.encode(position)
        # not replaced: if a kill tears it, the other one holds
        self._position_file(position.sequence).write_bytes(
            b"%s\n%s\n" % (line, checksum(line).encode())
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

    def _open_lines(self, path: Path, size: int) -> IO[bytes]:
        """Open a file of lines for more of them, cut to its size at the last commit."""
        # A scan at its end may have moved the verdicts to their place already.
        if self.position.phase == "end" or path == Path(os.devnull):
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


def _lasting(job: Job) -> Job:
    """Return a job without the options that may differ when it is resumed."""
    return msgspec.structs.replace(job, resume=False, processes=0, secret=None, report=None)
