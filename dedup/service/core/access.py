"""Who may use a command: tokens with roles, and the audit log.

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
from typing import NamedTuple

from dedup.core.faults import SayOnce
from dedup.model.errors import UsageError
from dedup.service.core.refusal import Refused

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
            raise UsageError(f"{file} is not a regular file, and SIGHUP could not read it again")
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
