"""Unread pages by where they lead: what rule U (rules.py) compares a page with that is not judged by its text.

    a document that is stored -> note() -> near() -> documents with the same links -> rules.unread_twins()

The values of unread pages that are alike are far apart, so no search finds them. Memory is bounded by MOST documents, the
newest; a store's are read again when it is opened with the option own_words.
"""

from collections import OrderedDict
from collections.abc import Iterable

from dedup.detector.rules import links_of_unread
from dedup.model.page import Document, PageFingerprint

EACH = 64  # documents with the same links that a page is compared with, the newest


class UnreadPages:
    """Unread documents, by the hash of their links. For one thread."""

    MOST = 16_384

    def __init__(self) -> None:
        self._documents: OrderedDict[str, Document] = OrderedDict()
        self._keys: dict[bytes, dict[str, None]] = {}  # of documents, by their links

    def note(self, documents: Iterable[Document]) -> None:
        """Note documents that are stored; others with their keys are no more."""
        for document in documents:
            if self._documents:
                self._drop(document.key)
            if links := links_of_unread(document.page):
                self._documents[document.key] = document
                self._keys.setdefault(links, {})[document.key] = None
                if len(self._documents) > self.MOST:
                    self._drop(next(iter(self._documents)))

    def near(self, page: PageFingerprint) -> list[Document]:
        """Return the documents with the links of an unread page, which may have been forgotten since."""
        keys = [*self._keys.get(links_of_unread(page), ())]
        return [self._documents[key] for key in keys[-EACH:]]

    def _drop(self, key: str) -> None:
        gone = self._documents.pop(key, None)
        if gone is not None:
            keys = self._keys[links_of_unread(gone.page)]
            del keys[key]
            if not keys:
                del self._keys[links_of_unread(gone.page)]
