"""Starting, stopping and asking, with bounds: what aiokafka leaves to its caller.

The rule kept here: a start is tried again, ever more slowly, until it works or its time is over; a
stop or a commit takes as long as it is given and no longer, whatever the broker does.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from dedup.model.errors import DedupError

__all__ = ["STOP_SECONDS", "KafkaUnavailable", "LogLost", "TopicUnfit", "ended", "started"]

FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0
STOP_SECONDS = 5.0

log = logging.getLogger(__name__)

T = TypeVar("T")


class KafkaUnavailable(DedupError):
    """Kafka does not answer, or not in time."""


class TopicUnfit(DedupError):
    """The topic is missing and may not be made, or it would not keep the log."""


class LogLost(DedupError):
    """The log does not go on where it was left: another topic or cluster, or offsets are gone."""


async def started(
    start: Callable[[], Awaitable[T]], what: str, *, within_seconds: float | None = None
) -> T:
    """Call start() until it returns, with growing pauses; return what it returned.

    start must leave nothing behind when it raises. Without a bound it is tried for ever: cancel it.
    Raises KafkaUnavailable when the time is over, in the middle of a try too; errors of this package
    at once.
    """
    began, pause = time.monotonic(), FIRST_WAIT_SECONDS
    until = None if within_seconds is None else asyncio.get_running_loop().time() + within_seconds
    while True:
        try:
            async with asyncio.timeout_at(until):
                return await start()
        except DedupError:
            raise
        except Exception as error:
            passed = time.monotonic() - began
            if within_seconds is not None and passed + pause > within_seconds:
                raise KafkaUnavailable(
                    f"{what}: Kafka did not answer within {within_seconds:g} seconds "
                    f"({type(error).__name__}: {error})"
                ) from error
            log.warning("%s: %s; trying again in %.1f s", what, error, pause)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_WAIT_SECONDS)


async def ended(
    ending: Coroutine[Any, Any, object], what: str, seconds: float = STOP_SECONDS
) -> bool:
    """Wait for a stop, a flush or a commit, so long at most; tell whether it came to its end.

    What it raises is logged: aiokafka's stop raises CancelledError when the broker is gone.
    """
    task = asyncio.ensure_future(ending)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.5)
        log.warning("%s: not done after %g s, given up", what, seconds)
        return False
    if task.cancelled() or task.exception() is not None:
        log.info("%s: %s", what, "cancelled" if task.cancelled() else task.exception())
        return False
    return True
