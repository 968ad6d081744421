"""A histogram of how long commands took; a note costs a fraction of a microsecond."""

from bisect import bisect_left

__all__ = ["BOUNDS", "Durations"]

BOUNDS = (
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 1.0,
)  # fmt: skip  # seconds


class Durations:
    """Durations in seconds, counted by bucket; the last count is of all beyond the last bound."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0

    def note(self, seconds: float, commands: int) -> None:
        """Count commands that took this long, several of them together."""
        self.counts[bisect_left(BOUNDS, seconds)] += commands
        self.sum += seconds
