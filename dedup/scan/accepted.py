"""The accepted documents in three layers: the store a scan compares with, and its own two.

    base   an existing store, or none; never changed here
    work   a store of the scan's own: the documents it has committed
    fresh  the documents since, in memory, bounded by the caller's commits

To the detector the three are one store. Invariant: a key means its newest document, whatever the layer.
"""

from collections.abc import Sequence

from dedup.core.matches import Nearest
from dedup.core.table import Table
from dedup.model.page import Document
from dedup.store import Store


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

    def near(
        self, value: int, k: int | None = None, limit: int | None = None, skip: int = 0
    ) -> Nearest[Document]:
        """Return the documents within distance k of a value, as Store.near() does; by default all."""
        found: Nearest[Document] = Nearest()
        if self._table is not None:
            bound = self.k if k is None else k
            matches = [m for m in self._table.probe(value) if m.distance <= bound]
            found += [(self._numbers[m.document], m.distance) for m in matches[skip:limit]]
            found.cut = limit is not None and len(matches) > limit
        return found

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


class Memory:
    """The layers as the detector sees a store."""

    def __init__(self, base: Store | None, work: Store) -> None:
        self._base, self._work = base, work
        self._fresh = Layer(work.k)
        self._replaced = 0  # documents that hide one of a layer below
        self._asked: tuple[str, bool] = "", False  # the last key asked for, and whether it was held

    def __len__(self) -> int:
        """Return the number of documents, those that are hidden by a newer one among them."""
        return (0 if self._base is None else len(self._base)) + len(self._work) + len(self._fresh)

    def __contains__(self, key: object) -> bool:
        """Tell whether a document with this key was accepted."""
        held = (
            key in self._fresh
            or key in self._work
            or (self._base is not None and key in self._base)
        )
        if isinstance(key, str):
            self._asked = key, held
        return held

    @property
    def k(self) -> int:
        """The greatest distance near() finds, in bits."""
        return self._work.k

    def widen(self, k: int) -> None:
        """Find documents up to distance k from now on, if that is more than so far."""
        for store in (self._work, self._base):
            if store is not None:
                store.widen(k)
        self._fresh.widen(k)

    def near(
        self, value: int, k: int | None = None, limit: int | None = None, skip: int = 0
    ) -> Nearest[Document]:
        """Return the documents within distance k of a value, with their distances.

        Of each layer the nearest `limit` (1000), without the first `skip`. Raises StoreDamaged.
        """
        found: Nearest[Document] = Nearest()
        for layer in (self._base, self._work, self._fresh):
            if not layer:
                continue
            if found and self._replaced:  # by a document of this layer
                cut, found = found.cut, Nearest(f for f in found if f[0].key not in layer)
                found.cut = cut
            nearest = layer.near(value, k, limit, skip)
            found += nearest
            found.cut = found.cut or nearest.cut
        return found

    def insert(self, document: Document) -> None:
        """Insert a document into the fresh layer; it replaces one with the same key."""
        asked, hides = self._asked
        if asked != document.key or not asked:  # it is asked for just before
            hides = document.key in self
        self._asked = "", False
        if not self._fresh.insert(document):
            self._replaced += hides

    def insert_many(self, documents: Sequence[Document]) -> int:
        """Take documents in their order; return how many replaced another."""
        before = self._replaced
        for document in documents:
            self.insert(document)
        return self._replaced - before

    def mark(self) -> tuple[str, float] | None:
        """Return a mark by which has() finds whether the next commit() happened; None without a document."""
        if not self._fresh:
            return None
        last = self._fresh.documents()[-1]
        return last.key, last.inserted_seconds

    def commit(self) -> None:
        """Move the fresh documents to the work store, in one transaction."""
        if self._fresh:
            self._work.insert_many(self._fresh.documents())
            self._fresh = Layer(self._work.k)

    def has(self, mark: tuple[str, float]) -> bool:
        """Tell whether the commit that mark() announced has happened."""
        document = self._work.get(mark[0])
        return document is not None and document.inserted_seconds == mark[1]

    def resumed(self) -> None:
        """Note that the work store may hide documents of the base, after resuming."""
        self._replaced += self._base is not None and len(self._work) > 0
