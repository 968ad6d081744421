"""The documents of partitions that a store has given up, until they are removed from it. Pure.

The rule kept here: such a document is not found any more from the moment its partition is given up;
a document that is stored later under the same key is found.
"""

from collections.abc import Callable, Collection

__all__ = ["GivenUp"]


class GivenUp:
    """What a store has given up, and how far its removal is.

    partitions  of the log, that were given up
    first       the id from which on documents are still to be looked at
    before      the id that the next document got when they were given up
    """

    __slots__ = ("_partition_of", "before", "first", "partitions")

    def __init__(
        self, partitions: Collection[int], partition_of: Callable[[str], int], before: int
    ) -> None:
        """partition_of gives the partition of a document's key."""
        self.partitions = frozenset(partitions)
        self.first = 0
        self.before = before
        self._partition_of = partition_of

    def has(self, document_id: int, key: str) -> bool:
        """Tell whether the document with this id and key was given up."""
        return document_id < self.before and self._partition_of(key) in self.partitions
