"""A crawl's memory in a table service, which many crawls share.

    ServiceMemory   the namespaces at a service: a page waits for it only while it is judged, at most DEDUP_TIMEOUT_SECONDS
                    for each URL, and not at all while the service is known to be away. A page that could not be judged is
                    kept, and remembered as soon as the service is back
    PendingUpdates  inserts, releases and forgets: add -> (a batch, sent at once) -> acknowledged, and counted. Those of one
                    page keep their order. They are repeated while the service does not answer: at most LIMIT of them, and no
                    longer than CLOSE_SECONDS after the crawl's end. One that fails goes to the end, so that an unavailable
                    shard does not delay the others; one that is given up is counted as a fault
    find_service    DEDUP_SERVICE = "auto": the service on this machine, if one answers when a crawl begins. Decided once, before
                    the first page, within DEDUP_TIMEOUT_SECONDS, and logged. Anything else on its port is not used

None of these errors reaches the crawl.
"""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from dedup.core.faults import Backoff
from dedup.detector.remote import RemoteDetector
from dedup.model.errors import DedupError, ServiceUnavailable
from dedup.model.names import count
from dedup.model.page import (
    USUAL,
    PageFingerprint,
    ReserveOptions,
    Verdict,
)
from dedup.model.policy import Options
from dedup.scrapy.guard import Counts, logger
from dedup.scrapy.settings import Config
from dedup.wire.client.command_codec import is_unjudged
from dedup.wire.client.services import ReplyError, ServiceConnection, Services, shards_of
from dedup.wire.resp import pack


class ServiceMemory:
    """The namespaces of a crawl, at DEDUP_SERVICE. Made in the crawl's running loop."""

    def __init__(self, config: Config, counts: Counts) -> None:
        """Begin to connect."""
        self._config = config
        self._counts = counts
        self._addresses = shards_of(config.service, config.options.scope)
        self._services = [
            Services(each, config.options.timeout_seconds, counts.meter) for each in self._addresses
        ]
        self._namespaces: list[ServiceNamespace] = []

    def open(self, namespace: str) -> "ServiceNamespace":
        """Return a namespace; whether a service answers is found out with each page."""
        options = msgspec.structs.replace(self._config.options, namespace=namespace)
        detector = CrawlDetector(self._services, options, self._counts)
        opened = ServiceNamespace(detector, self._counts)
        self._namespaces.append(opened)
        return opened

    async def close(self) -> str:
        """Send what is still pending, for a bounded time, and close the connections."""
        where = ", ".join(str(address) for shard in self._addresses for address in shard)
        for namespace in self._namespaces:
            await namespace.updates.close()
        try:
            documents = sum([await each.detector.count() for each in self._namespaces])
            return f"{count(documents, 'document')} at {where}"
        except DedupError:
            return f"no answer from {where}"
        finally:
            for services in self._services:
                await services.close()


class CrawlDetector(RemoteDetector):
    """A detector that keeps pages that no service judged, and measures its work with a meter."""

    def __init__(
        self,
        services: list[Services],
        options: Options,
        counts: Counts,
    ) -> None:
        """Use services."""
        super().__init__(services, options)
        self._counts = counts

    async def judge(
        self, page: PageFingerprint, key: str, options: ReserveOptions = USUAL
    ) -> Verdict:
        """Judge a page; without a service it is exempt as "fault"."""
        pausing = self._counts.meter.pausing
        try:
            return await pausing(super().judge(page, key, options))
        except ServiceUnavailable as error:
            self._counts.fault(error, f"{key} is kept")
            return self.unjudged(page, key, options)


class ServiceNamespace:
    """The pages of one namespace of a service."""

    def __init__(
        self,
        detector: CrawlDetector,
        counts: Counts,
    ) -> None:
        """Private: ServiceMemory.open() makes it."""
        self.detector = detector
        self.updates = PendingUpdates(detector, counts)
        self._counts = counts

    def insert(self, verdicts: list[Verdict]) -> None:
        """Insert pages soon."""
        for verdict in verdicts:
            self.updates.add("insert", verdict.key, verdict)

    def release(self, verdict: Verdict) -> None:
        """Release a page, soon."""
        if is_unjudged(verdict):
            self._counts.add("released")
            return
        self.updates.add("release", verdict.key, verdict)

    def forget(self, key: str) -> None:
        """Remove a document, soon."""
        self.updates.add("forget", key)


# --------------------------------------------------------------- updates that are not acknowledged


Kind = Literal["insert", "release", "forget"]

LIMIT = 100_000  # waiting updates; beyond it the oldest is given up
BATCH = 256  # updates sent at once
TRIED = 4096  # waiting updates that are sent before a pause if some failed
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
CLOSE_SECONDS = 5.0

_GIVEN_UP = {
    "insert": "{} was parsed, but is not remembered",
    "release": "{} stays in flight until its reservation expires",
    "forget": "{} stays remembered although its item failed",
}
_COUNTED = {"insert": "inserted", "release": "released"}


class _Update(NamedTuple):
    kind: Kind
    key: str
    verdict: Verdict | None


class PendingUpdates:
    """The updates of one namespace."""

    def __init__(self, detector: RemoteDetector, counts: Counts) -> None:
        """Start with none."""
        self._detector = detector
        self._counts = counts
        self._waiting: deque[_Update] = deque()
        self._sending: list[_Update] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, kind: Kind, key: str, verdict: Verdict | None = None) -> None:
        """Send an update soon; forget needs only the key."""
        if len(self._waiting) >= LIMIT:
            self._give_up(self._waiting.popleft(), ServiceUnavailable("too many pages wait for it"))
        self._waiting.append(_Update(kind, key, verdict))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def close(self) -> None:
        """Send the rest, within CLOSE_SECONDS."""
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=CLOSE_SECONDS)
            self._task.cancel()
        error = ServiceUnavailable(f"no answer within {CLOSE_SECONDS:g} s of the crawl's end")
        for update in (*self._sending, *self._waiting):
            self._give_up(update, error)

    async def _send(self) -> None:
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        tried = failed = 0
        while self._waiting:
            self._sending = self._next_batch()
            with self._counts.meter:
                errors = await self._counts.meter.pausing(self._deliver(self._sending))
            again = []
            for update, error in zip(self._sending, errors, strict=True):
                if isinstance(error, ServiceUnavailable):
                    again.append(update)
                elif error is not None:
                    self._give_up(update, error)
            self._counts.flush()  # no page of this time may follow
            tried += len(self._sending)
            failed += len(again)
            self._sending = []
            self._requeue(again)
            if tried < min(len(self._waiting), TRIED):
                continue
            if failed:
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()
            tried = failed = 0

    def _requeue(self, updates: list[_Update]) -> None:
        """Put failed updates at the end, followed by later updates of the same pages."""
        keys = {update.key for update in updates}
        after = [update for update in self._waiting if update.key in keys] if keys else []
        if after:
            self._waiting = deque(each for each in self._waiting if each.key not in keys)
        self._waiting.extend((*updates, *after))

    def _next_batch(self) -> list[_Update]:
        """Take out the first updates that are of one kind."""
        batch = [self._waiting.popleft()]
        while self._waiting and self._waiting[0].kind == batch[0].kind and len(batch) < BATCH:
            batch.append(self._waiting.popleft())
        return batch

    async def _deliver(self, batch: list[_Update]) -> list[Exception | None]:
        """Send a batch, count what is acknowledged, and return each one's error."""
        kind = batch[0].kind
        verdicts = [update.verdict for update in batch if update.verdict is not None]
        if kind == "forget":
            errors = [await self._forget(update.key) for update in batch]
        else:
            answers = await self._detector.end_many(kind, verdicts)
            errors = [each if isinstance(each, Exception) else None for each in answers]
        acknowledged = errors.count(None)
        if acknowledged and kind in _COUNTED:
            self._counts.add(_COUNTED[kind], acknowledged)
        return errors

    async def _forget(self, key: str) -> Exception | None:
        try:
            if await self._detector.forget(key):
                self._counts.add("released")
        except Exception as error:  # noqa: BLE001 - the result, which the caller counts
            return error
        return None

    def _give_up(self, update: _Update, error: Exception) -> None:
        self._counts.fault(error, _GIVEN_UP[update.kind].format(update.key))
        if update.verdict is not None:
            self._detector.release_later(update.verdict)


# ------------------------------------------------------- DEDUP_SERVICE = "auto": the one on this machine


HOST, PORT = "127.0.0.1", 7700  # where `dedup serve` listens by default
VARIABLE = "DEDUP_TOKEN"  # in the environment: the token, as for `dedup serve`

Ask = Callable[..., Awaitable[Any]]


async def find_service(timeout_seconds: float) -> tuple[str, ...]:
    """Return the URL of the table service on this machine, none if none can be used."""
    place = f"redis://{HOST}:{PORT}"
    try:
        async with asyncio.timeout(timeout_seconds):
            trouble, token = await _greet(timeout_seconds)
    except ConnectionRefusedError:
        logger.info("[dedup] no table service listens at %s, a store is used", place)
        return ()
    except TimeoutError:
        trouble = f"no answer within {timeout_seconds:g} s"
    except Exception as error:  # noqa: BLE001 - the result, which the caller counts
        trouble = str(error) or type(error).__name__
    if trouble:
        logger.warning("[dedup] a store is used, not the table service %s: %s", place, trouble)
        return ()
    logger.info("[dedup] the table service at %s is used, not a store", place)
    login = f":{quote(token, safe='')}@" if token else ""
    return (f"redis://{login}{HOST}:{PORT}",)


async def _greet(timeout_seconds: float) -> tuple[str, str]:
    """Return what is wrong with the listener, or "", and the token that it accepted, or ""."""
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: ServiceConnection(timeout_seconds, nullcontext()), HOST, PORT
    )

    def ask(*words: bytes | str | int) -> Awaitable[Any]:
        return connection.send(pack(words))

    try:
        facts, token = await _hello(ask)
        if b"dedup" not in facts:
            return "what listens there is not a table service", ""
        return "", token
    except ReplyError as answer:
        return f"it answers {answer}; its token is read from the environment, {VARIABLE}", ""
    finally:
        connection.close()


async def _hello(ask: Ask) -> tuple[Any, str]:
    """Return a service's answer to HELLO, and the token that it wanted, or "". Raises ReplyError."""
    token = os.environ.get(VARIABLE, "")
    try:
        return await ask(b"HELLO", b"2"), ""
    except ReplyError as answer:
        if not token or not str(answer).startswith("NOAUTH"):
            raise
    return await ask(b"HELLO", b"2", b"AUTH", b"default", token.encode()), token
