"""A detector of table services: RemoteDetector for an asyncio loop, BlockingDetector for threads.

    a page -> the shard of its registrable domain: services that hold the same documents, in order of preference
    reserve  RESERVE at the first one that is there -> verdict
    end      INSERT, or RELEASE, where the reservation is; RESERVE (exempt) and INSERT where that is away, or has forgotten it
    forget, info, check   every shard

Several shards hold what one machine has no room for: in the scope "site" only pages of one registrable domain are
compared, so that a page needs no other shard than its domain's, and no verdict differs from that of one service.

Invariants: a call takes a bounded time and ends in an answer or in ServiceUnavailable; a page
is dropped only by a service's answer; a service that may hold an unneeded reservation is told to
release it, if it is there: else that expires. BlockingDetector is the asynchronous one on a loop in a thread of its own: a
KeyboardInterrupt cancels a call. A forked process does not use the connections of its parent: it opens its own with its
first call.
"""

import asyncio
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from dedup.detector.interface import AsyncDetector, Detector, Question
from dedup.model.errors import DedupError, ServiceUnavailable, UsageError
from dedup.model.names import site_of
from dedup.model.page import (
    USUAL,
    Document,
    Neighbour,
    PageFingerprint,
    ReserveOptions,
    Verdict,
    unreserved,
)
from dedup.model.policy import Options
from dedup.store.templates import Templates
from dedup.wire.client.command_codec import (
    Command,
    Commands,
    Kind,
    NoToken,
    facts_of,
    facts_of_all,
    is_unjudged,
    neighbours_of,
    verdict_of,
)
from dedup.wire.client.services import Request, Services, Shards, shards_of
from dedup.wire.shards import partition_of

T = TypeVar("T")
TOKEN_BYTES = 16  # random, of the token of a reservation


async def open_remote(urls: str | Shards, options: Options) -> "RemoteDetector":
    """Open a detector of table services: their URLs in order of preference, or for each shard a list of these.

    Raises RecipeMismatch, UsageError, and ServiceUnavailable if pages cannot be judged.
    """
    shards = shards_of(urls, options.scope)
    services = [Services(each, options.timeout_seconds) for each in shards]
    try:
        detector = RemoteDetector(services, options)
        await detector.check()
    except BaseException:
        for each in services:
            await each.close()
        raise
    return detector


class RemoteDetector(AsyncDetector):
    """A detector of table services. Made by open_remote()."""

    def __init__(self, shards: Sequence[Services], options: Options) -> None:
        """Use the services of each shard, which are closed with the detector. Raises RecipeMismatch."""
        self.recipe = options.known_recipe()
        self.policy = options.policy(self.recipe)
        self.templates = Templates(self.recipe.id)
        self._shards = shards
        self._commands = Commands(options, self.recipe)
        self._closed = False

    def _shard(self, domain: str) -> Services:
        """Return the services that hold the pages of a domain."""
        shards = self._shards
        return shards[0] if len(shards) == 1 else shards[partition_of(domain.encode(), len(shards))]

    async def probe(self, page: PageFingerprint, *, domain: str | None = None) -> list[Neighbour]:
        """Return the stored near-duplicates of a page."""
        self._check_open()
        command = self._commands.probe(page, domain or "")
        if command is None:
            return []
        return neighbours_of(_result(await self._shard(domain or "").execute(Request(command))))

    async def judge(
        self, page: PageFingerprint, key: str, options: ReserveOptions = USUAL
    ) -> Verdict:
        """Judge a page. After ServiceUnavailable keep it, and insert the verdict of unjudged()."""
        self._check_open()
        asked, token = _asked(page, key, options), options.token or secrets.token_hex(TOKEN_BYTES)
        services = self._shard(asked.domain)
        request = Request(self._commands.reserve(asked, options, token))
        verdict: Verdict | None = None
        try:
            answer = _result(await services.execute(request))
            verdict = verdict_of(answer, asked, options.exempt)
        finally:
            if verdict is not None and verdict.token is not None:
                services.note_holder(verdict.token, request.service)
            elif verdict is None and not isinstance(request.reply, DedupError | None):
                request.unanswered |= {request.service}  # it may hold what its answer does not say
            self._release_later(services, key, token, request.unanswered)
        return verdict

    async def reserve_many(self, questions: Sequence[Question]) -> list[Verdict | Exception]:
        """Judge pages, all at once; return the exception in place of a verdict where one was raised."""
        asking = (self.judge(*question) for question in questions)
        answers = await asyncio.gather(*asking, return_exceptions=True)
        for answer in answers:
            if not isinstance(answer, Verdict | Exception):
                raise answer  # cancelled
        return answers  # type: ignore[return-value]

    def unjudged(self, page: PageFingerprint, key: str, options: ReserveOptions = USUAL) -> Verdict:
        """Return the verdict (exempt, "fault") for a page that is kept while no service answers.

        It can be inserted like others: no service knows its token, so insert() reserves the page first.
        """
        return unreserved(Verdict("exempt", "", _asked(page, key, options)), "fault")

    async def insert_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Insert pages, all at once. A reservation that is no longer known is made again.

        An error is raised after all other pages are inserted.
        """
        for answer in await self.end_many("insert", verdicts):
            _result(answer)
        return [False] * len(verdicts)

    async def release_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Release reservations, all at once."""
        return [bool(_result(answer)) for answer in await self.end_many("release", verdicts)]

    async def end_many(self, kind: Kind, verdicts: Sequence[Verdict]) -> list[Any]:
        """End reservations, all at once, by "insert" or "release"; return each answer, or its error.

        What cannot be inserted for now stays reserved where it is.
        Raises UsageError and RecipeMismatch for a verdict that cannot be inserted.
        """
        self._check_open()
        if kind == "insert":
            for verdict in verdicts:
                self._commands.check_insertable(verdict)
        begun = [(verdict, self._begun(kind, verdict)) for verdict in verdicts]
        try:
            return [await self._ended(kind, *each) for each in begun]
        finally:  # of those after a cancelled one the answers are not read
            for _, request in begun:
                if request is not None and request.sent is not None:
                    request.sent.cancel()

    def _begun(self, kind: Kind, verdict: Verdict) -> Request | None:
        """Send the end of a reservation where it is held; None where it is held by no service."""
        if is_unjudged(verdict):
            return None
        services, token = self._shard(verdict.domain), verdict.token
        command = self._commands.end(kind, verdict.document, token)
        request = Request(command, services.holders.get(token or ""))
        services.begin(request)
        return request

    async def _ended(self, kind: Kind, verdict: Verdict, request: Request | None) -> Any:
        """Return the answer, or the error. A page that is not held any more is inserted all the same."""
        services, token = self._shard(verdict.domain), verdict.token or ""
        answer = None if request is None else await services.execute(request)
        if kind == "insert" and (
            request is None or isinstance(answer, ServiceUnavailable | NoToken)
        ):
            avoided = frozenset() if request is None else request.unanswered
            answer = await self._reserve_and_insert(services, verdict, avoided)
        if kind == "release" or not isinstance(answer, ServiceUnavailable):
            holder = services.holders.pop(token, None)
            if holder is not None and (request is None or holder != request.service):
                self._release_later(services, verdict.key, token, (holder,))
        return answer

    async def _reserve_and_insert(
        self, services: Services, verdict: Verdict, avoided: frozenset[int]
    ) -> Any:
        """Reserve and insert a page whose reservation no service that answers holds; return the answer, or the error."""
        token = secrets.token_hex(TOKEN_BYTES)
        expired = ReserveOptions(exempt="expired")
        command = self._commands.reserve(verdict.document, expired, token)
        reserve = Request(command, avoided=avoided)
        held: frozenset[int] = frozenset()
        try:
            answer = await services.execute(reserve)
            held = reserve.unanswered
            if isinstance(answer, Exception):
                return answer
            reserved = verdict_of(answer, verdict.document, "expired")
            held |= {reserve.service}
            command = self._commands.end("insert", verdict.document, reserved.token)
            insert = Request(command, reserve.service)
            answer = await services.execute(insert)
            if isinstance(answer, NoToken):  # it was started again in between
                return services.unavailable()
            if not isinstance(answer, Exception):
                held -= {insert.service}
            return answer
        except ServiceUnavailable as unreadable:
            return unreadable
        finally:
            self._release_later(services, verdict.key, token, held)

    def release_later(self, verdict: Verdict) -> None:
        """Release soon a page that was accepted but cannot be inserted. Does not wait."""
        if not self._closed and verdict.token is not None:
            services = self._shard(verdict.domain)
            holder = services.holders.pop(verdict.token, None)
            if holder is not None:
                self._release_later(services, verdict.key, verdict.token, (holder,))

    def _release_later(
        self, services: Services, key: str, token: str, holders: Iterable[int]
    ) -> None:
        """Let services release a page soon."""
        for number in holders:
            services.send_only(number, self._commands.release(key, token))

    async def forget(self, key: str) -> bool:
        """Remove a document; only its key is known, not its domain, so every shard is asked."""
        return any(await self._answers(self._commands.forget(key)))

    async def info(self) -> dict[str, Any]:
        """Return information on the namespace, over all shards."""
        return facts_of_all(list(map(facts_of, await self._answers(self._commands.info()))))

    async def check(self) -> None:
        """Raise RecipeMismatch, UsageError or ServiceUnavailable if pages cannot be judged."""
        await self._answers(self._commands.check())

    async def close(self) -> None:
        """Close the connections. Closing twice does nothing."""
        if not self._closed:
            self._closed = True
            for services in self._shards:
                await services.close()

    async def _answers(self, command: Command) -> list[Any]:
        """Return the answer of each shard. Raises an answer that is an error."""
        self._check_open()
        asking = (services.execute(Request(command)) for services in self._shards)
        return [*map(_result, await _all(asking))]

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the detector is closed")


def _result(answer: Any) -> Any:
    """Return an answer. Raises one that is an error."""
    if isinstance(answer, Exception):
        raise answer
    return answer


async def _all(waiting: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of coroutines, which run at once."""
    some = list(waiting)
    return [await some[0]] if len(some) == 1 else await asyncio.gather(*some)


def _asked(page: PageFingerprint, key: str, options: ReserveOptions) -> Document:
    return Document(key, page, site_of(key, options.url, options.domain), kind=options.kind)


# ------------------------------------------------------------------------------------ for threads

Opening = Callable[[], Coroutine[Any, Any, AsyncDetector]]


def _waiting(name: str) -> Any:
    """Return a method that calls an asynchronous detector's method of that name, and waits for it."""

    def call(self: "BlockingDetector", *values: Any, **options: Any) -> Any:
        return self._run(lambda detector: getattr(detector, name)(*values, **options))

    call.__name__, call.__doc__ = name, getattr(Detector, name).__doc__
    return call


class BlockingDetector(Detector):
    """Calls an asynchronous detector and waits for it. Made by open()."""

    probe = _waiting("probe")
    judge = _waiting("judge")
    insert_many = _waiting("insert_many")
    release = _waiting("release")
    forget = _waiting("forget")
    info = _waiting("info")

    def __init__(self, opening: Opening) -> None:
        """Open the detector in a new thread. Raises what opening() raises."""
        self._opening = opening
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._closed = False
        detector = self._started().detector
        self.recipe, self.policy, self.templates = (
            detector.recipe,
            detector.policy,
            detector.templates,
        )
        _opened.add(self)

    def __len__(self) -> int:
        """Return the number of documents."""
        return self._run(lambda detector: detector.count())

    def close(self) -> None:
        """Close the connections, and end the thread."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, None
        if running is not None:
            running.close()

    def _run(self, call: Callable[[AsyncDetector], Coroutine[Any, Any, T]]) -> T:
        running = self._running or self._started()
        return running.wait_for(call(running.detector))

    def _started(self) -> "_Running":
        with self._lock:
            if self._closed:
                raise _closed()
            if self._running is None:
                self._running = _Running(self._opening)
            return self._running

    def leave_to_parent(self) -> None:
        """In a forked process: forget the thread and the detector, which are the parent's."""
        self._lock = threading.Lock()
        if self._running is not None:
            _left_to_parents.append(self._running)
            self._running = None


class _Running:
    """A loop in a thread, and the detector that is open in it."""

    def __init__(self, opening: Opening) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()  # every call is begun before the last, or not at all
        self._over = False
        thread = threading.Thread(target=self._loop.run_forever, name="dedup-client", daemon=True)
        self._thread = thread
        thread.start()
        try:
            self.detector = self.wait_for(opening())
        except BaseException:
            self._stop()
            raise

    def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine; cancel it if interrupted."""
        future = self._begun(coroutine)
        try:
            return future.result()
        except CancelledError:  # by close(), in another thread
            raise _closed() from None
        except BaseException:
            future.cancel()  # nothing to cancel, if it is the coroutine's own error
            raise

    def _begun(self, coroutine: Coroutine[Any, Any, T], *, is_last: bool = False) -> Future[T]:
        with self._lock:
            if self._over:
                coroutine.close()
                raise _closed()
            self._over = is_last
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Close the detector, end every call that is under way, then the thread."""
        try:
            self._begun(self._shut_down(), is_last=True).result()
        finally:
            self._stop()

    async def _shut_down(self) -> None:
        try:
            await self.detector.close()
        finally:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _closed() -> UsageError:
    return UsageError("the detector is closed")


_opened: "weakref.WeakSet[BlockingDetector]" = weakref.WeakSet()
# Kept in forked processes: closing a loop there would end the parent's connections, and deleting it
# would warn that it was not closed.
_left_to_parents: list[_Running] = []


def _after_fork() -> None:
    for detector in list(_opened):
        detector.leave_to_parent()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)
