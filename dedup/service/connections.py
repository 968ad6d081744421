"""Where a service listens, and its connections: TCP with or without TLS, a Unix socket.

    bind -> serve -> (SIGHUP: certificate and tokens are read again) -> close, and remove the socket's file

Invariants: a Unix socket is for its owner alone. A file in its place is removed only if it is a socket at which no
one answers. A TLS handshake is the event loop's, which ends one that takes long; the port knows of a connection after it.
At the limit the port evicts the connection that has been idle longest, of the address that has most of them. Where the
bytes of all connections are too many, the one that has the most is closed. A connection beyond a time limit is closed
within a second or so.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dedup.model.addresses import HostPort
from dedup.service.core.access import Tokens
from dedup.service.core.config import ServiceConfig
from dedup.wire.tls import server_tls

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)
BACKLOG = 1024


class _Listener(NamedTuple):
    """A socket, and what makes the protocol of a connection at it."""

    sock: socket.socket
    made: Callable[[], asyncio.Protocol]


class Listening:
    """The sockets of a service, and what is read again while they are open."""

    def __init__(self, config: ServiceConfig, tokens: Tokens) -> None:
        """Read the certificate. Raises OSError."""
        self._config, self._tokens = config, tokens
        self._context = self._tls()
        self._servers: list[asyncio.AbstractServer] = []
        self._listeners: list[_Listener] = []
        self._reading: asyncio.Task[None] | None = None  # again, what may have changed
        self._file: Path | None = None
        self._unix: asyncio.AbstractServer | None = None

    def _tls(self) -> "ssl.SSLContext | None":
        config = self._config
        if config.tls_cert is None:
            return None
        return server_tls(config.tls_cert, config.tls_key, config.tls_client_ca)

    async def listen(
        self, option: str, address: HostPort, made: Callable[[], asyncio.Protocol]
    ) -> HostPort:
        """Listen at an address; made() makes a connection's protocol.

        Raises OSError that names it, and the option to give another one by.
        """
        listener = _Listener(_bound(option, address), made)
        self._listeners.append(listener)
        self._servers.append(await self._served(listener))
        return _address(listener.sock)

    async def _served(self, listener: _Listener) -> asyncio.AbstractServer:
        """Serve at a duplicate of a socket: another one can take its place, and no connection is refused meanwhile."""
        tls = self._context
        return await asyncio.get_running_loop().create_server(
            listener.made,
            sock=listener.sock.dup(),
            backlog=BACKLOG,
            ssl=tls,
            ssl_handshake_timeout=self._config.limits.greeting_seconds if tls else None,
        )

    async def listen_unix(self, path: Path, made: Callable[[], asyncio.Protocol]) -> None:
        """Listen at a path of this machine. Raises OSError that names it."""
        sock = _bound_unix(path)
        self._file = path
        loop = asyncio.get_running_loop()
        self._unix = await loop.create_unix_server(made, sock=sock, backlog=BACKLOG)

    def close(self) -> None:
        """Take no more connections."""
        if self._reading is not None:
            self._reading.cancel()
        for server in (*self._servers, *filter(None, [self._unix])):
            server.close()
        for listener in self._listeners:
            listener.sock.close()
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink()

    def read_again(self) -> None:
        """Read certificate and tokens again; what is not right stays as it was."""
        self._reading = asyncio.ensure_future(self._read_again())

    async def _read_again(self) -> None:
        read = []
        for what, again in (("certificate", self._read_tls), ("file of tokens", self._read_tokens)):
            try:
                if await again():
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

    async def _read_tls(self) -> bool:
        if self._context is None:
            return False
        # A new context as a whole: one that exists would trust a removed authority for ever.
        self._context = self._tls()
        made = [await self._served(listener) for listener in self._listeners]
        before, self._servers = self._servers, made
        for server in before:
            server.close()
        return True

    async def _read_tokens(self) -> bool:
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


# ---------------------------------------------------------------------------------- connections


def address_of(transport: Any) -> str:
    """Return the address that a connection comes from; "" for one of this machine's sockets."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


def subject_of(transport: Any) -> str:
    """Return the subject of the certificate that the other side has shown; "" for none."""
    parts = (transport.get_extra_info("peercert") or {}).get("subject", ())
    return ",".join(f"{name}={value}" for part in parts for name, value in part)


class Client(Protocol):
    """A connection, as its port sees it: the address it comes from."""

    address: str

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
    """The open connections of the RESP port: their number, their times, the bytes that they make us hold.

    open       all of them
    ended      those that the service closed, by reason
    unread     answers that are not read; partial: commands that are not whole
    """

    def __init__(
        self, most: int, unread: Buffers, partial: Buffers, *, most_of_address: int = 1 << 30
    ) -> None:
        self.open: set[Any] = set()
        self.ended: Counter[str] = Counter()
        self.unread, self.partial = unread, partial
        self.draining = False
        self._none_open = asyncio.Event()  # set when, while draining, the last one has closed
        self._most, self._most_of_address = most, most_of_address
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
            if not self._evict(self._waiting.get(address, {})):
                return "address"
        elif len(self.open) > self._most and not self._evict(
            max(self._waiting.values(), key=len, default={})
        ):
            return "too_many"
        self.mark_idle(client)
        return None

    def _evict(self, waiting: dict[Any, None]) -> bool:
        """Evict the connection that waits for its client longest; False if there is none."""
        client = next(iter(waiting), None)
        if client is not None:
            client.abort("silent")
        return client is not None

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
            self._none_open.set()

    def end_overdue(self, now: float) -> None:
        """Close the connections that are beyond a time limit; called every second or so."""
        for client in list(self.open):
            if reason := client.overdue(now):
                client.abort(reason)

    def drain(self) -> None:
        """Take no more; each connection closes once what came before is answered."""
        self.draining = True
        if not self.open:
            self._none_open.set()
        for client in list(self.open):
            client.finish()

    async def drained(self) -> None:
        """Wait until the last connection has closed."""
        await self._none_open.wait()

    def abort(self) -> None:
        """Close what is left at once."""
        for client in list(self.open):
            client.abort("stopped")
