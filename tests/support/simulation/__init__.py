"""A crawl without time or sockets: spiders, services and a log, in an order that a seed decides.

    found = run(seed, folder)      what went wrong (empty when every promise was kept), and counts

    log -> services -> spiders | sharded -> promises, in a world of its own clock

The real parts are Operations, Namespaces, Detector, the store, LogInserts, Replica (connecting,
applying, its manifest) and merged(). The rest is here: a clock that jumps to the next
thing to happen, a log that takes, refuses or loses acknowledgements, services that crash and come
back, also with other partitions, and messages that are late or lost.
"""

import asyncio
import shutil
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from dedup.detector.reservations import Reservation
from simulation.log import Reader
from simulation.services import here
from simulation.world import World

__all__ = ["Found", "run"]


class Found(NamedTuple):
    """What a schedule came to: sentences about broken promises, and what happened how often."""

    wrongs: list[str]
    counts: Counter[str]


def broken(mutation: str) -> AbstractContextManager[object]:
    """Break a rule below the services."""
    if mutation == "accepted pages do not count":
        return mock.patch.object(Reservation, "accepted", new=False)
    return nullcontext()


def run(
    seed: int,
    folder: Path,
    mutation: str = "",
    *,
    shards: int | None = None,
    faults: bool = True,
    latency_seconds: float | None = None,
) -> Found:
    """Run a schedule: with so many shards, or by default with services that hold everything.

    shards=0 leaves their number to the seed. A mutation breaks a rule on purpose. Without faults
    nothing crashes, moves, is lost or refused: only the order is random. latency_seconds is what a
    message to a shard takes on average; by default the seed says it.
    """
    place = folder / f"schedule-{seed}"
    place.mkdir()

    async def main() -> World:
        world = World(seed, place, mutation, shards=shards, faults=faults)
        world.latency_seconds = latency_seconds or world.latency_seconds
        replica = "dedup.service.replica"
        with (
            mock.patch(f"{replica}.asyncio.to_thread", here),
            mock.patch(f"{replica}.ensure_topic", world.log.topic),
            mock.patch(f"{replica}.Reader", partial(Reader, world.log)),
            broken(mutation),
        ):
            await world.run()
        return world

    try:
        world = asyncio.run(main())
        return Found(world.promises.wrongs, world.counts)
    finally:
        shutil.rmtree(place)
