"""The filter that spiders share through a table service (DEDUP_SERVICE): DEDUP.JOIN, SEEN, FETCHED, LEFT, LEAVE.

    Scheduler.enqueue_request -> ask -> (all of a turn of the loop) -> SEEN -> answered: new, and queued, or made before
    fetched -> FETCHED                                                   idle -> LEFT: what a dead crawl left

Scrapy asks its filter about one request at a time, and waits. The Scheduler (SCHEDULER = "dedup.scrapy.Scheduler") accepts
a request at once and holds it until the service has answered; one with `dont_filter` is not held. With a filter that asks
no service it is Scrapy's own. With each new request goes what makes it again, so that another spider can, should this
crawl die. Once this spider is idle it takes what dead crawls left; it waits for a crawl that fell silent until that
speaks, or is dead.

Invariants: a fault never keeps a request: it passes, and is counted (`dedup/error/requests`). A request that was accepted
is in a queue in the end, unless it was made before; a spider is not idle, and does not end, while requests are held. A
page is noted as fetched only after the requests that its callback made are known to the service: while some are not,
nothing is noted.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Coroutine
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from scrapy import Request, Spider, signals
from scrapy.core.scheduler import Scheduler as ScrapyScheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.request import request_from_dict
from twisted.internet.defer import Deferred

from dedup.core.faults import Backoff
from dedup.core.files import PRIVATE, PRIVATE_FOLDER, replace_file
from dedup.model.errors import ServiceUnavailable
from dedup.scrapy.counts import logger
from dedup.scrapy.service_memory import find_service
from dedup.scrapy.settings import Config
from dedup.wire.client.command_codec import Request as Command
from dedup.wire.client.command_codec import unreadable
from dedup.wire.client.services import Services, addresses_of

if TYPE_CHECKING:
    from dedup.scrapy.request_filter import RequestFilter

BATCH = 500  # requests of one command
BATCH_BYTES = 1 << 19
REQUEST_BYTES = 1 << 16  # a longer request is not kept by the service
KNOWN = 100_000  # digests that are answered here: most links of a page were on the page before
KNOWN_WITHOUT = 1_000_000  # while no service answers
UNSAID = 20_000  # requests that the service is still to be told of; beyond, nothing is noted as fetched any more
HEARTBEAT_SECONDS = 4.0
LOOK_AGAIN_SECONDS = 2.0
TURNS = 100  # with which all is told
FAULTS = 3  # after which no more is asked for what is left
CLOSE_SECONDS = 5.0
HOME = "requests"  # stands for a document key: all spiders ask the same service of several

Answered = Callable[[Request, bool], None]


class _Asked(NamedTuple):
    digest: bytes  # in hex, as it goes over the wire
    content: bytes
    request: Request | None  # None: it has passed already


class SharedRequests:
    """The filter of one crawl, at a service. Used in the crawl's loop.

    answered  called with a request and whether it was made before, once that is known
    """

    def __init__(
        self,
        owner: "RequestFilter",
        config: Config,
        namespace: str,
        crawler: Crawler,
        job_folder: Path | None,
    ) -> None:
        """Connect to nothing yet."""
        self.answered: Answered = lambda _request, _seen: None
        self._owner, self._crawler = owner, crawler
        self._config, self._namespace = config, namespace
        self._job_folder = job_folder
        self._crawl, self._resumes = _crawl_of(job_folder)
        self._asking: deque[_Asked] = deque()
        self._sent: deque[_Asked] = deque()  # under way
        self._unsaid: deque[_Asked] = deque()  # have passed, and the service does not know them
        self._ended: list[bytes] = []  # fetched, and not noted yet
        self._lost_track = False
        self._known: set[bytes] = set()
        self._passing: set[int] = (
            set()
        )  # ids of requests that were left, on their way into the queues
        self._services: Services | None = None
        self._joined = self._closed = False
        self._failing = self._said = False  # whether no service answers, and that was logged
        self._looked = False  # there is nothing left of others, as far as is known
        self._wake = asyncio.Event()
        self._turns = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sender: asyncio.Task[None] | None = None
        self._looking = False

    # ------------------------------------------------------------------ asked by the scheduler

    @property
    def holding(self) -> bool:
        """Whether requests wait for an answer."""
        return bool(self._asking or self._sent)

    def passes(self, request: Request) -> bool:
        """Whether a request is one that another crawl left: it is this crawl's now."""
        if id(request) in self._passing:
            self._passing.discard(id(request))
            return True
        return False

    def ask(self, request: Request) -> bool:
        """Hold a request until it is answered; False if it is known here that it was made before."""
        digest = self._digest(self._owner.name_of(request))
        if digest in self._known:
            return False
        if len(self._known) >= (KNOWN_WITHOUT if self._failing else KNOWN):
            self._known.clear()
        self._known.add(digest)
        self._looked = False
        self._asking.append(_Asked(digest, _packed(request, self._owner.spider), request))
        self._start()
        return True

    def fetched(self, names: list[bytes]) -> None:
        """Note requests that nothing needs any more."""
        if not self._lost_track and not self._closed:
            self._ended.extend(map(self._digest, names))
            self._start()

    def begin(self) -> None:
        """Begin: look for what an earlier process of this JOBDIR left (at Scrapy's signal)."""
        self._crawler.signals.connect(self._idle, signal=signals.spider_idle)
        self._start()

    def give_up(self) -> None:
        """Let all requests pass that are still held."""
        for waiting in (self._sent, self._asking):
            while waiting:
                asked = waiting.popleft()
                if asked.request is not None:
                    self.answered(asked.request, False)

    def close(self, reason: str) -> "Deferred[None] | None":
        """End the crawl at the service, within CLOSE_SECONDS."""
        if self._closed:
            return None
        self._closed = True
        if self._sender is None:
            return None
        made: Deferred[None] = deferred_from_coro(self._close(reason))
        return made

    # ------------------------------------------------------------------ the conversation

    def _digest(self, name: bytes) -> bytes:
        return blake2b(name, digest_size=16).hexdigest().encode()

    def _start(self) -> None:
        """Have what waits be sent, in the next turn of the loop."""
        if self._closed:
            return
        self._wake.set()
        if self._sender is None:
            # the loop may not run yet
            self._sender = asyncio.get_event_loop().create_task(self._send())

    async def _send(self) -> None:
        await self._connect()
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                async with self._turns:
                    await self._turn()
            except Exception as error:  # a bug of ours: no request is lost by it
                self._owner.fault(error, "requests pass without a filter")
                self._failing = True
                self.give_up()
            if not self._failing and (self._asking or self._unsaid or self._ended):
                self._wake.set()
            self._nudge()

    async def _connect(self) -> None:
        config, urls = self._config, self._config.service
        if config.auto:
            urls = await find_service(config.options.timeout_seconds)
        self._services = Services(addresses_of(urls), config.options.timeout_seconds)

    async def _turn(self) -> None:
        """Send what waits: requests first, then what was fetched before them."""
        if not self._joined:
            answer = await self._ask(b"DEDUP.JOIN", str(self._config.memory).encode())
            self._joined = not isinstance(answer, Exception)
            self._resumes = self._resumes and not (self._joined and await self._take_own())
        self._owner.note_progress()
        ended = list(self._ended)
        words = self._take_batch()
        answer = await self._ask(b"DEDUP.SEEN", *words)
        if not isinstance(answer, list) or 2 * len(answer) != len(words):
            self._failed(answer)
            return
        self._failing = False
        if self._said:
            self._said = False
            logger.info("dedup: requests are filtered by the table service again")
        for seen in answer:
            if not self._sent:  # given up meanwhile
                break
            asked = self._sent.popleft()
            if asked.request is not None:
                self.answered(asked.request, bool(seen))
        if ended and not self._asking and not self._unsaid:
            await self._note_fetched(ended[:BATCH])

    def _take_batch(self) -> list[bytes]:
        """Take what is sent now, first what the service was not told of; return it as words."""
        size = 0
        for source in (self._unsaid, self._asking):
            while source and len(self._sent) < BATCH and size < BATCH_BYTES:
                asked = source.popleft()
                self._sent.append(asked)
                size += len(asked.content)
        return [word for asked in self._sent for word in (asked.digest, asked.content)]

    async def _note_fetched(self, ended: list[bytes]) -> bool:
        if not isinstance(await self._ask(b"DEDUP.FETCHED", *ended), int):
            self._failing = True
            return False
        del self._ended[: len(ended)]
        return True

    def _failed(self, answer: Any) -> None:
        """Let requests pass, and remember that the service does not know them."""
        waiting = [*self._sent, *self._asking]
        new = [asked.request for asked in waiting if asked.request is not None]
        self._sent.clear()
        self._asking.clear()
        self._failing = True
        if not self._said and (new or not isinstance(answer, ServiceUnavailable)):
            self._said = True
            what = "requests are filtered in this process only, until the table service answers"
            self._owner.fault(_error_of(answer), what, 0)
        self._owner.count_faults(len(new))
        for request in new:
            self.answered(request, False)
        self._unsaid.extendleft(asked._replace(request=None) for asked in reversed(waiting))
        if len(self._unsaid) > UNSAID:
            self._lost_track = True
            self._unsaid.clear()
            self._ended.clear()

    async def _ask(self, name: bytes, *words: bytes) -> Any:
        """Return a reply, or the error that it stands for."""
        if self._services is None:
            return ServiceUnavailable("not connected yet")
        command = Command((name, self._namespace, self._crawl, *words), self._namespace, HOME)
        try:
            await self._services.execute((command,))
        except Exception as error:
            return error
        reply = command.home_reply()
        return self._services.unavailable(command.route) if reply is None else reply

    # ------------------------------------------------------------------ what dead crawls left

    def _idle(self, spider: Spider) -> None:  # noqa: ARG002 - Scrapy's signal
        """Look for what is left before the spider ends (Scrapy's signal)."""
        if self._closed or self._looked:
            return
        self._owner.note_progress()
        self._look()
        raise DontCloseSpider

    def _look(self) -> None:
        if not self._looking:
            self._looking = True
            self._run(self._take_left())

    async def _take_left(self) -> None:
        """Make the requests that dead crawls left, until there are some, or none; wait for silent ones."""
        answer: Any = None
        backoff, faults, unsure = Backoff(0.2, LOOK_AGAIN_SECONDS), 0, False
        try:
            while not self._closed and faults <= FAULTS:
                await self._tell_all()
                if unsure:  # what was lost with an answer is this crawl's own by now
                    unsure = not await self._take_own()
                answer = await self._ask(b"DEDUP.LEFT")
                if not isinstance(answer, list):
                    faults, unsure = faults + 1, self._joined
                    await asyncio.sleep(backoff.next())
                    continue
                if self._make(answer[1:]):
                    return  # idle again, it looks again
                if not answer[0]:
                    break
                if len(answer) == 1:
                    await asyncio.sleep(LOOK_AGAIN_SECONDS)
                if not self._is_idle:
                    return
            if faults > FAULTS:
                self._owner.fault(_error_of(answer), "requests that crawls left are not made now")
            self._looked = True
        finally:
            self._looking = False
            self._nudge()

    async def _take_own(self) -> bool:
        """Make the requests again that this crawl had scheduled; return whether all were answered."""
        answer = await self._ask(b"DEDUP.LEFT", b"OWN", b"first")
        while isinstance(answer, list):
            self._make(answer[1:])
            if not answer[0]:
                return True
            answer = await self._ask(b"DEDUP.LEFT", b"OWN", b"next")
        return False

    async def _tell_all(self) -> None:
        """Tell the service all that is to be told, if it answers: what was fetched is not left."""
        for _ in range(TURNS):
            async with self._turns:
                await self._turn()
            if self._failing or not (self._asking or self._unsaid or self._ended):
                return

    def _make(self, left: list[bytes]) -> int:
        """Make requests again; return how many."""
        spider, engine, made = self._owner.spider, self._crawler.engine, 0
        for content in left[1::2]:
            request = _unpacked(content, spider)
            if request is None or engine is None:
                continue
            self._passing.add(id(request))
            engine.crawl(request)
            self._passing.discard(id(request))
            made += 1
        self._owner.resumed(made)
        return made

    @property
    def _is_idle(self) -> bool:
        engine = self._crawler.engine
        return engine is None or engine.spider_is_idle()

    def _nudge(self) -> None:
        """Have Scrapy look at its queues now; it would within seconds."""
        if (slot := self._owner.slot) is not None:
            slot.nextcall.schedule()

    # ------------------------------------------------------------------ the end

    async def _close(self, reason: str) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._end(reason)
        except TimeoutError:
            logger.warning("dedup: the table service was not told that the crawl has ended")
        except Exception as error:
            self._owner.fault(error, "the table service was not told that the crawl has ended")
        for task in (*self._tasks, *filter(None, (self._sender,))):
            task.cancel()
        if self._services is not None:
            await self._services.close()

    async def _end(self, reason: str) -> None:
        if self._sender is not None:
            self._sender.cancel()
        while self._unsaid:
            self._sent.clear()
            if isinstance(await self._ask(b"DEDUP.SEEN", *self._take_batch()), Exception):
                return
        while self._ended:
            if not await self._note_fetched(self._ended[:BATCH]):
                return
        if self._job_folder is not None and reason != "finished":
            _note_stopped(self._job_folder)  # Scrapy's queue has what is left
            return
        words = [b"FINISHED"] if reason == "finished" else []
        while await self._ask(b"DEDUP.LEAVE", *words) == 1:
            pass

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_event_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


# ------------------------------------------------------------------------- crawls and JOBDIRs


def _crawl_of(job_folder: Path | None) -> tuple[str, bool]:
    """Return the id of a crawl, and whether an earlier process of its JOBDIR was killed."""
    if job_folder is None:
        return secrets.token_hex(16), False
    folder = job_folder / "dedup-requests"
    try:
        crawl = (folder / "shared-crawl").read_text()
    except FileNotFoundError:
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        replace_file(folder / "shared-crawl", (crawl := secrets.token_hex(16)).encode(), PRIVATE)
        return crawl, False
    stopped = folder / "shared-stopped"
    killed = not stopped.exists()
    stopped.unlink(missing_ok=True)
    return crawl, killed


def _note_stopped(job_folder: Path) -> None:
    replace_file(job_folder / "dedup-requests" / "shared-stopped", b"", PRIVATE)


# ------------------------------------------------------------------------- requests as bytes


def _packed(request: Request, spider: Spider | None) -> bytes:
    """Return what makes a request again, in another process, too; nothing for one that cannot be made there."""
    try:
        fields = request.to_dict(spider=spider)
        packed = msgspec.msgpack.encode(fields)
        if len(packed) > REQUEST_BYTES or msgspec.msgpack.decode(packed) != fields:
            return b""
    except Exception:  # a callback that is no method of the spider, or anything in meta
        return b""
    return packed


def _unpacked(content: bytes, spider: Spider | None) -> Request | None:
    """Return a request that another crawl left; None for one that cannot be made, or is not for the web."""
    try:
        fields = msgspec.msgpack.decode(content)
        if fields.get("_class", "scrapy.http.request.Request").partition(".")[0] != "scrapy":
            return None
        if not fields["url"].startswith(("http://", "https://")):
            return None
        return request_from_dict(fields, spider=spider)
    except Exception:
        return None


def _error_of(answer: Any) -> Exception:
    if isinstance(answer, Exception):
        return answer
    return unreadable(answer)


# ----------------------------------------------------------------------------------- the scheduler


class Scheduler(ScrapyScheduler):
    """Scrapy's scheduler, which asks a shared filter first."""

    asks_shared_filter = True  # RequestFilter looks for it

    def __init__(self, dupefilter: Any, *arguments: Any, **options: Any) -> None:
        """Take what Scrapy's takes."""
        super().__init__(dupefilter, *arguments, **options)
        self._shared: SharedRequests | None = getattr(dupefilter, "shared", None)
        if self._shared is not None:
            self._shared.answered = self._answered

    def enqueue_request(self, request: Request) -> bool:
        """Accept a request; False if it was made before."""
        if self._shared is None or request.dont_filter or self._shared.passes(request):
            return super().enqueue_request(request)
        if self._shared.ask(request):
            return True
        self.df.log(request, self.spider)
        return False

    def _answered(self, request: Request, seen: bool) -> None:
        """Put a request that was held into a queue, or drop it."""
        if not seen and super().enqueue_request(request):
            return
        assert self.crawler is not None
        if seen:
            self.df.log(request, self.spider)
        self.crawler.signals.send_catch_log(
            signals.request_dropped, request=request, spider=self.spider
        )

    def has_pending_requests(self) -> bool:
        """Whether requests are in a queue, or held."""
        return bool(self._shared and self._shared.holding) or super().has_pending_requests()

    def close(self, reason: str) -> Any:
        """Save the queues; requests that are still held are put into them before."""
        if self._shared is not None:
            self._shared.give_up()
        return super().close(reason)
