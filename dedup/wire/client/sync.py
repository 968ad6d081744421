"""The service client for threads: Detector's interface over redis-py.

    with dedup.open("redis://localhost:7700", namespace="news") as detector:
        verdict = detector.reserve(page, key)
        detector.insert(verdict)

The rule kept here: that of threads.py, for each step of a call (flows.py).
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Self

from dedup.core.fingerprint import fingerprint
from dedup.model.errors import UsageError
from dedup.model.names import site_of
from dedup.model.policy import Policy
from dedup.model.recipes import Recipe
from dedup.model.values import Neighbour, PageFingerprint, Verdict
from dedup.wire.client.address import Address
from dedup.wire.client.commands import Commands
from dedup.wire.client.flows import Flows
from dedup.wire.client.threads import Services

__all__ = ["ServiceDetector"]


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
        self._services = Services(addresses, timeout_seconds, clock)
        self._flows = Flows(self._services, commands)
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
        return [] if command is None else self._services.run(self._flows.probe(command))

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

        See Detector.reserve(). A reservation whose answer does not come in time is released. Raises
        RecipeMismatch, UsageError, and ServiceUnavailable.
        """
        self._check_open()
        domain = site_of(key, url, domain)
        return self._services.run(self._flows.reserve(page, key, domain, exempt, guard=guard))

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
        answers = self._services.run(self._flows.end("insert", verdicts))
        failed = next((answer for answer in answers if isinstance(answer, Exception)), None)
        if failed is not None:
            raise failed
        return [False] * len(verdicts)

    def release(self, verdict: Verdict) -> bool:
        """Give a reservation back. See Detector.release()."""
        self._check_open()
        (answer,) = self._services.run(self._flows.end("release", (verdict,)))
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    def forget(self, key: str) -> bool:
        """Remove the document with this key. See Detector.forget()."""
        self._check_open()
        return self._services.run(self._flows.forget(key))

    def info(self) -> dict[str, Any]:
        """Return what the namespace holds, as the service says it."""
        self._check_open()
        return self._services.run(self._flows.info())

    def check(self) -> None:
        """Raise RecipeMismatch, UsageError or ServiceUnavailable if pages cannot be judged."""
        self._check_open()
        self._services.run(self._flows.check())

    def close(self) -> None:
        """Close the connections. Closing twice does nothing."""
        self._closed = True
        self._services.close()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the detector is closed")
