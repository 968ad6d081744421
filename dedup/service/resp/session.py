"""A connection as its commands see it, and the commands about itself: AUTH, HELLO, CLIENT, MULTI and what Redis has.

Invariants: a wrong token gives no role. What MULTI queues is bounded, and none of it is carried out where a command
was refused when it was queued.
"""

from asyncio import Future
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dedup.model.errors import UsageError
from dedup.service.core.access import NO_ROLES, Caller, Roles, Tokens
from dedup.service.core.command_table import COMMANDS, shown
from dedup.service.core.operations import Operations
from dedup.service.core.refusal import Refused
from dedup.service.resp.plans import Plans
from dedup.wire import resp
from dedup.wire.resp import ELEMENTS, NIL, OK, bulk, integer

FAILURES = 3  # wrong tokens before a connection is closed
ELEMENT_BYTES = 48  # of memory beside the bytes of an argument
COMMAND_BYTES = 128  # of memory beside those of a command


class Later(NamedTuple):
    """An answer that is still to come, and how it will be written.

    alone  whether no other command is to be taken until it has come: it may be large
    """

    future: Future[Any]
    encode: Callable[[Any], bytes]
    alone: bool = False


class RespSession:
    """A connection as its commands see it."""

    def __init__(self, commands: Operations, plans: Plans, tokens: Tokens, number: int) -> None:
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
        self._queued_bytes = self._queued_elements = 0
        self.queued_memory = 0  # bytes that they take, until they are carried out
        self.spoilt = False  # one of them was refused
        self._failures = 0

    def _set_roles(self, roles: Roles) -> None:
        self.roles, self.trusted = roles, bool(roles)
        self._batches_inserts = self.commands.log is None and "crawl" in roles

    @property
    def caller(self) -> Caller:
        """Who asks."""
        return Caller(self.address, self.roles, self.subject)

    def look_again(self) -> bool:
        """Refresh the roles of the client's token; return whether there are any."""
        if self._shown and self._times != self._tokens.times:
            self._times = self._tokens.times
            self._set_roles(self._tokens.roles_of(self._shown))
        return self.trusted

    @property
    def is_plain(self) -> bool:
        """Whether commands are carried out as they come."""
        return self.trusted and self.queued is None

    def can_batch(self, command: list[bytes]) -> bool:
        """Whether a command can be carried out together with others: with the same options, or INSERTs."""
        known = COMMANDS.get(command[0])
        if known is None or not known.together or len(command) < known.least:
            return False
        return self._batches_inserts or known.together != "inserts"

    def authenticate(self, user: bytes, token: bytes) -> None:
        """Trust the client if the token is right; else raise Refused."""
        if not self._tokens.asked:
            raise UsageError(
                "this service has no token: leave AUTH out, and the token out of the URL"
            )
        roles = self._tokens.roles_of(token)
        if roles and user == b"default":
            self._shown, self._times = token, self._tokens.times
            self._set_roles(roles)
            return
        self._failures += 1
        self.closing = self._failures >= FAILURES
        raise Refused("NOAUTH", "wrong token")

    def queue(self, arguments: list[bytes]) -> bytes:
        """Queue a command after MULTI."""
        queued, limits = self.queued, self.commands.limits
        assert queued is not None
        size = self._queued_bytes + sum(map(len, arguments))
        elements = self._queued_elements + len(arguments)
        if len(queued) >= limits.batch or size > limits.command_bytes or elements > ELEMENTS:
            raise Refused(
                "LIMIT",
                f"a transaction has up to {limits.batch:,} commands, {ELEMENTS:,} elements and "
                f"{limits.command_bytes:,} bytes",
            )
        queued.append(arguments)
        self._queued_bytes, self._queued_elements = size, elements
        self.queued_memory = size + ELEMENT_BYTES * elements + COMMAND_BYTES * len(queued)
        return b"+QUEUED\r\n"

    def take_queue(self, name: str) -> list[list[bytes]]:
        """End a MULTI; return the commands that it queued."""
        queued, self.queued = self.queued, None
        self._queued_bytes = self._queued_elements = 0
        if queued is None:
            raise UsageError(f"{name} without MULTI")
        return queued


Command = Callable[[RespSession, list[bytes]], bytes | Later]


def _auth(session: RespSession, arguments: list[bytes]) -> bytes:
    session.authenticate(arguments[1] if len(arguments) == 3 else b"default", arguments[-1])
    return OK


def _hello(session: RespSession, arguments: list[bytes]) -> bytes:
    version = session.protocol_version
    if len(arguments) > 1:
        if arguments[1] not in {b"2", b"3"}:
            raise Refused("NOPROTO", "unsupported protocol version: 2 or 3")
        version = int(arguments[1])
    words = iter(arguments[2:])
    name = session.name
    for word in words:
        try:
            if word.upper() == b"AUTH":
                session.authenticate(next(words), next(words))
            elif word.upper() == b"SETNAME":
                name = _checked_name(next(words))
            else:
                raise UsageError(f"HELLO does not know {shown(word)}")
        except StopIteration:
            raise UsageError(f"{shown(word)} has too few arguments") from None
    if not session.trusted:
        raise Refused("NOAUTH", "HELLO needs the token here: HELLO 3 AUTH default <token>")
    session.protocol_version, session.name = version, name
    facts = (
        ("server", bulk(b"dedup")),
        ("version", bulk(session.commands.version.encode())),
        ("proto", integer(version)),
        ("id", integer(session.number)),
        ("mode", bulk(b"standalone")),
        ("role", bulk(b"master")),
        ("modules", resp.EMPTY),
    )
    return resp.mapping([(bulk(key.encode()), value) for key, value in facts], version)


def _checked_name(name: bytes) -> bytes:
    if len(name) > 128 or not all(32 < each < 127 for each in name):
        raise UsageError("a connection's name has up to 128 printable characters and no space")
    return name


def _client(session: RespSession, arguments: list[bytes]) -> bytes:
    match arguments[1].upper():
        case b"ID":
            return integer(session.number)
        case b"GETNAME":
            return bulk(session.name) if session.name else NIL[session.protocol_version]
        case b"SETNAME":
            if len(arguments) != 3:
                raise UsageError("wrong number of arguments; usage: CLIENT SETNAME name")
            session.name = _checked_name(arguments[2])
            return OK
        case b"SETINFO" | b"NO-EVICT" | b"NO-TOUCH" | b"TRACKING" | b"CACHING" | b"REPLY":
            # Tracking tells a client when what it caches has changed: no answer here is to be cached,
            # and clients that insist on it cache none of these commands.
            if arguments[1].upper() == b"REPLY" and arguments[2:] != [b"ON"]:
                raise UsageError("CLIENT REPLY knows ON: every command is answered")
            return OK
        case b"GETREDIR":
            return integer(-1)
        case b"INFO" | b"LIST":
            name = session.name.decode()
            return bulk(
                f"id={session.number} name={name} resp={session.protocol_version}\n".encode()
            )
        case other:
            raise UsageError(f"CLIENT does not know {shown(other)}")


def _config(session: RespSession, arguments: list[bytes]) -> bytes:
    if arguments[1].upper() != b"GET":
        raise UsageError("only CONFIG GET is implemented; settings are options of dedup serve")
    asked = {word.lower() for word in arguments[2:]}
    return resp.mapping(
        [each for name, each in _CONFIG.items() if name in asked], session.protocol_version
    )


def _info(session: RespSession, _: list[bytes]) -> bytes:
    info = session.commands.info()
    server = "# Server", "redis_mode:standalone", f"dedup_version:{info.pop('version')}"
    return info_lines(info, *server, "# Replication", "role:master", "# Dedup")


def info_lines(info: Mapping[str, object], *head: str) -> bytes:
    """Return lines `key:value`, behind others."""
    lines = (*head, *(f"{key}:{value}" for key, value in info.items()))
    return bulk("".join(f"{line}\r\n" for line in lines).encode())


def _select(_: RespSession, arguments: list[bytes]) -> bytes:
    if arguments[1] != b"0":
        raise UsageError("there is one database, 0: namespaces keep crawls apart")
    return OK


def _quit(session: RespSession, _: list[bytes]) -> bytes:
    session.closing = True
    return OK


# redis-benchmark asks for these
_CONFIG = {
    name: (bulk(name), bulk(value)) for name, value in ((b"save", b""), (b"appendonly", b"no"))
}


def _multi(session: RespSession, _: list[bytes]) -> bytes:
    if session.queued is not None:
        raise UsageError("MULTI calls can not be nested")
    session.queued, session.spoilt = [], False
    return OK


def _discard(session: RespSession, _: list[bytes]) -> bytes:
    session.take_queue("DISCARD")
    session.queued_memory = 0
    return OK


def _watch(_: RespSession, __: list[bytes]) -> bytes:
    raise UsageError("there is no WATCH: RESERVE takes a page atomically")


def _command(_: RespSession, arguments: list[bytes]) -> bytes:
    if arguments[1:2] and arguments[1].upper() == b"COUNT":
        return integer(len(COMMANDS))
    return resp.EMPTY  # DOCS, INFO: docs/reference/protocol.md has them


OF_SESSION: dict[bytes, Command] = {
    b"COMMAND": _command,
    b"MULTI": _multi,
    b"DISCARD": _discard,
    b"WATCH": _watch,
    b"UNWATCH": lambda _, __: OK,  # nothing is watched
    b"PING": lambda _, arguments: bulk(arguments[1]) if len(arguments) == 2 else b"+PONG\r\n",
    b"ECHO": lambda _, arguments: bulk(arguments[1]),
    b"AUTH": _auth,
    b"HELLO": _hello,
    b"CLIENT": _client,
    b"CONFIG": _config,
    b"INFO": _info,
    b"SELECT": _select,
    b"QUIT": _quit,
}
