"""Where the service and the worker listen: HOST:PORT."""

import ipaddress

import msgspec

from dedup.model.errors import UsageError

LOCAL_NAMES = ("localhost", "localhost.")


class HostPort(msgspec.Struct, frozen=True):
    """Where to listen. Port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host in LOCAL_NAMES:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: str, what: str = "address") -> HostPort:
    """Return HOST:PORT as an address; an IPv6 host is in brackets. Raises UsageError that calls it `what`."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not (colon and host and port.isascii() and port.isdigit()):
        raise UsageError(
            f"{what} {text!r} is not allowed: HOST:PORT, such as 127.0.0.1:7700 or [::1]:7700, with a port of 0 to 65535"
        )
    if len(port) > 5 or int(port) > 65535:
        raise UsageError(f"{what} {text!r} is not allowed: a port is a number from 0 to 65535")
    return HostPort(host, int(port))
