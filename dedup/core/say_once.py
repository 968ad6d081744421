"""Which message is new: a fault that lasts is logged once, not once per page or retry.

The rule kept here: pure. It neither logs nor reads a clock: the caller logs, with its own logger and
level, if is_new() says so.
"""

import math

__all__ = ["SayOnce"]


class SayOnce:
    """The kinds of messages that were logged, each until it is over or its time has passed.

    if self._once.is_new("kafka"):
        log.warning("Kafka does not answer: %s", error)
    ...
    if self._once.ended("kafka"):
        log.info("Kafka answers again")
    """

    __slots__ = ("_again_seconds", "_said")

    def __init__(self, *, again_seconds: float = math.inf) -> None:
        """again_seconds: how long after a message the same kind is new again; by default never."""
        self._again_seconds = again_seconds
        self._said: dict[str, float] = {}

    def is_new(self, kind: str, now: float = 0.0) -> bool:
        """Whether to log a message of this kind now; from then on it counts as logged.

        now is in seconds of a clock that never goes back; it matters with again_seconds only.
        """
        last = self._said.get(kind)
        if last is not None and now - last < self._again_seconds:
            return False
        self._said[kind] = now
        return True

    def ended(self, kind: str) -> bool:
        """Note that what was logged has ended: the next message of this kind is new.

        Returns whether one was logged: then its end may be worth a message too.
        """
        return self._said.pop(kind, None) is not None
