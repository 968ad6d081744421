"""When a service that failed is asked again: a circuit breaker, without a clock of its own.

    closed --failures in a row--> open --its pause is over--> half-open --one trial--> closed or open

The rule kept here: a service that does not answer is tried less and less often, but at least every
LONGEST_PAUSE_SECONDS. Times are seconds that never go back, passed in.
"""

__all__ = ["FIRST_PAUSE_SECONDS", "LONGEST_PAUSE_SECONDS", "CircuitBreaker"]

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0


class CircuitBreaker:
    """The state of one service."""

    def __init__(self, failures: int = 1) -> None:
        """Start closed; open after this many failures in a row."""
        self._limit = failures
        self._failures = 0
        self._until: float | None = None  # open, or half-open once it is over
        self._pause = FIRST_PAUSE_SECONDS

    @property
    def is_closed(self) -> bool:
        """Whether the service may be asked by every caller."""
        return self._until is None

    def allows(self, now: float) -> bool:
        """Whether to ask the service now. Once the pause is over one caller may, for a trial."""
        if self._until is None:
            return True
        if now < self._until:
            return False
        self._until = (
            now + self._pause
        )  # others wait for the trial; as long, if its outcome never comes
        return True

    def rests(self, now: float) -> float:
        """Return for how many seconds the service is not asked."""
        return 0.0 if self._until is None else max(0.0, self._until - now)

    def failed(self, now: float) -> None:
        """Note that the service did not answer."""
        self._failures += 1
        if self._failures < self._limit:
            return
        if self._until is not None:
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        self._until = now + self._pause

    def answered(self) -> None:
        """Note that the service answered."""
        if self._failures:
            self._failures = 0
            self._until = None
            self._pause = FIRST_PAUSE_SECONDS
