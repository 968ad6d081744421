"""Commands and who may use them: one table of commands, how one is refused, tokens with roles, the audit log.

    COMMANDS -> dispatch, arity, roles, batching, MULTI, paths over HTTP
    an exception -> code (the first word on the wire) and message (in one line)
    DEDUP_TOKEN (every role), a file with lines "role token" -> the roles of a token that is shown

Invariants: a token is in no message, and is compared in constant time. An invalid file changes nothing. A role may
have several tokens, so that a new one can be handed out before the old one ends. No line of the log has a token, a key
or other arguments of a command, but for those of audit().
"""

import hmac
import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from dedup.core.say_once import SayOnce
from dedup.detector import TooManyReserved
from dedup.model.errors import DedupError, RecipeMismatch, StoreDamaged, StoreLocked, UsageError
from dedup.model.words import TooLong
from dedup.store import TooMany
from dedup.wire.kafka.login import KafkaUnavailable

Role = Literal["", "crawl", "read", "admin"]


class Command(NamedTuple):
    """A command of RESP, and its path over HTTP.

    role       the role that a client needs; "": any token does
    least      number of arguments, its name among them
    most       None: any number from `least` on
    path       of the same command over HTTP, or ""
    together   which commands behind it are carried out with it: "alike" have the same options,
               "inserts" are of one namespace, and committed by the service itself, "pages" are any
               of these
    queued     whether MULTI queues it
    greeting   whether it is answered before the token was shown
    """

    name: bytes
    role: Role = ""
    least: int = 1
    most: int | None = None
    path: str = ""
    together: Literal["", "alike", "inserts", "pages"] = ""
    queued: bool = True
    greeting: bool = False


COMMANDS = {
    command.name: command
    for command in (
        Command(b"DEDUP.PROBE", least=6, path="/v1/probe", together="alike"),
        Command(b"DEDUP.MPROBE", least=5),
        Command(b"DEDUP.RESERVE", "crawl", 10, None, "/v1/reserve", "pages"),
        Command(b"DEDUP.INSERT", "crawl", 4, None, "/v1/insert", "inserts"),
        Command(b"DEDUP.RELEASE", "crawl", 4, 4, "/v1/release", "pages"),
        Command(b"DEDUP.FORGET", "admin", 3, 3, "/v1/forget"),
        Command(b"DEDUP.DROP", "admin", 2, 2),
        Command(b"DEDUP.INFO", most=2),
        Command(b"DEDUP.PARTITIONS", most=1),
        Command(b"DEDUP.RULES", "crawl", 2, 3),
        Command(b"DEDUP.JOIN", "crawl", 4, 4),
        Command(b"DEDUP.SEEN", "crawl", 3),
        Command(b"DEDUP.FETCHED", "crawl", 3),
        Command(b"DEDUP.LEFT", "crawl", 3, 5),
        Command(b"DEDUP.LEAVE", "crawl", 3, 4),
        Command(b"COMMAND"),
        Command(b"MULTI", most=1, queued=False),
        Command(b"EXEC", most=1, queued=False),
        Command(b"DISCARD", most=1, queued=False),
        Command(b"WATCH", queued=False),
        Command(b"UNWATCH"),
        Command(b"PING", most=2),
        Command(b"ECHO", least=2, most=2),
        Command(b"AUTH", least=2, most=3, greeting=True),
        Command(b"HELLO", greeting=True),
        Command(b"CLIENT", least=2),
        Command(b"CONFIG", least=3),
        Command(b"INFO"),
        Command(b"SELECT", least=2, most=2),
        Command(b"QUIT", queued=False, greeting=True),
    )
}

PROBE = b"DEDUP.PROBE"

# ------------------------------------------------------------------------------------ how one is refused

AGAIN_SECONDS = 60.0
MESSAGE_LENGTH = 1000  # of a message, which may quote what the client sent
_once = SayOnce(again_seconds=AGAIN_SECONDS)


class Refused(DedupError):
    """A command that is not carried out; code is the first word of the error a client gets."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def code(error: Exception) -> str:
    """Return the first word of the error that a client gets."""
    match error:
        case Refused():
            return error.code
        case RecipeMismatch():
            return "RECIPE"
        case TooMany() | TooLong() | TooManyReserved():
            return "LIMIT"
        case StoreDamaged() | StoreLocked() | OSError() | KafkaUnavailable():
            return "STORE"
        case _:
            return "ERR"


def message(error: Exception) -> str:
    """Return an error in one line."""
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    text = str(error) if isinstance(error, DedupError) else f"internal error: {error!r}"
    return " ".join(text[:MESSAGE_LENGTH].split())


def log_now_and_then(
    log: logging.Logger, kind: str, text: str, error: BaseException | None = None
) -> None:
    """Log an error, at most once a minute for each kind."""
    _once.log(log, kind, "%s", text, error=error)


# ------------------------------------------------------------------------------------ tokens and roles

Roles = frozenset[str]

LEAST_BYTES = 16  # of a token
NO_ROLES: Roles = frozenset()
ALL: Roles = frozenset(("crawl", "read", "admin"))  # admin's

log = logging.getLogger("dedup.audit")
_exports = SayOnce(again_seconds=60.0)


class Caller(NamedTuple):
    """Who asks: from which address, with which roles, and the subject of the certificate shown."""

    address: str
    roles: Roles
    subject: str


class Tokens:
    """The tokens of a service.

    asked  whether one is asked for at all
    times  how often they were read: who showed one looks again
    """

    def __init__(self, token: str | None, file: Path | None) -> None:
        """Token is DEDUP_TOKEN's. Raises what read() raises."""
        self._token, self._file = token, file
        self._roles: dict[bytes, Roles] = {}
        self.asked = token is not None or file is not None
        self.times = 0
        self.read()

    def read(self) -> None:
        """Read the file again. Raises UsageError and OSError; then the tokens are those of before."""
        found: dict[bytes, Roles] = {}
        if self._file is not None:
            for role, token in _lines(self._file):
                found[token] = found.get(token, NO_ROLES) | (ALL if role == "admin" else {role})
        if self._token is not None:
            found[self._token.encode()] = ALL
        self._roles = found
        self.times += 1

    def roles_of(self, token: bytes) -> Roles:
        """Return the roles of a token, none for one that is unknown; every role where none is asked for."""
        if not self.asked:
            return ALL
        found = NO_ROLES
        for known, roles in self._roles.items():
            if hmac.compare_digest(known, token):
                found = roles
        return found


def _opened(path: str, flags: int) -> int:
    """Open a file without waiting: a FIFO waits for who writes."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _lines(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield role and token of each line. Raises UsageError and OSError, naming the file."""
    with open(file, "rb", opener=_opened) as lines:
        kind = os.fstat(lines.fileno()).st_mode
        if not stat.S_ISREG(kind):
            raise UsageError(f"{file} is not a regular file: it is read again at SIGHUP")
        mode = stat.S_IMODE(kind)
        # a group may read it: in Kubernetes a secret is root's, and a process reads it by its group
        if os.name == "posix" and mode & 0o027:
            raise UsageError(f"{file} has mode {mode:04o}, others could read tokens: chmod 0600 it")
        empty = True
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words or words[0].startswith(b"#"):
                continue
            role = words[0].decode("ascii", "replace")
            if len(words) != 2 or role not in ALL or len(words[1]) < LEAST_BYTES:
                raise UsageError(
                    f"{file}, line {number}: it is `role token`; role is one of "
                    f"{', '.join(sorted(ALL))}, a token has {LEAST_BYTES} bytes at least"
                )
            empty = False
            yield role, words[1]
        if empty:
            raise UsageError(f"{file} has no token: no client could authenticate")


def check_role(what: str, needed: str, roles: Roles) -> None:
    """Raise Refused (NOPERM) unless these roles may do this, a command or a path of HTTP, which needs one."""
    if needed and needed not in roles:
        raise Refused(
            "NOPERM", f"{what} needs a token of the role {needed}; this one's is {_shown(roles)}"
        )


def _shown(roles: Roles) -> str:
    return "admin" if "admin" in roles else "+".join(sorted(roles))


def audit(caller: Caller, did: str, namespace: str, key: str | None = None) -> None:
    """Write a line about what an administrator did; about an export once a minute for each caller."""
    if did == "EXPORT" and not _exports.is_new(f"{caller} {namespace}", time.monotonic()):
        return
    address, roles, subject = (
        caller.address or "a Unix socket",
        _shown(caller.roles),
        caller.subject,
    )
    fields = {"did": did, "namespace": namespace, "key": key}
    log.info(
        "audit: %s %r%s by %s, role %s%s",
        did,
        namespace,
        "" if key is None else f" {key!r}",
        address,
        roles,
        f", certificate {subject}" if subject else "",
        extra={
            "fields": {"audit": {**fields, "address": address, "roles": roles, "subject": subject}}
        },
    )
