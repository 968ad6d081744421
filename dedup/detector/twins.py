"""Pages of little text, by what two of them may have in common.

    a document that is stored -> note() -> near() -> documents with the same words read, or the same links
                                                     -> dedup.model.decision.decide()

The values of such pages are far apart if a few words differ, so no search finds them. Memory is bounded by MOST documents,
the newest; of a store that is opened the last STORED are read again, when the first such page comes.
"""

from collections import OrderedDict
from collections.abc import Iterable

from dedup.model.decision import common_keys
from dedup.model.page import Document, PageFingerprint

EACH = 64  # documents with one key that a page is compared with, the newest
MOST = 16_384
STORED = 4096


class TwinPages:
    """Documents of little text, by their keys (common_keys). For one thread."""

    def __init__(self, stored: Iterable[Document]) -> None:
        """Begin with documents that are stored, the newest last."""
        self._documents: OrderedDict[str, Document] = OrderedDict()
        self._named: dict[bytes, dict[str, None]] = {}
        self.note(stored)

    def note(self, documents: Iterable[Document]) -> None:
        """Note documents that are stored; others with their document keys are no more."""
        for document in documents:
            if self._documents:
                self._drop(document.key)
            if keys := common_keys(document.page):
                self._documents[document.key] = document
                for key in keys:
                    self._named.setdefault(key, {})[document.key] = None
                if len(self._documents) > MOST:
                    self._drop(next(iter(self._documents)))

    def near(self, page: PageFingerprint) -> list[Document]:
        """Return the documents that have a key in common with a page; some may have been forgotten since."""
        keys = (key for each in common_keys(page) for key in [*self._named.get(each, ())][-EACH:])
        return [self._documents[key] for key in dict.fromkeys(keys)]

    def _drop(self, name: str) -> None:
        gone = self._documents.pop(name, None)
        for key in () if gone is None else common_keys(gone.page):
            named = self._named[key]
            del named[name]
            if not named:
                del self._named[key]
