"""What a crawl remembers: of earlier crawls (DEDUP_MEMORY), and the interface of embedded.py and service_memory.py.

    "crawl"  the store is emptied when the next crawl begins, and kept when a crawl resumes from its
             JOBDIR, like Scrapy's own filter
    "ever"   it is kept; a number of seconds: older documents are pruned when a crawl begins

Invariants:
  - A store is emptied only if nothing but crawls with DEDUP_MEMORY = "crawl" filled it. The file `crawl` in its folder
    says so; it holds the number of the last crawl, and the JOBDIR has a copy. Anything else that opens the store to
    fill it (dedup.open(), a service, an import) removes the file; crawls then keep the store.
  - An error while a page is judged keeps the page, also while a service is unavailable. A memory itself counts the
    results of insert, release and forget, at once or later; none of its errors reaches the crawl.
"""

import secrets
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Protocol

from dedup.core.files import PRIVATE, PRIVATE_FOLDER, FolderLock, replace_file
from dedup.detector import AsyncDetector
from dedup.detector.open_stores import is_open
from dedup.model.errors import StoreLocked
from dedup.model.page import Document, Verdict
from dedup.scrapy.counts import logger
from dedup.scrapy.settings import Config
from dedup.store import FOR_ONE_CRAWL, empty

if TYPE_CHECKING:
    from dedup.scrapy.service_memory import SharedRules

EVIDENCE = "classes.json"  # what items have shown (proof.py)


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


# ---------------------------------------------- the interface of embedded.py and service_memory.py


class Namespace(Protocol):
    """The pages of one namespace."""

    @property
    def detector(self) -> AsyncDetector:
        """The detector of the pages. Called with the meter running, which stops while this waits."""

    @property
    def folder(self) -> Path | None:
        """The folder of its store; None if the store is not in this process."""

    @property
    def shared_rules(self) -> "SharedRules | None":
        """The place where URL rules are shared with other processes, if there is no folder."""

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
