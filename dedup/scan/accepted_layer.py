"""Documents in memory, searched as a store is: what a scan holds until it commits, or for good.

The rule kept here: a key means the newest document that bears it.
"""

from collections.abc import Sequence

from dedup.core.table import Table
from dedup.model.values import Document

__all__ = ["Layer"]


class Layer:
    """Documents by key, and the search within k. For one thread; enough for a detector."""

    def __init__(self, k: int) -> None:
        """Begin empty. k is the greatest distance near() finds, in bits."""
        self.k = k
        self._documents: dict[str, tuple[int, Document]] = {}  # the newest last
        self._numbers: dict[int, Document] = {}
        self._table: Table | None = None
        self._number = 0

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._documents)

    def __contains__(self, key: object) -> bool:
        """Tell whether a document with this key is held."""
        return key in self._documents

    def widen(self, k: int) -> None:
        """Find documents up to distance k from now on, if that is more than so far. Only when empty."""
        assert not self._documents
        self.k = max(self.k, k)

    def near(self, value: int, k: int | None = None) -> list[tuple[Document, int]]:
        """Return the documents within distance k of a value, with their distances, nearest first."""
        if self._table is None:
            return []
        bound = self.k if k is None else k
        matches = self._table.probe(value)
        return [(self._numbers[m.document], m.distance) for m in matches if m.distance <= bound]

    def insert(self, document: Document) -> bool:
        """Take a document; return whether it replaced one with the same key."""
        if self._table is None:
            self._table = Table(self.k)
        before = self._documents.pop(document.key, None)
        if before is not None:
            self._table.remove(before[1].page.value, before[0])
            del self._numbers[before[0]]
        self._number += 1
        self._table.insert(document.page.value, self._number)
        self._documents[document.key] = self._number, document
        self._numbers[self._number] = document
        return before is not None

    def insert_many(self, documents: Sequence[Document]) -> int:
        """Take documents in their order; return how many replaced another."""
        return sum(map(self.insert, documents))

    def documents(self) -> list[Document]:
        """Return the documents, the newest last."""
        return [document for _, document in self._documents.values()]
