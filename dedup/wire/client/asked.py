"""A command on its way to several services, and what their answers come to. No I/O.

    Asked -> (each service of a route, or a document's home) -> replies -> verdict, neighbours, facts

The rule kept here: a page is judged by all the services that the documents are spread over, under one
token; whoever may hold a reservation that nobody needs is known, so that it can be released.
"""

import os
import secrets
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from itertools import count
from typing import Any

import hiredis

from dedup.model.values import Neighbour, PageFingerprint, Verdict
from dedup.wire.client.commands import PROBE_COUNT, Command, NoToken, verdict_of
from dedup.wire.client.routing import NOBODY, Holding, Route
from dedup.wire.shards import merged

__all__ = ["Asked", "facts_of_all", "neighbours_of_all", "new_token", "packed", "verdict_of_all"]

SUMMED = frozenset(
    ("documents", "values", "table_bytes", "documents_file_bytes", "tail_documents")
)  # of what INFO says of a namespace


class _Tokens:
    """Tokens that nobody else makes: a prefix by chance, new in a forked process, and a number."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.prefix = secrets.token_hex(16)
        self.number = count()


_tokens = _Tokens()


def new_token() -> str:
    """Return a token for a reservation that nobody else has."""
    return f"{_tokens.prefix}-{next(_tokens.number):x}"


def packed(command: Command) -> bytes:
    """Return a command as it goes over the wire."""
    made: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
    return made


class Asked:
    """A command, and who answered it.

    command    its words; with a token, "TOKEN" and the token are the last ones
    data       the same as it goes over the wire
    namespace  of the document, or ""
    key        the document that it is about, or None
    everybody  whether all of the route are asked, and not the document's home only
    among      who may be asked, or None: anybody
    route      who was to be asked, in the end
    home       who of them holds the document; NOBODY if none does, or there is none
    replies    by service: its answer, or the DedupError that it stands for
    lost       who may have carried it out, but did not answer
    abroad     who was told that another is the home
    """

    __slots__ = (
        "_abroad",
        "abroad",
        "among",
        "command",
        "data",
        "everybody",
        "home",
        "key",
        "lost",
        "namespace",
        "replies",
        "route",
        "token",
    )

    def __init__(
        self,
        command: Command,
        namespace: str,
        key: str | None,
        *,
        everybody: bool = False,
        token: str | None = None,
        among: Collection[int] | None = None,
    ) -> None:
        """Ask nobody yet."""
        self.command = command
        self.data: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
        self.namespace = namespace
        self.key = key
        self.everybody = everybody
        self.token = token
        self.among = among
        self.route = NOWHERE
        self.home = NOBODY
        self.replies: dict[int, Any] = {}
        self.lost: AbstractSet[int] = NOBODY_ELSE
        self.abroad: AbstractSet[int] = NOBODY_ELSE
        self._abroad: bytes | None = None  # what all but the home are told

    def bytes_for(self, end: int, holding: Holding) -> bytes:
        """Return what goes to a service."""
        if self.token is None or (end == self.home and holding.tokens):
            return self.data
        if not holding.tokens:
            return packed(self.command[:-2])
        if self._abroad is None:
            self._abroad = packed((*self.command, b"HOME", b"off"))
        self.abroad |= {end}
        return self._abroad

    def left(self, route: Route) -> Sequence[int]:
        """Take a route, and return who is still to be asked on it."""
        self.route = route
        if self.key is not None:
            self.home = route.home(self.namespace, self.key)
        if self.everybody:
            ends: Sequence[int] = route.ends
        else:
            ends = (self.home,) if self.home != NOBODY and self._may_ask(self.home) else ()
        return [end for end in ends if end not in self.replies] if self.replies else ends

    def _may_ask(self, end: int) -> bool:
        return self.among is None or end in self.among

    def answer(self) -> Any:
        """Return the home's answer, or the error that it stands for; None if there is no answer."""
        if self.home in self.replies:
            return self.replies[self.home]
        if self.home == NOBODY or self._may_ask(self.home):
            return None
        return NoToken("who holds the document now was not asked about the page")

    def holders(self) -> dict[int, str]:
        """Return who holds the page, or may hold it, and under which token."""
        held = {
            end: reply[1].decode()
            for end, reply in self.replies.items()
            if type(reply) is list and len(reply) > 1 and type(reply[1]) is bytes
        }
        if self.lost and self.token is not None:
            held |= dict.fromkeys(self.lost, self.token)
        return held


NOWHERE = Route()
NOBODY_ELSE: AbstractSet[int] = frozenset()


def verdict_of_all(asked: Asked, page: PageFingerprint, domain: str) -> Verdict | None:
    """Return the verdict that the answers to a RESERVE of all come to; None: they do not suffice.

    They do not if the home failed and who took over had answered as another: only as the home would
    it have said whether it knows the page itself.
    Raises what an answer stands for, and ServiceUnavailable for one that is none.
    """
    answers: dict[int, Verdict | None] = {}
    for end in asked.route.ends:
        reply = asked.replies.get(end)
        if isinstance(reply, Exception):
            raise reply
        answers[end] = None if reply is None else verdict_of(reply, page, asked.key or "", domain)
    if not asked.route.complete:
        answers[NOBODY] = None
    if asked.home in asked.abroad:
        answers[asked.home] = None
    return merged(answers, asked.home)


def neighbours_of_all(answers: Sequence[list[Neighbour]]) -> list[Neighbour]:
    """Return the neighbours in several answers, nearest first, each key once, at most 1000."""
    if len(answers) == 1:
        return answers[0]
    nearest: dict[str, Neighbour] = {}
    for found in sorted((found for answer in answers for found in answer), key=_nearness):
        nearest.setdefault(found.key, found)  # a replica may not know yet that it changed
    return list(nearest.values())[:PROBE_COUNT]


def _nearness(found: Neighbour) -> tuple[int, int, str]:
    return found.distance, found.check_distance, found.key


def facts_of_all(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what several services say of a namespace: sums, and of other facts the first one's.

    A page in flight is reserved at each of them; where they hold the same partitions, their
    documents count twice.
    """
    facts = {name: value for answer in reversed(answers) for name, value in answer.items()}
    for name in SUMMED & facts.keys():
        facts[name] = sum(answer.get(name, 0) for answer in answers)
    facts["in_flight"] = max(answer.get("in_flight", 0) for answer in answers)
    return facts
