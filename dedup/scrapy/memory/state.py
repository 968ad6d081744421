"""What the add-on keeps between runs: two files for each namespace, each with a checksum, replaced atomically.

    <store>/learned      what the items have shown: classes, volatile fields, URL rules; as long as the store lives
    <JOBDIR>/dedup/NAME  what a paused crawl goes on with: its number, the links and items it has met, the pages it dropped
                         and the requests that wait

Both are written every SAVE_SECONDS or more, in a thread, so that saving takes a hundredth of the time at most. Requests are
msgpack of request.to_dict(); one that cannot be written, as Scrapy's own queue would leave it out, is counted. A
damaged file is named, and begun again: what was learned is learned once more.
"""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.utils.request import request_from_dict

from dedup.core.files import PRIVATE, PRIVATE_FOLDER, replace_file
from dedup.scrapy.evidence.ledger import Account, Class, Record
from dedup.scrapy.evidence.met import Met
from dedup.scrapy.evidence.visits import Visits, Volatile
from dedup.scrapy.guard import Counts, logger
from dedup.scrapy.page.request import MARK, mark

if TYPE_CHECKING:
    from dedup.scrapy.page.session import Space

LEARNED = "learned"
SAVE_SECONDS = 10.0  # least time between two writes
SHARE = 100  # how many times as long as a write the next one waits
_CHECKSUM = 16
_PLAIN = {type(None), bool, int, float, str, bytes}

T = TypeVar("T")


class Learned(msgspec.Struct):
    """The content of <store>/learned. volatile: by callback."""

    classes: list[tuple[Class, Record]] = []
    volatile: dict[str, Volatile] = {}
    urls: bytes = b""
    version: int = 1


class Paused(msgspec.Struct):
    """The content of <JOBDIR>/dedup/NAME. Requests are msgpack.

    crawl  the number of the crawl that the store belongs to; b"": none, or the job has finished
    begun  when its first run began, Unix time
    """

    crawl: bytes = b""
    begun: float = 0.0
    links: bytes = b""
    items: bytes = b""
    dropped: list[tuple[Class, bytes]] = []
    waiting: list[tuple[Account, bytes]] = []
    version: int = 1


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
        self._under_way: Future[float] | None = None
        self._next = time.monotonic() + SAVE_SECONDS

    def open(self, space: "Space", visits: Visits, job: Job) -> float:
        """Give a namespace what earlier crawls and runs found; return when this crawl began, as Unix time."""
        folder, paused = space.memory.folder, job.of(space.name)
        learned = None if folder is None else read(folder / LEARNED, Learned)
        learned = learned or Learned()
        for callback, found in learned.volatile.items():
            found.visits = []  # of this crawl
            visits.callbacks.setdefault(callback, found)
        space.met = Met(paused.links, paused.items)
        dropped, waiting = self._made(paused.dropped), self._made(paused.waiting)
        space.ledger.take(dict(learned.classes), dropped, waiting)
        space.urls.take(learned.urls)
        return paused.begun

    def _made(self, held: list[tuple[T, bytes]]) -> Iterator[tuple[T, Request]]:
        for of, content in held:
            request = request_of(content, self._counts.crawler.spider)
            if request is not None:
                if isinstance(of, Account):
                    mark(request, lead=(of,))
                yield of, request

    def soon(self, spaces: Iterable["Space"], visits: Visits, job: Job) -> None:
        """Write what has changed, in a thread, if the last time is long enough ago."""
        if time.monotonic() < self._next or (self._under_way and not self._under_way.done()):
            return
        begun = time.monotonic()
        writes = [each for space in spaces for each in self._writes(space, visits, job)]
        spent = time.monotonic() - begun
        self._next = time.monotonic() + max(SAVE_SECONDS, SHARE * spent)
        if writes:
            self._thread = self._thread or ThreadPoolExecutor(1, "dedup-saving")
            self._under_way = self._thread.submit(self._write, writes)

    def close(self, spaces: Iterable["Space"], visits: Visits, job: Job, *, finished: bool) -> None:
        """Write everything; a job that has finished is not resumed."""
        if self._thread is not None:
            self._thread.shutdown()
        for space in spaces:
            with self._counts.guard("what this crawl has learned is forgotten"):
                space.ledger.changed = True
                if finished:
                    job.of(space.name).crawl = b""
                self._write([*self._writes(space, visits, job)])

    def _write(self, writes: list[tuple[Path, msgspec.Struct]]) -> float:
        for path, content in writes:
            try:
                write(path, content)
            except OSError as error:
                self._counts.fault(error, "what this crawl has learned is forgotten after it")
        return time.monotonic()

    def _writes(
        self, space: "Space", visits: Visits, job: Job
    ) -> Iterator[tuple[Path, msgspec.Struct]]:
        if not space.ledger.changed:
            return
        space.ledger.changed = False
        ledger, folder = space.ledger, space.memory.folder
        if folder is not None:
            volatile = {name: msgspec.structs.replace(v) for name, v in visits.callbacks.items()}
            records = [(name, msgspec.structs.replace(r)) for name, r in ledger.classes.items()]
            yield folder / LEARNED, Learned(records, volatile, space.urls.to_bytes())
        if job.folder is not None:
            paused = job.of(space.name)
            links, items = space.met.to_bytes()
            yield (
                job.folder / space.name,
                Paused(
                    paused.crawl,
                    paused.begun,
                    links,
                    items,
                    [*self._packed(ledger.remembered())],
                    [*self._packed(ledger.waiting())],
                ),
            )

    def _packed(self, requests: Iterable[tuple[T, Request]]) -> Iterator[tuple[T, bytes]]:
        spider = self._counts.crawler.spider
        for of, request in requests:
            try:
                yield of, packed(request, spider)
            except Exception:  # noqa: BLE001 - as Scrapy's own queue leaves such requests out
                self._counts.add("requests/not_saved")


def packed(request: Request, spider: Spider | None) -> bytes:
    """Return a request as msgpack. Raises an exception for one that cannot be made again."""
    found = request.to_dict(spider=spider)
    found["meta"] = {k: v for k, v in found["meta"].items() if k not in {MARK, "dedup"}}
    if not _is_plain(found):
        raise TypeError("it holds an object that msgpack would turn into something else")
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
