"""Finds the log, and checks that the stores of a folder are the view of it, without a gap.

The rule kept here: a store with a gap, or older than its manifest, is refused, and nothing is applied
to it. The log is the truth, so that --rebuild repairs whatever is refused.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from dedup.detector import EmbeddedDetector
from dedup.service.log.manifest import MANIFEST, Manifest
from dedup.wire.kafka import KafkaConfig, KafkaUnavailable, LogLost, Topic, ensure_topic
from dedup.wire.kafka.supervision import started

__all__ = ["ADVICE", "check_ends", "check_unknown", "find_log", "missing"]

log = logging.getLogger(__name__)

ADVICE = (
    "If the log is the right one, start over from it with --rebuild, which empties the stores "
    "first; else start with the topic and folder that belong together"
)

Applied = Mapping[str, Mapping[int, int]]  # of each namespace, {partition: next offset}


async def find_log(
    config: KafkaConfig, partitions: int, *, create: bool, within_seconds: float | None
) -> Topic:
    """Return the log's topic, created with this many partitions if it is missing and create is True.

    Kafka is asked until it answers, or within_seconds have passed. Raises KafkaUnavailable then, and
    TopicUnfit.
    """

    async def look() -> Topic:
        try:
            return await ensure_topic(config, partitions=partitions, create=create)
        except KafkaUnavailable as error:
            raise ConnectionError(str(error)) from error  # which is tried again

    what = f"looking for the topic {config.topic}"
    return await started(look, what, within_seconds=within_seconds, config=config)


def missing(path: Path, manifest: Manifest, applied: Applied) -> frozenset[str]:
    """Return the manifest's namespaces that have no store: for them the whole log is read again.

    Raises LogLost if a store has less applied than the manifest says.
    """
    gone = manifest.namespaces.keys() - applied.keys()
    for name in sorted(gone):
        log.warning("the namespace %s is missing, and is rebuilt from the log", name)
    for name, offsets in manifest.namespaces.items():
        for partition, offset in offsets.items():
            held = applied.get(name, offsets).get(partition, 0)
            if held < offset:
                raise LogLost(
                    f"the store {path / name} has partition {partition} applied up to "
                    f"offset {held}, and {MANIFEST} says {offset}: it is an older copy, which "
                    f"belongs to the {MANIFEST} of its time. {ADVICE}"
                )
    return frozenset(gone)


def check_unknown(path: Path, views: Iterable[tuple[str, EmbeddedDetector]]) -> None:
    """Raise LogLost if there are documents; for a folder without a manifest."""
    for name, detector in views:
        if len(detector):
            raise LogLost(
                f"the store {path / name} holds {len(detector):,} documents, and nothing "
                f"says which log they came from ({MANIFEST} is missing). {ADVICE}"
            )


def check_ends(path: Path, topic: Topic, applied: Applied, ends: Mapping[int, int]) -> None:
    """Raise LogLost if a store has applied more than the log has."""
    for name, offsets in applied.items():
        for partition, offset in offsets.items():
            if offset > ends.get(partition, 0):
                raise LogLost(
                    f"the store {path / name} has partition {partition} applied up to "
                    f"offset {offset}, and the topic {topic.name!r} ends at "
                    f"{ends.get(partition, 0)}: records were lost. {ADVICE}"
                )
