"""RESP commands: arguments in, encoded answers out.

Session  a connection as its commands see it: the protocol version, the roles of its token, the queue of MULTI
Plans    parsed probe options, for all connections
run      carries out a command: a function of a session and its arguments (the name is the first). It returns bytes, or
         Later for an answer that is still to come

Invariants: until the client has shown the token, only commands with `greeting` are answered. Nothing is carried out
before EXEC, and nothing at all where a command was refused when it was queued. Between the commands of a long queue
other clients have their turn: the order is promised, not isolation, so there is no WATCH.
"""

import asyncio
import time
from asyncio import Future
from binascii import Error as NotHex
from binascii import unhexlify
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from dedup.core.numbers import Packed, big_endian
from dedup.detector import EmbeddedDetector
from dedup.model.errors import UsageError
from dedup.model.forms import GIVEN_AT_INSERT, to_reply
from dedup.model.page import (
    SKETCH_BYTES,
    USUAL,
    Document,
    Neighbour,
    PageFingerprint,
    ReserveOptions,
)
from dedup.model.words import (
    INSERT_WORDS,
    OPTION_WORDS,
    PAGE_WORDS,
    PROBE_WORDS,
    REAL_LENGTH,
    Reader,
    hex_bytes,
    hex_number,
    number,
    read_page,
    switch,
    text,
    write_document,
)
from dedup.service.core.access import NO_ROLES, Caller, Roles, Tokens, audit, check_role
from dedup.service.core.command_table import COMMANDS, PROBE
from dedup.service.core.namespaces import PolicyOverrides
from dedup.service.core.operations import (
    ANY_FEATURES,
    NO_FIELDS,
    PROBES,
    LateFields,
    Operations,
    in_slices,
    probe_in_slices,
)
from dedup.service.core.overview import ClientView
from dedup.service.core.refusal import Refused, code, message
from dedup.wire import resp
from dedup.wire.resp import ELEMENTS, NIL, OK, array, bulk, integer, real

UNIQUE = b"*%d\r\n$6\r\nunique\r\n$%d\r\n%b\r\n%b"


def neighbours(found: Sequence[Neighbour]) -> bytes:
    """Return neighbours as an array of [key, distance, similarity]."""
    parts = [b"*%d\r\n" % len(found)]
    for n in found:
        key, similarity = n.key.encode(), b"%.4f" % n.similarity
        parts.append(
            b"*3\r\n$%d\r\n%b\r\n:%d\r\n$%d\r\n%b\r\n"
            % (len(key), key, n.distance, len(similarity), similarity)
        )
    return b"".join(parts)


def of_batch(found: Mapping[int, Sequence[Neighbour]], count: int) -> list[bytes]:
    """Return the answers to a batch of probes, of which those with neighbours are given by their place."""
    answers = [resp.EMPTY] * count
    for i, near in found.items():
        answers[i] = neighbours(near)
    return answers


def neighbours_with_identity(found: Sequence[Neighbour], *, fields: bool) -> bytes:
    """Return neighbours as an array of [key, distance, similarity, identity, domain].

    With fields it is [key, distance, similarity, identity, [name, value, ...]].
    """
    return array(
        [
            array(
                [
                    bulk(n.document.key.encode()),
                    integer(n.distance),
                    real(n.similarity),
                    bulk(n.identity.encode()),
                    document(n.document) if fields else bulk(n.document.domain.encode()),
                ]
            )
            for n in found
        ]
    )


def document(found: Document) -> bytes:
    """Return the fields of a document as an array of name, value, name, value and so on."""
    return array(
        [
            bulk(word if isinstance(word, bytes) else str(word).encode())
            for word in write_document(found)
        ]
    )


# ------------------------------------------------------------------------------------ arguments


def sketch_of(argument: bytes) -> bytes:
    """Return a sketch, 74 hex digits."""
    return hex_bytes(argument, "sketch", SKETCH_BYTES, SKETCH_BYTES)


def fingerprints(arguments: Sequence[bytes]) -> Packed:
    """Return a batch of fingerprints."""
    joined = b"".join(arguments)
    if len(joined) == 16 * len(arguments) and set(map(len, arguments)) <= {16}:
        try:
            return big_endian(unhexlify(joined))
        except NotHex:
            pass
    bad = next(argument for argument in arguments if not _is_fingerprint(argument))
    raise UsageError(f"fingerprint {bad[:40]!r} is not allowed: 16 hex digits")


def _is_fingerprint(argument: bytes) -> bool:
    try:
        return len(argument) == len(unhexlify(argument)) * 2 == 16
    except NotHex:
        return False


class CommandOptions(msgspec.Struct, frozen=True):
    """A command's options, which follow its fixed arguments.

    page    fields of the page that are given by name
    fields  whether the answer has the fields of documents
    """

    asked: PolicyOverrides = PolicyOverrides()
    reserve: ReserveOptions = USUAL
    page: dict[str, Any] = {}
    domain: str | None = None
    count: int | None = None
    fields: bool = False


def _similarity(argument: bytes) -> float:
    try:
        similarity = float(argument) if len(argument) <= REAL_LENGTH else -1.0
    except ValueError:
        similarity = -1.0
    if not 0 <= similarity <= 1:
        raise UsageError(f"SIMILARITY {argument[:40]!r} is not allowed: a number from 0 to 1")
    return similarity


def _scope(argument: bytes) -> str:
    if argument.lower() not in {b"site", b"global"}:
        raise UsageError(f"SCOPE {argument[:40]!r} is not allowed: site or global")
    return argument.lower().decode()


Words = dict[
    bytes, tuple[str, str, Reader]
]  # by name: the part of CommandOptions, the field, how it is read


def _words(part: str, words: Mapping[bytes, tuple[str, Reader]]) -> Words:
    return {name: (part, *each) for name, each in words.items()}


_WORDS = _words(
    "asked",
    {
        b"SCOPE": ("scope", _scope),
        b"DISTANCE": ("distance", lambda argument: number(argument, "DISTANCE", 64)),
        b"SIMILARITY": ("similarity", _similarity),
        b"FEATURES": ("min_features", lambda argument: number(argument, "FEATURES")),
    },
) | _words(
    "",
    {
        b"COUNT": ("count", lambda argument: max(number(argument, "COUNT"), 1)),
        b"FIELDS": ("fields", lambda argument: switch(argument, "FIELDS")),
        b"DOMAIN": ("domain", lambda argument: text(argument, "domain")),
    },
)


def _some(names: str) -> Words:
    return {name: _WORDS[name] for name in names.encode().split()}


_ALLOWED = {
    "PROBE": _some("SCOPE DISTANCE SIMILARITY COUNT FIELDS DOMAIN") | _words("page", PROBE_WORDS),
    "MPROBE": _some("DISTANCE SIMILARITY COUNT"),
    "RESERVE": _some("SCOPE DISTANCE SIMILARITY FEATURES FIELDS")
    | _words("reserve", OPTION_WORDS)
    | _words("page", PAGE_WORDS),
}


# What no two pages of a RESERVE have in common.
_OWN = PAGE_WORDS | {b"TOKEN": OPTION_WORDS[b"TOKEN"]}


def split(words: Sequence[bytes]) -> tuple[list[bytes], dict[str, Any]]:
    """Split a RESERVE's options: those that several pages may share, and the page's own, by field."""
    shared: list[bytes] = []
    own: dict[str, Any] = {}
    try:
        for name, word in zip(words[::2], words[1::2], strict=True):
            known = _OWN.get(name) or _OWN.get(name.upper())
            if known is None:
                shared += (name, word)
            elif known[0] in own:
                raise UsageError("given twice")
            else:
                own[known[0]] = known[1](word)
    except ValueError:  # UsageError is one
        options("RESERVE", words)  # which names the first word that is wrong
        raise
    return shared, own


def options(command: str, words: Iterable[bytes]) -> CommandOptions:
    """Return the options of a command, each given once at most. Raises UsageError."""
    given: dict[str, dict[str, Any]] = {"asked": {}, "reserve": {}, "page": {}, "": {}}
    allowed, words = _ALLOWED[command], iter(words)
    for word in words:
        name = word.upper()
        part, field, read = allowed.get(name, ("", "", None))
        if read is None or field in given[part]:
            names = ", ".join(sorted(each.decode() for each in allowed))
            raise UsageError(f"unknown option {shown(word)}, or repeated; {command} takes: {names}")
        try:
            given[part][field] = read(next(words))
            if command == "PROBE" and field == "scope" and given["asked"]["scope"] == "site":
                given[""]["domain"] = text(next(words), "domain")
        except StopIteration:
            raise UsageError(f"{name.decode()} has too few arguments") from None
    return CommandOptions(
        PolicyOverrides(**given["asked"]),
        ReserveOptions(**given["reserve"]),
        given["page"],
        **given[""],
    )


# ------------------------------------------------------------------------------------ plans, sessions

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
    """The namespace and the options of a PROBE or RESERVE, parsed; what is one page's own is left out of a RESERVE's.

    detector  None: the namespace is to be created
    """

    namespace: str
    recipe: str
    detector: EmbeddedDetector | None
    given: CommandOptions


class Session:
    """A connection as its commands see it."""

    def __init__(self, commands: Operations, plans: "Plans", tokens: Tokens, number: int) -> None:
        self.commands = commands
        self.plans = plans
        self.number = number
        self.protocol_version = 2
        self.name = b""
        self.closing = False
        self.address = self.subject = ""  # of who connected, and of its certificate
        self.namespace = ""  # of the last page reserved
        self.judged = self.near_duplicates = 0  # pages
        self._connected = time.time()
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
        self._batches_inserts = self.commands.log is None and "crawl" in roles

    def view(self) -> ClientView:
        """Return what the dashboard shows of it."""
        return ClientView(
            self.name.decode(),
            self.address,
            self.namespace,
            self._connected,
            self.judged,
            self.near_duplicates,
        )

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
        """Whether a command can be carried out together with others: with the same options, INSERTs, or PAGES."""
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

    def __init__(self, commands: Operations) -> None:
        self.commands = commands
        self._plans: dict[tuple[bytes, ...], Plan] = {}
        self._page_plans: dict[tuple[Any, ...], Plan] = {}
        self._closed = 0

    def _check(self) -> None:
        """Raise Refused (NOTREADY), or forget plans whose detectors may be closed."""
        commands = self.commands
        if commands.not_ready is not None:
            commands.check_ready()
        if self._closed != commands.namespaces.closed:
            self._closed = commands.namespaces.closed
            self._plans.clear()
            self._page_plans.clear()

    def of(self, arguments: list[bytes]) -> Plan | None:
        """Return the plan of a DEDUP.PROBE; None if its namespace does not exist."""
        self._check()
        plan = self._plans.get((arguments[1], *arguments[4:]))
        return self._made(arguments) if plan is None else plan

    def of_page(self, arguments: list[bytes]) -> tuple[Plan, dict[str, Any], str | None]:
        """Return the plan of a RESERVE, the page's fields that are given by name, and its token."""
        self._check()
        shared, own = split(arguments[10:]) if len(arguments) > 10 else ((), {})
        plan = self._page_plans.get((arguments[1], *arguments[8:10], *shared))
        if plan is None:
            plan = self._page_plan(arguments, shared)
        return plan, own, own.pop("token", None)

    def _page_plan(self, arguments: list[bytes], shared: Sequence[bytes]) -> Plan:
        if arguments[8].upper() != b"RECIPE":
            raise wrong_usage(b"DEDUP.RESERVE", "RECIPE is missing")
        given = options("RESERVE", shared)
        namespace, recipe = text(arguments[1], "namespace"), text(arguments[9], "recipe")
        detector = self.commands.detector(namespace, recipe, given.asked)
        plan = Plan(namespace, recipe, detector, given)
        if detector is not None:
            if len(self._page_plans) >= PLANS:
                self._page_plans.clear()
            self._page_plans[arguments[1], *arguments[8:10], *shared] = plan
        return plan

    def _made(self, arguments: list[bytes]) -> Plan | None:
        commands = self.commands
        if arguments[4].upper() != b"RECIPE":
            raise wrong_usage(PROBE, "RECIPE is missing")
        given = options("PROBE", arguments[6:])
        recipe = text(arguments[5], "recipe")
        namespace = text(arguments[1], "namespace")
        detector = commands.detector(namespace, recipe, given.asked)
        if detector is None:
            return None
        plan = Plan(namespace, recipe, detector, given)
        if given.domain is None and not given.page:  # others are too different to cache
            if len(self._plans) >= PLANS:
                self._plans.clear()
            self._plans[arguments[1], *arguments[4:]] = plan
        return plan


def wrong_usage(name: bytes, what: str = "") -> UsageError:
    """Return the error of a command that has another form, and what is wrong with it."""
    return UsageError(f"{what or 'wrong form'}; usage: {COMMANDS[name].usage}")


def shown(name: bytes) -> str:
    """Return an argument as error messages show it."""
    return "'" + name[:40].decode("ascii", "replace") + "'"


Command = Callable[[Session, list[bytes]], bytes | Later]


def _auth(session: Session, arguments: list[bytes]) -> bytes:
    session.authenticate(arguments[1] if len(arguments) == 3 else b"default", arguments[-1])
    return OK


def _hello(session: Session, arguments: list[bytes]) -> bytes:
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


def _client(session: Session, arguments: list[bytes]) -> bytes:
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


def _config(session: Session, arguments: list[bytes]) -> bytes:
    if arguments[1].upper() != b"GET":
        raise UsageError("only CONFIG GET is implemented; settings are options of dedup serve")
    asked = {word.lower() for word in arguments[2:]}
    return resp.mapping(
        [each for name, each in _CONFIG.items() if name in asked], session.protocol_version
    )


def _info(session: Session, _: list[bytes]) -> bytes:
    info = session.commands.info()
    lines = ["# Server", "redis_mode:standalone", f"dedup_version:{info.pop('version')}", "# Dedup"]
    lines += [f"{key}:{value}" for key, value in info.items()]
    return bulk("".join(f"{line}\r\n" for line in lines).encode())


def _select(_: Session, arguments: list[bytes]) -> bytes:
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

ELEMENT_BYTES, COMMAND_BYTES = (
    48,
    128,
)  # of memory beside the bytes of an argument, and of a command
SHORT_BYTES = 256  # an answer up to here is given even where those before it were too long


def multi(session: Session, _: list[bytes]) -> bytes:
    """Begin to queue commands."""
    if session.queued is not None:
        raise UsageError("MULTI calls can not be nested")
    session.queued, session.spoilt = [], False
    session.queued_bytes = session.queued_elements = 0
    return OK


def discard(session: Session, _: list[bytes]) -> bytes:
    """Forget the queued commands."""
    _taken(session, "DISCARD")
    session.queued_memory = 0
    return OK


def watch(_: Session, __: list[bytes]) -> bytes:
    """Refuse."""
    raise UsageError("there is no WATCH: RESERVE takes a page atomically")


def queue(session: Session, arguments: list[bytes]) -> bytes:
    """Queue a command."""
    queued, limits = session.queued, session.commands.limits
    assert queued is not None
    size = session.queued_bytes + sum(map(len, arguments))
    elements = session.queued_elements + len(arguments)
    if len(queued) >= limits.batch or size > limits.command_bytes or elements > ELEMENTS:
        raise Refused(
            "LIMIT",
            f"a transaction has up to {limits.batch:,} commands, {ELEMENTS:,} elements and "
            f"{limits.command_bytes:,} bytes",
        )
    queued.append(arguments)
    session.queued_bytes, session.queued_elements = size, elements
    session.queued_memory = size + ELEMENT_BYTES * elements + COMMAND_BYTES * len(queued)
    return b"+QUEUED\r\n"


def execute(session: Session, _: list[bytes]) -> bytes | Later:
    """Carry out what is queued."""
    spoilt = session.spoilt
    queued = _taken(session, "EXEC")
    if spoilt:
        session.queued_memory = 0
        raise Refused("EXECABORT", "Transaction discarded because of previous errors.")
    if not queued:
        return resp.EMPTY
    return Later(asyncio.ensure_future(_answers(session, queued)), array, alone=True)


async def _answers(session: Session, queued: list[list[bytes]]) -> list[bytes]:
    """Return the answers of commands, each once its turn has come."""
    answers: list[bytes] = []
    size = 0
    async for arguments in in_slices(queued):
        try:
            answer = run(session, arguments)[1]
            if not isinstance(answer, bytes):
                answer = answer.encode(await answer.future)
            if len(answer) > SHORT_BYTES:
                session.commands.check_answer(size + len(answer))
        except Exception as fault:  # noqa: BLE001 - becomes the answer of the command at fault
            answer = resp.error(code(fault), message(fault))
        answers.append(answer)
        size += len(answer)
    session.queued_memory = 0  # until now they are held
    return answers


def _taken(session: Session, name: str) -> list[list[bytes]]:
    queued, session.queued = session.queued, None
    if queued is None:
        raise UsageError(f"{name} without MULTI")
    return queued


_INSERT_DEFAULTS = {field.name: field.default for field in GIVEN_AT_INSERT}


def run(session: Session, arguments: list[bytes]) -> tuple[bytes, bytes | Later]:
    """Carry out a command; return its name and its answer. Raises what the command raises."""
    name = arguments[0]
    command = COMMANDS.get(name)
    if command is None:
        command = COMMANDS.get(name := name.upper())
    if not session.trusted and (command is None or not command.greeting):
        raise Refused("NOAUTH", "authenticate first: AUTH default <token>")
    if command is None:
        raise UsageError(f"unknown command {shown(arguments[0])}; see docs/reference/protocol.md")
    if command.role and command.role not in session.roles:
        check_role(name.decode(), command.role, session.roles)
    count = len(arguments)
    if count < command.least or (command.most is not None and count > command.most):
        raise wrong_usage(name, f"wrong number of arguments for {shown(arguments[0])}")
    if session.queued is not None and command.queued:
        return name, queue(session, arguments)
    return name, _HANDLERS[name](session, arguments)


def run_together(session: Session, batch: list[list[bytes]]) -> bytes:
    """Carry out commands that can be batched (Session.can_batch) at once; return their answers.

    Raises what one of them raises: then each is to be carried out by itself.
    """
    if batch[0][0] == PROBE:
        answers = b"".join(probes(session.plans, batch))
        session.commands.check_answer(len(answers))  # too much at once: one by one, with pauses
        return answers
    pages = []
    for command in batch:
        pin, given = (False, NO_FIELDS) if len(command) == 4 else _insert_options(command)
        if pin:
            raise UsageError("PIN is not batched")
        pages.append((text(command[2], "key"), text(command[3], "token"), given))
    session.commands.insert_many(text(batch[0][1], "namespace"), pages)
    return OK * len(batch)


# ------------------------------------------------------------------------------------- the work


def probe(plans: Plans, arguments: list[bytes]) -> bytes:
    """Carry out one DEDUP.PROBE."""
    plan = plans.of(arguments)
    value = hex_number(arguments[2], "fingerprint")
    sketch = sketch_of(arguments[3])
    if plan is None:
        return resp.EMPTY
    given, page = plan.given, plan.given.page
    probed = PageFingerprint(value, sketch, 0, ANY_FEATURES, plan.recipe)
    found = plans.commands.probe(
        plan.detector, replace(probed, **page) if page else probed, given.domain
    )
    if not found:
        return resp.EMPTY
    some = found if given.count is None else found[: given.count]
    if given.fields or "identity" in page:
        answer = neighbours_with_identity(some, fields=given.fields)
    else:
        answer = neighbours(some)
    plans.commands.check_answer(len(answer))
    return answer


def probes(plans: Plans, batch: list[list[bytes]]) -> list[bytes]:
    """Carry out DEDUP.PROBE commands that differ only in value and sketch."""
    plan = plans.of(batch[0])
    if plan is not None and (plan.given.page or plan.given.fields):
        return [probe(plans, arguments) for arguments in batch]
    values = fingerprints([arguments[2] for arguments in batch])
    sketches = [sketch_of(arguments[3]) for arguments in batch]
    if plan is None:
        return [resp.EMPTY] * len(batch)
    found = plans.commands.probe_many(
        plan.detector, values, sketches, plan.recipe, plan.given.domain, plan.given.count
    )
    return of_batch(found, len(batch))


def _mprobe(session: Session, arguments: list[bytes]) -> bytes | Later:
    head = [word.upper() for word in arguments[4:11]]
    if arguments[2].upper() != b"RECIPE" or b"VALUES" not in head:
        raise wrong_usage(b"DEDUP.MPROBE")
    first = 4 + head.index(b"VALUES")
    given = options("MPROBE", arguments[4:first])
    pairs = arguments[first + 1 :]
    if len(pairs) % 2:
        raise wrong_usage(b"DEDUP.MPROBE", "after VALUES come pairs of value and sketch")
    commands, recipe = session.commands, text(arguments[3], "recipe")
    detector = commands.detector(text(arguments[1], "namespace"), recipe, given.asked)
    values = fingerprints(pairs[::2])
    sketches = [sketch_of(sketch) for sketch in pairs[1::2]]

    def encoded(found: dict[int, list[Neighbour]]) -> bytes:
        return array(of_batch(found, len(values)))

    if len(values) > PROBES:
        work = probe_in_slices(commands, detector, values, sketches, recipe, given.count)
        return Later(asyncio.ensure_future(work), encoded, alone=True)
    return encoded(commands.probe_many(detector, values, sketches, recipe, None, given.count))


def _reserve(session: Session, arguments: list[bytes]) -> bytes:
    plan, fields, token = session.plans.of_page(arguments)
    namespace, detector, given = plan.namespace, plan.detector, plan.given
    page = read_page(arguments[3:7], plan.recipe)
    if fields:
        page = replace(page, **fields)
    key, domain = text(arguments[2], "key"), text(arguments[7], "domain")
    options = replace(given.reserve, domain=domain, token=token)
    if detector is None or not key:
        verdict = session.commands.reserve(namespace, key, page, given.asked, options)
    else:
        verdict = session.commands.judge(namespace, detector, page, key, options)
    session.namespace = namespace
    session.judged += 1
    nil = NIL[session.protocol_version]
    if verdict.status == "unique" and verdict.token is not None:  # the most frequent verdict
        nils = 5 + given.fields
        return UNIQUE % (
            2 + nils,
            len(verdict.token),
            verdict.token.encode(),
            nil * nils,
        )
    session.near_duplicates += verdict.status == "near_duplicate"
    answer = [
        nil
        if field is None
        else integer(field)
        if isinstance(field, int)
        else real(field)
        if isinstance(field, float)
        else bulk(field.encode())
        for field in to_reply(verdict)
    ]
    if given.fields:
        match = verdict.match
        answer.append(nil if match is None else document(match.document))
    return array(answer)


def _token_arguments(arguments: list[bytes]) -> tuple[str, str, str]:
    namespace, key, token = arguments[1:4]
    return (
        text(namespace, "namespace"),
        text(key, "key"),
        text(token, "token"),
    )


def _insert_options(arguments: list[bytes]) -> tuple[bool, LateFields]:
    """Return whether an INSERT has PIN, and the fields of its document; defaults are left out."""
    pin, given, seen = False, {}, set()
    words = iter(arguments[4:])
    for word in words:
        name = word.upper()
        if name in seen:
            raise UsageError(f"{shown(word)} is given twice")
        seen.add(name)
        if name == b"PIN":
            pin = True
        elif name in INSERT_WORDS:
            field, read = INSERT_WORDS[name]
            value = read(next(words, b""))
            if value != _INSERT_DEFAULTS[field]:
                given[field] = value
        else:
            raise wrong_usage(b"DEDUP.INSERT", f"unknown option {shown(word)}")
    return pin, given


def _insert(session: Session, arguments: list[bytes]) -> bytes | Later:
    pin, given = (False, NO_FIELDS) if len(arguments) == 4 else _insert_options(arguments)
    done = session.commands.insert(*_token_arguments(arguments), pin=pin, given=given)
    return OK if done is None else Later(done, lambda _: OK)


def _forget(session: Session, arguments: list[bytes]) -> bytes | Later:
    namespace, key = text(arguments[1], "namespace"), text(arguments[2], "key")
    done = session.commands.forget(namespace, key)
    if done is not False:
        audit(session.caller, "FORGET", namespace, key)
    return integer(done) if isinstance(done, bool) else Later(done, integer)


def _drop(session: Session, arguments: list[bytes]) -> Later:
    namespace = text(arguments[1], "namespace")
    is_there = session.commands.namespaces.get(namespace) is not None
    done = session.commands.drop(namespace)
    if is_there:
        audit(session.caller, "DROP", namespace)
    return Later(done, integer, alone=True)


def _partitions(session: Session, _: list[bytes]) -> bytes:
    held, count = session.commands.partitions()
    return array((bulk(held.encode()), integer(count)))


def _dedup_info(session: Session, arguments: list[bytes]) -> bytes:
    commands = session.commands
    info = (
        commands.info()
        if len(arguments) == 1
        else commands.namespace_info(text(arguments[1], "namespace"))
    )
    lines = (f"{key}:{value}\r\n" for key, value in info.items())
    return bulk("".join(lines).encode())


def _command(_: Session, arguments: list[bytes]) -> bytes:
    if arguments[1:2] and arguments[1].upper() == b"COUNT":
        return integer(len(COMMANDS))
    return resp.EMPTY  # DOCS, INFO: docs/reference/protocol.md has them


_HANDLERS: dict[bytes, Command] = {
    PROBE: lambda session, arguments: probe(session.plans, arguments),
    b"DEDUP.MPROBE": _mprobe,
    b"DEDUP.RESERVE": _reserve,
    b"DEDUP.INSERT": _insert,
    b"DEDUP.RELEASE": lambda session, arguments: integer(
        session.commands.release(*_token_arguments(arguments))
    ),
    b"DEDUP.FORGET": _forget,
    b"DEDUP.DROP": _drop,
    b"DEDUP.INFO": _dedup_info,
    b"DEDUP.PARTITIONS": _partitions,
    b"COMMAND": _command,
    b"MULTI": multi,
    b"EXEC": execute,
    b"DISCARD": discard,
    b"WATCH": watch,
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
assert _HANDLERS.keys() == COMMANDS.keys()
