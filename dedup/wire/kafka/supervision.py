"""Start and stop aiokafka's clients within bounds; the errors that callers see.

Invariants: a start is retried with growing pauses until it succeeds or times out; a stop or a commit is
abandoned at its timeout, whatever the broker does.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from dedup.core.backoff import Backoff
from dedup.model.errors import DedupError
from dedup.wire.kafka.login import KafkaConfig, login_refused

FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0
STOP_SECONDS = 5.0
LOGIN_SECONDS = 15.0  # for which a refused login is tried again: users may just be made

log = logging.getLogger(__name__)

T = TypeVar("T")


class KafkaUnavailable(DedupError):
    """Kafka does not answer, or not in time."""


class Refused(KafkaUnavailable):
    """Kafka, or its producer, will never take this record. too_large: because of its size."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


class LoginRefused(DedupError):
    """Kafka answers, and refuses user or password."""


class TopicUnfit(DedupError):
    """The topic is missing and may not be created, or its settings would lose records of the log."""


class LogLost(DedupError):
    """The log cannot be continued: it is another topic or cluster, or offsets are gone."""


async def started(
    start: Callable[[], Awaitable[T]],
    what: str,
    *,
    within_seconds: float | None = None,
    config: KafkaConfig | None = None,
) -> T:
    """Call start() until it returns, with growing pauses; return its result.

    start must clean up after itself when it raises. Without within_seconds it is retried until
    cancelled. Raises KafkaUnavailable at the timeout, also in the middle of a try, and DedupErrors of
    start() at once. With a config also LoginRefused, after LOGIN_SECONDS of refusals.
    """
    began, backoff = time.monotonic(), Backoff(FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS)
    until = None if within_seconds is None else asyncio.get_running_loop().time() + within_seconds
    while True:
        try:
            async with asyncio.timeout_at(until):
                return await start()
        except DedupError:
            raise
        except Exception as error:
            passed, pause = time.monotonic() - began, backoff.next()
            if within_seconds is not None and passed + pause > within_seconds:
                raise KafkaUnavailable(
                    f"{what}: Kafka did not answer within {within_seconds:g} seconds "
                    f"({type(error).__name__}: {error})"
                ) from error
            refused = None if config is None else await refusal(config, passed)
            log.warning("%s: %s; trying again in %.1f s", what, refused or error, pause)
        await asyncio.sleep(pause)


async def refusal(config: KafkaConfig, seconds: float) -> str | None:
    """Return why Kafka refuses our login, if it does; called where connecting failed.

    seconds is how long that has failed. Raises LoginRefused after LOGIN_SECONDS.
    """
    refused = await login_refused(config)
    if refused and seconds > LOGIN_SECONDS:
        raise LoginRefused(refused)
    return refused


async def ended(
    stop: Coroutine[Any, Any, object], what: str, seconds: float = STOP_SECONDS
) -> bool:
    """Wait this long at most for a stop, a flush or a commit; return whether it succeeded.

    Its exception is logged: aiokafka's stop() raises CancelledError when the broker is gone.
    """
    task = asyncio.ensure_future(stop)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.5)
        log.warning("%s: timed out after %g s", what, seconds)
        return False
    if task.cancelled() or task.exception() is not None:
        log.info("%s: %s", what, "cancelled" if task.cancelled() else task.exception())
        return False
    return True
