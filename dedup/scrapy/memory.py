"""What a crawl remembers: the interface, an embedded store, and what it keeps of earlier crawls (DEDUP_MEMORY).

The other implementation is a table service (service_memory.py).

    "crawl"  the store is emptied when the next crawl begins, and kept when a crawl resumes from its
             JOBDIR, like Scrapy's own filter
    "ever"   it is kept; a number of seconds: older documents are pruned when a crawl begins

Invariants:
  - A store is emptied only if nothing but crawls with DEDUP_MEMORY = "crawl" filled it. The file `crawl` in its folder
    says so; it holds the number of the last crawl, and the JOBDIR has a copy. Anything else that opens the store to
    fill it (dedup.open(), a service, an import) removes the file; crawls then keep the store.
  - Every call of an embedded memory is complete on return, and takes microseconds; nothing waits.
  - An error while a page is judged keeps the page, also while a service is unavailable. A memory itself counts the
    results of insert, release and forget, at once or later; none of its errors reaches the crawl.
"""

import secrets
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Protocol

import msgspec

from dedup.core.files import PRIVATE, PRIVATE_FOLDER, FolderLock, replace_file
from dedup.detector import AsyncDetector, AsyncEmbeddedDetector, EmbeddedDetector, open_embedded
from dedup.detector.detector import is_open
from dedup.model.errors import RecipeMismatch, StoreLocked
from dedup.model.names import count
from dedup.model.page import Document, Verdict
from dedup.scrapy.counts import Counts, logger
from dedup.scrapy.settings import Config
from dedup.store import FOR_ONE_CRAWL, empty

if TYPE_CHECKING:
    pass

EVIDENCE = "classes.json"  # what items have shown (proof.py)
LAST = 20_000  # documents of an opened store from which URL rules are learned


def begin(folder: Path, job_folder: str | None) -> bytes | None:
    """Empty the store in a folder if it belongs to an earlier crawl; log it.

    Returns the number of the crawl, for mark() once the store is open; None if the store is not a crawl's.
    Raises StoreLocked if another process holds it, and OSError.
    """
    name = folder.name
    if is_open(folder):
        logger.info("dedup: %r shares the memory of another crawl of this process", name)
        return _read(folder / FOR_ONE_CRAWL)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
    job = None if job_folder is None else Path(job_folder) / "dedup-crawl" / name
    lock = FolderLock(folder / "lock")
    try:
        documents = folder / "documents.mdb"
        holds_documents = documents.exists()
        held = _read(folder / FOR_ONE_CRAWL)
        if holds_documents and held is None:
            logger.info(
                "dedup: %r continues with the store %s, which another setting or program filled; to start with "
                'an empty store delete that folder, to silence this set DEDUP_MEMORY = "ever"',
                name,
                folder,
            )
            return None
        if holds_documents and job is not None and held == _read(job):
            logger.info("dedup: %r resumes, and remembers its pages", name)
            return held
        empty(folder)
        (folder / EVIDENCE).unlink(missing_ok=True)
        if (folder / "urls.json").exists():
            from dedup.detector.url_rules.rule_records import begin_again

            begin_again(folder)
        crawl = secrets.token_hex(16).encode()
        if job is not None:
            job.parent.mkdir(parents=True, exist_ok=True)
            replace_file(job, crawl)
    finally:
        lock.close()
    logger.info("dedup: %r starts with an empty store (DEDUP_MEMORY)", name)
    return crawl


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


def advice(error: Exception, config: Config) -> str:
    """Return what to do about a store that cannot be opened, as the end of a message."""
    if not isinstance(error, StoreLocked):
        return ""
    return (
        f"; to share it between crawls run `dedup serve --path {quote(str(config.path.absolute()))}` "
        'before they begin, and set DEDUP_SERVICE = "auto"'
    )


# --------------------------------------------------------------------------------- the interface


class Namespace(Protocol):
    """The pages of one namespace."""

    @property
    def detector(self) -> AsyncDetector:
        """The detector of the pages. Called with the meter running, which stops while this waits."""

    @property
    def folder(self) -> Path | None:
        """The folder of its store; None if the store is not in this process."""

    def documents(self) -> Iterable[Document]:
        """Return the last documents of the store when it was opened, at most some thousands."""

    def insert(self, verdicts: list[Verdict]) -> None:
        """Insert pages whose callbacks succeeded."""

    def release(self, verdict: Verdict) -> None:
        """Release a page."""

    def forget(self, key: str) -> None:
        """Forget a page that may have been inserted."""


class Memory(Protocol):
    """The namespaces of one crawl."""

    def open(self, namespace: str) -> Namespace:
        """Return a namespace, at its first page. Raises the error that prevents it."""

    async def close(self) -> str:
        """Finish, close everything, and return what is remembered, and where."""


# ------------------------------------------------------------------------------ an embedded store


class EmbeddedMemory:
    """The stores of a crawl, below DEDUP_PATH."""

    def __init__(self, config: Config, job_folder: str | None, counts: Counts) -> None:
        """Open nothing yet. job_folder is the crawl's JOBDIR."""
        self._config = config
        self._job_folder = job_folder
        self._counts = counts
        self._detectors: list[EmbeddedDetector] = []
        self._namespaces: list[str] = []

    def open(self, namespace: str) -> "EmbeddedNamespace":
        """Open a namespace's store. Raises what open_embedded() raises."""
        config, folder = self._config, self._config.path / namespace
        crawl = begin(folder, self._job_folder) if config.memory == "crawl" else None
        options = msgspec.structs.replace(config.options, namespace=namespace)
        detector = open_embedded(config.path, options)
        if detector.recipe.key is None:
            detector.close()
            raise RecipeMismatch(
                f"the store {config.path / namespace} was made with a secret: set DEDUP_SECRET to it"
            )
        self._detectors.append(detector)
        self._namespaces.append(namespace)
        if config.memory == "crawl":
            mark(folder, crawl)
        else:
            keep(folder)
        if isinstance(config.memory, int):
            pruned = detector.store.forget_before(time.time() - config.memory)
            logger.info("dedup: %r forgot %s", namespace, count(pruned, "old document"))
        return EmbeddedNamespace(detector, folder, self._counts)

    async def close(self) -> str:
        """Close the stores."""
        documents = 0
        for detector in self._detectors:
            try:
                with self._counts.meter, closing(detector):
                    documents += len(detector)
            except Exception as error:
                self._counts.fault(error, "the store may not hold the last pages of this crawl")
        only_one = len(self._namespaces) == 1
        where = self._config.path / (self._namespaces[0] if only_one else "")
        return f"{count(documents, 'document')} in {where}"


class EmbeddedNamespace:
    """The pages of one store."""

    def __init__(self, detector: EmbeddedDetector, folder: Path, counts: Counts) -> None:
        """Private: EmbeddedMemory.open() makes it."""
        self.folder = folder
        self.detector = AsyncEmbeddedDetector(detector)
        self._detector = detector
        self._counts = counts

    def documents(self) -> list[Document]:
        """Return the last documents of the store, at most LAST. Raises StoreDamaged."""
        return [document for _, document in self._detector.store.documents_from(-LAST, LAST)]

    def insert(self, verdicts: list[Verdict]) -> None:
        """Insert pages together; after an error one by one, as many as possible."""
        try:
            with self._counts.meter:
                late = self._detector.insert_many(verdicts)
        except Exception as error:
            if len(verdicts) == 1:
                self._counts.fault(error, f"{verdicts[0].key} was parsed, but is not remembered")
                with suppress(Exception):  # otherwise its copies would wait for it
                    self._detector.release(verdicts[0])
                return
            for verdict in verdicts:
                self.insert([verdict])
            return
        self._counts.add("inserted", len(late))
        if any(late):
            self._counts.add("late_duplicate", sum(late))

    def release(self, verdict: Verdict) -> None:
        """Release a page."""
        try:
            with self._counts.meter:
                self._detector.release(verdict)
            self._counts.add("released")
        except Exception as error:
            self._counts.fault(
                error, f"{verdict.key} stays in flight until its reservation expires"
            )

    def forget(self, key: str) -> None:
        """Remove a document."""
        try:
            with self._counts.meter:
                forgotten = self._detector.forget(key)
            if forgotten:
                self._counts.add("released")
        except Exception as error:
            self._counts.fault(error, f"{key} stays remembered although its item failed")
