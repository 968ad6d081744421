"""The requests that the crawls of a namespace have made: one filter for all of their spiders.

    JOIN -> SEEN (scheduled, its request kept) -> FETCHED (nothing needs it any more) -> LEAVE
                    a crawl that falls silent -> LEFT: its requests, to another one

A request is known by a digest that its spider makes. Digests are in files (dedup/core/digests.py), in
<namespace>/requests/shared; what makes a request again is appended to files of its crawl (pending_records.py), until
it was fetched. All of it survives a killed process; a power cut may take the newest.

Invariants: a digest that is answered as seen was fetched, or its request is kept here for a crawl that is there, or
for the next one that asks. What is kept has bounds; beyond them SEEN is refused, and the spider makes its requests.
With Kafka nothing of this is in the log: each service has its own.
"""

import contextlib
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dedup.core.digests import DigestSets
from dedup.core.files import PRIVATE, PRIVATE_FOLDER, FolderLock, replace_file
from dedup.core.pending_records import PendingRecords, Record
from dedup.model.errors import UsageError
from dedup.model.names import check_namespace
from dedup.model.policy import age_seconds
from dedup.service.core.limits import Limits
from dedup.service.core.roles import Refused

SCHEDULED, FETCHED, FREE = 1, 2, 3  # marks of a digest; FREE: never fetched, and may be made again
DEAD_SECONDS = 20.0  # without a word from a crawl, after which its requests are given to others
CRAWLS = 1024  # of a namespace
BATCH = 2000  # digests of one command
REQUEST_BYTES = 1 << 16  # of one request that is kept
LEFT_MOST, LEFT_BYTES, LEFT_READ = (
    200,
    1 << 19,
    5000,
)  # requests of one answer, and records read for it
MEASURED = 1000  # new digests between two looks at the size of the files

_CRAWL = re.compile(r"[0-9a-f]{32}")
_DIGEST = re.compile(rb"[0-9a-f]{32}")


class _Crawl:
    """A crawl, and its requests that were not fetched yet.

    heard  when it spoke last
    idle   since when it has nothing to do, or None
    """

    def __init__(self, folder: Path, is_pending: Callable[[bytes], bool], heard: float) -> None:
        self.folder = folder
        self.pending = PendingRecords(folder, is_pending)
        self.heard = heard
        self.idle: float | None = None
        self.ended = False
        self.freeing = False  # leave() is under way


def is_dead(crawl: _Crawl, now: float) -> bool:
    """Whether a crawl has ended, or fell silent so long ago that others may have its requests."""
    return crawl.ended or now - crawl.heard >= DEAD_SECONDS


class _Shared:
    """The open filter of one namespace."""

    def __init__(self, folder: Path, now: float) -> None:
        """Open it. Raises StoreLocked, StoreDamaged and OSError."""
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        self.folder = folder
        self._lock = FolderLock(folder / "lock")
        try:
            self.memory = self._read_memory()
            self.sets = DigestSets.by_age(folder / "seen", self._keep_seconds)
        except BaseException:
            self._lock.close()
            raise
        self.crawls: dict[str, _Crawl] = {}
        self.made = 0  # new digests since the size of the files was looked at
        for path in (folder / "crawls").glob("*"):
            if _CRAWL.fullmatch(path.name):
                self.crawls[path.name] = _Crawl(path, self.is_pending, now)

    @property
    def _keep_seconds(self) -> int | None:
        return None if self.memory in {"crawl", "ever"} else age_seconds(self.memory)

    def _read_memory(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "memory").read_text()
        return "crawl"

    def remember(self, memory: str) -> None:
        """Remember for as long as the most patient crawl asks."""
        if _patience(memory) > _patience(self.memory):
            replace_file(self.folder / "memory", memory.encode(), PRIVATE)
            self.memory = memory

    def is_pending(self, digest: bytes) -> bool:
        """Whether a request was scheduled and not fetched."""
        return self.sets.find(digest) == SCHEDULED

    def roll(self) -> None:
        """Forget what is too old, and begin a new set where one is due."""
        if self._keep_seconds is not None:
            self.sets.close()
            self.sets = DigestSets.by_age(self.folder / "seen", self._keep_seconds)

    def begin_again(self) -> None:
        """Forget everything: a new crawl begins."""
        for crawl in self.crawls.values():
            crawl.pending.close()
        self.crawls.clear()
        shutil.rmtree(self.folder / "crawls", ignore_errors=True)
        self.sets.clear()

    def crawl(self, name: str, now: float) -> _Crawl:
        """Return a crawl that speaks now. Raises Refused (LIMIT) and OSError."""
        crawl = self.crawls.get(name)
        if crawl is None:
            if len(self.crawls) >= CRAWLS:
                self._forget_dead(now)
            if len(self.crawls) >= CRAWLS:
                raise Refused("LIMIT", f"a namespace has up to {CRAWLS} crawls at a time")
            folder = self.folder / "crawls" / name
            folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            crawl = self.crawls[name] = _Crawl(folder, self.is_pending, now)
        crawl.heard, crawl.ended = now, False
        return crawl

    def _forget_dead(self, now: float) -> None:
        """Forget crawls that are dead, and have left nothing."""
        for name, crawl in list(self.crawls.items()):
            if is_dead(crawl, now) and not crawl.pending:
                self.remove(name)

    def remove(self, name: str) -> None:
        """Forget a crawl."""
        crawl = self.crawls.pop(name)
        crawl.pending.close()
        shutil.rmtree(crawl.folder, ignore_errors=True)

    def close(self) -> None:
        """Close all files."""
        for crawl in self.crawls.values():
            crawl.pending.close()
        self.sets.close()
        self._lock.close()


class RequestsSeen:
    """The filters of a service, one a namespace. For the event loop's thread."""

    def __init__(
        self, path: Path, limits: Limits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Open nothing yet: a filter is opened by the first command for it."""
        self._path = path
        self._limits = limits
        self._clock = clock
        self._open: dict[str, _Shared] = {}
        self._bytes: dict[str, int] = {}  # of the files, by namespace

    def join(self, namespace: str, crawl: str, memory: str) -> None:
        """Begin, or resume, a crawl; the first one with memory "crawl" begins with nothing.

        Raises Refused, UsageError, and what opening the files raises.
        """
        if memory not in {"crawl", "ever"} and age_seconds(memory) is None:
            raise UsageError(
                f"memory {memory[:40]!r} is not allowed: crawl, ever, or an age as 30d"
            )
        shared, now = self._shared(namespace, crawl), self._clock()
        alive = any(not is_dead(each, now) for each in shared.crawls.values())
        if not alive and crawl not in shared.crawls:
            if memory == shared.memory == "crawl":
                shared.begin_again()
            else:
                shared.roll()
        shared.remember(memory)
        shared.crawl(crawl, now)

    def seen(self, namespace: str, crawl: str, pairs: Sequence[bytes]) -> list[int]:
        """Note requests, each a digest and what makes it again; return 1 for those that were made before.

        Raises Refused (LIMIT), UsageError and OSError; then some may be noted.
        """
        if len(pairs) % 2 or len(pairs) > 2 * BATCH:
            raise UsageError(f"digest request ..., up to {BATCH} of them")
        digests = [_digest(each) for each in pairs[::2]]
        if any(len(each) > REQUEST_BYTES for each in pairs[1::2]):
            raise Refused("LIMIT", f"a request has up to {REQUEST_BYTES:,} bytes: leave it empty")
        shared = self._shared(namespace, crawl)
        mine = shared.crawl(crawl, self._clock())
        new: dict[bytes, bytes] = {}
        answers = []
        for digest, request in zip(digests, pairs[1::2], strict=True):
            is_new = digest not in new and shared.sets.find(digest) in {0, FREE}
            answers.append(int(not is_new))
            if is_new:
                new[digest] = request
        if digests:
            mine.idle = None
        if new:
            self._check_memory(namespace, shared, len(new))
            # the records first: a kill between the two leaves requests that are made once more
            mine.pending.add(new.items())
            for digest in new:
                shared.sets.put(digest, SCHEDULED)
        return answers

    def fetched(self, namespace: str, crawl: str, digests: Sequence[bytes]) -> int:
        """Note that requests were fetched and are done with; return how many were scheduled."""
        if len(digests) > BATCH:
            raise UsageError(f"up to {BATCH} digests")
        names = [_digest(each) for each in digests]
        shared = self._shared(namespace, crawl)
        mine, count = shared.crawl(crawl, self._clock()), 0
        for name in names:
            if shared.is_pending(name):
                shared.sets.put(name, FETCHED)
                count += 1
        mine.pending.done(count)
        return count

    def left(self, namespace: str, crawl: str, *, own: str = "") -> tuple[list[Record], int]:
        """Give a crawl requests that a dead one left; own: "first", then "next": those of its own.

        Returns them, and how many crawls have left more, or may: they were not heard since this one is idle. 0: there
        is nothing to wait for.
        """
        shared, now = self._shared(namespace, crawl), self._clock()
        mine = shared.crawl(crawl, now)
        if mine.idle is None:
            mine.idle = now
        if own:
            if own == "first":
                mine.pending.look_again()
            found, more = self._taken(shared, mine, mine)
            return found, int(more)
        waiting = 0
        for name, other in list(shared.crawls.items()):
            if other is mine or not other.pending:
                continue
            if not is_dead(other, now):
                waiting += other.heard <= mine.idle
                continue
            found, more = self._taken(shared, other, mine)
            if not more:
                other.pending.close()
                if other.ended:
                    shared.remove(name)
            if found or more:
                mine.idle = None if found else mine.idle
                return found, waiting + 1
        return [], waiting

    def leave(self, namespace: str, crawl: str, *, finished: bool) -> bool:
        """End a crawl; return whether it is to be called again, as there is more to do.

        Finished: the crawl has tried all of its requests, and a later one may try again those that failed. Else
        others may have those that are left.
        """
        shared = self._shared(namespace, crawl)
        if crawl not in shared.crawls:
            return False
        mine = shared.crawl(crawl, self._clock())
        if finished:
            if not mine.freeing:
                mine.freeing = True
                mine.pending.look_again()
            records, more = mine.pending.left(LEFT_READ, LEFT_BYTES, LEFT_READ)
            for name, _ in records:
                shared.sets.put(name, FREE)
            if more:
                return True
        mine.ended = True
        mine.pending.close()
        if not mine.pending:
            shared.remove(crawl)
        return False

    def drop(self, namespace: str) -> Path | None:
        """Close a namespace's filter; return its folder, which the caller removes, None without one."""
        check_namespace(namespace)
        shared = self._open.pop(namespace, None)
        self._bytes.pop(namespace, None)
        if shared is not None:
            shared.close()
        folder = self._path / namespace / "requests" / "shared"
        return folder if folder.exists() else None

    def info(self, namespace: str) -> dict[str, int]:
        """Return what is known of a namespace since the start; nothing of one that no crawl joined."""
        shared = self._open.get(namespace)
        if shared is None:
            return {}
        return {
            "requests": len(shared.sets),
            "requests_file_bytes": shared.sets.file_bytes,
            "crawls": len(shared.crawls),
        }

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._open.popitem()[1].close()

    def _shared(self, namespace: str, crawl: str) -> _Shared:
        if not _CRAWL.fullmatch(crawl):
            raise UsageError("a crawl is 32 lower-case hex digits that its spider chose")
        shared = self._open.get(namespace)
        if shared is None:
            check_namespace(namespace)
            if len(self._open) >= self._limits.namespaces:
                raise Refused("LIMIT", f"{len(self._open)} namespaces have a filter of requests")
            folder = self._path / namespace / "requests" / "shared"
            shared = self._open[namespace] = _Shared(folder, self._clock())
            self._bytes[namespace] = shared.sets.file_bytes
        return shared

    def _check_memory(self, namespace: str, shared: _Shared, count: int) -> None:
        """Raise Refused (LIMIT) once the files of all namespaces take what --memory allows."""
        shared.made += count
        if shared.made >= MEASURED:
            shared.made = 0
            self._bytes[namespace] = shared.sets.file_bytes
        if sum(self._bytes.values()) > self._limits.memory_bytes:
            raise Refused(
                "LIMIT",
                "the requests that were seen take all of --memory: raise it, or drop a namespace",
            )

    @staticmethod
    def _taken(shared: _Shared, source: _Crawl, to: _Crawl) -> tuple[list[Record], bool]:
        """Move some pending records to a crawl; those without a request are free again."""
        if source is not to and not source.pending.drains:
            source.pending.look_again()
        records, more = source.pending.left(LEFT_MOST, LEFT_BYTES, LEFT_READ)
        kept = [record for record in records if record[1]]
        if kept:
            to.pending.add(kept)
        for name, request in records:
            if not request:
                shared.sets.put(name, FREE)
        return kept, more


def _digest(text: bytes) -> bytes:
    if not _DIGEST.fullmatch(text):
        raise UsageError("a request's digest is 32 lower-case hex digits")
    return bytes.fromhex(text.decode())


def _patience(memory: str) -> float:
    if memory == "crawl":
        return 0.0
    return float("inf") if memory == "ever" else float(age_seconds(memory) or 0)
