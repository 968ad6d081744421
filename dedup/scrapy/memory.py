"""What a crawl remembers its pages in: the interface of embedded.py and remote.py.

The rule kept here: a namespace's detector judges a page, and never costs it: a service that is away
keeps the page. What becomes of an insert, a release or a forget is counted by the memory itself, at
once or later; no fault of it reaches the crawl.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dedup.detector import AsyncDetector
from dedup.model.values import Document, Verdict

if TYPE_CHECKING:
    from dedup.scrapy.shared_rules import SharedRules

__all__ = ["Memory", "Namespace"]


class Namespace(Protocol):
    """The pages of one namespace."""

    @property
    def detector(self) -> AsyncDetector:
        """What judges them. Called with the meter running; it stands still while this waits."""

    @property
    def folder(self) -> Path | None:
        """The folder of its store; None if that is not in this process."""

    @property
    def shared_rules(self) -> "SharedRules | None":
        """Where its rules about URLs are shared with other processes, if there is no folder."""

    def documents(self) -> Iterable[Document]:
        """Return the last documents that the store held when it was opened, some thousands at most."""

    def insert(self, verdicts: list[Verdict]) -> None:
        """Make pages last: their callbacks ended well."""

    def release(self, verdict: Verdict) -> None:
        """Give a page back."""

    def forget(self, key: str) -> None:
        """Take back a page that may have been inserted."""


class Memory(Protocol):
    """The namespaces of one crawl."""

    def open(self, namespace: str) -> Namespace:
        """Return a namespace, at its first page. Raises what makes that impossible."""

    async def close(self) -> str:
        """End what is under way, close everything, and say what is remembered, and where."""
