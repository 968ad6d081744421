"""A connection as its commands see it, and the probe options that were parsed before.

Session  the protocol version, and what the client may do by the token that it has shown
Plans    a cache for all connections: probes that differ only in value and check are parsed once
"""

from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dedup.detector import EmbeddedDetector
from dedup.model.errors import UsageError
from dedup.model.words import text
from dedup.service.core.command_table import COMMANDS
from dedup.service.core.error_codes import Refused
from dedup.service.core.operations import Commands
from dedup.service.core.roles import NO_ROLES, Caller, Roles, Tokens
from dedup.service.resp import protocol

PLANS = 4096  # combinations of namespace and probe options that are cached
FAILURES = 3  # wrong tokens before a connection is closed


class Later(NamedTuple):
    """An answer that is still to come, and how it will be written.

    alone  whether no other command is to be taken until it has come: it may be large
    """

    future: "Future[Any]"
    encode: Callable[[Any], bytes]
    alone: bool = False


class Plan(NamedTuple):
    """A probe's namespace and options, parsed."""

    detector: EmbeddedDetector
    recipe: str
    domain: str | None
    most: int | None
    page: dict[str, Any]
    fields: bool


class Session:
    """A connection as its commands see it."""

    def __init__(self, commands: Commands, plans: "Plans", tokens: Tokens, number: int) -> None:
        self.commands = commands
        self.plans = plans
        self.number = number
        self.protocol_version = 2
        self.name = b""
        self.closing = False
        self.address = self.subject = ""  # of who connected, and of its certificate
        self._tokens = tokens
        self._shown, self._times = b"", tokens.times
        self._set_roles(NO_ROLES if tokens.asked else tokens.roles_of(b""))
        self.queued: list[list[bytes]] | None = None  # the commands of a MULTI
        self.queued_bytes = self.queued_elements = 0
        self.queued_memory = 0  # bytes that they take, until they are carried out
        self.spoilt = False  # one of them was refused
        self._failures = 0

    def _set_roles(self, roles: Roles) -> None:
        self.roles, self.trusted = roles, bool(roles)
        self._batches_inserts = self.commands.inserts.commits and "crawl" in roles

    @property
    def caller(self) -> Caller:
        """Who asks."""
        return Caller(self.address, self.roles, self.subject)

    def look_again(self) -> bool:
        """Have the roles that the token that was shown has now; return whether there are any."""
        if self._shown and self._times != self._tokens.times:
            self._times = self._tokens.times
            self._set_roles(self._tokens.roles_of(self._shown))
        return self.trusted

    @property
    def is_plain(self) -> bool:
        """Whether commands are carried out as they come."""
        return self.trusted and self.queued is None

    def can_batch(self, command: Any) -> bool:
        """Whether a command can be carried out together with others: with the same options, INSERTs, or PAGES."""
        if type(command) is not list or not command:
            return False
        known = COMMANDS.get(command[0])
        if known is None or not known.together or len(command) < known.least:
            return False
        return self._batches_inserts or known.together != "inserts"

    def authenticate(self, user: bytes, token: bytes) -> None:
        """Trust the client if the token is right; else raise Refused."""
        if not self._tokens.asked:
            raise UsageError("this service has no token: leave AUTH out")
        roles = self._tokens.roles_of(token)
        if roles and user == b"default":
            self._shown, self._times = token, self._tokens.times
            self._set_roles(roles)
            return
        self._failures += 1
        self.closing = self._failures >= FAILURES
        raise Refused("NOAUTH", "wrong token")


class Plans:
    """A cache of parsed probe options."""

    def __init__(self, commands: Commands) -> None:
        self.commands = commands
        self._plans: dict[tuple[bytes, ...], Plan] = {}
        self._closed = 0

    def of(self, arguments: list[bytes]) -> Plan | None:
        """Return the plan of a DEDUP.PROBE; None if its namespace does not exist."""
        commands = self.commands
        if commands.not_ready is not None:
            commands.check_ready()
        if self._closed != commands.namespaces.closed:
            self._closed = commands.namespaces.closed
            self._plans.clear()
        plan = self._plans.get((arguments[1], *arguments[4:]))
        return self._made(arguments) if plan is None else plan

    def _made(self, arguments: list[bytes]) -> Plan | None:
        commands = self.commands
        check_arity(arguments, 6)
        if arguments[4].upper() != b"RECIPE":
            raise UsageError("DEDUP.PROBE ns value sketch RECIPE id [options]: RECIPE is missing")
        given = protocol.options("PROBE", arguments[6:])
        recipe = text(arguments[5], "recipe")
        detector = commands.detector(text(arguments[1], "namespace"), recipe, given.asked)
        if detector is None:
            return None
        plan = Plan(detector, recipe, given.domain, given.count, given.page, given.fields)
        if given.domain is None and not given.page:  # others are too different to cache
            if len(self._plans) >= PLANS:
                self._plans.clear()
            self._plans[arguments[1], *arguments[4:]] = plan
        return plan


def check_arity(arguments: Sequence[bytes], least: int, most: int | None = None) -> None:
    """Raise UsageError for too few or too many arguments; the command's name counts as one."""
    if not least <= len(arguments) <= (most or len(arguments)):
        raise UsageError(f"wrong number of arguments for {shown(arguments[0])}")


def shown(name: bytes) -> str:
    """Return an argument as error messages show it."""
    return "'" + name[:40].decode("ascii", "replace") + "'"


Command = Callable[[Session, list[bytes]], bytes | Later]
