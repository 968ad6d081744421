"""RESP commands that Redis clients send when they connect: AUTH, HELLO, CLIENT, PING and the like.

Until the client has shown the token, only those with `greeting` (command_table.py) are answered.
"""

from dedup.model.errors import UsageError
from dedup.service.core.error_codes import Refused
from dedup.service.resp import protocol
from dedup.service.resp.client_session import Command, Session, check_arity, shown
from dedup.service.resp.protocol import NIL, OK, bulk, integer


def _ping(_: Session, arguments: list[bytes]) -> bytes:
    return bulk(arguments[1]) if len(arguments) == 2 else b"+PONG\r\n"


def _echo(_: Session, arguments: list[bytes]) -> bytes:
    return bulk(arguments[1])


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
        ("modules", protocol.EMPTY),
    )
    return protocol.mapping([(bulk(key.encode()), value) for key, value in facts], version)


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
            check_arity(arguments, 3, 3)
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
        raise UsageError("CONFIG knows GET, and has no settings: see dedup serve --help")
    asked = {word.lower() for word in arguments[2:]}
    return protocol.mapping(
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
GREETINGS: dict[bytes, Command] = {
    b"PING": _ping,
    b"ECHO": _echo,
    b"AUTH": _auth,
    b"HELLO": _hello,
    b"CLIENT": _client,
    b"CONFIG": _config,
    b"INFO": _info,
    b"SELECT": _select,
    b"QUIT": _quit,
}
