"""RESP commands: arguments in, encoded answers out. What clients send at connection is here too.

A command is a function of a session and its arguments (the name is the first). It returns bytes, or
Later for an answer that is still to come.
"""

import asyncio
import hmac
from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dedup.detector import Detector
from dedup.errors import UsageError
from dedup.service import wire
from dedup.service.batches import PROBES, probe_in_slices
from dedup.service.commands import Commands
from dedup.service.namespaces import Refused
from dedup.service.wire import NIL, OK, bulk, integer, options
from dedup.values import Neighbour

__all__ = ["INSERT", "PROBE", "Later", "Session", "probe", "run", "run_together"]

PROBE = b"DEDUP.PROBE"
INSERT = b"DEDUP.INSERT"
PLANS = 4096  # kinds of probe (namespace and options) whose reading is remembered
FAILURES = 3  # wrong tokens before a connection is closed


class Later(NamedTuple):
    """An answer that is still to come, and how it will be written."""

    future: "Future[Any]"
    encode: Callable[[Any], bytes]


class Plan(NamedTuple):
    """What a probe's namespace and options come to."""

    detector: Detector
    recipe: str
    domain: str | None
    most: int | None
    links: int | None


class Session:
    """A connection as its commands see it."""

    def __init__(
        self, commands: Commands, plans: "Plans", token: bytes | None, number: int
    ) -> None:
        self.commands = commands
        self.plans = plans
        self.number = number
        self.protocol = 2
        self.name = b""
        self.closing = False
        self._token = token
        self.trusted = token is None
        self._failures = 0
        self._inserts_together = commands.inserts.commits

    def together(self, command: Any) -> bool:
        """Tell whether a command can be carried out with others that are alike."""
        if type(command) is not list:
            return False
        if len(command) > 5:
            return bool(command[0] == PROBE)
        return self._inserts_together and len(command) == 4 and bool(command[0] == INSERT)

    def show(self, user: bytes, token: bytes) -> None:
        """Take a token for the right one, or raise Refused."""
        if self._token is None:
            raise UsageError("this service has no token: leave AUTH out")
        if hmac.compare_digest(token, self._token) and user == b"default":
            self.trusted = True
            return
        self._failures += 1
        self.closing = self._failures >= FAILURES
        raise Refused("NOAUTH", "wrong token")


class Plans:
    """Probes alike but for value and check are read once."""

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
        _arity(arguments, 6)
        if arguments[4].upper() != b"RECIPE":
            raise UsageError("DEDUP.PROBE ns value check RECIPE id [options]: RECIPE is missing")
        given = options("PROBE", arguments[6:])
        recipe = wire.text(arguments[5], "recipe")
        detector = commands.detector(wire.text(arguments[1], "namespace"), recipe, given.asked)
        if detector is None:
            return None
        plan = Plan(detector, recipe, given.domain, given.count, given.links)
        if given.domain is None and given.links is None:  # those are too many to be kept
            if len(self._plans) >= PLANS:
                self._plans.clear()
            self._plans[arguments[1], *arguments[4:]] = plan
        return plan


def _arity(arguments: Sequence[bytes], least: int, most: int | None = None) -> None:
    if not least <= len(arguments) <= (most or len(arguments)):
        raise UsageError(f"wrong number of arguments for {_shown(arguments[0])}")


def _shown(name: bytes) -> str:
    return "'" + name[:40].decode("ascii", "replace") + "'"


def run(session: Session, arguments: list[bytes]) -> tuple[bytes, bytes | Later]:
    """Carry out a command; return its name and its answer. Raises what it raises."""
    name = arguments[0].upper()
    command = _COMMANDS.get(name)
    if not session.trusted and name not in _BEFORE_AUTH:
        raise Refused("NOAUTH", "show the token first: AUTH default <token>")
    if command is None:
        raise UsageError(f"unknown command {_shown(arguments[0])}; see docs/protocol.md")
    return name, command(session, arguments)


def run_together(session: Session, run_of: list[list[bytes]]) -> bytes:
    """Carry out commands that are alike (Session.together) at once; return their answers.

    Raises what one of them raises: then each is to be carried out by itself.
    """
    if run_of[0][0] == PROBE:
        return b"".join(probes(session.plans, run_of))
    pages = [(wire.text(command[2], "key"), wire.text(command[3], "token")) for command in run_of]
    session.commands.insert_many(wire.text(run_of[0][1], "namespace"), pages)
    return OK * len(run_of)


# ------------------------------------------------------------------------------------- the work


def probe(plans: Plans, arguments: list[bytes]) -> bytes:
    """Carry out one DEDUP.PROBE."""
    plan = plans.of(arguments)
    value, check = wire.value_and_check(arguments[2], arguments[3])
    if plan is None:
        return wire.EMPTY
    detector, recipe, domain, most, links = plan
    found = plans.commands.probe(detector, value, check, recipe, domain, links or 0)
    if links is not None:
        return wire.whole_neighbours(found if most is None else found[:most])
    return _neighbours(found, most) if found else wire.EMPTY


def probes(plans: Plans, run_of: list[list[bytes]]) -> list[bytes]:
    """Carry out some DEDUP.PROBE alike but for value and check."""
    plan = plans.of(run_of[0])
    if plan is not None and plan.links is not None:
        return [probe(plans, arguments) for arguments in run_of]
    values = wire.fingerprints([arguments[2] for arguments in run_of])
    checks = wire.fingerprints([arguments[3] for arguments in run_of])
    answers = [wire.EMPTY] * len(run_of)
    if plan is not None:
        detector, recipe, domain, most, _ = plan
        found = plans.commands.probe_many(detector, values, checks.tolist(), recipe, domain)
        for i, near in found.items():
            answers[i] = _neighbours(near, most)
    return answers


def _neighbours(found: list[Neighbour], most: int | None) -> bytes:
    return wire.neighbours(found if most is None else found[:most])


def _mprobe(session: Session, arguments: list[bytes]) -> bytes | Later:
    _arity(arguments, 5)
    if arguments[2].upper() != b"RECIPE":
        raise UsageError("DEDUP.MPROBE ns RECIPE id [options] VALUES value check ...")
    head = [word.upper() for word in arguments[4:11]]
    if b"VALUES" not in head:
        raise UsageError("DEDUP.MPROBE ns RECIPE id [options] VALUES value check ...")
    first = 4 + head.index(b"VALUES")
    given = options("MPROBE", arguments[4:first])
    pairs = arguments[first + 1 :]
    if len(pairs) % 2:
        raise UsageError("after VALUES come pairs of value and check")
    commands, recipe = session.commands, wire.text(arguments[3], "recipe")
    detector = commands.detector(wire.text(arguments[1], "namespace"), recipe, given.asked)
    values, checks = wire.fingerprints(pairs[::2]), wire.fingerprints(pairs[1::2])

    def encoded(found: dict[int, list[Neighbour]]) -> bytes:
        answers = [wire.EMPTY] * len(values)
        for i, near in found.items():
            answers[i] = _neighbours(near, given.count)
        return wire.array(answers)

    if len(values) > PROBES:
        work = probe_in_slices(commands, detector, values, checks.tolist(), recipe)
        return Later(asyncio.ensure_future(work), encoded)
    return encoded(commands.probe_many(detector, values, checks.tolist(), recipe, None))


def _reserve(session: Session, arguments: list[bytes]) -> bytes:
    _arity(arguments, 11)
    page, domain = wire.page(arguments[3:11])
    given, token = wire.reserve_options(arguments[11:])
    verdict = session.commands.reserve(
        wire.text(arguments[1], "namespace"),
        wire.text(arguments[2], "key"),
        page,
        domain,
        given.asked,
        exempt=given.exempt,
        guard=given.guard,
        token=token,
        home=given.home,
    )
    nil = NIL[session.protocol]
    if verdict.status == "unique" and verdict.token is not None:  # most are, at most shards
        return wire.UNIQUE % (len(verdict.token), verdict.token.encode(), nil, nil, nil, nil)
    return wire.array(
        (
            bulk(verdict.status.encode()),
            nil if verdict.token is None else bulk(verdict.token.encode()),
            nil if verdict.of is None else bulk(verdict.of.encode()),
            nil if verdict.distance is None else integer(verdict.distance),
            nil if verdict.check_distance is None else integer(verdict.check_distance),
            bulk(verdict.reason.encode()) if verdict.reason else nil,
        )
    )


def _token_arguments(arguments: list[bytes]) -> tuple[str, str, str]:
    namespace, key, token = arguments[1:4]
    return wire.text(namespace, "namespace"), wire.text(key, "key"), wire.text(token, "token")


def _insert(session: Session, arguments: list[bytes]) -> bytes | Later:
    _arity(arguments, 4, 5)
    pin = len(arguments) == 5
    if pin and arguments[4].upper() != b"PIN":
        raise UsageError("DEDUP.INSERT ns key token [PIN]")
    done = session.commands.insert(*_token_arguments(arguments), pin=pin)
    return OK if done is None else Later(done, lambda _: OK)


def _release(session: Session, arguments: list[bytes]) -> bytes:
    _arity(arguments, 4, 4)
    return integer(session.commands.release(*_token_arguments(arguments)))


def _forget(session: Session, arguments: list[bytes]) -> bytes | Later:
    _arity(arguments, 3, 3)
    namespace, key = wire.text(arguments[1], "namespace"), wire.text(arguments[2], "key")
    done = session.commands.forget(namespace, key)
    return integer(done) if isinstance(done, bool) else Later(done, integer)


def _partitions(session: Session, arguments: list[bytes]) -> bytes:
    _arity(arguments, 1, 1)
    held, count = session.commands.partitions()
    return wire.array((bulk(held.encode()), integer(count)))


def _dedup_info(session: Session, arguments: list[bytes]) -> bytes:
    _arity(arguments, 1, 2)
    commands = session.commands
    info = (
        commands.info()
        if len(arguments) == 1
        else commands.namespace_info(wire.text(arguments[1], "namespace"))
    )
    lines = (f"{key}:{value}\r\n" for key, value in info.items())
    return bulk("".join(lines).encode())


# -------------------------------------------------------------------- what clients send at connection


def _ping(_: Session, arguments: list[bytes]) -> bytes:
    _arity(arguments, 1, 2)
    return bulk(arguments[1]) if len(arguments) == 2 else b"+PONG\r\n"


def _echo(_: Session, arguments: list[bytes]) -> bytes:
    _arity(arguments, 2, 2)
    return bulk(arguments[1])


def _auth(session: Session, arguments: list[bytes]) -> bytes:
    _arity(arguments, 2, 3)
    session.show(arguments[1] if len(arguments) == 3 else b"default", arguments[-1])
    return OK


def _hello(session: Session, arguments: list[bytes]) -> bytes:
    protocol = session.protocol
    if len(arguments) > 1:
        if arguments[1] not in {b"2", b"3"}:
            raise Refused("NOPROTO", "unsupported protocol version: 2 or 3")
        protocol = int(arguments[1])
    words = iter(arguments[2:])
    name = session.name
    for word in words:
        try:
            if word.upper() == b"AUTH":
                session.show(next(words), next(words))
            elif word.upper() == b"SETNAME":
                name = _checked_name(next(words))
            else:
                raise UsageError(f"HELLO does not know {_shown(word)}")
        except StopIteration:
            raise UsageError(f"{_shown(word)} has too few arguments") from None
    if not session.trusted:
        raise Refused("NOAUTH", "HELLO needs the token here: HELLO 3 AUTH default <token>")
    session.protocol, session.name = protocol, name
    facts = (
        ("server", bulk(b"dedup")),
        ("version", bulk(session.commands.version.encode())),
        ("proto", integer(protocol)),
        ("id", integer(session.number)),
        ("mode", bulk(b"standalone")),
        ("role", bulk(b"master")),
        ("modules", wire.EMPTY),
    )
    return wire.mapping([(bulk(key.encode()), value) for key, value in facts], protocol)


def _checked_name(name: bytes) -> bytes:
    if len(name) > 128 or not all(32 < each < 127 for each in name):
        raise UsageError("a connection's name has up to 128 printable characters and no space")
    return name


def _client(session: Session, arguments: list[bytes]) -> bytes:
    _arity(arguments, 2)
    match arguments[1].upper():
        case b"ID":
            return integer(session.number)
        case b"GETNAME":
            return bulk(session.name) if session.name else NIL[session.protocol]
        case b"SETNAME":
            _arity(arguments, 3, 3)
            session.name = _checked_name(arguments[2])
            return OK
        case b"SETINFO" | b"NO-EVICT" | b"NO-TOUCH":
            return OK
        case b"INFO" | b"LIST":
            name = session.name.decode()
            return bulk(f"id={session.number} name={name} resp={session.protocol}\n".encode())
        case other:
            raise UsageError(f"CLIENT does not know {_shown(other)}")


def _command(_: Session, arguments: list[bytes]) -> bytes:
    if arguments[1:2] and arguments[1].upper() == b"COUNT":
        return integer(len(_COMMANDS))
    return wire.EMPTY  # DOCS, INFO: docs/protocol.md has them


def _config(session: Session, arguments: list[bytes]) -> bytes:
    _arity(arguments, 3)
    if arguments[1].upper() != b"GET":
        raise UsageError("CONFIG knows GET, and has no settings: see dedup serve --help")
    asked = {word.lower() for word in arguments[2:]}
    return wire.mapping([each for name, each in _CONFIG.items() if name in asked], session.protocol)


def _info(session: Session, _: list[bytes]) -> bytes:
    info = session.commands.info()
    lines = ["# Server", "redis_mode:standalone", f"dedup_version:{info.pop('version')}", "# Dedup"]
    lines += [f"{key}:{value}" for key, value in info.items()]
    return bulk("".join(f"{line}\r\n" for line in lines).encode())


def _select(_: Session, arguments: list[bytes]) -> bytes:
    _arity(arguments, 2, 2)
    if arguments[1] != b"0":
        raise UsageError("there is one database, 0: namespaces keep crawls apart")
    return OK


def _quit(session: Session, _: list[bytes]) -> bytes:
    session.closing = True
    return OK


# redis-benchmark asks for these
_CONFIG = {
    name: (bulk(name), bulk(value)) for name, value in ((b"save", b""), (b"appendonly", b"no"))
}
_BEFORE_AUTH = frozenset((b"AUTH", b"HELLO", b"QUIT"))
_COMMANDS: dict[bytes, Callable[[Session, list[bytes]], bytes | Later]] = {
    PROBE: lambda session, arguments: probe(session.plans, arguments),
    b"DEDUP.MPROBE": _mprobe,
    b"DEDUP.RESERVE": _reserve,
    INSERT: _insert,
    b"DEDUP.RELEASE": _release,
    b"DEDUP.FORGET": _forget,
    b"DEDUP.INFO": _dedup_info,
    b"DEDUP.PARTITIONS": _partitions,
    b"PING": _ping,
    b"ECHO": _echo,
    b"AUTH": _auth,
    b"HELLO": _hello,
    b"CLIENT": _client,
    b"COMMAND": _command,
    b"CONFIG": _config,
    b"INFO": _info,
    b"SELECT": _select,
    b"QUIT": _quit,
}
