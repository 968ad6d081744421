"""How long to wait before the next try: pauses that grow up to a bound.

It counts tries and uses no clock: the caller sleeps, and limits the tries or seconds. There is no jitter: only
a few processes retry, each at the moment at which it failed.
"""


class Backoff:
    """The pauses of one retry loop: first_seconds, then factor times the one before, up to a bound.

    >>> backoff = Backoff(0.5, 3.0)
    >>> [backoff.next() for _ in range(5)]
    [0.5, 1.0, 2.0, 3.0, 3.0]
    """

    __slots__ = ("_factor", "_first", "_longest", "_pause")

    def __init__(
        self, first_seconds: float, longest_seconds: float, *, factor: float = 2.0
    ) -> None:
        """No pause is shorter than first_seconds or longer than longest_seconds."""
        self._first = min(first_seconds, longest_seconds)
        self._longest = longest_seconds
        self._factor = factor
        self._pause = self._first

    def next(self) -> float:
        """Return the seconds to wait now; the pause after it is longer."""
        pause = self._pause
        self._pause = min(pause * self._factor, self._longest)
        return pause

    def reset(self) -> None:
        """Start with the first pause again: a try succeeded."""
        self._pause = self._first
