"""Scrapy's filter of requests that were made before, on disk: DUPEFILTER_CLASS = "dedup.scrapy.RequestFilter".

    request -> Scrapy's request fingerprint -> keyed 16-byte digest -> DigestFolder (dedup/core/digests.py)

It answers as Scrapy's own filter and takes 18 to 20 bytes a request, mapped from <DEDUP_PATH>/<namespace>/requests.
DEDUP_MEMORY says what it remembers of earlier crawls: nothing (a JOBDIR that resumes aside), everything, or the
requests of crawls that began within that time.

Invariants: any fault of ours lets the request pass, and is counted (`dedup/error/requests`). With a JOBDIR a
request that was scheduled, and never fetched, survives a killed process: it is made again when the crawl resumes.
"""

import contextlib
import pickle
import secrets
import shutil
import struct
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, cast

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.utils.job import job_dir
from scrapy.utils.request import request_from_dict

from dedup.core.digests import DigestFolder
from dedup.core.files import PRIVATE, PRIVATE_FOLDER, replace_file
from dedup.model.names import namespace_of
from dedup.scrapy.counts import logger
from dedup.scrapy.middlewares import near_duplicate_dropped
from dedup.scrapy.settings import Config

SCHEDULED, FETCHED = 1, 2  # marks of a digest
FALLBACK = 1_000_000  # digests kept in memory after a fault; more requests than that all pass
AGE_PARTS = 8  # a remembered time is forgotten in this many parts
_CRAWL = "crawl-id"  # the file that names the crawl whose requests a folder holds


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
        """Open nothing yet; open() does, or the first request.

        folder      where the digests are; None: in memory only
        memory      "crawl", "ever" or seconds, as DEDUP_MEMORY
        job_folder  the crawl's JOBDIR
        """
        super().__init__(None, debug, fingerprinter=fingerprinter)
        self._folder, self._memory, self._job_folder = folder, memory, job_folder
        self._crawler = crawler
        self._open: list[DigestFolder] = []  # the crawl's own first, then those of earlier crawls
        self._pending: PendingRequests | None = None
        self._failed = folder is None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the filter of a crawl. Raises UsageError for a setting that is not allowed."""
        settings = Settings(crawler.settings)
        settings.set("DEDUP_ENABLED", True, 100)  # the filter works without the add-on
        config = Config.from_settings(settings)
        spider = crawler.spider
        name = config.namespace or namespace_of(spider.name if spider is not None else "default")
        jobs = job_dir(settings)
        made = cls(
            config.path / name / "requests",
            settings.getbool("DUPEFILTER_DEBUG"),
            memory=config.memory,
            job_folder=None if jobs is None else Path(jobs),
            crawler=crawler,
            fingerprinter=crawler.request_fingerprinter,
        )
        if jobs is not None:
            crawler.signals.connect(made.response_received, signal=signals.response_received)
            crawler.signals.connect(made.response_received, signal=near_duplicate_dropped)
            crawler.signals.connect(made.spider_opened, signal=signals.spider_opened)
        return made

    def open(self) -> None:
        """Open the folder; a folder that cannot be opened is logged, and requests are kept in memory."""
        if self._open or self._failed:
            return
        assert self._folder is not None
        try:
            self._open = _opened(self._folder, self._memory, self._job_folder)
            if self._job_folder is not None:
                self._pending = PendingRequests(self._open[0])
        except Exception as error:
            self._fault(error, "requests are filtered in memory only")

    def request_seen(self, request: Request) -> bool:
        """Return whether a request like this one was made before; from now on it was."""
        name = self._fingerprint(request)
        if not self._failed:
            try:
                return self._was_seen(name, request)
            except Exception as error:
                self._fault(error, "from now on requests are filtered in memory only")
        if name in self._fingerprints:
            return True
        if len(self._fingerprints) < FALLBACK:
            self._fingerprints.add(name)
        return False

    def _was_seen(self, name: bytes, request: Request) -> bool:
        if not self._open:
            self.open()
            if not self._open:
                raise OSError("the folder of requests is closed")
        own = self._open[0]
        for other in self._open[1:]:
            if other.find(other.digest(name)):
                return True
        digest = own.digest(name)
        before = own.put(digest, SCHEDULED)
        if before:
            if before != SCHEDULED:
                own.put(digest, before)
            return True
        if self._pending is not None:
            self._pending.add(digest, request, self._spider)
        return False

    @property
    def _spider(self) -> Spider | None:
        return None if self._crawler is None else self._crawler.spider

    def response_received(self, response: Response, request: Request) -> None:
        """Mark a request as fetched, once nothing needs its response any more (Scrapy's signal).

        Scrapy holds a response until its callback ended and its items are through the pipelines.
        """
        if self._open and not self._failed:
            with contextlib.suppress(Exception):
                digest = self._open[0].digest(self._fingerprint(request))
                weakref.finalize(response, self._fetched, digest).atexit = False

    def _fetched(self, digest: bytes) -> None:
        if self._open and self._open[0].find(digest) == SCHEDULED:
            self._open[0].put(digest, FETCHED)

    def spider_opened(self, spider: Spider) -> None:
        """Make the requests again that a killed process left (Scrapy's signal)."""
        if self._pending is None or self._crawler is None or self._crawler.engine is None:
            return
        made = 0
        try:
            for request in self._pending.left(spider):
                self._crawler.engine.crawl(request.replace(dont_filter=True))
                made += 1
        except Exception as error:
            self._fault(error, "requests of the killed crawl may be missing")
        if made:
            logger.info("dedup: %d requests that were never fetched are made again", made)
            if self._crawler.stats is not None:
                self._crawler.stats.inc_value("dedup/requests/resumed", made)

    def close(self, reason: str = "") -> None:  # noqa: ARG002
        """Close the folder. Scrapy has saved the requests of its queue before."""
        if self._pending is not None:
            self._pending.remove()
            self._pending = None
        opened, self._open = self._open, []
        for folder in opened:
            folder.close()
        self._failed = True

    def _fault(self, error: Exception, what: str) -> None:
        """Log the first fault, count it, and go on in memory."""
        self._failed = True
        for folder in self._open:
            folder.close()
        self._open, self._pending = [], None
        logger.error("dedup: %s: %s", what, error)
        if self._crawler is not None and self._crawler.stats is not None:
            self._crawler.stats.inc_value("dedup/error/requests")


def _opened(folder: Path, memory: str | int, job_folder: Path | None) -> list[DigestFolder]:
    """Open the digests of a crawl, its own first; forget those of earlier crawls as `memory` says."""
    folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    if not isinstance(memory, int):
        own = DigestFolder(folder / memory)
        try:
            if memory == "crawl" and not _resumes(folder, job_folder):
                _begin(own, folder, job_folder)
        except BaseException:
            own.close()
            raise
        return [own]
    now = time.time()
    begun = sorted(
        (int(path.name) for path in folder.iterdir() if path.name.isdecimal()), reverse=True
    )
    for old in (each for each in begun if each < now - memory):
        shutil.rmtree(folder / str(old), ignore_errors=True)
    begun = [each for each in begun if each >= now - memory]
    if not begun or begun[0] < now - memory / AGE_PARTS:
        begun.insert(0, int(now))
    opened: list[DigestFolder] = []
    try:
        for each in begun:
            opened.append(DigestFolder(folder / str(each)))  # noqa: PERF401 - those that are open are closed
    except BaseException:
        for other in opened:
            other.close()
        raise
    return opened


def _begin(own: DigestFolder, folder: Path, job_folder: Path | None) -> None:
    """Forget an earlier crawl; the folder and the JOBDIR get the number of this one."""
    own.clear()
    PendingRequests(own).remove()
    crawl = secrets.token_hex(16).encode()
    if job_folder is not None:
        copy = _copy(job_folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        replace_file(copy, crawl, PRIVATE)
    replace_file(folder / _CRAWL, crawl, PRIVATE)


def _copy(job_folder: Path) -> Path:
    return job_folder / "dedup-requests" / _CRAWL


def _resumes(folder: Path, job_folder: Path | None) -> bool:
    """Whether the folder holds the requests of the crawl that this JOBDIR belongs to."""
    if job_folder is None:
        return False
    try:
        return (folder / _CRAWL).read_bytes() == _copy(job_folder).read_bytes()
    except FileNotFoundError:
        return False


# ------------------------------------------------------------------- what a killed crawl leaves

_RECORD = struct.Struct("<I16s")  # bytes of the pickled request that follows, digest
PART_BYTES = 16 << 20


class PendingRequests:
    """The requests that were scheduled and not fetched, in files beside the digests that tell which they are.

    Appended when a request is scheduled. When a part is full, what of the oldest is still to be fetched is
    appended again, and the oldest removed: the files hold little more than the pending requests.
    """

    def __init__(self, digests: DigestFolder) -> None:
        self._digests = digests
        self._folder = digests.folder
        self._numbers = sorted(int(path.stem[8:]) for path in self._folder.glob("pending-*.log"))
        self._left = list(self._numbers)  # what an earlier process wrote
        self._file: Any = None
        self._size = 0

    def add(self, digest: bytes, request: Request, spider: Spider | None) -> None:
        """Append a request. One that cannot be pickled is left out, as by Scrapy's queue. Raises OSError."""
        try:
            made = pickle.dumps(request.to_dict(spider=spider), protocol=4)
        except Exception:  # a callback that is no method of the spider, say
            return
        self._append(digest, made)

    def _append(self, digest: bytes, made: bytes) -> None:
        if self._file is None or self._size >= PART_BYTES:
            self._begin_part()
        self._file.write(_RECORD.pack(len(made), digest) + made)
        self._size += _RECORD.size + len(made)

    def _begin_part(self) -> None:
        if self._file is not None:
            self._file.close()
        number = self._numbers[-1] + 1 if self._numbers else 1
        self._file = self._path(number).open("wb", buffering=0)
        self._numbers.append(number)
        self._size = 0
        if len(self._numbers) > 2 and not self._left:
            oldest = self._numbers[0]
            for digest, made in self._read(oldest):
                if self._digests.find(digest) == SCHEDULED:
                    self._file.write(_RECORD.pack(len(made), digest) + made)
                    self._size += _RECORD.size + len(made)
            self._path(oldest).unlink()
            self._numbers.pop(0)

    def _path(self, number: int) -> Path:
        return self._folder / f"pending-{number}.log"

    def _read(self, number: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield the records of a part; a record that a kill cut short ends it."""
        with self._path(number).open("rb") as file:
            while len(head := file.read(_RECORD.size)) == _RECORD.size:
                size, digest = _RECORD.unpack(head)
                made = file.read(size)
                if len(made) < size:
                    return
                yield digest, made

    def left(self, spider: Spider) -> Iterator[Request]:
        """Yield the requests that an earlier process scheduled and did not fetch, and keep them here."""
        left, self._left = self._left, []
        for number in left:
            for digest, made in self._read(number):
                if self._digests.find(digest) != SCHEDULED:
                    continue
                with contextlib.suppress(Exception):  # of a spider that changed since
                    request = request_from_dict(
                        cast("dict[str, Any]", pickle.loads(made)),  # noqa: S301 - our own file, 0600
                        spider=spider,
                    )
                    self._append(digest, made)
                    yield request
            self._path(number).unlink()
            self._numbers.remove(number)

    def remove(self) -> None:
        """Remove all files: the crawl ended, and Scrapy has saved its queue."""
        if self._file is not None:
            self._file.close()
            self._file = None
        for number in self._numbers:
            self._path(number).unlink(missing_ok=True)
        self._numbers = []
