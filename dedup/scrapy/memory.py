"""The memory of a crawl: the interface of embedded.py and service_memory.py.

Invariant: an error while a page is judged keeps the page, also while a service is unavailable. The
memory itself counts the results of insert, release and forget, at once or later; none of its errors
reaches the crawl.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dedup.detector import AsyncDetector
from dedup.model.page import Document, Verdict

if TYPE_CHECKING:
    from dedup.scrapy.shared_rules import SharedRules

__all__ = ["Memory", "Namespace"]


class Namespace(Protocol):
    """The pages of one namespace."""

    @property
    def detector(self) -> AsyncDetector:
        """The detector of the pages. Called with the meter running, which stops while this waits."""

    @property
    def folder(self) -> Path | None:
        """The folder of its store; None if the store is not in this process."""

    @property
    def shared_rules(self) -> "SharedRules | None":
        """The place where URL rules are shared with other processes, if there is no folder."""

    def documents(self) -> Iterable[Document]:
        """Return the last documents of the store when it was opened, at most some thousands."""

    def insert(self, verdicts: list[Verdict]) -> None:
        """Insert pages whose callbacks succeeded."""

    def release(self, verdict: Verdict) -> None:
        """Release a page."""

    def forget(self, key: str) -> None:
        """Forget a page that may have been inserted."""


class Memory(Protocol):
    """The namespaces of one crawl."""

    def open(self, namespace: str) -> Namespace:
        """Return a namespace, at its first page. Raises the error that prevents it."""

    async def close(self) -> str:
        """Finish, close everything, and return what is remembered, and where."""
