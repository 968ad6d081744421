"""A crawl without time or sockets: spiders, services and a log, in an order that a seed decides.

    found = run(seed, folder)      what went wrong (empty when every promise was kept), and counts

    log -> services -> spiders -> promises, in a world of its own clock

The real parts are Operations, Namespaces, Detector, the store, LogInserts, Replica (connecting,
applying, its manifest). The rest is here: a clock that jumps to the next
thing to happen, a log that takes, refuses or loses acknowledgements, services that crash and come back.
"""

import asyncio
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from simulation.log import Reader
from simulation.services import here
from simulation.world import World

__all__ = ["Found", "run"]


class Found(NamedTuple):
    """What a schedule came to: sentences about broken promises, and what happened how often."""

    wrongs: list[str]
    counts: Counter[str]


def run(
    seed: int,
    folder: Path,
    mutation: str = "",
    *,
    faults: bool = True,
) -> Found:
    """Run a schedule.

    A mutation breaks a rule on purpose. Without faults nothing crashes, is lost or refused: only the order is random.
    """
    place = folder / f"schedule-{seed}"
    place.mkdir()

    async def main() -> World:
        world = World(seed, place, mutation, faults=faults)
        replica = "dedup.service.replica"
        with (
            mock.patch(f"{replica}.asyncio.to_thread", here),
            mock.patch(f"{replica}.ensure_topic", world.log.topic),
            mock.patch(f"{replica}.Reader", partial(Reader, world.log)),
        ):
            await world.run()
        return world

    try:
        world = asyncio.run(main())
        return Found(world.promises.wrongs, world.counts)
    finally:
        shutil.rmtree(place)
