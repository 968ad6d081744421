"""Opening a worker's detector: an embedded store, or a table service that the workers share.

The rule kept here: a service that is away is waited for, as a broker is; a wrong option is not.
"""

import asyncio
from collections.abc import Callable

import msgspec

from dedup.core.backoff import Backoff
from dedup.detector import AsyncDetector, open_embedded
from dedup.detector.asynchronous import AsyncEmbeddedDetector
from dedup.model.errors import ServiceUnavailable
from dedup.worker.options import Config

__all__ = ["open_detector"]

TIMEOUT_SECONDS = 5.0  # of a whole batch: a stream is in no hurry
FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 10.0


async def open_detector(config: Config, fault: Callable[[str, Exception], None]) -> AsyncDetector:
    """Open the detector, waiting for a service as long as it takes; fault is told of each attempt.

    Raises UsageError, RecipeMismatch, and what opening a store raises.
    """
    if config.service is None:
        assert config.path is not None
        return AsyncEmbeddedDetector(open_embedded(config.path, config.detector))
    from dedup.detector.remote import open_remote

    options = msgspec.structs.replace(config.detector, timeout_seconds=TIMEOUT_SECONDS)
    backoff = Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
    while True:
        try:
            return await open_remote(config.service, options)
        except ServiceUnavailable as error:
            fault("connect", error)
            await asyncio.sleep(backoff.next())
