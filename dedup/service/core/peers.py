"""What a connection's transport tells of the other side."""

from typing import Any

__all__ = ["address_of", "file_of", "subject_of"]


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
