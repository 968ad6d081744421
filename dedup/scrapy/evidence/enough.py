"""How much is enough: the measures that the rules of evidence share, and a mapping that is never too large."""

from collections.abc import Callable
from typing import TypeVar

FEW = 3  # pages, from which on what all of them have in common is no coincidence
MANY = 10  # pages or requests, from which on something is worth a fetch, or proven
MOST = 0.5  # of a page, in characters or words, from which on a part stands for the whole

K = TypeVar("K")
V = TypeVar("V")


class Bounded(dict[K, V]):
    """A mapping that makes what it lacks, and keeps the first so many; of later ones nothing stays."""

    def __init__(self, most: int, make: Callable[[K], V]) -> None:
        """Begin empty."""
        super().__init__()
        self._most, self._make = most, make

    def __missing__(self, key: K) -> V:
        found = self._make(key)
        if len(self) < self._most:
            self[key] = found
        return found
