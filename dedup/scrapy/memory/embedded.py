"""A crawl's memory in a store of its own, and what it keeps of earlier crawls (DEDUP_MEMORY).

    "crawl"  the store is emptied when the next crawl begins, and kept when a crawl resumes from its
             JOBDIR, like Scrapy's own filter; `scrapy parse`, `shell` and a crawl without that JOBDIR use another one
    "ever"   it is kept; a number of seconds: older documents are pruned when a crawl begins

Invariants:
  - A store is emptied only if nothing but crawls with DEDUP_MEMORY = "crawl" filled it. The file `crawl` in its folder
    says so; it holds the number of the last crawl, and the JOBDIR has a copy. Anything else that opens the store to
    fill it (dedup.open(), a service, an import) removes the file; crawls then keep the store.
  - Every call is complete on return, and takes microseconds; nothing waits.
"""

import os
import secrets
import time
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from dedup.core.files import PRIVATE, PRIVATE_FOLDER, FolderLock, replace_file
from dedup.detector import AsyncEmbeddedDetector, EmbeddedDetector, open_embedded
from dedup.model.errors import RecipeMismatch
from dedup.model.names import count
from dedup.model.page import Verdict
from dedup.scrapy.guard import Counts, guarded, logger
from dedup.scrapy.memory.state import Job, is_crawl, is_paused
from dedup.scrapy.settings import Config
from dedup.store import FOR_ONE_CRAWL, empty
from dedup.store.shared import is_open

SCRATCH = ".scratch"  # below DEDUP_PATH: stores of crawls beside a paused job; no namespace begins with a dot


def place_of(path: Path, name: str, job: Job) -> Path:
    """Return the folder in which a crawl's store of a namespace lies: beside the usual one, if that is a paused job's."""
    mark = _read(path / name / FOR_ONE_CRAWL)
    if mark is None or is_open(path / name):
        return path
    crawl, _, owner = mark.partition(b"\n")
    if not owner or crawl == job.of(name).crawl or not is_paused(_path(owner), name, crawl):
        return path
    logger.info(
        "[dedup] %r uses a store of its own: the usual one is of the job %s",
        name,
        _path(owner).parent,
    )
    return path / SCRATCH


def begin(folder: Path, job: Job) -> bytes | None:
    """Empty the store in a folder if it belongs to an earlier crawl; log it.

    Returns what mark() writes once the store is open; None if the store is not a crawl's.
    Raises StoreLocked if another process holds it, and OSError.
    """
    name = folder.name
    if is_open(folder):
        logger.info("[dedup] %r shares the memory of another crawl of this process", name)
        return _read(folder / FOR_ONE_CRAWL)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
    lock = FolderLock(folder / "lock")
    try:
        holds_documents = (folder / "documents.mdb").exists()
        held = _read(folder / FOR_ONE_CRAWL)
        if holds_documents and held is None:
            logger.info(
                "[dedup] %r continues with the store %s, which another setting or program filled; to start with "
                'an empty store, delete that folder; if this is intended, set DEDUP_MEMORY = "ever"',
                name,
                folder,
            )
            return None
        if holds_documents and held is not None and held.partition(b"\n")[0] == job.of(name).crawl:
            logger.info("[dedup] %r resumes, and remembers its pages", name)
            return held
        empty(folder)
        crawl = secrets.token_hex(16).encode()
        job.begin(name, crawl)
    finally:
        lock.close()
    logger.info("[dedup] %r starts with an empty store (DEDUP_MEMORY)", name)
    return crawl if job.folder is None else crawl + b"\n" + os.fsencode(job.folder)


def _path(name: bytes) -> Path:
    return Path(os.fsdecode(name))


def mark(folder: Path, crawl: bytes | None) -> None:
    """Mark an open store as a crawl's own. Raises OSError."""
    if crawl is not None:
        replace_file(folder / FOR_ONE_CRAWL, crawl, PRIVATE)


def keep(folder: Path) -> None:
    """Remove that mark from an open store. Raises OSError."""
    (folder / FOR_ONE_CRAWL).unlink(missing_ok=True)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


# ------------------------------------------------------------------------------ an embedded store


class EmbeddedMemory:
    """The stores of a crawl, below DEDUP_PATH."""

    def __init__(self, config: Config, job: Job, counts: Counts) -> None:
        """Open nothing yet."""
        self._config, self._job, self._counts = config, job, counts
        self._detectors: dict[str, EmbeddedDetector] = {}  # by namespace

    def open(self, namespace: str) -> "EmbeddedNamespace":
        """Open a namespace's store. Raises what open_embedded() raises."""
        config, path, memory = self._config, self._config.path, self._config.memory
        if not is_crawl(self._counts.crawler):  # a command of Scrapy leaves nothing in the store
            path, memory = path / SCRATCH, "crawl"
        elif memory == "crawl":
            path = place_of(path, namespace, self._job)
        folder = path / namespace
        crawl = begin(folder, self._job) if memory == "crawl" else None
        options = msgspec.structs.replace(config.options, namespace=namespace)
        detector = open_embedded(path, options)
        if detector.recipe.key is None:
            detector.close()
            raise RecipeMismatch(
                f"the store {folder} was made with a secret: set DEDUP_SECRET to it"
            )
        self._detectors[namespace] = detector
        if memory == "crawl":
            mark(folder, crawl)
        else:
            keep(folder)
        if isinstance(memory, int):
            pruned = detector.store.forget_before(time.time() - memory)
            logger.info("[dedup] %r forgot %s", namespace, count(pruned, "old document"))
        if memory != "crawl" and config.unchanged == "keep" and len(detector):
            logger.info(
                "[dedup] %r remembers %s of earlier crawls: near-duplicates of these may be missing from today's output, and "
                'unchanged pages are in it; DEDUP_UNCHANGED = "drop" leaves them out, too',
                namespace,
                count(len(detector), "page"),
            )
        return EmbeddedNamespace(detector, self._counts)

    async def close(self) -> str:
        """Close the stores."""
        documents = 0
        for detector in self._detectors.values():
            lost = "the store may not hold the last pages of this crawl"
            with guarded(self._counts, lost), self._counts.meter, closing(detector):
                documents += len(detector)
        names = [*self._detectors]
        where = self._config.path / (names[0] if len(names) == 1 else "")
        return f"{count(documents, 'document')} in {where}"


class EmbeddedNamespace:
    """The pages of one store."""

    def __init__(self, detector: EmbeddedDetector, counts: Counts) -> None:
        """Private: EmbeddedMemory.open() makes it."""
        self.detector = AsyncEmbeddedDetector(detector)
        self._detector, self._counts = detector, counts

    def insert(self, verdicts: list[Verdict]) -> None:
        """Insert pages together; after an error one by one, as many as possible."""
        counts = self._counts
        try:
            with counts.meter:
                late = self._detector.insert_many(verdicts)
        except Exception as error:  # noqa: BLE001 - counted; the crawl goes on
            if len(verdicts) > 1:
                for verdict in verdicts:
                    self.insert([verdict])
                return
            counts.fault(error, f"{verdicts[0].key} was parsed, but is not remembered")
            with suppress(Exception):  # otherwise its copies would wait for it
                self._detector.release(verdicts[0])
            return
        counts["inserted"] += len(late)
        if any(late):
            counts["late_duplicate"] += sum(late)

    def release(self, verdict: Verdict) -> None:
        """Release a page."""
        lost = f"{verdict.key} stays in flight until its reservation expires"
        with guarded(self._counts, lost), self._counts.meter:
            self._detector.release(verdict)
            self._counts["released"] += 1

    def forget(self, key: str) -> None:
        """Remove a document."""
        lost = f"{key} stays remembered although its item failed"
        with guarded(self._counts, lost), self._counts.meter:
            if self._detector.forget(key):
                self._counts["released"] += 1
