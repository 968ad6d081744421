"""Where a service listens, and its connections: TCP with or without TLS, a Unix socket.

    bind -> serve -> (SIGHUP: certificate and tokens are read again) -> close, and remove the socket's file
    accepted -> admitted by the port -> handshake -> the port's own protocol

Invariants: a Unix socket is for its owner alone. A file in its place is removed only if it is a socket at which no
one answers. A port knows of every connection from its first moment; the event loop's own TLS servers would tell of
one only after the handshake. At the limit the port evicts the connection that has been idle longest, of the
address that has most of them. Where the bytes of all connections are too many,
the one that has the most is closed. A connection beyond a time limit is closed within a second or so.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from dedup.model.addresses import HostPort
from dedup.service.core.access import Tokens
from dedup.service.core.config import ServiceConfig
from dedup.service.core.refusal import log_rate_limited

log = logging.getLogger(__name__)
BACKLOG = 1024
MANY_FILES = 1 << 30  # where open files are not limited
ACCEPT_AGAIN_SECONDS = 1.0  # after a connection that could not be accepted


class Listening:
    """The sockets of a service, and what is read again while they are open."""

    def __init__(self, config: ServiceConfig, tokens: Tokens) -> None:
        """Read the certificate. Raises OSError."""
        self._config, self._tokens = config, tokens
        self._context = _tls(config)
        self._servers: list[asyncio.AbstractServer] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._file: Path | None = None

    async def listen(
        self,
        option: str,
        address: HostPort,
        port: "Connections",
        made: Callable[[], asyncio.Protocol],
    ) -> HostPort:
        """Listen at an address; made() makes a connection's protocol.

        Raises OSError that names it, and the option to give another one by.
        """
        sock = _bound(option, address)
        loop = asyncio.get_running_loop()
        if self._context is None:
            self._servers.append(await loop.create_server(made, sock=sock, backlog=BACKLOG))
        else:
            sock.listen(BACKLOG)
            self._accepting.append(loop.create_task(self._accept(sock, port, made)))
        return _address(sock)

    async def _accept(
        self, sock: socket.socket, port: "Connections", made: Callable[[], asyncio.Protocol]
    ) -> None:
        """Accept connections until cancelled; each shakes hands by itself."""
        loop, seconds = asyncio.get_running_loop(), self._config.limits.greeting_seconds
        shaking: set[asyncio.Task[None]] = set()
        with sock:
            while True:
                try:
                    accepted, peer = await loop.sock_accept(sock)
                except OSError as error:  # no more files, or a client that is gone again
                    log_rate_limited(log, "accept", f"a connection was not accepted: {error}")
                    await asyncio.sleep(ACCEPT_AGAIN_SECONDS)
                    continue
                handshake = Handshake(port, made, accepted, str(peer[0]), seconds)
                assert self._context is not None  # that of now: SIGHUP makes a new one
                task = loop.create_task(handshake.shake(self._context))
                shaking.add(task)
                task.add_done_callback(shaking.discard)

    async def listen_unix(self, path: Path, made: Callable[[], asyncio.Protocol]) -> None:
        """Listen at a path of this machine. Raises OSError that names it."""
        sock = _bound_unix(path)
        self._file = path
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_unix_server(made, sock=sock, backlog=BACKLOG))

    def close(self) -> None:
        """Take no more connections."""
        for each in self._servers:
            each.close()
        for task in self._accepting:
            task.cancel()
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink()

    def read_again(self) -> None:
        """Read certificate and tokens again; what is not right stays as it was."""
        read = []
        for what, again in (("certificate", self._read_tls), ("file of tokens", self._read_tokens)):
            try:
                if again():
                    read.append(what)
            except (OSError, ValueError) as error:
                log.error("SIGHUP: cannot read the %s, what is in use stays: %s", what, error)
        log.info(
            "SIGHUP: read again: %s%s",
            " and ".join(read) or "nothing",
            "; DEDUP_TOKEN is as it was at the start: a restart reads it"
            if self._config.token is not None
            else "",
        )

    def _read_tls(self) -> bool:
        if self._context is None:
            return False
        # A new context as a whole: one that exists would trust a removed authority for ever.
        self._context = _tls(self._config)
        return True

    def _read_tokens(self) -> bool:
        if self._config.tokens is None:
            return False
        self._tokens.read()
        return True


_NO_ADDRESS = (
    "; this machine has no such address: give {} one that it has, for example 127.0.0.1:PORT"
)
_NEXT = {
    errno.EADDRINUSE: "; another process listens there (`ss -ltnp` shows which): stop it, or give {} another port",
    errno.EACCES: "; ports below 1024 are for the system: give {} a greater one",
    errno.EADDRNOTAVAIL: _NO_ADDRESS,
}


def _bound(option: str, address: HostPort) -> socket.socket:
    """Return a socket that is bound to an address. Raises OSError that names it, and what to do next."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, place = found[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(place)
            made.setblocking(False)
        except BaseException:
            made.close()
            raise
        return made
    except OSError as error:
        is_unknown = isinstance(error, socket.gaierror)
        advice = _NO_ADDRESS if is_unknown else _NEXT.get(error.errno or 0, "")
        raise _cannot_listen(address, error, advice.format(option)) from error


def _cannot_listen(where: object, error: OSError, advice: str) -> OSError:
    return OSError(error.errno, f"cannot listen on {where}: {error.strerror or error}{advice}")


def _address(bound: socket.socket) -> HostPort:
    """Return where a socket listens, with its real port."""
    host, port = bound.getsockname()[:2]
    return HostPort(host, port)


def _bound_unix(path: Path) -> socket.socket:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1.0)
        if path.is_socket() and client.connect_ex(os.fspath(path)) == errno.ECONNREFUSED:
            path.unlink()  # left by a kill
    made = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        made.bind(os.fspath(path))
    except OSError as error:
        made.close()
        advice = "; give --unix another path"
        if error.errno == errno.EADDRINUSE:
            advice = "; a file is there, or a process that answers: remove that, or give --unix another path"
        raise _cannot_listen(path, error, advice) from error
    finally:
        os.umask(before)
    made.setblocking(False)
    return made


def _tls(config: ServiceConfig) -> ssl.SSLContext | None:
    if config.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(config.tls_cert, config.tls_key)
    if config.tls_client_ca is not None:
        context.load_verify_locations(config.tls_client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


# ---------------------------------------------------------------------------------- connections


def address_of(transport: Any) -> str:
    """Return the address that a connection comes from; "" for one of this machine's sockets."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


def file_of(transport: Any) -> int:
    """Return the number of a connection as an open file: the least that was free."""
    sock = transport.get_extra_info("socket")
    return -1 if sock is None else int(sock.fileno())


def subject_of(transport: Any) -> str:
    """Return the subject of the certificate that the other side has shown; "" for none."""
    parts = (transport.get_extra_info("peercert") or {}).get("subject", ())
    return ",".join(f"{name}={value}" for part in parts for name, value in part)


class Client(Protocol):
    """A connection, as its port sees it: the address it comes from, and its number as an open file."""

    address: str
    file: int

    def overdue(self, now: float) -> str | None:
        """Return why it should end now, or None."""

    def finish(self) -> None:
        """Take no more; answer what was taken, then close."""

    def abort(self, reason: str) -> None:
        """Close the connection at once."""


class Buffers:
    """The bytes of one kind, by connection."""

    def __init__(self, most: int) -> None:
        self.total = 0
        self._most = most
        self._sizes: dict[Any, int] = {}

    def note(self, client: Any, size: int) -> None:
        """Note how many bytes a connection has; the greatest may be ended, this one too."""
        before = self._sizes.pop(client, 0)
        self.total += size - before
        if size:
            self._sizes[client] = size
        while self.total > self._most:
            greatest = max(self._sizes, key=self._sizes.__getitem__)
            self.total -= self._sizes.pop(greatest)
            greatest.abort("memory")


class Connections:
    """The open connections of a port: their number, their times, the bytes that they make us hold.

    open       all of them
    none_open  set when, while draining, the last one has closed
    ended      those that the service closed, by reason
    unread     answers that are not read; partial: commands and requests that are not whole
    files      how many files may be open in this process
    """

    def __init__(
        self,
        most: int,
        unread: Buffers,
        partial: Buffers,
        *,
        reserved_files: int,
        files: int = MANY_FILES,
        most_of_address: int = 1 << 30,
    ) -> None:
        """reserved_files: of those that may be open, how many are left to others."""
        self.open: set[Any] = set()
        self.none_open = asyncio.Event()
        self.ended: Counter[str] = Counter()
        self.unread, self.partial = unread, partial
        self.files = files
        self.draining = False
        self._most, self._most_of_address = most, most_of_address
        self._reserved_files = reserved_files
        self._of_address: Counter[str] = Counter()
        self._waiting: dict[str, dict[Any, None]] = {}  # by address, the longest first

    def admit(self, client: Client) -> str | None:
        """Take a connection; return why it is one too many, or None. Another one may make room for it.

        A connection without an address comes from this machine, and counts for none.
        """
        address = client.address
        self.open.add(client)
        self._of_address[address] += 1
        if self.draining:
            return "too_many"
        if address and self._of_address[address] > self._most_of_address:
            if not self._evict(1, self._waiting.get(address, {})):
                return "address"
        elif len(self.open) > self._most or self.takes_last_files(client):
            # many that come at once have taken the last files before the first could be ended
            count = 2 if self.takes_last_files(client) else 1
            if not self.evict(count):
                return "too_many"
        self.mark_idle(client)
        return None

    def takes_last_files(self, client: Client) -> bool:
        """Whether a connection has one of the files that are left to others: it got the least that was free."""
        return client.file > self.files - self._reserved_files

    def evict(self, count: int) -> bool:
        """Evict some idle connections; False if there is none."""
        return self._evict(count, max(self._waiting.values(), key=len, default={}))

    def _evict(self, count: int, waiting: dict[Any, None]) -> bool:
        victims = list(islice(waiting, count))
        for client in victims:
            client.abort("silent")
        return bool(victims)

    def mark_idle(self, client: Client) -> None:
        """Note that a connection is idle: it may be evicted."""
        self.mark_active(client)
        if client in self.open:
            self._waiting.setdefault(client.address, {})[client] = None

    def mark_active(self, client: Client) -> None:
        """Note that a connection is active: it sent a valid command, or is being answered."""
        waiting = self._waiting.get(client.address)
        if waiting is not None and client in waiting:
            del waiting[client]
            if not waiting:
                del self._waiting[client.address]

    def gone(self, client: Client) -> None:
        """Note that a connection has ended, or is about to."""
        self.unread.note(client, 0)
        self.partial.note(client, 0)
        if client not in self.open:
            return
        self.open.discard(client)
        self.mark_active(client)
        address = client.address
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]
        if self.draining and not self.open:
            self.none_open.set()

    def end_overdue(self, now: float) -> None:
        """Close the connections that are beyond a time limit; called every second or so."""
        for client in list(self.open):
            if reason := client.overdue(now):
                client.abort(reason)

    def drain(self) -> None:
        """Take no more; each connection closes once what came before is answered."""
        self.draining = True
        if not self.open:
            self.none_open.set()
        for client in list(self.open):
            client.finish()

    def abort(self) -> None:
        """Close what is left at once."""
        for client in list(self.open):
            client.abort("stopped")


class Handshake(asyncio.Protocol):
    """A connection until its TLS handshake is over."""

    def __init__(
        self,
        port: Connections,
        made: Callable[[], asyncio.Protocol],
        sock: socket.socket,
        address: str,
        seconds: float,
    ) -> None:
        """Port admits and counts it, until made() makes the protocol that goes on."""
        self._port, self._made, self._sock, self._seconds = port, made, sock, seconds
        self._since = monotonic()
        self.address, self.file = address, sock.fileno()
        self._shaking: asyncio.Future[Any] | None = None

    async def shake(self, tls: ssl.SSLContext) -> None:
        """Shake hands, unless there are too many connections."""
        if refused := self._port.admit(self):
            self.abort(refused)
            return
        self._shaking = asyncio.ensure_future(
            asyncio.get_running_loop().connect_accepted_socket(
                lambda: self, self._sock, ssl=tls, ssl_handshake_timeout=self._seconds
            )
        )
        try:
            await self._shaking
        except asyncio.CancelledError:  # by abort(), or by the end of the service
            pass
        except OSError:  # TLS's, or a broken connection: a stranger's
            self._port.ended["handshake"] += 1
        finally:
            self._port.gone(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Make the protocol that goes on: the handshake is over."""
        self._port.gone(self)
        protocol = self._made()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def overdue(self, now: float) -> str | None:
        """Return why it should end now, or None."""
        return "greeting" if now - self._since > self._seconds else None

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        self._port.ended[reason] += 1
        self._port.gone(self)
        if self._shaking is None:
            self._sock.close()
        else:
            self._shaking.cancel()

    def finish(self) -> None:
        """End: the service stops."""
        self.abort("stopped")
