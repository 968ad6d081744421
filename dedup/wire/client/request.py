"""A command for several services, and what their replies come to. No I/O.

    Request -> (each service of a route, or a document's home) -> replies -> verdict, neighbours, facts

The rule kept here: a page is judged by all the services that the documents are spread over, under one
token; which of them may hold a reservation that is not needed is known, so that it can be released.
"""

import os
import secrets
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from itertools import count
from typing import Any

import hiredis

from dedup.model.page import Document, Neighbour, Verdict
from dedup.wire.client.command_codec import LATER_WORDS, PROBE_COUNT, Command, NoToken, verdict_of
from dedup.wire.client.routing import NO_SERVICE, Holding, Route
from dedup.wire.shards import merged

__all__ = ["Request", "facts_of_all", "neighbours_of_all", "new_token", "packed", "verdict_of_all"]

SUMMED = frozenset(
    ("documents", "table_bytes", "documents_file_bytes", "index_file_bytes", "tail_documents")
)  # of what INFO says of a namespace


class _Tokens:
    """Unique tokens: a random prefix, renewed in a forked process, and a number."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.prefix = secrets.token_hex(16)
        self.number = count()


_tokens = _Tokens()


def new_token() -> str:
    """Return a unique token for a reservation."""
    return f"{_tokens.prefix}-{next(_tokens.number):x}"


def packed(command: Command) -> bytes:
    """Return a command as it goes over the wire."""
    made: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
    return made


_NO_ROUTE = Route()
_NONE: AbstractSet[int] = frozenset()


class Request:
    """A command, and the replies to it. Services are known by their numbers.

    command       its words; with a token, LATER_WORDS are the last ones
    data          the same as it goes over the wire
    namespace     of the document, or ""
    key           the document that it is about, or None
    to_all        whether all services of the route are asked, not the document's home only
    allowed       the only services that may be asked, or None
    route         the services that were to be asked at last
    home          the one of them that holds the document; NO_SERVICE if none does
    replies       by service: its answer, or the DedupError that it stands for
    unanswered    services that may have carried it out, but did not answer
    told_not_home services that were told that another one is the home
    """

    __slots__ = (
        "_not_home_data",
        "allowed",
        "command",
        "data",
        "home",
        "key",
        "namespace",
        "replies",
        "route",
        "to_all",
        "token",
        "told_not_home",
        "unanswered",
    )

    def __init__(
        self,
        command: Command,
        namespace: str,
        key: str | None,
        *,
        to_all: bool = False,
        token: str | None = None,
        allowed: Collection[int] | None = None,
    ) -> None:
        """Make a request that was not sent yet."""
        self.command = command
        self.data = packed(command)
        self.namespace = namespace
        self.key = key
        self.to_all = to_all
        self.token = token
        self.allowed = allowed
        self.route = _NO_ROUTE
        self.home = NO_SERVICE
        self.replies: dict[int, Any] = {}
        self.unanswered: AbstractSet[int] = _NONE
        self.told_not_home: AbstractSet[int] = _NONE
        self._not_home_data: bytes | None = None

    def tell_not_home(self) -> None:
        """Send the command as it is to the home, too: its words say `HOME off`."""
        self._not_home_data = self.data

    def data_for(self, service: int, holding: Holding) -> bytes:
        """Return what is sent to a service."""
        if self.token is None or (service == self.home and holding.tokens):
            return self.data
        if not holding.tokens:
            return packed(self.command[:-LATER_WORDS])
        if self._not_home_data is None:
            self._not_home_data = packed((*self.command, b"HOME", b"off"))
        self.told_not_home |= {service}
        return self._not_home_data

    def targets(self, route: Route) -> Sequence[int]:
        """Take a route, and return the services on it that did not reply yet."""
        self.route = route
        if self.key is not None:
            self.home = route.home(self.namespace, self.key)
        if self.to_all:
            asked: Sequence[int] = route.services
        else:
            asked = (self.home,) if self.home != NO_SERVICE and self._may_ask_home() else ()
        return [each for each in asked if each not in self.replies] if self.replies else asked

    def _may_ask_home(self) -> bool:
        return self.allowed is None or self.home in self.allowed

    def home_reply(self) -> Any:
        """Return the home's answer, or the error that it stands for; None if there is no answer."""
        if self.home in self.replies:
            return self.replies[self.home]
        if self.home == NO_SERVICE or self._may_ask_home():
            return None
        return NoToken("the service that holds the document now was not asked about the page")

    def holders(self) -> dict[int, str]:
        """Return the services that hold the page, or may hold it, and under which token."""
        held = {
            service: reply[1].decode()
            for service, reply in self.replies.items()
            if type(reply) is list and len(reply) > 1 and type(reply[1]) is bytes
        }
        if self.unanswered and self.token is not None:
            held |= dict.fromkeys(self.unanswered, self.token)
        return held


def verdict_of_all(request: Request, asked: Document) -> Verdict | None:
    """Return the verdict that all replies to a RESERVE come to; None: they do not suffice.

    They do not if the home failed and the service that took over had replied as another: only as
    the home would it have said whether it knows the page itself.
    Raises what a reply stands for, and ServiceUnavailable for one that is none.
    """
    answers: dict[int, Verdict | None] = {}
    for service in request.route.services:
        reply = request.replies.get(service)
        if isinstance(reply, Exception):
            raise reply
        answers[service] = None if reply is None else verdict_of(reply, asked)
    if not request.route.complete:
        answers[NO_SERVICE] = None
    if request.home in request.told_not_home:
        answers[request.home] = None
    return merged(answers, request.home)


def neighbours_of_all(answers: Sequence[list[Neighbour]]) -> list[Neighbour]:
    """Return the neighbours in several answers, the most similar first, each key once, at most 1000."""
    if len(answers) == 1:
        return answers[0]
    nearest: dict[str, Neighbour] = {}
    for found in sorted((found for answer in answers for found in answer), key=_rank):
        nearest.setdefault(found.key, found)  # a replica may not know yet that it changed
    return list(nearest.values())[:PROBE_COUNT]


def _rank(found: Neighbour) -> tuple[float, int, str]:
    return -found.similarity, found.distance, found.key


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
