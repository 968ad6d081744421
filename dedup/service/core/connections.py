"""Connections of both ports: their other side, the bytes they make us hold, and their TLS handshake.

    accepted -> admitted by the port -> handshake -> the port's own protocol

Invariants: a port knows of every connection from its first moment; the event loop's own TLS servers would tell of one
only after the handshake. Where the bytes of all connections are too many, the one that has the most is closed.
"""

import asyncio
import ssl
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

__all__ = ["Buffers", "Handshake", "address_of", "file_of", "subject_of"]


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


class Holder(Protocol):
    """A connection, as its bytes see it."""

    def abort(self, reason: str) -> None:
        """Close the connection at once."""


class Buffers:
    """The bytes of one kind, by connection."""

    def __init__(self, most: int) -> None:
        self.total = 0
        self._most = most
        self._sizes: dict[Holder, int] = {}

    def note(self, holder: Holder, size: int) -> None:
        """Note how many bytes a connection has; the greatest may be ended, this one too."""
        before = self._sizes.pop(holder, 0)
        self.total += size - before
        if size:
            self._sizes[holder] = size
        while self.total > self._most:
            greatest = max(self._sizes, key=self._sizes.__getitem__)
            self.total -= self._sizes.pop(greatest)
            greatest.abort("memory")


class Handshake(asyncio.Protocol):
    """One of them, as both ports want their connections to be."""

    is_answered = False

    def __init__(
        self, port: Any, made: Callable[[], asyncio.Protocol], tls: ssl.SSLContext, seconds: float
    ) -> None:
        """Port admits and counts it, until made() makes the protocol that goes on."""
        self._port, self._made, self._tls, self._seconds = port, made, tls, seconds
        self.since = self.turn_since = monotonic()
        self.transport: Any = None
        self.address, self.file = "", -1
        self._task: asyncio.Task[None] | None = None
        self._early = b""  # read behind the handshake's last bytes
        self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first bytes, unless there are too many connections."""
        self.transport = transport
        self.address, self.file = address_of(transport), file_of(transport)
        refused = self._port.admit(self, self.address, self.file)
        if refused is not None:
            self.abort(refused)

    def data_received(self, data: bytes) -> None:
        """Start the handshake with the first bytes; later ones are buffered for the wrapped protocol."""
        if self._task is None:
            self.transport.pause_reading()
            self._task = asyncio.get_running_loop().create_task(self._shake(data))
        else:
            self._early += data

    async def _shake(self, hello: bytes) -> None:
        loop = asyncio.get_running_loop()
        try:
            shaking = loop.create_task(
                loop.start_tls(self.transport, self, self._tls, server_side=True,
                               ssl_handshake_timeout=self._seconds)
            )  # fmt: skip
            for _ in range(2):  # it begins; TLS is told of its connection, then of what was read
                await asyncio.sleep(0)
            if not shaking.done():
                feed = self.transport.get_protocol()
                feed.get_buffer(len(hello))[: len(hello)] = hello
                feed.buffer_updated(len(hello))
            tls = await shaking
        except OSError:  # TLS's, or a broken connection: a stranger's
            self._port.ended["handshake"] += 1
            self.transport.abort()
            return
        finally:
            self._port.gone(self, self.address)
        if self._is_over or tls is None:
            return
        protocol = self._made()
        tls.set_protocol(protocol)
        protocol.connection_made(tls)
        if self._early:
            protocol.data_received(self._early)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (asyncio's)
        """Note that there is nothing to go on with."""
        self._is_over = True
        self._port.gone(self, self.address)

    def overdue(self, now: float) -> str | None:
        """Return why it should end now, or None."""
        return "greeting" if now - self.since > self._seconds else None

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        self._is_over = True
        self._port.ended[reason] += 1
        self._port.gone(self, self.address)
        self.transport.abort()

    def finish(self) -> None:
        """End: the service stops."""
        self.abort("stopped")

    shutdown = finish
