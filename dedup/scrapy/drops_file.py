"""Writes DEDUP_DROPPED: a line for each page that was dropped or flagged, as it happens.

    journal -> DropsFile.add -> one write to a file opened for appending

Invariants: a line is written by one call, so a kill loses at most the line being written. A new crawl
begins an empty file; one that resumes from its JOBDIR appends. A fault is counted, and costs no page.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dedup.report.drops import Action, Drop, encode
from dedup.scrapy.counts import Counts

if TYPE_CHECKING:
    from dedup.model.page import Verdict

MARK = "dedup-dropped"  # in a JOBDIR whose crawl has begun a file


class DropsFile:
    """The file of one crawl, opened at its first judged page."""

    def __init__(self, path: Path, job_folder: str | None, counts: Counts) -> None:
        self._path, self._counts = path, counts
        self._mark = None if job_folder is None else Path(job_folder) / MARK
        self._fd: int | None = None
        self._failed = False

    def open(self) -> None:
        """Open the file, empty unless the crawl resumes."""
        if self._fd is not None or self._failed:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            resumes = self._mark is not None and self._mark.exists()
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | (0 if resumes else os.O_TRUNC)
            self._fd = os.open(self._path, flags, 0o666)
            if os.lseek(self._fd, 0, os.SEEK_END):
                os.lseek(self._fd, -1, os.SEEK_END)
                if os.read(self._fd, 1) != b"\n":
                    os.write(self._fd, b"\n")  # ends a line that a kill has cut off
            if self._mark is not None:
                self._mark.parent.mkdir(parents=True, exist_ok=True)
                self._mark.touch()
        except OSError as error:
            self._fail(error)

    def add(
        self,
        verdict: "Verdict",
        url: str,
        callback: str,
        action: Action,
        differs: tuple[list[tuple[str, str]], bool] | None,
    ) -> None:
        """Write a line; differs as compare_words() returns it, None if the original's text is gone."""
        if self._fd is None:
            return
        drop = Drop(
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            action=action,
            url=url,
            key=verdict.key,
            of=verdict.of or "",
            similarity=round(verdict.similarity or 0.0, 4),
            distance=verdict.distance or 0,
            identity=verdict.identity or "unknown",
            reason=verdict.reason,
            callback=callback,
            differs=None if differs is None else differs[0],
            numbers_only=differs is not None and differs[1],
        )
        try:
            os.write(self._fd, encode(drop))
        except (OSError, ValueError) as error:
            self._fail(error)

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _fail(self, error: Exception) -> None:
        self.close()
        self._failed = True
        self._counts.fault(error, f"{self._path} does not list the pages dropped from now on")
