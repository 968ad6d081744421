"""The documents of partitions that a store has given up, until they are gone from it. Pure.

The rule kept here: a document that leaves is not answered for any more, from the moment on that its
partition was given up; who comes under the same key later does not leave.
"""

from collections.abc import Callable, Collection

__all__ = ["Leaving"]


class Leaving:
    """What leaves a store, and how far it was looked through for that.

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
        """Tell whether the document with this id and key leaves."""
        return document_id < self.before and self._partition_of(key) in self.partitions
