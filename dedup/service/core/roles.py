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
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from dedup.core.faults import SayOnce
from dedup.model.errors import DedupError, UsageError

Role = Literal["", "crawl", "read", "admin"]


class Command(NamedTuple):
    """A command of RESP, and its path over HTTP.

    usage      its form, as docs/protocol.md has it
    role       the role that a client needs; "": any token does
    path       of the same command over HTTP, or ""
    together   which commands behind it are carried out with it: "alike" have the same options,
               "inserts" are of one namespace, and committed by the service itself, "pages" are any
               of these
    queued     whether MULTI queues it
    greeting   whether it is answered before the token was shown
    name       the first word of its form
    least      number of arguments, its name among them
    most       None: any number from `least` on
    """

    usage: str
    role: Role = ""
    path: str = ""
    together: Literal["", "alike", "inserts", "pages"] = ""
    queued: bool = True
    greeting: bool = False
    name: bytes = b""
    least: int = 1
    most: int | None = None


_OPTIONAL = re.compile(r"\[[^][]*\]")


def _with_arity(command: Command) -> Command:
    """Return a command with its name and its number of arguments, as its form has them."""
    needed = command.usage
    while needed != (needed := _OPTIONAL.sub("", needed)):
        pass
    words = needed.split()
    is_open = "..." in command.usage or re.search(r"\[[A-Z]", command.usage)
    most = None if is_open else len(command.usage.split())
    return command._replace(name=words[0].encode(), least=len(words), most=most)


COMMANDS = {
    (command := _with_arity(each)).name: command
    for each in (
        Command(
            "DEDUP.PROBE ns value sketch RECIPE r [SCOPE site domain] [DOMAIN domain] "
            "[IDENTITY identity] [LINKS h] [PARTS p] [THING t] [DISTANCE k] [SIMILARITY s] "
            "[COUNT n] [FIELDS on|off]",
            path="/v1/probe",
            together="alike",
        ),
        Command(
            "DEDUP.MPROBE ns RECIPE r [DISTANCE k] [SIMILARITY s] [COUNT n] "
            "VALUES [value sketch ...]"
        ),
        Command(
            "DEDUP.RESERVE ns key value sketch identity features domain RECIPE r "
            "[SCOPE site|global] [DISTANCE k] [SIMILARITY s] [FEATURES n] [SECONDS s] "
            "[EXEMPT reason] [GUARD on|off] [KIND k] [TRIES n] [LINKS h] [PARTS p] [THING t] "
            "[TOKEN t] [HOME on|off] [FIELDS on|off]",
            "crawl",
            "/v1/reserve",
            "pages",
        ),
        Command(
            "DEDUP.INSERT ns key token [PIN] [PAID 0|1] [ITEMS digest]",
            "crawl",
            "/v1/insert",
            "inserts",
        ),
        Command("DEDUP.RELEASE ns key token", "crawl", "/v1/release", "pages"),
        Command("DEDUP.FORGET ns key", "admin", "/v1/forget"),
        Command("DEDUP.DROP ns", "admin"),
        Command("DEDUP.INFO [ns]"),
        Command("DEDUP.PARTITIONS"),
        Command("COMMAND [COUNT|DOCS]"),
        Command("MULTI", queued=False),
        Command("EXEC", queued=False),
        Command("DISCARD", queued=False),
        Command("WATCH [key ...]", queued=False),
        Command("UNWATCH"),
        Command("PING [text]"),
        Command("ECHO text"),
        Command("AUTH [user] token", greeting=True),
        Command("HELLO [2|3] [AUTH user token] [SETNAME name]", greeting=True),
        Command("CLIENT subcommand [value ...]"),
        Command("CONFIG GET name [name ...]"),
        Command("INFO [section ...]"),
        Command("SELECT 0"),
        Command("QUIT [...]", queued=False, greeting=True),
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
    if isinstance(error, DedupError):
        return error.code
    return "STORE" if isinstance(error, OSError) else "ERR"


def message(error: Exception) -> str:
    """Return an error in one line."""
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    text = str(error) if isinstance(error, DedupError) else f"internal error: {error!r}"
    return " ".join(text[:MESSAGE_LENGTH].split())


def log_rate_limited(
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
