"""A fault that lasts: wait longer before each next try, and log it once, not once per page or retry.

A Backoff counts tries and uses no clock: the caller sleeps, and limits the tries or seconds. There is no jitter: only
a few processes retry, each at the moment at which it failed.
"""

import logging
import math
import time
from collections import Counter


class Backoff:
    """The pauses of one retry loop: first_seconds, then twice the one before, up to a bound.

    >>> backoff = Backoff(0.5, 3.0)
    >>> [backoff.next() for _ in range(5)]
    [0.5, 1.0, 2.0, 3.0, 3.0]
    """

    __slots__ = ("_first", "_longest", "_pause")

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        """No pause is shorter than first_seconds or longer than longest_seconds."""
        self._first = min(first_seconds, longest_seconds)
        self._longest = longest_seconds
        self._pause = self._first

    def next(self) -> float:
        """Return the seconds to wait now; the pause after it is longer."""
        pause = self._pause
        self._pause = min(2 * pause, self._longest)
        return pause

    def reset(self) -> None:
        """Start with the first pause again: a try succeeded."""
        self._pause = self._first


class SayOnce:
    """The kinds of messages that were logged, each until it ends or its time has passed.

    self._once.log(log, "kafka", "Kafka does not answer: %s", error, level=logging.WARNING)
    ...
    if self._once.ended("kafka"):
        log.info("Kafka answers again")
    """

    __slots__ = ("_again_seconds", "_left_out", "_said")

    def __init__(self, *, again_seconds: float = math.inf) -> None:
        """again_seconds: how long after a message the same kind is new again; by default never."""
        self._again_seconds = again_seconds
        self._said: dict[str, float] = {}
        self._left_out: Counter[str] = Counter()

    def log(
        self,
        log: logging.Logger,
        kind: str,
        text: str,
        *values: object,
        level: int = logging.ERROR,
        error: BaseException | None = None,
    ) -> None:
        """Log a message if its kind is new, with the number of those left out since the last one.

        error is logged with its traceback.
        """
        if not self.is_new(kind, time.monotonic()):
            self._left_out[kind] += 1
            return
        more = self._left_out.pop(kind, 0)
        if more:
            text, values = f"{text} (%d more like it)", (*values, more)
        log.log(level, text, *values, exc_info=error)

    def is_new(self, kind: str, now: float = 0.0) -> bool:
        """Whether to log a message of this kind now; from then on it counts as logged.

        now is in seconds of a monotonic clock; it matters with again_seconds only.
        """
        last = self._said.get(kind)
        if last is not None and now - last < self._again_seconds:
            return False
        self._said[kind] = now
        return True

    def ended(self, kind: str) -> bool:
        """Note that a fault has ended: the next message of its kind is new. Return whether one was logged."""
        self._left_out.pop(kind, None)
        return self._said.pop(kind, None) is not None
