"""Memory that several holders share, counted in bytes. No clock, no thread.

The rule kept here: each holder may take as much as is left for the others. Alone it has half of the
budget, two have a third each, and so on: one that takes all it can never leaves the next one nothing.
"""

__all__ = ["MemoryBudget", "Share"]


class MemoryBudget:
    """So many bytes, and how many of them are taken."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0


class Share:
    """What one holder has taken of a budget, in bytes."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.used = 0

    def fits(self, size: int) -> bool:
        """Whether the holder may take that many bytes more."""
        budget = self._budget
        return self.used + size <= budget.total - budget.used

    def take(self, size: int) -> None:
        """Take bytes, or give them back where size is negative."""
        self.used += size
        self._budget.used += size

    def move(self, budget: MemoryBudget) -> None:
        """Count what was taken against another budget from now on."""
        self._budget.used -= self.used
        budget.used += self.used
        self._budget = budget
