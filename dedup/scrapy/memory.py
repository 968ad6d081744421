"""What a crawl remembers its pages in: the interface of embedded.py and service.py.

The rule kept here: a memory answers reserve(), and is told the rest. What becomes of an insert, a
release or a forget it counts by itself, at once or later; no fault of it reaches the crawl.
"""

from collections.abc import Coroutine
from typing import Any, Protocol

from dedup.model.recipes import Recipe
from dedup.model.values import PageFingerprint, Verdict

__all__ = ["Memory", "Pages"]


class Pages(Protocol):
    """The pages of one namespace."""

    @property
    def recipe(self) -> Recipe:
        """The recipe that pages are to be made with."""

    def reserve(
        self, page: PageFingerprint, key: str, *, url: str, exempt: str | None, guard: bool
    ) -> Coroutine[Any, Any, Verdict]:
        """Judge a page. Called with the meter running; it stands still while this waits."""

    def insert(self, verdicts: list[Verdict]) -> None:
        """Make pages last: their callbacks ended well."""

    def release(self, verdict: Verdict) -> None:
        """Give a page back."""

    def forget(self, key: str) -> None:
        """Take back a page that may have been inserted."""


class Memory(Protocol):
    """The namespaces of one crawl."""

    def open(self, namespace: str) -> Pages:
        """Return the pages of a namespace, at its first page. Raises what keeps it shut."""

    async def close(self) -> str:
        """End what is under way, close everything, and say what is remembered, and where."""
