"""What a paused crawl goes on with, in its JOBDIR: <JOBDIR>/dedup/NAMESPACE, with a checksum, replaced atomically.

Its number, the links and items it has seen, its patterns, the pages it dropped and the requests that wait. Written every
SAVE_SECONDS or more, in a thread, so that saving takes a hundredth of the time at most. Requests are msgpack of
request.to_dict(); one that cannot be written, as Scrapy's own queue would leave it out, is counted. A damaged file is
named, and begun again.
"""

import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

import msgspec
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.utils.request import request_from_dict

from dedup.core.files import PRIVATE, PRIVATE_FOLDER, replace_file
from dedup.scrapy.evidence.link_budget import Budget, LinkBudget
from dedup.scrapy.evidence.patterns import Outcomes, Pattern, Patterns
from dedup.scrapy.evidence.seen import SeenInCrawl
from dedup.scrapy.guard import Counts, guarded, logger
from dedup.scrapy.page.request import MARK

SAVE_SECONDS = 10.0  # least time between two writes
SHARE = 100  # how many times as long as a write the next one waits
_CHECKSUM = 16
_PLAIN = {type(None), bool, int, float, str, bytes}

T = TypeVar("T")
N = TypeVar("N")


class Paused(msgspec.Struct):
    """The content of <JOBDIR>/dedup/NAME. Requests are msgpack.

    crawl  the number of the crawl that the store belongs to; b"": none, or the job has finished
    begun  when its first run began, Unix time
    """

    crawl: bytes = b""
    begun: float = 0.0
    links: dict[str, bytes] = {}
    items: bytes = b""
    patterns: list[tuple[Pattern, Outcomes]] = []
    dropped: list[tuple[Pattern, bytes]] = []
    waiting: list[tuple[Budget, bytes]] = []
    version: int = 3


class Evidence:
    """What a crawl has learned in a namespace, and a job goes on with."""

    def __init__(
        self,
        name: str,
        seen: SeenInCrawl,
        patterns: Patterns[Request],
        budget: LinkBudget[Request],
    ) -> None:
        """Begin with what an earlier run has found."""
        self.name, self.seen, self.patterns, self.budget = name, seen, patterns, budget


def write(path: Path, content: msgspec.Struct) -> None:
    """Replace a file. Raises OSError."""
    path.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    data = msgspec.msgpack.encode(content)
    replace_file(path, blake2b(data, digest_size=_CHECKSUM).digest() + data, PRIVATE)


def read(path: Path, form: type[T]) -> T | None:
    """Return the content of a file; None if there is none, or it is damaged, which is logged."""
    try:
        content = path.read_bytes()
        data = content[_CHECKSUM:]
        if blake2b(data, digest_size=_CHECKSUM).digest() != content[:_CHECKSUM]:
            raise ValueError("checksum mismatch")
        return msgspec.msgpack.decode(data, type=form)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        logger.warning("[dedup] %s cannot be used and is begun again: %s", path, error)
        return None


class Job:
    """The job of a crawl: its JOBDIR, or none."""

    def __init__(self, folder: str | None) -> None:
        """Read nothing yet."""
        self.folder = None if folder is None else Path(folder).absolute() / "dedup"
        self.paused: dict[str, Paused] = {}

    def of(self, name: str) -> Paused:
        """Return what the job had found in a namespace when it was paused."""
        if name not in self.paused:
            found = None if self.folder is None else read(self.folder / name, Paused)
            self.paused[name] = found or Paused(begun=time.time())
        return self.paused[name]

    def begin(self, name: str, crawl: bytes) -> None:
        """Note the number of a crawl that begins. Raises OSError."""
        self.paused[name] = Paused(crawl, time.time())
        if self.folder is not None:
            write(self.folder / name, self.paused[name])

    @property
    def resumes(self) -> bool:
        """Whether an earlier run of this job has judged a page."""
        return self.folder is not None and self.folder.exists()


def is_paused(job_folder: Path, name: str, crawl: bytes) -> bool:
    """Whether the job with this folder may be resumed with the store of this crawl."""
    found = read(job_folder / name, Paused)
    return found is not None and found.crawl == crawl


def is_crawl(crawler: Crawler) -> bool:
    """Whether a crawler crawls, and does not serve one of Scrapy's commands: parse, fetch, check, bench or shell.

    They put a start() of their own into the spider's class; the shell drives the engine without Crawler.crawl().
    """
    own = getattr(type(crawler.spider), "start", None)
    return crawler.crawling and not getattr(own, "__module__", "").startswith("scrapy.commands.")


class Saving:
    """Writes the files of one crawl, one after the other."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None
        self._next = time.monotonic() + SAVE_SECONDS

    def resumed(self, name: str, job: Job, risk: float) -> Evidence:
        """Return what earlier runs of a job found in a namespace."""
        paused, spider = job.of(name), self._counts.crawler.spider
        patterns: Patterns[Request] = Patterns(risk)
        budget: LinkBudget[Request] = LinkBudget()
        dropped = ((of, request_of(content, spider)) for of, content in paused.dropped)
        waiting = ((of, request_of(content, spider)) for of, content in paused.waiting)
        patterns.resume(paused.patterns, ((of, each) for of, each in dropped if each is not None))
        budget.resume((of, each) for of, each in waiting if each is not None)
        return Evidence(name, SeenInCrawl(paused.links, paused.items), patterns, budget)

    def soon(self, spaces: Iterable[Evidence], job: Job) -> None:
        """Write what has changed to the job's folder, in a thread, if the last time is long enough ago."""
        begun = time.monotonic()
        if begun < self._next or (self._under_way and not self._under_way.done()):
            return
        writes = [self._paused(space, job) for space in spaces]
        self._next = begun + max(SAVE_SECONDS, SHARE * (time.monotonic() - begun))
        self._thread = self._thread or ThreadPoolExecutor(1, "dedup-saving")
        self._under_way = self._thread.submit(self._write, writes)

    def close(self, spaces: Iterable[Evidence], job: Job, *, finished: bool) -> None:
        """Write everything; a job that has finished is not resumed."""
        if self._thread is not None:
            self._thread.shutdown()
        for space in spaces if job.folder is not None else ():
            with guarded(self._counts, "what this crawl has learned is forgotten"):
                if finished:
                    job.of(space.name).crawl = b""
                self._write([self._paused(space, job)])

    def _write(self, writes: list[tuple[Path, Paused]]) -> None:
        for path, content in writes:
            try:
                write(path, content)
            except OSError as error:
                self._counts.fault(error, "what this crawl has learned is forgotten after it")

    def _paused(self, space: Evidence, job: Job) -> tuple[Path, Paused]:
        assert job.folder is not None
        known, (links, items) = job.of(space.name), space.seen.to_bytes()
        patterns = [(name, msgspec.structs.replace(e)) for name, e in space.patterns.known.items()]
        dropped, waiting = self._packed(space.patterns.held()), self._packed(space.budget.held())
        paused = Paused(known.crawl, known.begun, links, items, patterns, dropped, waiting)
        return job.folder / space.name, paused

    def _packed(self, held: Iterable[tuple[N, Request]]) -> list[tuple[N, bytes]]:
        found = []
        for of, request in held:
            try:
                found.append((of, packed(request, self._counts.crawler.spider)))
            except (ValueError, OverflowError):  # Scrapy's own queue leaves such requests out, too
                self._counts["requests/not_saved"] += 1
            except Exception as error:  # noqa: BLE001 - counted; the others are written
                self._counts.fault(error, f"the next run of this job does not know {request}")
        return found


def packed(request: Request, spider: Spider | None) -> bytes:
    """Return a request as msgpack. Raises ValueError or OverflowError for one that cannot be made again."""
    found = request.to_dict(spider=spider)
    found["meta"] = {k: v for k, v in found["meta"].items() if k not in {MARK, "dedup"}}
    if not _is_plain(found):
        raise ValueError("it holds an object that msgpack cannot restore")
    return msgspec.msgpack.encode(found)


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(type(k) in _PLAIN and _is_plain(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


def request_of(content: bytes, spider: Spider | None) -> Request | None:
    """Return the request that packed() wrote; None for one that cannot be made, of a spider that changed, say."""
    try:
        return request_from_dict(msgspec.msgpack.decode(content), spider=spider)
    except Exception:  # noqa: BLE001 - whatever the request's class raises
        return None
