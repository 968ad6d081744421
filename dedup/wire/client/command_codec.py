"""Commands of a detector for table services, their replies, and the verdict that follows from these. No I/O.

    judge(page, key) -> DEDUP.RESERVE ns key value sketch ... -> [status, token, ...] -> Verdict
    Request -> (each service of a route, or a document's home) -> replies -> verdict, neighbours, facts

Invariants: a detector's namespace and options are in every command, so that the service keeps no state of a
connection. Only what the caller chose is sent; the rest is the service's default. A page is judged by all the services
that the documents are spread over, under one token; the services that may hold a reservation that is not needed are
known, so that it can be released.
"""

import os
import secrets
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from itertools import count
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from dedup.model.errors import DedupError, RecipeMismatch, ServiceUnavailable, UsageError
from dedup.model.events import record_key
from dedup.model.forms import from_reply
from dedup.model.page import (
    SKETCH_BYTES,
    UNRESERVED,
    Document,
    Identity,
    Neighbour,
    PageFingerprint,
    ReserveOptions,
    Verdict,
    hex_fingerprint,
    unreserved,
)
from dedup.model.policy import RESERVATION_SECONDS, Options
from dedup.model.recipes import Recipe, same_recipe
from dedup.model.words import (
    read_document,
    write_insert,
    write_options,
    write_page,
    write_probe,
    write_sparse,
)
from dedup.wire.resp import pack
from dedup.wire.shards import PARTITIONS_LIMIT, PartitionShare, merged, partition_of

NO_SERVICE = -1  # in place of a service's number: none holds it


class Holding(msgspec.Struct, frozen=True):
    """What a service says of itself when it is connected to.

    share   its partitions, or None: it holds everything
    count   partitions of its log; 0 without one
    """

    share: PartitionShare | None
    count: int = 0

    def __str__(self) -> str:
        return "everything" if self.share is None else f"partitions {self.share}"


def holding_of(reply: Any) -> Holding:
    """Return what the answer to DEDUP.PARTITIONS says. Raises ServiceUnavailable for anything else."""
    try:
        text, count = reply[0].decode(), int(reply[1])
        if text == "*" and 0 <= count <= PARTITIONS_LIMIT:
            return Holding(None, count)
        if 0 < count <= PARTITIONS_LIMIT:
            return Holding(PartitionShare.of(text, count), count)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, DedupError):
        pass
    raise unreadable(reply)


class Route:
    """The services to ask; they are added in order of preference.

    services  their numbers, in that order
    complete  whether every partition is held by one of them
    trouble   what keeps them from being asked together, or None
    """

    __slots__ = ("_homes", "_only", "complete", "count", "services", "trouble")

    def __init__(self) -> None:
        self.services: tuple[int, ...] = ()
        self.complete = False
        self.trouble: str | None = None
        self.count = 0  # partitions; known with the first service that holds a share
        self._homes: list[int] = []  # by partition
        self._only = NO_SERVICE  # the one that holds everything: no homes to look up

    def wants(self, holding: Holding) -> bool:
        """Whether a service holds anything that none before it does."""
        if self.complete:
            return False
        if holding.share is None or not self._homes or holding.count != self.count:
            return True
        return any(self._homes[number] == NO_SERVICE for number in holding.share.partitions)

    def add(self, number: int, holding: Holding, address: object = "") -> None:
        """Let a service that is wanted take what none before it holds."""
        share = holding.share
        if not self.services and share is None:
            self.services, self._only, self.complete = (number,), number, True
            return
        if not self._homes and share is not None:
            self.count = share.count
            self._homes = [NO_SERVICE] * share.count
        elif share is not None and share.count != self.count:
            self.trouble = (
                f"{address} says that the log has {share.count} partitions, others say {self.count}: "
                "they do not share one log"
            )
            self.services, self.complete = (), True
            return
        for partition in range(self.count) if share is None else share.partitions:
            if self._homes[partition] == NO_SERVICE:
                self._homes[partition] = number
        self.services = (*self.services, number)
        self.complete = NO_SERVICE not in self._homes
        self._only = number if len(self.services) == 1 and self.complete else NO_SERVICE

    def home(self, namespace: str, key: str) -> int:
        """Return the service that holds, or is to hold, the document with a key, or NO_SERVICE.

        Raises EventInvalid for a key that is too long for the log or not Unicode.
        """
        if self._only != NO_SERVICE or not self.services:
            return self._only
        return self._homes[partition_of(record_key(namespace, key), self.count)]

    def missing(self) -> str:
        """Return the partitions that no service holds, as "4-7,9"; "" if not known, or none."""
        left = frozenset(n for n, home in enumerate(self._homes) if home == NO_SERVICE)
        return str(PartitionShare(left, self.count))


def unavailable(
    route: Route, services: Sequence[tuple[object, Holding, str]]
) -> ServiceUnavailable:
    """Return the error that says what keeps the services of a route from an answer.

    services are all of them: the address, what it holds, and what is wrong with it.
    """
    if route.trouble is not None:
        return ServiceUnavailable(f"the table services disagree: {route.trouble}")
    why = "; ".join(
        f"{address}: {trouble if trouble and number not in route.services else f'holds {holding}'}"
        for number, (address, holding, trouble) in enumerate(services)
    )
    lacking = "no table service answers"
    if missing := route.missing():
        lacking = f"partitions {missing} of the log are held by no table service that answers"
    return ServiceUnavailable(f"{lacking} ({why}); see that `dedup serve` runs there")


_IDENTITIES: dict[str, Identity] = {name: name for name in get_args(Identity)}

Command = tuple[bytes | str | int, ...]
Kind = Literal["insert", "release"]

FIELDS_OF_REPLY = 8  # of an answer to RESERVE that has the fields of the match
PARTITIONS: Command = (b"DEDUP.PARTITIONS",)  # what a service holds
PROBE_COUNT = 1000  # neighbours at most, as the embedded store gives


class NoToken(DedupError):
    """The service does not know a token: it was restarted, or the reservation expired."""


class Commands:
    """The commands of one detector."""

    def __init__(self, options: Options, recipe: Recipe) -> None:
        self.namespace = options.namespace
        self._encoded_namespace = options.namespace.encode()
        self._recipe_id = recipe.id
        self._scope = options.scope
        self._policy = options.policy(recipe)
        distances: Command = ()
        if options.distance is not None or options.similarity == "paper":
            distances += (b"DISTANCE", self._policy.distance)
        if options.similarity not in {None, "careful"}:  # which a service takes for itself
            distances += (b"SIMILARITY", f"{self._policy.similarity}")
        self._probe_options = distances
        asked = distances
        if options.scope == "site":
            asked += (b"SCOPE", b"site")
        if options.min_features is not None:
            asked += (b"FEATURES", int(options.min_features))
        self._seconds = (
            f"{options.reservation_seconds:.3f}"
            if options.reservation_seconds != RESERVATION_SECONDS
            else None
        )
        self._reserve_options = (b"RECIPE", recipe.id.encode(), *asked)

    def probe(self, page: PageFingerprint, domain: str) -> Command | None:
        """Return the command, or None when it is known that nothing is near."""
        same_recipe(self._recipe_id, page.recipe)
        if page.features < self._policy.min_features:
            return None
        command: Command = (
            b"DEDUP.PROBE",
            self._encoded_namespace,
            *write_probe(page),
            *self._probe_options,
            b"COUNT",
            PROBE_COUNT,
            b"FIELDS",
            b"on",
        )
        scope = (b"SCOPE", b"site") if self._scope == "site" else (b"DOMAIN",)
        return (*command, *scope, domain)

    def reserve(self, asked: Document, options: ReserveOptions, token: str) -> Command:
        """Return the command that judges a page, and takes it under a token."""
        page = asked.page
        same_recipe(self._recipe_id, page.recipe)
        if page.unread and options.exempt is None:  # which the fingerprint's words do not say
            options = replace(options, exempt="unread")
        command: Command = (
            b"DEDUP.RESERVE",
            self._encoded_namespace,
            _encoded(asked.key),
            *write_page(page),
            asked.domain,
            *self._reserve_options,
            *write_sparse(page),
            *write_options(options),
        )
        if self._seconds and options.seconds is None:
            command += (b"SECONDS", self._seconds)
        return (*command, b"FIELDS", b"on", b"TOKEN", token)

    def end(self, kind: Kind, document: Document, token: str | None) -> Command:
        """Return the command that ends a reservation."""
        if kind == "release":
            return self.release(document.key, token)
        assert token is not None
        key = _encoded(document.key)
        return (b"DEDUP.INSERT", self._encoded_namespace, key, token, *write_insert(document))

    def release(self, key: str, token: str | None) -> Command:
        """Return the command that releases a page."""
        assert token is not None
        return (b"DEDUP.RELEASE", self._encoded_namespace, _encoded(key), token)

    def reserve_expired(self, verdict: Verdict, token: str) -> Command:
        """Return the command that reserves a page again whose reservation is not held any more."""
        asked = verdict.document
        return self.reserve(asked, ReserveOptions(exempt="expired", kind=asked.kind), token)

    def forget(self, key: str) -> Command:
        """Return the command that removes a document."""
        return (b"DEDUP.FORGET", self._encoded_namespace, _encoded(key))

    def check(self) -> Command:
        """Return a probe that only asks whether probes can be made."""
        none = hex_fingerprint(0)
        recipe: Command = (b"RECIPE", self._recipe_id)
        sketch = "00" * SKETCH_BYTES
        command: Command = (b"DEDUP.PROBE", self._encoded_namespace, none, sketch, *recipe)
        return (*command, *self._probe_options, b"COUNT", 1)

    def info(self) -> Command:
        """Return the command that asks what the namespace holds."""
        return (b"DEDUP.INFO", self._encoded_namespace)

    def check_insertable(self, verdict: Verdict) -> None:
        """Raise UsageError or RecipeMismatch for a verdict that cannot be inserted."""
        if verdict.token is None:
            raise UsageError(
                f"the verdict on {verdict.key!r} ({verdict.status}) has no token: it cannot be "
                "inserted"
            )
        same_recipe(self._recipe_id, verdict.page.recipe)


def unjudged_verdict(asked: Document) -> Verdict:
    """Return the verdict on a page that is kept because the service does not answer.

    No service knows its token: insert() reserves the page first.
    """
    return unreserved(Verdict("exempt", "", asked), "fault")


def is_unjudged(verdict: Verdict) -> bool:
    """Whether no service holds a reservation for a verdict: it has no token, or none was asked."""
    return verdict.token is None or verdict.token.startswith(UNRESERVED)


def verdict_of(reply: Any, asked: Document) -> Verdict:
    """Return the verdict on a page in the answer to RESERVE. Raises ServiceUnavailable for anything else."""
    try:
        found = None
        if len(reply) == FIELDS_OF_REPLY:
            *reply, words = reply
            found = None if words is None else read_document(reply[2].decode(), words)
        verdict = from_reply(reply, asked, found)
    except (AttributeError, TypeError, ValueError) as error:  # UsageError is a ValueError
        raise unreadable(reply) from error
    return verdict


def neighbours_of(reply: Any) -> list[Neighbour]:
    """Return the neighbours in the answer to PROBE. Raises ServiceUnavailable for anything else."""
    try:
        return [
            Neighbour(
                read_document(key.decode(), words),
                int(distance),
                float(similarity),
                _IDENTITIES[identity.decode()],
            )
            for key, distance, similarity, identity, words in reply
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise unreadable(reply) from error


def facts_of(reply: Any) -> dict[str, Any]:
    """Return the key:value lines of the answer to INFO; whole numbers and numbers as such."""
    try:
        pairs = (line.partition(":") for line in reply.decode().splitlines() if ":" in line)
        return {key: _number(value) for key, _, value in pairs}
    except AttributeError as error:
        raise unreadable(reply) from error


UNAUTHORIZED = "NOAUTH"  # the code of a service that is there, and refuses the token


def error_of(message: str) -> DedupError:
    """Return the error that an answer "-CODE message" stands for.

    What says nothing about the command (not ready, no token, an unknown code) is
    ServiceUnavailable: another service may answer it.
    """
    code, _, text = message.partition(" ")
    if code == "NOTOKEN":
        return NoToken(message)
    if code == "RECIPE":
        return RecipeMismatch(f"the table service says: {text}")
    if code == "ERR" and ("unknown option" in text or "unknown command" in text):
        return UsageError(
            f"the table service says: {text}; it may be an older release than this client: upgrade "
            "services before clients"
        )
    if code in {"ERR", "DISTANCE", "NOPERM"}:
        return UsageError(f"the table service says: {text}")
    if code in {"NOAUTH", "WRONGPASS"}:
        refused = ServiceUnavailable(
            f"it refuses the token ({message}); give it in the URL: redis://:TOKEN@host:port"
        )
        refused.code = UNAUTHORIZED
        return refused
    return ServiceUnavailable(f"it answers {message}")


def _encoded(key: str) -> bytes:
    try:
        return key.encode()
    except (UnicodeEncodeError, AttributeError) as error:
        raise UsageError(f"document key {key!r} is not valid Unicode text: {error}") from None


def _number(value: str) -> Any:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            pass
    return value


def unreadable(reply: Any) -> ServiceUnavailable:
    """Return the error of a reply that no table service gives."""
    return ServiceUnavailable(f"not the answer of a table service: {str(reply)[:200]}")


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


_NO_ROUTE = Route()
_NONE: AbstractSet[int] = frozenset()


class Request:
    """A command, and the replies to it. Services are known by their numbers.

    command       its words
    data          the same as it goes over the wire
    namespace     of the document, or ""
    key           the document that it is about, or None
    to_all        whether all services of the route are asked, not the document's home only
    allowed       the only services that may be asked, or None
    route         the services that were to be asked at last
    home          the one of them that holds the document; NO_SERVICE if none does
    replies       by service: its answer, or the DedupError that it stands for
    unanswered    services that may have carried it out, but did not answer
    sent_home_off services that were sent HOME off: another one is the home
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
        "sent_home_off",
        "to_all",
        "token",
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
        self.command = command
        self.data = pack(command)
        self.namespace = namespace
        self.key = key
        self.to_all = to_all
        self.token = token
        self.allowed = allowed
        self.route = _NO_ROUTE
        self.home = NO_SERVICE
        self.replies: dict[int, Any] = {}
        self.unanswered: AbstractSet[int] = _NONE
        self.sent_home_off: AbstractSet[int] = _NONE
        self._not_home_data: bytes | None = None

    def send_home_off_to_all(self) -> None:
        """Send the same bytes to every service, the home among them: its words say `HOME off`."""
        self._not_home_data = self.data

    def data_for(self, service: int) -> bytes:
        """Return what is sent to a service."""
        if self.token is None or service == self.home:
            return self.data
        if self._not_home_data is None:
            self._not_home_data = pack((*self.command, b"HOME", b"off"))
        self.sent_home_off |= {service}
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
    """Return the verdict that follows from all replies to a RESERVE; None: they do not suffice.

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
    if request.home in request.sent_home_off:
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
