"""A command on its way to several services, and what their answers come to. No I/O.

    Asked -> (each service of a route, or a document's home) -> replies -> verdict, neighbours, facts

The rule kept here: a page is judged by all the services that the documents are spread over, under one
token; whoever may hold a reservation that nobody needs is known, so that it can be released.
"""

import secrets
from collections.abc import Collection, Sequence
from typing import Any

import hiredis

from dedup.client.commands import PROBE_COUNT, Command, NoToken, verdict_of
from dedup.client.routing import NOBODY, Holding, Route
from dedup.shards import merged
from dedup.values import Neighbour, PageFingerprint, Verdict

__all__ = ["Asked", "facts_of_all", "neighbours_of_all", "new_token", "packed", "verdict_of_all"]

SUMMED = frozenset(
    ("documents", "values", "table_bytes", "documents_file_bytes", "tail_documents")
)  # of what INFO says of a namespace


def new_token() -> str:
    """Return a token for a reservation that nobody else has."""
    return secrets.token_hex(16)


def packed(command: Command) -> bytes:
    """Return a command as it goes over the wire."""
    made: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
    return made


class Asked:
    """A command, and who answered it.

    namespace  of the document, or ""
    key        the document whose home is asked; None: everybody of the route is
    token      what RESERVE takes the page under
    among      who may be asked, or None: anybody
    route      who was to be asked, in the end
    replies    by service: its answer, or the DedupError that it stands for
    lost       who may have carried it out, but did not answer
    """

    __slots__ = (
        "_packed",
        "among",
        "command",
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
        key: str | None = None,
        *,
        token: str | None = None,
        among: Collection[int] | None = None,
    ) -> None:
        """Ask nobody yet."""
        self.command = command
        self.namespace = namespace
        self.key = key
        self.token = token
        self.among = among
        self.route = NOWHERE
        self.replies: dict[int, Any] = {}
        self.lost: set[int] = set()
        self._packed: bytes | None = None

    def bytes_for(self, holding: Holding) -> bytes:
        """Return what goes to a service."""
        if self.token is not None and not holding.tokens:
            return packed(self.command)
        if self._packed is None:
            token: Command = () if self.token is None else (b"TOKEN", self.token)
            self._packed = packed((*self.command, *token))
        return self._packed

    def left(self, route: Route) -> Sequence[int]:
        """Take a route, and return who is still to be asked on it."""
        self.route = route
        ends = route.ends if self.key is None else self._home_to_ask()
        return [end for end in ends if end not in self.replies] if self.replies else ends

    def _home_to_ask(self) -> Sequence[int]:
        home = self.home
        if home == NOBODY or (self.among is not None and home not in self.among):
            return ()
        return (home,)

    @property
    def home(self) -> int:
        """Who holds the document; NOBODY if none of those that can be asked does."""
        return NOBODY if self.key is None else self.route.home(self.namespace, self.key)

    def answer(self) -> Any:
        """Return the home's answer, or the error that it stands for; None if there is no answer."""
        home = self.home
        if self.among is not None and home != NOBODY and home not in self.among:
            return NoToken("who holds the document now was not asked about the page")
        return self.replies.get(home)

    def holders(self) -> dict[int, str]:
        """Return who holds the page, or may hold it, and under which token."""
        held = {end: reply[1].decode() for end, reply in self.replies.items() if _took(reply)}
        if self.lost and self.token is not None:
            held |= dict.fromkeys(self.lost, self.token)
        return held


NOWHERE = Route()


def _took(reply: Any) -> bool:
    return isinstance(reply, list) and len(reply) > 1 and isinstance(reply[1], bytes)


def verdict_of_all(asked: Asked, page: PageFingerprint, key: str, domain: str) -> Verdict | None:
    """Return the verdict that the answers to a RESERVE of all come to; None: they do not suffice.

    Raises what an answer stands for, and ServiceUnavailable for one that is none.
    """
    answers: dict[int, Verdict | None] = {}
    for end in asked.route.ends:
        reply = asked.replies.get(end)
        if isinstance(reply, Exception):
            raise reply
        answers[end] = None if reply is None else verdict_of(reply, page, key, domain)
    if not asked.route.complete:
        answers[NOBODY] = None
    home = asked.route.home(asked.namespace, key)
    return merged(answers, home) if answers else None


def neighbours_of_all(answers: Sequence[list[Neighbour]]) -> list[Neighbour]:
    """Return the neighbours in several answers, nearest first, each key once, at most 1000."""
    if len(answers) == 1:
        return answers[0]
    by_key = {found.key: found for answer in answers for found in answer}
    return sorted(by_key.values(), key=_nearness)[:PROBE_COUNT]


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
