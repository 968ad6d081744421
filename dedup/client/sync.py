"""The service client for threads: Detector's interface over redis-py.

    with dedup.open("redis://localhost:7700", namespace="news") as detector:
        verdict = detector.reserve(page, key)
        detector.insert(verdict)

The rule kept here: no call waits longer than the timeout for a connection, and as long for the
answer, of each service; one that fails again and again is asked ever more seldom (breaker.py).
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from dedup.client.address import Address
from dedup.client.breaker import Breaker
from dedup.client.commands import (
    Command,
    Commands,
    NoToken,
    error_of,
    facts_of,
    is_fault,
    neighbours_of,
    verdict_of,
)
from dedup.errors import ServiceUnavailable, UsageError
from dedup.fingerprint import fingerprint
from dedup.names import registrable_domain
from dedup.policy import Policy
from dedup.recipes import Recipe
from dedup.values import Neighbour, PageFingerprint, Verdict

__all__ = ["ServiceDetector"]

CONNECTIONS = 64  # to each service; more threads at once meet ServiceUnavailable


class ServiceDetector:
    """A detector whose store is a table service's. Made by open(); a context manager; thread-safe.

    recipe  the recipe that pages are made with here; the service refuses pages of another
    policy  the distances, scope and times asked for; where the caller chose none, the recipe's
            (a service started with others judges by those)
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        commands: Commands,
        recipe: Recipe,
        policy: Policy,
        timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Private: open() makes detectors."""
        self.recipe = recipe
        self.policy = policy
        self._commands = commands
        self._ends = [_End(address, timeout_seconds) for address in addresses]
        self._lock = threading.Lock()  # of the breakers
        self._clock = clock
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of documents in the namespace."""
        return int(self.info().get("documents", 0))

    def fingerprint(
        self, html: bytes | str, *, encoding: str | None = None, url: str | None = None
    ) -> PageFingerprint:
        """Return the fingerprint of a page under the detector's recipe. See fingerprint()."""
        return fingerprint(html, encoding=encoding, url=url, recipe=self.recipe)

    def probe(self, page: PageFingerprint, *, domain: str | None = None) -> list[Neighbour]:
        """Return the stored near-duplicates of a page. See Detector.probe()."""
        self._check_open()
        command = self._commands.probe(page, domain or "")
        return [] if command is None else neighbours_of(self._ask(command))

    def reserve(
        self,
        page: PageFingerprint,
        key: str,
        *,
        url: str | None = None,
        domain: str | None = None,
        exempt: str | None = None,
        guard: bool = True,
    ) -> Verdict:
        """Judge a page and, unless it is a near-duplicate, take its fingerprint.

        See Detector.reserve(). Raises RecipeMismatch, UsageError, and ServiceUnavailable.
        """
        self._check_open()
        if domain is None:
            domain = registrable_domain(url or key)
        command = self._commands.reserve(page, key, domain, exempt, guard=guard)
        return verdict_of(self._ask(command), page, key, domain)

    def insert(self, verdict: Verdict) -> bool:
        """Make a page last: it was processed. Acknowledged by the service on return.

        A reservation that the service does not know any more is made anew first. After
        ServiceUnavailable it may or may not have been inserted; inserting again changes nothing.

        Returns False: late duplicates are counted by the service. Raises as Detector.insert().
        """
        return self.insert_many((verdict,))[0]

    def insert_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Make pages last, all of them under way at once; return and raise as insert() does.

        An error is raised once every page that could be inserted is.
        """
        self._check_open()
        for verdict in verdicts:
            self._commands.check_insertable(verdict)
        asked = [self._commands.end("insert", verdict) for verdict in verdicts]
        errors: list[Exception] = []
        for verdict, answer in zip(verdicts, self._ask_all(asked), strict=True):
            try:
                if isinstance(answer, NoToken):
                    again = self._ask(self._commands.anew(verdict))
                    anew = verdict_of(again, verdict.page, verdict.key, verdict.domain)
                    self._ask(self._commands.end("insert", anew))
                elif isinstance(answer, Exception):
                    errors.append(answer)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return [False] * len(verdicts)

    def release(self, verdict: Verdict) -> bool:
        """Give a reservation back. See Detector.release()."""
        self._check_open()
        return not is_fault(verdict) and bool(self._ask(self._commands.end("release", verdict)))

    def forget(self, key: str) -> bool:
        """Remove the document with this key. See Detector.forget()."""
        self._check_open()
        return bool(self._ask(self._commands.forget(key)))

    def info(self) -> dict[str, Any]:
        """Return what the namespace holds, as the service says it."""
        self._check_open()
        return facts_of(self._ask(self._commands.info()))

    def check(self) -> None:
        """Raise RecipeMismatch, UsageError or ServiceUnavailable if pages cannot be judged."""
        self._check_open()
        self._ask(self._commands.check())

    def close(self) -> None:
        """Close the connections. Closing twice does nothing."""
        self._closed = True
        for end in self._ends:
            end.client.close()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the detector is closed")

    def _ask(self, command: Command) -> Any:
        answer = self._ask_all((command,))[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Return each command's answer, or the error that it stands for, of the first service.

        Raises ServiceUnavailable if none answers.
        """
        if not commands:
            return []
        for end in self._ends:
            with self._lock:
                allowed = end.breaker.allows(self._clock())
            if not allowed:
                continue
            try:
                answers = end.ask(commands)
                for answer in answers:
                    if isinstance(answer, ServiceUnavailable):
                        raise answer
            except redis.AuthenticationError as error:
                end.trouble = str(error_of(f"NOAUTH {error}"))
            except (redis.RedisError, OSError, ServiceUnavailable) as error:
                end.trouble = str(error)
            else:
                with self._lock:
                    end.breaker.answered()
                return answers
            with self._lock:
                end.breaker.failed(self._clock())
        why = "; ".join(f"{end.address}: {end.trouble}" for end in self._ends)
        raise ServiceUnavailable(
            f"no table service answers ({why}); see that `dedup serve` runs there"
        )


class _End:
    """One URL, its connections, and how it fares."""

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self.address = address
        self.breaker = Breaker()
        self.trouble = "it failed before, and is tried again soon"
        tls: dict[str, Any] = {"ssl": True, "ssl_ca_certs": address.ca_file} if address.tls else {}
        self.client = redis.Redis(
            host=address.host,
            port=address.port,
            password=address.token,
            protocol=2,
            max_connections=CONNECTIONS,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            retry=Retry(NoBackoff(), 0),
            **tls,
        )

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers, or the errors that they stand for. Raises what redis-py raises."""
        pipeline = self.client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
        return [
            error_of(_line(answer)) if isinstance(answer, redis.ResponseError) else answer
            for answer in pipeline.execute(raise_on_error=False)
        ]


def _line(error: redis.ResponseError) -> str:
    """Return an error's answer as it came: redis-py leaves out the code ERR."""
    text = str(error)
    return text if text.partition(" ")[0].isupper() else f"ERR {text}"
