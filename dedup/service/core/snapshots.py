"""Snapshots of the tables while others are answered, so that a service that is killed opens fast again.

    ready -> a round: every namespace of which enough changed -> a pause -> a round -> stop()

A service that follows a log writes them with its manifest instead (log/checkpoint.py). The rule kept here:
what cannot be written is said once for each reason, and tried again; the documents are on disk without it.
"""

import asyncio
import logging
from contextlib import suppress

from dedup.detector import EmbeddedDetector
from dedup.service.core.namespaces import Namespaces

__all__ = ["Snapshots", "write_where_due"]

PAUSE_SECONDS = 10.0
DOCUMENTS = 100_000  # changed since the last snapshot: more would make opening slow
SHARE = 0.05  # of all documents, which a snapshot writes

log = logging.getLogger(__name__)


def write_where_due(detector: EmbeddedDetector) -> None:
    """Write a snapshot of a store of which enough changed. Raises OSError."""
    detector.snapshot(max(DOCUMENTS, int(SHARE * len(detector))))


class Snapshots:
    """Writes the snapshots of a service without a log, until stop()."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._stop = asyncio.Event()
        self._said: set[str] = set()

    async def run(self) -> None:
        """Look every PAUSE_SECONDS; it ends after the one under way, so that stores can be closed."""
        while not self._stop.is_set():
            for name, detector in self._namespaces:
                if self._stop.is_set():
                    return
                try:
                    await asyncio.to_thread(write_where_due, detector)
                except Exception as error:
                    if str(error) not in self._said:
                        self._said.add(str(error))
                        log.error("%s: no snapshot was written: %s", name, error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), PAUSE_SECONDS)

    def stop(self) -> None:
        """Have run() end."""
        self._stop.set()
