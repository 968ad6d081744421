"""All connections of the RESP port: their number, their times, and what they did.

The rule kept here: whoever is beyond a bound of time is ended within a second or so.
"""

import asyncio
from collections import Counter

from dedup.service.core.durations import Durations
from dedup.service.core.limits import Limits
from dedup.service.core.operations import Commands
from dedup.service.resp.connection import Connection
from dedup.service.resp.session import Plans

__all__ = ["Connections"]


class Connections:
    """The protocol factory of the port, and what its connections share.

    open       those that there are
    none_open  set once draining, when the last one is gone
    asked      commands by name
    errors     error answers by code
    ended      connections that we ended, by reason
    durations  of commands
    """

    def __init__(self, commands: Commands, limits: Limits, token: str | None) -> None:
        self.commands = commands
        self.plans = Plans(commands)
        self.limits = limits
        self.token = None if token is None else token.encode()
        self.open: set[Connection] = set()
        self.none_open = asyncio.Event()
        self.accepted = 0
        self.asked: Counter[bytes] = Counter()
        self.errors: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.durations = Durations()
        self.draining = False

    def __call__(self) -> "Connection":
        """Return the protocol of a new connection."""
        self.accepted += 1
        return Connection(self, self.accepted)

    def end_overdue(self, now: float) -> None:
        """End the connections whose time is over; called every second or so."""
        for connection in list(self.open):
            reason = connection.overdue(now)
            if reason:
                connection.abort(reason)

    def drain(self) -> None:
        """Take no more commands; each connection ends once what came before is answered."""
        self.draining = True
        if not self.open:
            self.none_open.set()
        for connection in list(self.open):
            connection.finish()

    def abort(self) -> None:
        """End what is left at once."""
        for connection in list(self.open):
            connection.abort("stopped")
