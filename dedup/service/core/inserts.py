"""Where accepted pages go: into the service's own stores, or to a log (log/inserts.py)."""

from asyncio import Future
from typing import Protocol

from dedup.detector import EmbeddedDetector as Detector
from dedup.model.values import Verdict
from dedup.service.core.errors import Refused

__all__ = ["Inserts", "StoreInserts"]


class Inserts(Protocol):
    """Where accepted pages go. What it returns is done (a value) or will be (a future).

    commits  whether an insert is committed here, so that several can be at once
    """

    commits: bool

    def insert(self, namespace: str, detector: Detector, verdict: Verdict) -> "Future[None] | None":
        """Make a page last."""

    def pin(self, namespace: str, detector: Detector, verdict: Verdict) -> None:
        """Keep the reservation of a page whose insert comes by another way."""

    def forget(self, namespace: str, detector: Detector, key: str) -> "Future[bool] | bool":
        """Remove a document; tell whether it was there."""


class StoreInserts:
    """A service that stands alone: its own stores are all there is."""

    commits = True

    def insert(self, namespace: str, detector: Detector, verdict: Verdict) -> None:  # noqa: ARG002
        """Commit it."""
        detector.insert(verdict)

    def pin(self, namespace: str, detector: Detector, verdict: Verdict) -> None:  # noqa: ARG002
        """Refuse: there is no other way here."""
        raise Refused(
            "ERR",
            "PIN is for inserts that come from Kafka, and this service reads none: insert without "
            "PIN, or start the service with --kafka",
        )

    def forget(self, namespace: str, detector: Detector, key: str) -> bool:  # noqa: ARG002
        """Remove it."""
        return detector.forget(key)
