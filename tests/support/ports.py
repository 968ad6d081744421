"""Ports for programs that are restarted on the same port, whatever other programs do meanwhile.

Invariant: a port lies outside the system's ephemeral range, as far as that is known, so that
no other program gets it by chance while its owner is down.
"""

import contextlib
import random
import socket
from pathlib import Path

__all__ = ["free_ports"]

FIRST = 15_000
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
TRIES = 100  # for each port
_chance = random.SystemRandom()  # two programs at once, and of one seed, take different ones


def free_ports(count: int) -> list[int]:
    """Return loopback ports that are free now, all different."""
    with contextlib.ExitStack() as stack:
        return [_bound(stack) for _ in range(count)]


def _bound(stack: contextlib.ExitStack) -> int:
    end = _end()
    for _ in range(TRIES if end > FIRST else 0):
        held = stack.enter_context(socket.socket())
        with contextlib.suppress(OSError):  # somebody has it
            held.bind(("127.0.0.1", _chance.randrange(FIRST, end)))
            return int(held.getsockname()[1])
    held = stack.enter_context(socket.socket())
    held.bind(("127.0.0.1", 0))
    return int(held.getsockname()[1])


def _end() -> int:
    """Return the first port that the system gives by itself; 0 if it does not tell."""
    try:
        return int(RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0
