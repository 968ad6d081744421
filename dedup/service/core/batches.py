"""Batches in slices of a few milliseconds: in between it is the other clients' turn."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from time import perf_counter
from typing import TypeVar

from dedup.core.numbers import Packed
from dedup.detector import EmbeddedDetector
from dedup.model.page import Neighbour
from dedup.service.core.operations import Commands, keys_size

__all__ = ["in_slices", "probe_in_slices"]

PROBES = 512  # of one slice
SLICE_SECONDS = 0.005

T = TypeVar("T")


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield items; every few milliseconds the event loop runs other clients' tasks."""
    deadline = perf_counter() + SLICE_SECONDS
    for item in items:
        yield item
        if perf_counter() > deadline:
            await asyncio.sleep(0)
            deadline = perf_counter() + SLICE_SECONDS


async def probe_in_slices(
    commands: Commands,
    detector: EmbeddedDetector | None,
    values: Packed,
    sketches: Sequence[bytes],
    recipe: str,
    most: int | None = None,
) -> dict[int, list[Neighbour]]:
    """Do what commands.probe_many() does, in slices. The limits are for the whole batch."""
    commands.check_batch(len(values))
    found: dict[int, list[Neighbour]] = {}
    count = size = 0
    async with commands.turns:
        async for first in in_slices(range(0, len(values), PROBES)):
            slice_ = slice(first, first + PROBES)
            part = commands.probe_many(
                detector, values[slice_], sketches[slice_], recipe, None, most
            )
            count += sum(map(len, part.values()))
            size += keys_size(part)
            commands.check_neighbours(count)
            commands.check_answer(size)
            found |= {first + i: near for i, near in part.items()}
    return found
