"""Snapshots of the tables while a service without a log runs, so that a start after a kill is fast.

With a log they are written at its checkpoints (log/checkpoint.py).

The rule kept here: a snapshot is worth it when many documents have changed since the last one.
"""

import asyncio
import logging

from dedup.detector import EmbeddedDetector
from dedup.service.core.namespaces import Namespaces

__all__ = ["SNAPSHOT_DOCUMENTS", "SNAPSHOT_SHARE", "snapshot_where_due", "snapshots"]

EVERY_SECONDS = 60.0
SNAPSHOT_DOCUMENTS = (
    100_000  # changed since the last one; reading that many at a start takes seconds
)
SNAPSHOT_SHARE = 0.05  # or this share of all documents, which a snapshot writes, if that is more

log = logging.getLogger(__name__)


async def snapshot_where_due(detector: EmbeddedDetector) -> None:
    """Write a snapshot of a store in a thread if enough has changed. Raises OSError."""
    least = max(SNAPSHOT_DOCUMENTS, int(SNAPSHOT_SHARE * len(detector)))
    await asyncio.to_thread(detector.snapshot, least)


async def snapshots(namespaces: Namespaces) -> None:
    """Do so for every namespace, again and again, until cancelled; a full disk is logged."""
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        for name, detector in namespaces:
            try:
                await snapshot_where_due(detector)
            except Exception as error:
                log.error("no snapshot of %s was written: %s", name, error)
