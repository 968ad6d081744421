"""A detector of one or several table services: RemoteDetector for an asyncio loop, BlockingDetector for threads.

    reserve  RESERVE at all services under one token -> verdict; released where it is not needed
    end      INSERT, or RELEASE, at the home -> RELEASE at the others
             RESERVE (exempt) and INSERT at the home, if it no longer knows the page
    probe, forget, info, check

Invariants: a call takes a bounded time and ends in an answer or in ServiceUnavailable; a page
is dropped only by a service's answer; a service that may hold an unneeded reservation is told to
release it as soon as it can be reached. BlockingDetector is the asynchronous one on a loop in a thread of its own: a
KeyboardInterrupt cancels a call. A forked process does not use the connections of its parent: it opens its own with its
first call.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from dedup.detector.frames import Frames
from dedup.detector.interface import AsyncDetector, Detector, Question
from dedup.model.errors import ServiceUnavailable, UsageError
from dedup.model.names import site_of
from dedup.model.page import (
    USUAL,
    Document,
    Neighbour,
    PageFingerprint,
    ReserveOptions,
    Verdict,
)
from dedup.model.policy import Options
from dedup.wire.client.command_codec import (
    NO_SERVICE,
    Command,
    Commands,
    Kind,
    NoToken,
    Request,
    facts_of,
    facts_of_all,
    is_unjudged,
    neighbours_of,
    neighbours_of_all,
    new_token,
    unjudged_verdict,
    verdict_of,
    verdict_of_all,
)
from dedup.wire.client.services import Services, addresses_of

T = TypeVar("T")


async def open_remote(urls: str | Sequence[str], options: Options) -> "RemoteDetector":
    """Open a detector of the table services at some URLs, in order of preference.

    Raises RecipeMismatch, UsageError, and ServiceUnavailable if pages cannot be judged.
    """
    services = Services(addresses_of(urls), options.timeout_seconds)
    try:
        detector = RemoteDetector(services, options)
        await detector.check()
    except BaseException:
        await services.close()
        raise
    return detector


class RemoteDetector(AsyncDetector):
    """A detector of table services. Made by open_remote()."""

    def __init__(self, services: Services, options: Options) -> None:
        """Use services, which are closed with the detector. Raises RecipeMismatch."""
        self.recipe = options.known_recipe()
        self.policy = options.policy(self.recipe)
        self.frames = Frames(self.recipe.id)
        self._services = services
        self._namespace = options.namespace
        self._commands = Commands(options, self.recipe)
        self._closed = False

    async def probe(self, page: PageFingerprint, *, domain: str | None = None) -> list[Neighbour]:
        """Return the stored near-duplicates of a page."""
        command = self._commands.probe(page, domain or "")
        if command is None:
            self._check_open()
            return []
        found = neighbours_of_all(await self._all(command, neighbours_of))
        if page.features >= self.policy.full_features:
            return found
        # PROBE does not say how many features the page has: its answers are for pages with many
        least = self.policy.least_similarity(page.features, same_site=True)
        return [n for n in found if domain and n.domain == domain and n.similarity >= least]

    async def judge(
        self, page: PageFingerprint, key: str, options: ReserveOptions = USUAL
    ) -> Verdict:
        """Judge a page. After ServiceUnavailable keep it, and insert the verdict of unjudged()."""
        self._check_open()
        asked, token = _asked(page, key, options), options.token or new_token()
        command = self._commands.reserve(asked, options, token)
        request = Request(command, self._namespace, key, to_all=True, token=token)
        if not options.home:  # none of the services is the home of the key
            request.send_home_off_to_all()
        verdict: Verdict | None = None
        try:
            await self._services.execute((request,))
            verdict = verdict_of_all(request, asked)
        finally:
            held = request.holders()
            if verdict is not None and verdict.token is not None:
                late = {number: held.pop(number) for number in request.unanswered}
                self._services.holders.note(verdict.token, tuple(held))
                held = late
            self._release_later(key, held)
        if verdict is None:
            raise self._services.unavailable(request.route)
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

        It can be inserted like others.
        """
        return unjudged_verdict(_asked(page, key, options))

    async def insert_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Insert pages, all at once. A reservation that is no longer known is made again.

        An error is raised after all other pages are inserted.
        """
        return [False for _ in _raised(await self.end_many("insert", verdicts))]

    async def release_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Release reservations, all at once."""
        return [bool(answer) for answer in _raised(await self.end_many("release", verdicts))]

    async def end_many(self, kind: Kind, verdicts: Sequence[Verdict]) -> list[Any]:
        """End reservations, all at once; return each home's answer, or its error.

        insert   insert the page
        release  release the page

        What cannot be inserted for now stays reserved where it is. Everything else is released at the
        other services, and later at the home if that does not answer a release.
        Raises UsageError and RecipeMismatch for a verdict that cannot be inserted.
        """
        self._check_open()
        if kind != "release":
            for verdict in verdicts:
                self._commands.check_insertable(verdict)
        requests = [
            None if is_unjudged(verdict) else self._ending(kind, verdict) for verdict in verdicts
        ]
        await self._services.execute([request for request in requests if request is not None])
        answers: list[Any] = []
        for verdict, request in zip(verdicts, requests, strict=True):
            answer, home = None, NO_SERVICE
            if request is not None:
                answer, home = self._home_reply(request), request.home
            if kind == "insert" and (request is None or isinstance(answer, NoToken)):
                answer, home = await self._reserve_and_insert(verdict)
            answers.append(answer)
            if request is None or (kind == "insert" and isinstance(answer, ServiceUnavailable)):
                continue
            if kind == "release" and isinstance(answer, Exception):
                home = NO_SERVICE
            holders = self._services.holders.pop(verdict.token or "", request.route.services)
            others = (number for number in holders if number != home)
            self._release_later(verdict.key, dict.fromkeys(others, verdict.token or ""))
        return answers

    def _ending(self, kind: Kind, verdict: Verdict) -> Request:
        allowed = None if kind == "release" else self._services.holders.get(verdict.token or "")
        command = self._commands.end(kind, verdict.document, verdict.token)
        return Request(command, self._namespace, verdict.key, allowed=allowed)

    async def _reserve_and_insert(self, verdict: Verdict) -> tuple[Any, int]:
        """Reserve and insert a page at its home, which does not know its token.

        Return the home's answer, or its error, and its number.
        """
        key, token = verdict.key, new_token()
        command = self._commands.reserve_expired(verdict, token)
        request = Request(command, self._namespace, key, token=token)
        done = False
        try:
            await self._services.execute((request,))
            if isinstance(answer := self._home_reply(request), Exception):
                return answer, NO_SERVICE
            reserved = verdict_of(answer, verdict.document)
            command = self._commands.end("insert", verdict.document, reserved.token)
            insert = Request(command, self._namespace, key, allowed=request.replies.keys())
            await self._services.execute((insert,))
            answer = self._home_reply(insert)
            done = not isinstance(answer, Exception)
            if isinstance(answer, NoToken):  # it was started again in between
                answer = self._services.unavailable(insert.route)
            return answer, insert.home
        except ServiceUnavailable as unreadable:
            return unreadable, NO_SERVICE
        finally:
            if not done:
                self._release_later(key, request.holders())

    def release_later(self, verdict: Verdict) -> None:
        """Release soon a page that was accepted but cannot be inserted. Does not wait."""
        if not self._closed:
            holders = self._services.holders.pop(verdict.token or "", ())
            self._release_later(verdict.key, dict.fromkeys(holders, verdict.token or ""))

    def _release_later(self, key: str, holders: dict[int, str]) -> None:
        """Let services release a page soon; holders has the token at each."""
        for number, token in holders.items():
            self._services.send_later(number, self._commands.release(key, token))

    async def forget(self, key: str) -> bool:
        """Remove a document, at its home."""
        self._check_open()
        request = Request(self._commands.forget(key), self._namespace, key)
        await self._services.execute((request,))
        return bool(_raised([self._home_reply(request)])[0])

    async def info(self) -> dict[str, Any]:
        """Return information on the namespace, over all services."""
        return facts_of_all(await self._all(self._commands.info(), facts_of))

    async def check(self) -> None:
        """Raise RecipeMismatch, UsageError or ServiceUnavailable if pages cannot be judged."""
        await self._all(self._commands.check(), lambda _: None)

    async def close(self) -> None:
        """Close the connections. Closing twice does nothing."""
        if not self._closed:
            self._closed = True
            await self._services.close()

    async def _all(self, command: Command, read: Callable[[Any], T]) -> list[T]:
        """Return the answers of all services. Raises an answer that is an error."""
        self._check_open()
        request = Request(command, self._namespace, None, to_all=True)
        await self._services.execute((request,))
        replies = _raised([request.replies.get(number) for number in request.route.services])
        if None in replies or not request.route.complete or not replies:
            raise self._services.unavailable(request.route)
        return [read(reply) for reply in replies]

    def _home_reply(self, request: Request) -> Any:
        reply = request.home_reply()
        return self._services.unavailable(request.route) if reply is None else reply

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the detector is closed")


def _asked(page: PageFingerprint, key: str, options: ReserveOptions) -> Document:
    return Document(key, page, site_of(key, options.url, options.domain), kind=options.kind)


def _raised(answers: list[Any]) -> list[Any]:
    """Return answers, or raise the first error among them."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


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
        self.recipe, self.policy, self.frames = detector.recipe, detector.policy, detector.frames
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
        self._over = False
        self._waiting: set[Future[Any]] = set()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="dedup-client", daemon=True
        )
        self._thread.start()
        try:
            self.detector = self.wait_for(opening())
        except BaseException:
            self._stop()
            raise

    def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine; cancel it if interrupted."""
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # the loop is closed
            coroutine.close()
            raise _closed() from None
        try:
            self._waiting.add(future)
            if self._over:
                future.cancel()
            return future.result()
        except CancelledError:  # by close(), in another thread
            raise _closed() from None
        except BaseException:
            future.cancel()  # nothing to cancel, if it is the coroutine's own error
            raise
        finally:
            self._waiting.discard(future)

    def close(self) -> None:
        """Close the detector, end every call that is under way, then the thread."""
        try:
            self.wait_for(self._shut_down())
        finally:
            self._stop()

    async def _shut_down(self) -> None:
        await self.detector.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._over = True
        for future in list(self._waiting):  # begun after _shut_down()
            future.cancel()
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
