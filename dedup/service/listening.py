"""Where a service listens: TCP with or without TLS, and a Unix socket.

    bind -> serve -> (SIGHUP: certificate and tokens are read again) -> close, and remove the socket's file

Invariant: a Unix socket is for its owner alone. A file in its place is removed only if it is a
socket at which no one answers.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dedup.service.core.connections import Handshake
from dedup.service.core.limits import Address, Config
from dedup.service.core.roles import Tokens

__all__ = ["Listening", "address_of", "bound"]

log = logging.getLogger(__name__)

BACKLOG = 1024


class Listening:
    """The sockets of a service, and what is read again while they are open."""

    def __init__(self, config: Config, tokens: Tokens) -> None:
        """Read the certificate. Raises OSError."""
        self._config, self._tokens = config, tokens
        self._context = _tls(config)
        self._servers: list[asyncio.AbstractServer] = []
        self._file: Path | None = None

    async def listen(
        self, address: Address, port: Any, made: Callable[[], asyncio.Protocol]
    ) -> Address:
        """Listen at an address; made() makes a connection's protocol. Raises OSError that names it."""
        seconds = self._config.limits.greeting_seconds

        def protocol() -> asyncio.Protocol:
            context = self._context  # of now: SIGHUP makes a new one
            return made() if context is None else Handshake(port, made, context, seconds)

        sock = bound(address)
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(protocol, sock=sock, backlog=BACKLOG))
        return address_of(sock)

    async def listen_unix(self, path: Path, made: Callable[[], asyncio.Protocol]) -> None:
        """Listen at a path of this machine. Raises OSError that names it."""
        sock = _bound_unix(path)
        self._file = path
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_unix_server(made, sock=sock, backlog=BACKLOG))

    def close(self) -> None:
        """Take no more connections."""
        for server in self._servers:
            server.close()
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink()

    def read_again(self) -> None:
        """Read certificate and tokens again; what is not right stays as it was."""
        read = []
        for what, again in (("certificate", self._read_tls), ("tokens", self._read_tokens)):
            try:
                if again():
                    read.append(what)
            except (OSError, ValueError) as error:
                log.error("SIGHUP: cannot read the %s, what is in use stays: %s", what, error)
        log.info("SIGHUP: read again: %s", " and ".join(read) or "nothing")

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


def bound(address: Address) -> socket.socket:
    """Return a socket that is bound to an address. Raises OSError that names it."""
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
        raise OSError(
            error.errno, f"cannot listen on {address}: {error.strerror or error}"
        ) from error


def address_of(bound: socket.socket) -> Address:
    """Return where a socket listens, with its real port."""
    host, port = bound.getsockname()[:2]
    return Address(host, port)


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
        raise OSError(error.errno, f"cannot listen on {path}: {error.strerror or error}") from error
    finally:
        os.umask(before)
    made.setblocking(False)
    return made


def _tls(config: Config) -> ssl.SSLContext | None:
    if config.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(config.tls_cert, config.tls_key)
    if config.tls_client_ca is not None:
        context.load_verify_locations(config.tls_client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
