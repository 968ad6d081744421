"""Scrapy's filter of requests that were made before, on disk: DUPEFILTER_CLASS = "dedup.scrapy.RequestFilter".

    request -> Scrapy's request fingerprint -> keyed 16-byte digest -> DigestFolder (dedup/core/digests.py)

It answers as Scrapy's own filter and takes 18 to 20 bytes a request, mapped into memory, in two places:

    own   what the crawl has scheduled: <JOBDIR>/dedup-requests, kept like Scrapy's requests.seen; without a JOBDIR
          a folder that ends with the crawl
    past  what crawls have fetched: <DEDUP_PATH>/<namespace>/requests, with a DEDUP_MEMORY that lasts

Scrapy's commands (parse, shell, check) use neither. dedup/core/pending_records.py keeps the requests that were not fetched yet.

Invariants: any fault of ours lets the request pass, and is counted (`dedup/error/requests`). With a JOBDIR, or a
past, a request that was scheduled, and never fetched, survives a killed process: the next one makes it again.
"""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.utils.job import job_dir

from dedup.core.digests import DigestFolder, DigestSets
from dedup.core.files import PRIVATE, replace_file
from dedup.core.pending_records import PendingRecords
from dedup.model.errors import StoreLocked
from dedup.model.names import namespace_of
from dedup.scrapy.exceptions import near_duplicate_dropped
from dedup.scrapy.guard import logger
from dedup.scrapy.memory.state import is_crawl, packed, request_of
from dedup.scrapy.requests.queue import mend_queue
from dedup.scrapy.settings import Config

SCHEDULED, FETCHED = 1, 2  # marks of a digest
FREE = 3  # it was scheduled and never fetched, and may be made again
CRAWLS = 1000  # of one namespace, without a JOBDIR, at once
_STOPPED = "stopped"  # this file says that Scrapy saved its queue: nothing needs to be made again
_TAKEN = "requests.seen"  # this one, that what Scrapy's own filter had seen was taken over
_IN_MEMORY = "from now on requests are filtered in memory only"


class RequestFilter(RFPDupeFilter):
    """Filters requests that were made before. One for each crawl; Scrapy makes it."""

    def __init__(
        self,
        folder: Path | None = None,
        debug: bool = False,
        *,
        memory: str | int = "crawl",
        job_folder: Path | None = None,
        crawler: Crawler | None = None,
        fingerprinter: Any = None,
    ) -> None:
        """Open nothing yet; open() does.

        folder is of the past, memory as DEDUP_MEMORY, job_folder the JOBDIR. Without both folders requests are
        filtered in memory.
        """
        super().__init__(None, debug, fingerprinter=fingerprinter)
        self._folder, self._memory, self._job_folder = folder, memory, job_folder
        self._crawler = crawler
        self._own: DigestFolder | None = None
        self._past: DigestSets | None = None
        self._pending: PendingRecords | None = None
        self._is_saved = False  # whether Scrapy's queue has what is pending
        self._received: dict[Request, list[bytes]] = {}  # with their names; still in progress

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the filter of a crawl. Raises UsageError for a setting that is not allowed."""
        settings = Settings(crawler.settings)
        settings.set("DEDUP_ENABLED", True, 100)  # the filter works without the add-on
        config = Config.from_settings(settings)
        folder = jobs = None
        if is_crawl(crawler):
            name = config.namespace or namespace_of(
                crawler.spider.name if crawler.spider else "default"
            )
            folder, jobs = config.path / name / "requests", job_dir(settings)
        made = cls(
            folder,
            settings.getbool("DUPEFILTER_DEBUG"),
            memory=config.memory,
            job_folder=Path(jobs) if jobs else None,
            crawler=crawler,
            fingerprinter=crawler.request_fingerprinter,
        )
        with made._guard("Scrapy's queue is as a kill may have left it"):
            mend_queue(crawler)
        crawler.signals.connect(made.response_received, signal=signals.response_received)
        crawler.signals.connect(made.response_received, signal=near_duplicate_dropped)
        crawler.signals.connect(made.spider_opened, signal=signals.spider_opened)
        return made

    def open(self) -> None:
        """Open the folders. A fault is logged, and requests are filtered in memory."""
        with self._guard("requests are filtered in memory only"):
            place = self._folder
            if self._folder is not None and self._memory != "crawl":
                self._past = _past(self._folder, self._memory)
            if self._job_folder is not None:
                place = self._job_folder / "dedup-requests"
                self._own = DigestFolder(place)
                self._is_saved = (place / _STOPPED).exists()
                (place / _STOPPED).unlink(missing_ok=True)
                self._take_over(self._own, self._job_folder / "requests.seen")
            elif self._folder is not None:
                self._own = _scratch(self._folder / "crawl")
            if place is not None and (self._job_folder is not None or self._past is not None):
                self._pending = PendingRecords(place / "pending", self._is_pending)

    def _take_over(self, own: DigestFolder, seen: Path) -> None:
        """Add the requests that Scrapy's own filter has seen in this job, once."""
        if not seen.exists() or (own.folder / _TAKEN).exists():
            return
        try:
            for name in _names_in(seen):
                if not own.find(digest := own.digest(name)):
                    own.put(digest, SCHEDULED)
            replace_file(own.folder / _TAKEN, b"", PRIVATE)
            logger.info("[dedup] the requests in %s are taken over: they are not made again", seen)
        except Exception as error:  # noqa: BLE001 - counted; the request passes
            self._count(error, f"{seen} cannot be taken over: requests in it may be made again")

    def request_seen(self, request: Request) -> bool:
        """Return whether a request like this one was made before; from now on it was."""
        with self._guard(_IN_MEMORY):
            if self._own is not None:
                return self._was_seen(self._own, request)
        return super().request_seen(request)

    def _was_seen(self, own: DigestFolder, request: Request) -> bool:
        name = self._name_of(request)
        digest = own.digest(name)
        if own.find(digest) in {SCHEDULED, FETCHED} or self._was_in_past(name):
            return True
        if self._pending is not None:  # first: after a kill between the two it is made again
            self._pending.add(name, self._packed(request))
        own.put(digest, SCHEDULED)
        return False

    def _name_of(self, request: Request) -> bytes:
        return self.request_fingerprint(request).encode()  # a subclass may have its own

    def _packed(self, request: Request) -> bytes:
        """Return what makes a request again; nothing for one that cannot be."""
        try:
            return packed(request, self._crawler.spider if self._crawler else None)
        except Exception:  # noqa: BLE001 - counted; the request passes
            self._add("requests/not_saved")
            return b""

    def _is_pending(self, name: bytes) -> bool:
        fetched = self._own is not None and self._own.find(self._own.digest(name)) == FETCHED
        return not fetched and not self._was_in_past(name)

    def _was_in_past(self, name: bytes) -> bool:
        return self._past is not None and self._past.find(name) != 0

    def response_received(self, response: Response, request: Request) -> None:  # noqa: ARG002
        """Note that a page came (Scrapy's signal); those that were redirected to it are fetched with it."""
        if self._pending is not None:
            with self._guard(_IN_MEMORY):
                self._note_progress()
                before = (request.replace(url=url) for url in request.meta.get("redirect_urls", ()))
                self._received[request] = [self._name_of(each) for each in (request, *before)]

    def _note_progress(self) -> None:
        """Mark requests as fetched whose callback has ended, and whose items are through the pipelines."""
        in_progress: Collection[Request] = ()
        with suppress(
            RuntimeError
        ):  # there is no engine yet; Scrapy has no public name for what it works on
            slot = getattr(self._crawler and self._crawler.engine, "_slot", None)
            in_progress = getattr(slot, "inprogress", ())
        for request in [each for each in self._received if each not in in_progress]:
            for name in self._received.pop(request):
                if (
                    self._own is not None
                    and self._own.find(digest := self._own.digest(name)) == SCHEDULED
                ):
                    self._own.put(digest, FETCHED)
                    if self._past is not None:
                        self._past.put(name, FETCHED)

    def spider_opened(self, spider: Spider) -> None:
        """Make the requests again that a killed process left (Scrapy's signal)."""
        engine, made = self._crawler and self._crawler.engine, 0
        if self._pending is None or self._is_saved or engine is None:
            return
        with self._guard("requests of an earlier process may be missing"):
            for name, content in self._pending.take():
                if self._own is None:  # a fault since: the others stay in their files
                    break
                self._own.put(self._own.digest(name), FREE)
                if (request := request_of(content, spider)) is not None:
                    engine.crawl(request)
                    made += 1
        if made:
            logger.info("[dedup] %d requests that were never fetched are made again", made)
            self._add("requests/resumed", made)

    def close(self, reason: str = "") -> None:
        """Close the folders. Scrapy has saved its queue before."""
        with self._guard("requests may be made again"):
            self._note_progress()
            if self._pending is not None and reason == "finished":  # what failed was tried
                self._pending.clear()
            if self._own is not None and self._job_folder is not None:
                replace_file(self._own.folder / _STOPPED, b"", PRIVATE)
            elif self._own is not None:
                shutil.rmtree(self._own.folder, ignore_errors=True)
        self._close()

    def _close(self) -> None:
        for each in (self._pending, self._own, self._past):
            if each is not None:
                each.close()
        self._own = self._past = self._pending = None

    @contextmanager
    def _guard(self, consequence: str) -> Iterator[None]:
        """Count a fault, and go on in memory. What is pending stays for a later process."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - counted; the request passes
            self._count(error, consequence)
            self._close()

    def _count(self, error: Exception, consequence: str) -> None:
        logger.error("[dedup] %s: %s", consequence, error)
        self._add("error/requests")

    def _add(self, stat: str, number: int = 1) -> None:
        if self._crawler is not None and self._crawler.stats is not None:
            self._crawler.stats.inc_value(f"dedup/{stat}", number)


def _past(folder: Path, memory: str | int) -> DigestSets:
    if isinstance(memory, int):
        return DigestSets.by_age(folder, memory)
    return DigestSets([DigestFolder(folder / memory)])


def _scratch(folder: Path) -> DigestFolder:
    """Open an empty folder that no other crawl uses. Raises OSError, and StoreLocked if there are too many."""
    for number in range(CRAWLS):
        with suppress(
            StoreLocked, FileNotFoundError
        ):  # in use; removed just now by a crawl that ended
            found = DigestFolder(folder / str(number))
            found.clear()
            return found
    raise StoreLocked(f"{CRAWLS} crawls use {folder}")


def _names_in(seen: Path) -> Iterator[bytes]:
    """Yield the fingerprints, in hex, of Scrapy's own filter: lines, or in a newer Scrapy lengths (2 bytes) and bytes."""
    with seen.open("rb") as file:
        if file.peek(1)[:1] != b"\0":  # no hex digit
            yield from (line.strip() for line in file)
        else:
            while name := file.read(int.from_bytes(file.read(2), "big")):
                yield name.hex().encode()
