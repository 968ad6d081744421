"""A worker process of a scan: `python -m dedup.scan.process`. Orders on stdin, batches on stdout.

It ends with its stdin, and when its stdout is closed: a scan that is killed leaves no process.
"""

import os
import signal
import sys

import msgspec

from dedup.scan.messages import Order, read_frame, write_frame
from dedup.scan.reading import batches

__all__ = ["main"]


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


if __name__ == "__main__":
    main()
