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
import weakref
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from typing import Any, Self, cast

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.utils.deprecate import method_is_overridden
from scrapy.utils.job import job_dir
from scrapy.utils.request import request_from_dict

from dedup.core.digests import DigestFolder, DigestSets
from dedup.core.files import PRIVATE, PRIVATE_FOLDER, replace_file
from dedup.core.pending_records import PendingRecords
from dedup.model.names import namespace_of
from dedup.scrapy.exceptions import near_duplicate_dropped
from dedup.scrapy.guard import logger
from dedup.scrapy.settings import Config

SCHEDULED, FETCHED = 1, 2  # marks of a digest
FREE = 3  # it was scheduled and never fetched, and may be made again
LONGEST_NAME = 255  # bytes of a request fingerprint
FALLBACK = 1_000_000  # digests kept in memory after a fault; more requests than that all pass
LEFT_AT_ONCE, LEFT_BYTES = 1000, 1 << 20  # requests of a killed crawl that are read at once
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
        self._sets: DigestSets | None = None
        self._pending: PendingRecords | None = None
        self._received: dict[Request, list[bytes]] = {}  # with their names; still in progress
        self._failed = folder is None
        # Of a subclass, in the old way, which Scrapy heeds, too.
        self._has_own_names = method_is_overridden(type(self), RFPDupeFilter, "request_fingerprint")
        self._in_memory: set[bytes] = set()  # the names, where there are no files

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
        if made._keeps_pending:
            connect = crawler.signals.connect
            connect(made.response_received, signal=signals.response_received)
            connect(made.response_received, signal=near_duplicate_dropped)
            connect(made.spider_opened, signal=signals.spider_opened)
        return made

    @property
    def _keeps_pending(self) -> bool:
        """Whether requests that were not fetched are kept for a later process."""
        return self._job_folder is not None or self._memory != "crawl"

    def open(self) -> None:
        """Open the folder; a folder that cannot be opened is logged, and requests are kept in memory."""
        if self._sets is not None or self._failed:
            return
        assert self._folder is not None
        try:
            self._sets = _opened(self._folder, self._memory, self._job_folder)
            if self._keeps_pending:
                self._pending = _pending(self._folder, self._sets)
        except Exception as error:
            self._fault(error, "requests are filtered in memory only")

    def request_seen(self, request: Request) -> bool:
        """Return whether a request like this one was made before; from now on it was."""
        name = self.name_of(request)
        if not self._failed:
            try:
                return self._was_seen(name, request)
            except Exception as error:
                self._fault(error, "from now on requests are filtered in memory only")
        if name in self._in_memory:
            return True
        if len(self._in_memory) < FALLBACK:
            self._in_memory.add(name)
        return False

    def name_of(self, request: Request) -> bytes:
        """Return the request fingerprint; a digest of one that is unusually long."""
        if self._has_own_names:
            name = self.request_fingerprint(request).encode()
        else:
            name = self.fingerprinter.fingerprint(request)
        return name if len(name) <= LONGEST_NAME else sha256(name).digest()

    def _was_seen(self, name: bytes, request: Request) -> bool:
        if self._sets is None:
            self.open()
            if self._sets is None:
                raise OSError("the folder of requests is closed")
        sets = self._sets
        if self._pending is None:
            own = sets.folders[0]
            return own.put(own.digest(name), SCHEDULED) == SCHEDULED
        if sets.find(name) not in {0, FREE}:
            return True
        # the record first: a kill between the two leaves a request that passes once more
        self._pending.add(((name, self._pickled(request)),))
        sets.put(name, SCHEDULED)
        return False

    def _pickled(self, request: Request) -> bytes:
        """Return what makes a request again; nothing for one that Scrapy's queue would not keep either."""
        try:
            spider = None if self._crawler is None else self._crawler.spider
            return pickle.dumps(request.to_dict(spider=spider), protocol=4)
        except Exception:  # a callback that is no method of the spider, say
            return b""

    def response_received(self, response: Response, request: Request) -> None:
        """Note that a page came (Scrapy's signal); those that were redirected to it are fetched with it."""
        if self._pending is None:
            return
        with contextlib.suppress(Exception):
            self._note_progress()
            before = (request.replace(url=url) for url in request.meta.get("redirect_urls", ()))
            names = [self.name_of(each) for each in (request, *before)]
            if request in self._in_progress():
                self._received[request] = names
            else:  # not by way of the engine's queue: Scrapy holds the response as long as it is needed
                weakref.finalize(response, self._fetched, names).atexit = False

    def _note_progress(self) -> None:
        """Mark requests as fetched whose callback has ended, and whose items are through the pipelines."""
        in_progress = self._in_progress()
        for request in [each for each in self._received if each not in in_progress]:
            self._fetched(self._received.pop(request))

    def _in_progress(self) -> Collection[Request]:
        """Return the requests that Scrapy's engine works on; none without an engine."""
        slot = None  # Scrapy has no public name for what the engine has under way
        with contextlib.suppress(RuntimeError):  # there is no engine yet
            engine = None if self._crawler is None else self._crawler.engine
            slot = getattr(engine, "_slot", None) or getattr(engine, "slot", None)
        found: Collection[Request] = getattr(slot, "inprogress", ())
        return found

    def _fetched(self, names: list[bytes]) -> None:
        if self._sets is not None and self._pending is not None:
            for name in names:
                if self._sets.find(name) == SCHEDULED:
                    self._sets.put(name, FETCHED)
                    self._pending.done()

    def spider_opened(self, spider: Spider) -> None:
        """Make the requests again that an earlier process left (Scrapy's signal)."""
        pending, crawler = self._pending, self._crawler
        if pending is None or self._sets is None or crawler is None or crawler.engine is None:
            return
        made, more = 0, True
        try:
            while more:
                records, more = pending.left(LEFT_AT_ONCE, LEFT_BYTES, 10 * LEFT_AT_ONCE)
                for name, content in records:
                    request = _unpickled(content, spider)
                    if request is None:  # it passes when a page leads to it again
                        self._sets.put(name, FREE)
                        continue
                    pending.add(((name, content),))
                    crawler.engine.crawl(request.replace(dont_filter=True))
                    made += 1
        except Exception as error:
            self._fault(error, "requests of an earlier process may be missing")
        if made:
            logger.info("[dedup] %d requests that were never fetched are made again", made)
            if crawler.stats is not None:
                crawler.stats.inc_value("dedup/requests/resumed", made)

    def close(self, reason: str = "") -> None:
        """Close the folder. Scrapy has saved the requests of its queue before."""
        self._note_progress()
        if self._pending is not None:
            with contextlib.suppress(OSError):
                self._end_pending(self._pending, reason)
            self._pending.close()
            self._pending = None
        if self._sets is not None:
            self._sets.close()
            self._sets = None
        self._failed = True

    def _end_pending(self, pending: PendingRecords, reason: str) -> None:
        """Forget what needs no keeping: a crawl that has finished has tried all, Scrapy's queue has the rest."""
        if reason == "finished" and self._sets is not None and self._memory != "crawl":
            pending.look_again()
            more = True
            while more:
                records, more = pending.left(LEFT_AT_ONCE, LEFT_BYTES, 10 * LEFT_AT_ONCE)
                for name, _ in records:  # failed; a later crawl may try again
                    self._sets.put(name, FREE)
        if reason == "finished" or self._job_folder is not None:
            pending.discard()

    def _fault(self, error: Exception, what: str) -> None:
        """Log the first fault, count it, and go on in memory. What is pending stays for a later process."""
        self._failed = True
        if self._pending is not None:
            self._pending.close()
        if self._sets is not None:
            self._sets.close()
        self._sets = self._pending = None
        logger.error("[dedup] %s: %s", what, error)
        if self._crawler is not None and self._crawler.stats is not None:
            self._crawler.stats.inc_value("dedup/error/requests")


def _opened(folder: Path, memory: str | int, job_folder: Path | None) -> DigestSets:
    """Open the digests of a crawl, its own first; forget those of earlier crawls as `memory` says."""
    folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    if isinstance(memory, int):
        return DigestSets.by_age(folder, memory)
    own = DigestSets([DigestFolder(folder / memory)])
    try:
        if memory == "crawl" and not _resumes(folder, job_folder):
            _begin(own, folder, job_folder)
    except BaseException:
        own.close()
        raise
    return own


def _pending(folder: Path, sets: DigestSets) -> PendingRecords:
    return PendingRecords(folder / "pending", lambda name: sets.find(name) == SCHEDULED)


def _unpickled(content: bytes, spider: Spider) -> Request | None:
    """Return a request that was kept; None for one that cannot be made, of a spider that changed, say."""
    with contextlib.suppress(Exception):
        if content:
            return request_from_dict(
                cast("dict[str, Any]", pickle.loads(content)),  # noqa: S301 - our own file, 0600
                spider=spider,
            )
    return None


def _begin(own: DigestSets, folder: Path, job_folder: Path | None) -> None:
    """Forget an earlier crawl; the folder and the JOBDIR get the number of this one."""
    own.clear()
    _pending(folder, own).discard()
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
