"""What a detector of table services does, step by step, for a loop and for threads alike. No I/O.

    reserve  RESERVE at all services under one token -> verdict; released where nobody needs it
    end      INSERT, or RELEASE, at the home -> RELEASE at the others
    anew     RESERVE (exempt) and INSERT at the home, which does not know the page any more
    probe, forget, info, check

A flow is a generator: it yields commands, which its driver has carried out when it goes on
(service.py, threads.py), and it tells services to release what nobody waits for.

The rule kept here: a page is dropped only for what a service said; whoever may hold a reservation
that is not needed any more is told so, as soon as it can be reached.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from dedup.model.errors import ServiceUnavailable
from dedup.model.values import Neighbour, PageFingerprint, Verdict
from dedup.wire.client.asked import (
    Asked,
    facts_of_all,
    neighbours_of_all,
    new_token,
    verdict_of_all,
)
from dedup.wire.client.commands import (
    Command,
    Commands,
    Kind,
    NoToken,
    facts_of,
    is_fault,
    neighbours_of,
    verdict_of,
)
from dedup.wire.client.routing import NOBODY, Route

__all__ = ["Flow", "Flows", "Holders", "Services"]

T = TypeVar("T")
Flow = Generator[Sequence[Asked], None, T]

HELD_LIMIT = 100_000  # pages of which it is known who holds them; of older ones it is supposed


class Holders(dict[str, tuple[int, ...]]):
    """Which services hold which token; of the last HELD_LIMIT tokens it is known."""

    def note(self, token: str, ends: tuple[int, ...]) -> None:
        """Remember who holds a token."""
        self[token] = ends
        if len(self) > HELD_LIMIT:
            with suppress(RuntimeError):  # another thread was quicker
                self.pop(next(iter(self)), None)


class Services(Protocol):
    """Who carries the commands out."""

    holders: Holders

    def tell(self, end: int, command: Command) -> None:
        """Have a service release something, as soon as it can be reached. Waits for nothing."""

    def unavailable(self, route: Route) -> ServiceUnavailable:
        """Return the error that says what is wrong with each service."""


class Flows:
    """The flows of one detector."""

    def __init__(self, services: Services, commands: Commands) -> None:
        """Ask services on behalf of a namespace."""
        self._services = services
        self._commands = commands
        self._namespace = commands.namespace

    def reserve(
        self,
        page: PageFingerprint,
        key: str,
        domain: str,
        exempt: str | None,
        *,
        guard: bool,
        token: str | None = None,
    ) -> Flow[Verdict]:
        """Judge a page. Whoever gives up leaves no reservation behind."""
        token = token or new_token()
        command = self._commands.reserve(page, key, domain, exempt, guard=guard, token=token)
        asked = Asked(command, self._namespace, key, everybody=True, token=token)
        verdict: Verdict | None = None
        try:
            yield (asked,)
            verdict = verdict_of_all(asked, page, domain)
        finally:
            held = asked.holders()
            if verdict is not None and verdict.token is not None:
                lost = {end: held.pop(end) for end in asked.lost} if asked.lost else {}
                self._services.holders.note(verdict.token, tuple(held))
                held = lost
            for end, under in held.items():
                self.release(end, key, under)
        if verdict is None:
            raise self._services.unavailable(asked.route)
        return verdict

    def end(self, kind: Kind, verdicts: Sequence[Verdict]) -> Flow[list[Any]]:
        """End reservations, all under way at once; return each home's answer, or its error.

        What cannot be inserted for now stays reserved where it is. All else is released at the
        others; and at the home, too, if it is to be released there and does not answer.
        """
        batch = [None if is_fault(verdict) else self._ending(kind, verdict) for verdict in verdicts]
        yield [asked for asked in batch if asked is not None]
        answers: list[Any] = []
        for verdict, asked in zip(verdicts, batch, strict=True):
            answer, home = (None, NOBODY) if asked is None else (self._answer(asked), asked.home)
            if kind == "insert" and (asked is None or isinstance(answer, NoToken)):
                answer, home = yield from self._anew(verdict)
            answers.append(answer)
            if asked is None or (kind == "insert" and isinstance(answer, ServiceUnavailable)):
                continue
            if kind == "release" and isinstance(answer, Exception):
                home = NOBODY
            self._release_others(verdict, asked.route, home)
        return answers

    def _ending(self, kind: Kind, verdict: Verdict) -> Asked:
        among = None if kind == "release" else self._services.holders.get(verdict.token or "")
        command = self._commands.end(kind, verdict.key, verdict.token)
        return Asked(command, self._namespace, verdict.key, among=among)

    def _anew(self, verdict: Verdict) -> Flow[tuple[Any, int]]:
        """Reserve and insert a page at its home, which knows nothing of its token.

        Return the home's answer, or its error, and who it is.
        """
        key, token = verdict.key, new_token()
        asked = Asked(self._commands.anew(verdict, token), self._namespace, key, token=token)
        done = False
        try:
            yield (asked,)
            if isinstance(answer := self._answer(asked), Exception):
                return answer, NOBODY
            again = verdict_of(answer, verdict.page, key, verdict.domain)
            command = self._commands.end("insert", key, again.token)
            insert = Asked(command, self._namespace, key, among=asked.replies.keys())
            yield (insert,)
            answer = self._answer(insert)
            done = not isinstance(answer, Exception)
            if isinstance(answer, NoToken):  # it was started anew in between
                answer = self._services.unavailable(insert.route)
            return answer, insert.home
        except ServiceUnavailable as unreadable:
            return unreadable, NOBODY
        finally:
            if not done:
                for end, held in asked.holders().items():
                    self.release(end, key, held)

    def let_go(self, verdict: Verdict) -> None:
        """Release a page that cannot be inserted, at all that hold it; nobody waits for that."""
        for end in self._services.holders.pop(verdict.token or "", ()):
            self.release(end, verdict.key, verdict.token)

    def probe(self, command: Command) -> Flow[list[Neighbour]]:
        """Return the stored near-duplicates, of all services."""
        return neighbours_of_all((yield from self._all(command, neighbours_of)))

    def info(self) -> Flow[dict[str, Any]]:
        """Return what the namespace holds, at all services."""
        return facts_of_all((yield from self._all(self._commands.info(), facts_of)))

    def check(self) -> Flow[None]:
        """Raise what keeps pages from being judged."""
        yield from self._all(self._commands.check(), lambda _: None)

    def forget(self, key: str) -> Flow[bool]:
        """Remove a document at its home."""
        asked = Asked(self._commands.forget(key), self._namespace, key)
        yield (asked,)
        if isinstance(answer := self._answer(asked), Exception):
            raise answer
        return bool(answer)

    def _all(self, command: Command, read: Callable[[Any], T]) -> Flow[list[T]]:
        """Return what every service answers. Raises what an answer stands for."""
        asked = Asked(command, self._namespace, None, everybody=True)
        yield (asked,)
        replies = [asked.replies.get(end) for end in asked.route.ends]
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        if None in replies or not asked.route.complete or not replies:
            raise self._services.unavailable(asked.route)
        return [read(reply) for reply in replies]

    def _answer(self, asked: Asked) -> Any:
        answer = asked.answer()
        return self._services.unavailable(asked.route) if answer is None else answer

    def _release_others(self, verdict: Verdict, route: Route, home: int) -> None:
        for end in self._services.holders.pop(verdict.token or "", route.ends):
            if end != home:
                self.release(end, verdict.key, verdict.token)

    def release(self, end: int, key: str, token: str | None) -> None:
        """Have a service release a page, soon; nobody waits for that."""
        self._services.tell(end, self._commands.end("release", key, token))
