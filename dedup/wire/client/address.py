"""Where a table service listens: redis://[:token@]host[:port], or rediss:// for TLS.

The rule kept here: the token is in the address and in no text made of it.
"""

import ssl
from collections.abc import Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from dedup.model.errors import UsageError

__all__ = ["PORT", "SCHEMES", "Address", "addresses_of"]

PORT = 7700
SCHEMES = ("redis://", "rediss://")
FORM = "redis://[:token@]host[:port], or rediss:// with ?ssl_ca_certs=FILE"


class Address(msgspec.Struct, frozen=True):
    """A service's host and port, and how it is spoken to.

    token    what AUTH sends, or None
    tls      whether the connection is encrypted (rediss://)
    ca_file  the certificates to trust in place of the system's, or None
    """

    host: str
    port: int
    token: str | None = None
    tls: bool = False
    ca_file: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEMES[self.tls]}{host}:{self.port}"

    def __repr__(self) -> str:
        return f"<Address {self}>"

    def context(self) -> ssl.SSLContext | None:
        """Return what checks the service's certificate, or None without TLS."""
        return ssl.create_default_context(cafile=self.ca_file) if self.tls else None


def addresses_of(urls: str | Sequence[str]) -> tuple[Address, ...]:
    """Return the addresses of URLs in order of preference; a text holds them between commas.

    Raises UsageError saying what is wrong, without the token.
    """
    if isinstance(urls, str):
        urls = urls.split(",")
    if not urls:
        raise UsageError(f"no service URL is given; allowed is {FORM}")
    return tuple(_address(url) for url in urls)


def _address(url: str) -> Address:
    if not isinstance(url, str):
        raise UsageError(f"service URL {url!r} is not allowed: {FORM}")
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
        options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError as error:
        raise UsageError(f"service URL {_shown(url)!r} is not one ({error}): {FORM}") from None
    known = options.keys() <= {"ssl_ca_certs"}
    if f"{parts.scheme}://" not in SCHEMES or not host or parts.path not in {"", "/", "/0"}:
        known = False
    if not known or parts.fragment or (options and parts.scheme != "rediss"):
        raise UsageError(f"service URL {_shown(url)!r} is not allowed: {FORM}")
    return Address(
        host or "",
        PORT if port is None else port,
        unquote(parts.password) if parts.password else None,
        parts.scheme == "rediss",
        options.get("ssl_ca_certs"),
    )


def _shown(url: str) -> str:
    """Return a URL without what stands before its "@"."""
    scheme, separator, rest = url.strip().partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
