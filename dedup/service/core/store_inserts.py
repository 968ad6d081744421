"""Where accepted pages go: into the service's own stores, or to a log (replica/inserts.py)."""

from asyncio import Future
from typing import Protocol

from dedup.detector import EmbeddedDetector
from dedup.model.page import Verdict
from dedup.service.core.error_codes import Refused

__all__ = ["Inserts", "StoreInserts"]


class Inserts(Protocol):
    """Where accepted pages go. Methods return a result, or a future of it.

    commits  whether an insert is committed here, so that several can go into one commit
    """

    commits: bool

    def insert(
        self, namespace: str, detector: EmbeddedDetector, verdict: Verdict
    ) -> "Future[None] | None":
        """Store a page."""

    def pin(self, namespace: str, detector: EmbeddedDetector, verdict: Verdict) -> None:
        """Keep the reservation of a page whose event the client sends itself."""

    def forget(self, namespace: str, detector: EmbeddedDetector, key: str) -> "Future[bool] | bool":
        """Remove a document; return whether there was one."""


class StoreInserts:
    """Inserts of a service without a log."""

    commits = True

    def insert(self, namespace: str, detector: EmbeddedDetector, verdict: Verdict) -> None:  # noqa: ARG002
        """Commit it."""
        detector.insert_many((verdict,))

    def pin(self, namespace: str, detector: EmbeddedDetector, verdict: Verdict) -> None:  # noqa: ARG002
        """Refuse: no event would ever come."""
        raise Refused(
            "ERR",
            "PIN is for inserts that come from Kafka, and this service reads none: insert without "
            "PIN, or start the service with --kafka",
        )

    def forget(self, namespace: str, detector: EmbeddedDetector, key: str) -> bool:  # noqa: ARG002
        """Remove it."""
        return detector.forget(key)
