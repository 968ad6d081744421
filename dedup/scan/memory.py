"""What was accepted so far, in three layers: the store a scan compares with, and its own two.

    base   a store that was there before, or none; never changed here
    work   a store of the scan's own: what it accepted and committed
    fresh  what it accepted since, in memory, bounded by who commits

To the detector the three are one store. The rule kept here: a key means the newest document that
bears it, whatever the layer.
"""

from collections.abc import Sequence
from pathlib import Path

from dedup.store import Store
from dedup.table import Table
from dedup.values import Document

__all__ = ["Memory"]


class Memory:
    """The layers as the detector sees a store."""

    def __init__(self, base: Store | None, work: Store) -> None:
        self.path: Path = work.path
        self.recipe = work.recipe
        self._base, self._work = base, work
        self._clear()
        self._replaced = 0  # documents that hide one of a layer below

    def _clear(self) -> None:
        self._fresh: dict[str, tuple[int, Document]] = {}
        self._numbers: dict[int, Document] = {}
        self._table: Table | None = None
        self._number = 0

    def __len__(self) -> int:
        """Return the number of documents, those that are hidden by a newer one among them."""
        return (0 if self._base is None else len(self._base)) + len(self._work) + len(self._fresh)

    def __contains__(self, key: object) -> bool:
        """Tell whether a document with this key was accepted."""
        return (
            key in self._fresh
            or key in self._work
            or (self._base is not None and key in self._base)
        )

    @property
    def k(self) -> int:
        """The greatest distance near() finds, in bits."""
        return self._work.k

    @property
    def fresh(self) -> int:
        """How many documents a commit would take."""
        return len(self._fresh)

    def widen(self, k: int) -> None:
        """Find documents up to distance k from now on, if that is more than so far."""
        for store in (self._work, self._base):
            if store is not None:
                store.widen(k)

    def near(self, value: int, k: int | None = None) -> list[tuple[Document, int]]:
        """Return the documents within distance k of a value, with their distances.

        At most the nearest 1000 of each layer. Raises StoreDamaged.
        """
        found = [] if self._base is None else self._base.near(value, k)
        if found and self._replaced:
            found = [(d, n) for d, n in found if d.key not in self._work]
        found += self._work.near(value, k)
        if self._fresh:
            if self._replaced:
                found = [(d, n) for d, n in found if d.key not in self._fresh]
            assert self._table is not None
            bound = self._work.k if k is None else k
            found += [
                (self._numbers[m.document], m.distance)
                for m in self._table.probe(value)
                if m.distance <= bound
            ]
        return found

    def insert(self, document: Document) -> None:
        """Take a document into the fresh layer; one with the same key is replaced."""
        key, value = document.key, document.page.value
        if self._table is None:
            self._table = Table(self._work.k)
        before = self._fresh.pop(key, None)
        if before is not None:
            self._table.remove(before[1].page.value, before[0])
            del self._numbers[before[0]]
        elif key in self:
            self._replaced += 1
        self._number += 1
        self._table.insert(value, self._number)
        self._fresh[key] = self._number, document
        self._numbers[self._number] = document

    def insert_many(self, documents: Sequence[Document]) -> int:
        """Take documents in their order; return how many replaced another."""
        before = self._replaced
        for document in documents:
            self.insert(document)
        return self._replaced - before

    def mark(self) -> tuple[str, float] | None:
        """Return what tells later whether the next commit() happened; None if it has nothing to do."""
        if not self._fresh:
            return None
        _, last = next(reversed(self._fresh.values()))
        return last.key, last.inserted_seconds

    def commit(self) -> None:
        """Move the fresh documents to the work store, in one transaction."""
        if self._fresh:
            self._work.insert_many([document for _, document in self._fresh.values()])
            self._clear()

    def has(self, mark: tuple[str, float]) -> bool:
        """Tell whether the commit that mark() announced has happened."""
        document = self._work.get(mark[0])
        return document is not None and document.inserted_seconds == mark[1]

    def resumed(self) -> None:
        """Look whether the work store hides documents of the base, as a resumed one may."""
        self._replaced += self._base is not None and len(self._work) > 0
