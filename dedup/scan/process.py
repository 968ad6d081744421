"""A worker process of a scan, which the pool starts. Orders on stdin, batches on stdout.

    frame = length (4 bytes, big-endian) + MessagePack

The rules kept here: it ends with its stdin, and when its stdout is closed: a scan that is killed
leaves no process. An ended stream is the end of the work.
"""

import os
import signal
import sys
from typing import IO

import msgspec

from dedup.scan.reading import batches
from dedup.scan.scan_values import Reading, Task

__all__ = ["Order", "main", "read_frame", "write_frame"]


class Order(msgspec.Struct, frozen=True):
    """Asks a worker to read a unit."""

    task: Task
    reading: Reading


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


def main() -> None:
    """Serve until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is the scan's
    orders, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not come between the frames
    decode, encode = msgspec.msgpack.Decoder(Order).decode, msgspec.msgpack.Encoder().encode
    try:
        while (body := read_frame(orders)) is not None:
            order = decode(body)
            for batch in batches(order.task, order.reading):
                write_frame(answers, encode(batch))
    except BrokenPipeError:
        os._exit(1)  # the scan has gone; nothing is left to flush
