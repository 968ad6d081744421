"""Log a fault that lasts once, not once per page or retry."""

import logging
import math
import time
from collections import Counter


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
