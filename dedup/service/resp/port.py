"""What the connections of the RESP port share: their limits, their number, and what they did.

The rule kept here: a connection beyond a time limit is closed within a second or so.
"""

import asyncio
from collections import Counter
from typing import Protocol

from dedup.service.core.durations import Durations
from dedup.service.core.limits import Limits
from dedup.service.core.operations import Commands
from dedup.service.resp.client_session import Plans

__all__ = ["Port"]


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
    """

    def __init__(self, commands: Commands, limits: Limits, token: str | None) -> None:
        self.commands = commands
        self.plans = Plans(commands)
        self.limits = limits
        self.token = None if token is None else token.encode()
        self.open: set[Client] = set()
        self.none_open = asyncio.Event()
        self.accepted = 0
        self.asked: Counter[bytes] = Counter()
        self.errors: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.durations = Durations()
        self.draining = False

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
