"""A command on its way to several services, and what their answers come to. No I/O.

    Asked -> (each service of a route, or a document's home) -> replies -> verdict, neighbours, facts

The rule kept here: a page is judged by all the services that the documents are spread over, under one
token; whoever may hold a reservation that nobody needs is known, so that it can be released.
"""

import secrets
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import hiredis

from dedup.client.commands import Command, NoToken, verdict_of
from dedup.client.routing import NOBODY, Route
from dedup.shards import merged
from dedup.values import Neighbour, PageFingerprint, Verdict

__all__ = ["Asked", "new_token", "neighbours_of_all", "packed", "sums", "verdict_of_all"]

NEIGHBOURS = 1000  # at most, as one service gives

LARGEST = frozenset(("in_flight",))  # pages in flight are reserved at every service
SUMMED = frozenset(("documents", "bytes", "free_bytes"))

Document = tuple[str, str]  # namespace, key


def new_token() -> str:
    """Return a token for a reservation that nobody else has."""
    return secrets.token_hex(16)


def packed(command: Command) -> bytes:
    """Return a command as it goes over the wire."""
    return hiredis.pack_command(command)  # type: ignore[arg-type]


class Asked:
    """A command, and who answered it.

    document  whose home is asked; None: everybody of the route is
    token     what RESERVE takes the page under
    among     the services that may be asked, or None: any
    route     the services that were to be asked, in the end
    replies   by service: its answer, or the DedupError that it stands for
    lost      services that may have carried it out, but whose answer did not come
    """

    __slots__ = ("_packed", "among", "command", "document", "lost", "replies", "route", "token")

    def __init__(
        self,
        command: Command,
        document: Document | None = None,
        token: str | None = None,
        among: Collection[int] | None = None,
    ) -> None:
        """Ask nobody yet."""
        self.command = command
        self.document = document
        self.token = token
        self.among = among
        self.route = Route()
        self.replies: dict[int, Any] = {}
        self.lost: set[int] = set()
        self._packed: bytes | None = None

    def bytes_for(self, *, tokens: bool) -> bytes:
        """Return what goes to a service that takes tokens, or to one that does not."""
        if not tokens and self.token is not None:
            return packed(self.command)
        if self._packed is None:
            token: Command = () if self.token is None else (b"TOKEN", self.token)
            self._packed = packed((*self.command, *token))
        return self._packed

    def left(self, route: Route) -> Sequence[int]:
        """Take a route, and return who is still to be asked on it."""
        self.route = route
        if self.document is None:
            ends: Sequence[int] = route.ends
        else:
            home = route.home(*self.document)
            ends = () if home == NOBODY or (self.among and home not in self.among) else (home,)
        return [end for end in ends if end not in self.replies] if self.replies else ends

    @property
    def home(self) -> int:
        """Who holds the document; NOBODY if none of those that answer does."""
        return NOBODY if self.document is None else self.route.home(*self.document)

    def answer(self) -> Any:
        """Return the home's answer, or the error that it stands for; None if there is no answer."""
        home = self.home
        if self.among and home != NOBODY and home not in self.among:
            return NoToken("the service that now holds the document knows nothing of its token")
        return self.replies.get(home)

    def tokens(self) -> dict[int, str]:
        """Return by service under which token it holds the page, or may hold it."""
        held = {end: reply[1].decode() for end, reply in self.replies.items() if _took(reply)}
        if self.lost and self.token is not None:
            held |= dict.fromkeys(self.lost, self.token)
        return held


def _took(reply: Any) -> bool:
    return isinstance(reply, list) and len(reply) > 1 and isinstance(reply[1], bytes)


def verdict_of_all(asked: Asked, home: int, page: PageFingerprint, domain: str) -> Verdict | None:
    """Return the verdict that the answers to RESERVE come to; None: they do not suffice.

    Raises what an answer stands for.
    """
    assert asked.document is None or asked.route
    ...
