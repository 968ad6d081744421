"""What the connections of the RESP port share: their limits, their number, and what they did.

The rules kept here: a connection beyond a time limit is closed within a second or so. Who has said
nothing yet makes room for who comes: silent connections keep no client out.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from typing import Protocol

from dedup.service.core.buffers import Buffers
from dedup.service.core.command_table import PROBE
from dedup.service.core.limits import Limits
from dedup.service.core.operations import Commands
from dedup.service.core.roles import Tokens
from dedup.service.resp.client_session import Plans
from dedup.service.resp.turn import Turn

__all__ = ["Port"]

RESERVED_FILES = 48  # of those that may be open: for stores, and for the HTTP port


BOUNDS = (
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 1.0,
)  # fmt: skip  # seconds


class Durations:
    """Durations in seconds, counted by bucket; the last count is of all beyond the last bound."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0

    def note(self, seconds: float, commands: int) -> None:
        """Count commands that took this long, several of them together."""
        self.counts[bisect_left(BOUNDS, seconds)] += commands
        self.sum += seconds


class Client(Protocol):
    """A connection, as the port sees it."""

    def overdue(self, now: float) -> str | None:
        """Return why this connection should end now, or None."""

    def finish(self) -> None:
        """Take no more bytes; answer what was taken, then close."""

    def abort(self, reason: str) -> None:
        """Close the connection at once."""


class Port:
    """The state of the port.

    open       the open connections
    none_open  set when, while draining, the last one has closed
    accepted   how many connections there were
    asked      commands by name
    errors     error answers by code
    ended      connections that the service closed, by reason
    durations  of commands
    turn       probes that are carried out together
    silent     connections by their address that have not said anything that counts, the oldest first
    unread     answers that are not read; partial: commands that are not whole
    files      how many files may be open in this process
    """

    def __init__(self, commands: Commands, limits: Limits, tokens: Tokens) -> None:
        self.commands = commands
        self.plans = Plans(commands)
        self.limits = limits
        self.tokens = tokens
        self.open: set[Client] = set()
        self.none_open = asyncio.Event()
        self.accepted = 0
        self.asked: Counter[bytes] = Counter()
        self.errors: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.durations = Durations()
        self.turn = Turn(self.plans, self._probed)
        self.draining = False
        self.silent: dict[str, dict[Client, None]] = {}
        self.unread = Buffers(limits.unread_memory)
        self.partial = Buffers(limits.partial_memory)
        self.files = 1 << 30
        self._of_address: Counter[str] = Counter()

    def _probed(self, seconds: float, probes: int) -> None:
        self.asked[PROBE] += probes
        self.durations.note(seconds, probes)

    def admit(self, client: Client, address: str, file: int) -> str | None:
        """Take a connection; return why it is one too many, or None.

        file is its number as a file: the least that was free. A connection without an address comes
        from this machine, and counts for none.
        """
        self.open.add(client)
        self._of_address[address] += 1
        if self.draining:
            return "too_many"
        victims, reason = None, None
        if address and self._of_address[address] > self.limits.connections_of_address:
            victims, reason = self.silent.get(address), "address"
        elif len(self.open) > self.limits.connections or file > self.files - RESERVED_FILES:
            reason = "too_many"
            if self.silent:
                victims = max(self.silent.values(), key=len)
        if reason is not None:
            if not victims:
                return reason
            next(iter(victims)).abort("silent")
        self.silent.setdefault(address, {})[client] = None
        return None

    def heard(self, client: Client, address: str) -> None:
        """Note that a connection has said something that counts."""
        silent = self.silent.get(address)
        if silent is not None and client in silent:
            del silent[client]
            if not silent:
                del self.silent[address]

    def gone(self, client: Client, address: str) -> None:
        """Note that a connection has ended, or is about to."""
        if client not in self.open:
            return
        self.open.discard(client)
        self.heard(client, address)
        self.unread.note(client, 0)
        self.partial.note(client, 0)
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]
        if self.draining and not self.open:
            self.none_open.set()

    def end_overdue(self, now: float) -> None:
        """Close the connections that are beyond a time limit; called every second or so."""
        for client in list(self.open):
            reason = client.overdue(now)
            if reason:
                client.abort(reason)

    def drain(self) -> None:
        """Take no more commands; each connection closes once what came before is answered."""
        self.draining = True
        if not self.open:
            self.none_open.set()
        for client in list(self.open):
            client.finish()

    def abort(self) -> None:
        """Close what is left at once."""
        for client in list(self.open):
            client.abort("stopped")
