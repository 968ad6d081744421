"""The service client for an asyncio loop: the async twin of Detector.

    detector = await dedup.open_async("redis://localhost:7700", namespace="news")
    verdict = await detector.reserve(page, key)
    await detector.insert(verdict)

The rule kept here: no call waits longer than the timeout for a service (and once more where the
service does not know a reservation any more); whoever is cancelled leaves no reservation behind.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Self

from dedup.core.fingerprint import fingerprint
from dedup.model.errors import ServiceUnavailable, UsageError
from dedup.model.names import site_of
from dedup.model.policy import Policy
from dedup.model.recipes import Recipe
from dedup.model.values import Neighbour, PageFingerprint, Verdict
from dedup.wire.client.asked import new_token, packed
from dedup.wire.client.commands import Commands, Kind, fault_verdict, verdict_of
from dedup.wire.client.flows import Flows
from dedup.wire.client.link import ReplyError
from dedup.wire.client.service import Service

__all__ = ["AsyncServiceDetector"]


class AsyncServiceDetector:
    """A detector whose store is a table service's. Made by open_async(); an async context manager.

    recipe  the recipe that pages are made with here; the service refuses pages of another
    policy  the distances, scope and times asked for; where the caller chose none, the recipe's
            (a service started with others judges by those)
    """

    def __init__(
        self, service: Service, commands: Commands, recipe: Recipe, policy: Policy
    ) -> None:
        """Private: open_async() makes detectors. The service is closed with the detector."""
        self.recipe = recipe
        self.policy = policy
        self._service = service
        self._commands = commands
        self._flows = Flows(service, commands)
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def fingerprint(
        self, html: bytes | str, *, encoding: str | None = None, url: str | None = None
    ) -> PageFingerprint:
        """Return the fingerprint of a page under the detector's recipe. See fingerprint()."""
        return fingerprint(html, encoding=encoding, url=url, recipe=self.recipe)

    async def probe(self, page: PageFingerprint, *, domain: str | None = None) -> list[Neighbour]:
        """Return the stored near-duplicates of a page. See Detector.probe()."""
        self._check_open()
        command = self._commands.probe(page, domain or "")
        if command is None:
            return []
        return await self._service.run(self._flows.probe(command))

    async def reserve(
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

        See Detector.reserve(). A reservation whose answer comes too late, or not at all, is released. Raises
        RecipeMismatch, UsageError, and ServiceUnavailable: then keep the page, and insert the
        verdict that unjudged() gives.
        """
        self._check_open()
        domain = site_of(key, url, domain)
        service, token, alone = self._service, new_token(), self._service.alone
        answers: list[asyncio.Future[Any]] = []
        if alone is not None:
            command = self._commands.reserve(page, key, domain, exempt, guard=guard, token=token)
            try:
                answers = alone.link.ask_all((packed(command),))
                verdict = verdict_of(await answers[0], page, key, domain)
                if verdict.token is not None:
                    service.holders.note(verdict.token, (alone.number,))
                return verdict
            except (ReplyError, ServiceUnavailable):
                pass  # a flow makes the best of it
            except BaseException:  # nobody waits any more
                for answer in answers:
                    answer.cancel()
                    self._flows.release(alone.number, key, token)
                raise
        flow = self._flows.reserve(page, key, domain, exempt, guard=guard, token=token)
        return await service.run(flow, (alone, answers) if alone and answers else None)

    def unjudged(
        self, page: PageFingerprint, key: str, *, url: str | None = None, domain: str | None = None
    ) -> Verdict:
        """Return the verdict (exempt, "fault") on a page that is kept while no service answers.

        It can be inserted like others.
        """
        return fault_verdict(page, key, site_of(key, url, domain))

    async def insert(self, verdict: Verdict) -> bool:
        """Make a page last: it was processed. Acknowledged by the service on return.

        A reservation that the service does not know any more is made anew first. After
        ServiceUnavailable it may or may not have been inserted; inserting again changes nothing.

        Returns False: late duplicates are counted by the service. Raises as Detector.insert().
        """
        return (await self.insert_many((verdict,)))[0]

    async def insert_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Make pages last, all of them under way at once; return and raise as insert() does.

        An error is raised once every page that could be inserted is.
        """
        errors = await self.end_many("insert", verdicts)
        failed = next(filter(None, errors), None)
        if failed is not None:
            raise failed
        return [False] * len(verdicts)

    async def release(self, verdict: Verdict) -> bool:
        """Give a reservation back. See Detector.release()."""
        self._check_open()
        (answer,) = await self._ended("release", (verdict,))
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    async def end_many(self, kind: Kind, verdicts: Sequence[Verdict]) -> list[Exception | None]:
        """End reservations, all of them under way at once; return each one's error.

        insert   make the page last; see insert()
        pin      hold the reservation until the page comes to the service as an insert event, which
                 is the caller's to produce; a reservation that is not known any more stays so
        release  give the page back
        """
        self._check_open()
        if kind != "release":
            for verdict in verdicts:
                self._commands.check_insertable(verdict)
        answers = await self._ended(kind, verdicts)
        return [answer if isinstance(answer, Exception) else None for answer in answers]

    async def _ended(self, kind: Kind, verdicts: Sequence[Verdict]) -> list[Any]:
        """Return what Flows.end() comes to."""
        service, alone = self._service, self._service.alone
        holders, answers = service.holders, list[asyncio.Future[Any]]()
        if alone is not None:
            only, end = (alone.number,), self._commands.end
            if any(holders.get(verdict.token or "") != only for verdict in verdicts):
                alone = None
        if alone is not None:
            try:
                asked = [packed(end(kind, verdict.key, verdict.token)) for verdict in verdicts]
                answers = alone.link.ask_all(asked)
                replies = [await answer for answer in answers]
                for verdict in verdicts:
                    holders.pop(verdict.token or "", None)
                return replies
            except (ReplyError, ServiceUnavailable):
                pass  # a flow makes the best of it
            except BaseException:  # nobody waits any more
                for answer in answers:
                    answer.cancel()
                raise
        flow = self._flows.end(kind, verdicts)
        return await service.run(flow, (alone, answers) if alone and answers else None)

    def let_go(self, verdict: Verdict) -> None:
        """Release, soon, a page that was accepted but cannot be inserted. Waits for nothing."""
        if not self._closed:
            self._flows.let_go(verdict)

    async def forget(self, key: str) -> bool:
        """Remove the document with this key. See Detector.forget()."""
        self._check_open()
        return await self._service.run(self._flows.forget(key))

    async def info(self) -> dict[str, Any]:
        """Return what the namespace holds, as the service says it."""
        self._check_open()
        return await self._service.run(self._flows.info())

    async def count(self) -> int:
        """Return the number of documents in the namespace."""
        return int((await self.info()).get("documents", 0))

    async def check(self) -> None:
        """Raise RecipeMismatch, UsageError or ServiceUnavailable if pages cannot be judged."""
        self._check_open()
        await self._service.run(self._flows.check())

    async def close(self) -> None:
        """Close the connections. Closing twice does nothing."""
        if not self._closed:
            self._closed = True
            await self._service.close()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the detector is closed")
