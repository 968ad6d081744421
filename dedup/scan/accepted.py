"""The accepted documents in three layers: the store a scan compares with, and its own two.

    base   an existing store, or none; never changed here
    work   a store of the scan's own: the documents it has committed
    fresh  the documents since, in memory, bounded by the caller's commits

To the detector the three are one store. A batch of pages is looked up at once, in one native call for each table.
Invariant: a key means its newest document, whatever the layer.
"""

from array import array
from collections.abc import Sequence

from dedup.core.table import Nearest, Table
from dedup.model.page import Document
from dedup.store import Store

NEWEST = 64  # fresh documents that are compared one by one, until they go into a table together


class Layer:
    """Documents by key, and the search within k. For one thread; enough for a detector."""

    def __init__(self, k: int) -> None:
        """Begin empty. k is the greatest distance near() finds, in bits."""
        self.k = k
        self._documents: dict[str, tuple[int, Document]] = {}  # the newest last
        self._numbers: dict[int, Document] = {}
        self._newest: dict[int, int] = {}  # values by number; the others are in the table
        self._table: Table | None = None
        self._probed: dict[int, list[tuple[int, int]]] = {}  # answers of the table, by value
        self._number = 0

    def __contains__(self, key: object) -> bool:
        return key in self._documents

    def widen(self, k: int) -> None:
        """Find documents up to distance k from now on, if that is more than so far. Only when empty."""
        assert not self._documents
        self.k = max(self.k, k)

    def look_up(self, values: Sequence[int]) -> None:
        """Search for some values at once: near() answers faster for them, until NEWEST more documents came."""
        self._move_to_table()
        if self._table is not None:
            found = self._table.probe_each(array("Q", values))
            self._probed = {
                value: [(m.distance, m.document) for m in found[i]] if i in found else []
                for i, value in enumerate(values)
            }

    def near(
        self, value: int, k: int | None = None, limit: int | None = None, skip: int = 0
    ) -> Nearest[Document]:
        """Return the documents within distance k of a value, as Store.near() does; by default all."""
        bound, numbers = self.k if k is None else min(k, self.k), self._numbers
        near = [
            (distance, number)
            for number, other in self._newest.items()
            if (distance := (value ^ other).bit_count()) <= bound
        ]
        if self._table is not None:
            older = self._probed.get(value)
            if older is None:
                older = [(m.distance, m.document) for m in self._table.probe(value)]
            near += [each for each in older if each[0] <= bound and each[1] in numbers]
        if not near:
            return Nearest()
        near.sort()
        found = Nearest((numbers[number], distance) for distance, number in near[skip:limit])
        found.cut = limit is not None and len(near) > limit
        return found

    def insert(self, document: Document) -> bool:
        """Take a document; return whether it replaced one with the same key."""
        before = self._documents.pop(document.key, None)
        if before is not None:
            number, replaced = before
            if self._newest.pop(number, None) is None and self._table is not None:
                self._table.remove(replaced.page.value, number)
            del self._numbers[number]
        self._number += 1
        self._newest[self._number] = document.page.value
        self._documents[document.key] = self._number, document
        self._numbers[self._number] = document
        if len(self._newest) > NEWEST:
            self._move_to_table()
        return before is not None

    def _move_to_table(self) -> None:
        """Move the newest documents into the table."""
        self._probed = {}
        if self._newest:
            if self._table is None:
                self._table = Table(self.k, locked=False)
            values, numbers = array("Q", self._newest.values()), array("Q", self._newest)
            self._table.insert_many(values, numbers)
            self._newest = {}

    def latest(self, most: int) -> list[Document]:
        """Return the last documents, the newest last."""
        return self.documents()[-most:]

    def documents(self) -> list[Document]:
        """Return the documents, the newest last."""
        return [document for _, document in self._documents.values()]


class AcceptedLayers:
    """The layers as the detector sees a store."""

    def __init__(self, base: Store | None, work: Store) -> None:
        self._base, self._work = base, work
        self._fresh = Layer(work.k)
        self._replaced = 0  # documents that hide one of a layer below
        self._asked: tuple[str, bool] = "", False  # the last key asked for, and whether it was held
        self._known: dict[str, bool] = {}  # whether a store has a key that was looked up
        self._near: dict[int, list[Nearest[Document]]] = {}  # what each store has near a value
        self._below: list[Store] = []  # these stores
        self._searched: tuple[int, int] = 0, 0  # within which distance, and how many at most

    def __contains__(self, key: object) -> bool:
        held = key in self._fresh
        if not held and isinstance(key, str):
            known = self._known.get(key)
            held = any(key in store for store in self._stores()) if known is None else known
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

    def look_up(self, pages: Sequence[tuple[str, int]], k: int, limit: int) -> None:
        """Search for pages, each a document key and a value, at once: near() with this k and limit, and `in`.

        Until the next commit() both answer from it. Raises StoreDamaged.
        """
        self._forget_answers()
        values = [value for _, value in pages]
        self._known = dict.fromkeys((key for key, _ in pages), False)
        self._searched, self._below = (k, limit), self._stores()
        near: list[list[Nearest[Document]]] = [[] for _ in pages]
        for store in self._below:
            self._known |= dict.fromkeys(store.held(list(self._known)), True)
            answers = store.near_many(array("Q", values), k, nearest=limit)
            for i, found in enumerate(near):
                found.append(answers.get(i) or Nearest())
        self._near = dict(zip(values, near, strict=True))
        self._fresh.look_up(values)

    def _forget_answers(self) -> None:
        self._known, self._near = {}, {}

    def _stores(self) -> list[Store]:
        return [store for store in (self._base, self._work) if store is not None and len(store)]

    def near(
        self, value: int, k: int | None = None, limit: int | None = None, skip: int = 0
    ) -> Nearest[Document]:
        """Return the documents within distance k of a value, with their distances.

        Of each layer the nearest `limit` (1000), without the first `skip`. Raises StoreDamaged.
        """
        answers = None if skip or self._searched != (k, limit) else self._near.get(value)
        if answers is None:
            self._below = self._stores()
            answers = [store.near(value, k, limit, skip) for store in self._below]
        fresh = self._fresh.near(value, k, limit, skip)
        if not any(answers):
            fresh.cut = fresh.cut or any(answer.cut for answer in answers)
            return fresh
        found: Nearest[Document] = Nearest()
        layers: list[Store | Layer] = [*self._below, self._fresh]
        for layer, nearest in zip(layers, (*answers, fresh), strict=True):
            cut = found.cut or nearest.cut
            if found and self._replaced:  # by a document of this layer
                found = Nearest(each for each in found if each[0].key not in layer)
            found += nearest
            found.cut = cut
        return found

    def latest(self, most: int) -> list[Document]:
        """Return the last documents of each layer, the newest last."""
        stored = [document for store in self._stores() for document in store.latest(most)]
        return stored + self._fresh.latest(most)

    def insert(self, document: Document) -> None:
        """Insert a document into the fresh layer; it replaces one with the same key."""
        asked, hides = self._asked
        if asked != document.key or not asked:  # it is asked for just before
            hides = document.key in self
        self._asked = "", False
        if not self._fresh.insert(document):
            self._replaced += hides

    def commit(self, number: int = 0) -> None:
        """Move the fresh documents to the work store, in one transaction that also stores the commit's number."""
        documents = self._fresh.documents()
        self._work.apply([(document.key, document) for document in documents], {0: number})
        if documents:
            self._fresh = Layer(self._work.k)
            self._forget_answers()

    @property
    def committed(self) -> int:
        """The number of the last commit."""
        return self._work.offsets().get(0, 0)

    def resumed(self) -> None:
        """Note that the work store may hide documents of the base, after resuming."""
        self._replaced += self._base is not None and len(self._work) > 0
