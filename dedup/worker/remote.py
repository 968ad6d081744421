"""Judging by a table service, which the workers of a crawl share.

The rule kept here: the pages of a batch are asked about at once, over one connection; a service that
is away is ServiceUnavailable for each of them, and the pipeline asks again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Self

from dedup.model.errors import ServiceUnavailable
from dedup.model.values import Verdict
from dedup.wire.client import AsyncServiceDetector, open_async_service
from dedup.worker.batch import Ask
from dedup.worker.options import Config

__all__ = ["RemoteJudge"]

TIMEOUT_SECONDS = 5.0  # of a whole batch: a stream is in no hurry
FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 10.0


class RemoteJudge:
    """A detector of a table service. Made by open(); an async context manager."""

    def __init__(self, detector: AsyncServiceDetector) -> None:
        """Take a detector over."""
        self.recipe = detector.recipe
        self._detector = detector

    @classmethod
    async def open(cls, config: Config, fault: Callable[[str, Exception], None]) -> "RemoteJudge":
        """Connect, waiting for a service as long as it takes; fault is told of each attempt.

        Raises UsageError and RecipeMismatch.
        """
        pause = FIRST_RETRY_SECONDS
        while True:
            try:
                detector = await open_async_service(
                    config.service or "",
                    namespace=config.namespace,
                    distance=config.distance,
                    total_distance=config.total_distance,
                    min_features=config.min_features,
                    scope=config.scope,
                    secret=config.secret,
                    timeout_seconds=TIMEOUT_SECONDS,
                )
            except ServiceUnavailable as error:
                fault("connect", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_RETRY_SECONDS)
            else:
                return cls(detector)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._detector.close()

    async def reserve(self, asks: Sequence[Ask]) -> list[Verdict | Exception]:
        """Answer each; an exception stands for the page that it happened to."""
        answers = await asyncio.gather(
            *(
                self._detector.reserve(ask.page, ask.key, url=ask.url, exempt=ask.exempt)
                for ask in asks
            ),
            return_exceptions=True,
        )
        return [_judged(answer) for answer in answers]

    async def insert(self, verdicts: Sequence[Verdict]) -> int:
        """Make pages last; late duplicates are counted by the service."""
        return sum(await self._detector.insert_many(verdicts))

    async def release(self, verdicts: Sequence[Verdict]) -> None:
        """Give reservations back."""
        for error in await self._detector.end_many("release", verdicts):
            if error is not None:
                raise error


def _judged(answer: Verdict | BaseException) -> Verdict | Exception:
    if isinstance(answer, Verdict | Exception):
        return answer
    raise answer  # cancelled: nobody wants to know any more
