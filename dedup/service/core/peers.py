"""What a connection's transport tells of the other side."""

from typing import Any

__all__ = ["address_of", "file_of"]


def address_of(transport: Any) -> str:
    """Return the address that a connection comes from; "" for one of this machine's sockets."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


def file_of(transport: Any) -> int:
    """Return the number of a connection as an open file: the least that was free."""
    sock = transport.get_extra_info("socket")
    return -1 if sock is None else int(sock.fileno())
