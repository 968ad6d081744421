"""An embedded store for an asyncio loop.

The rule kept here: a call for one page takes microseconds, and is made without yielding to the loop; a
batch may take longer, and runs in a thread, so that the loop is not blocked.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from dedup.detector.detector import EmbeddedDetector
from dedup.detector.interface import AsyncDetector, Question
from dedup.model.page import USUAL, Neighbour, PageFingerprint, ReserveOptions, Verdict

__all__ = ["AsyncEmbeddedDetector"]

A = TypeVar("A")
R = TypeVar("R")

TRANSACTION = 64  # pages inserted in one: each is compared with the others in it


class AsyncEmbeddedDetector(AsyncDetector):
    """Calls an embedded detector, which is closed with it."""

    def __init__(self, detector: EmbeddedDetector) -> None:
        """Take over a detector."""
        self.recipe = detector.recipe
        self.policy = detector.policy
        self._detector = detector
        self._thread: ThreadPoolExecutor | None = None

    async def probe(self, page: PageFingerprint, *, domain: str | None = None) -> list[Neighbour]:
        """Return the stored near-duplicates of a page."""
        return self._detector.probe(page, domain=domain)

    async def judge(
        self, page: PageFingerprint, key: str, options: ReserveOptions = USUAL
    ) -> Verdict:
        """Judge a page."""
        return self._detector.judge(page, key, options)

    async def insert(self, verdict: Verdict) -> bool:
        """Insert a page."""
        return self._detector.insert(verdict)

    async def release(self, verdict: Verdict) -> bool:
        """Release a reservation."""
        return self._detector.release(verdict)

    async def forget(self, key: str) -> bool:
        """Remove a document."""
        return self._detector.forget(key)

    async def info(self) -> dict[str, Any]:
        """Return information on the namespace."""
        return self._detector.info()

    async def reserve_many(self, questions: Sequence[Question]) -> list[Verdict | Exception]:
        """Judge pages in their order; return the exception in place of a verdict where one was raised."""
        return await self._in_thread(self._reserve_many, questions)

    async def insert_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Insert pages, TRANSACTION of them at a time."""
        return await self._in_thread(self._insert_many, verdicts)

    async def release_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Release reservations."""
        return await self._in_thread(self._release_many, verdicts)

    async def close(self) -> None:
        """Close the detector after the calls that are under way."""
        if self._thread is not None:
            self._thread.shutdown()
        self._detector.close()

    async def _in_thread(self, work: Callable[[A], R], argument: A) -> R:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "dedup-detector")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, argument)

    def _reserve_many(self, questions: Sequence[Question]) -> list[Verdict | Exception]:
        answers: list[Verdict | Exception] = []
        for question in questions:
            try:
                verdict = self._detector.judge(*question)
            except Exception as error:
                answers.append(error)
            else:
                answers.append(verdict)
        return answers

    def _insert_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        parts = (verdicts[i : i + TRANSACTION] for i in range(0, len(verdicts), TRANSACTION))
        return [late for part in parts for late in self._detector.insert_many(part)]

    def _release_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        return [self._detector.release(verdict) for verdict in verdicts]
