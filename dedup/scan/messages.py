"""How a scan and its worker processes speak: frames of MessagePack over pipes.

    frame = length (4 bytes, big-endian) + MessagePack

The rule kept here: a frame is bounded, and an ended stream is the end of the work.
"""

from typing import IO

import msgspec

from dedup.scan.scan_values import Reading, Result, Task

__all__ = ["Batch", "Order", "read_frame", "write_frame"]


class Order(msgspec.Struct, frozen=True):
    """Asks a worker to read a unit."""

    task: Task
    reading: Reading


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Some results of a unit, in their order; with end, its last."""

    results: list[Result]
    end: bool


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next frame; None at the end of the stream, also in the middle of a frame."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    length = int.from_bytes(head, "big")
    body = stream.read(length)
    return body if len(body) == length else None


def write_frame(stream: IO[bytes], body: bytes) -> None:
    """Write a frame and flush it."""
    stream.write(len(body).to_bytes(4, "big") + body)
    stream.flush()
