"""Where a table service listens: redis://[:token@]host[:port], rediss:// for TLS, unix:///path.

URLs are spelled as redis-py spells them.

Invariant: the token is in the address and in no text made of it.
"""

import ssl
from collections.abc import Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from dedup.model.errors import UsageError

__all__ = ["PORT", "SCHEMES", "Address", "addresses_of"]

PORT = 7700
SCHEMES = ("redis://", "rediss://", "unix://", "redis+unix://")
FORM = (
    "redis://[:token@]host[:port], rediss:// with ?ssl_ca_certs=FILE&ssl_certfile=FILE&ssl_keyfile=FILE, "
    "or unix://[:token@]/path"
)
_TLS_OPTIONS = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}


class Address(msgspec.Struct, frozen=True):
    """A service's host and port, and how it is spoken to.

    token    what AUTH sends, or None
    tls      whether the connection is encrypted (rediss://)
    ca_file  the certificates to trust in place of the system's, or None
    cert_file, key_file  what the client shows of itself, or None
    path     of a Unix socket, in place of host and port; or None
    """

    host: str
    port: int
    token: str | None = None
    tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    path: str | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEMES[self.tls]}{host}:{self.port}"

    def __repr__(self) -> str:
        return f"<Address {self}>"

    def context(self) -> ssl.SSLContext | None:
        """Return what checks the service's certificate and shows our own, or None without TLS.

        Raises UsageError for a file that cannot be read.
        """
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except OSError as error:
            files = ", ".join(filter(None, (self.ca_file, self.cert_file, self.key_file)))
            raise UsageError(
                f"a certificate for {self} cannot be read ({files}): {error}"
            ) from None
        return context


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
    is_unix, tls = "unix" in parts.scheme, parts.scheme == "rediss"
    known = f"{parts.scheme}://" in SCHEMES and not parts.fragment
    if is_unix:
        known = known and not host and port is None and len(parts.path) > 1
    else:
        known = known and bool(host) and parts.path in {"", "/", "/0"}
    known = known and options.keys() <= (
        _TLS_OPTIONS if tls else {"password"} if is_unix else set()
    )
    if not known or ("ssl_keyfile" in options and "ssl_certfile" not in options):
        raise UsageError(f"service URL {_shown(url)!r} is not allowed: {FORM}")
    return Address(
        host or "",
        PORT if port is None else port,
        unquote(parts.password) if parts.password else options.get("password"),
        tls,
        options.get("ssl_ca_certs"),
        options.get("ssl_certfile"),
        options.get("ssl_keyfile"),
        unquote(parts.path) if is_unix else None,
    )


def _shown(url: str) -> str:
    """Return a URL without what stands before its "@", and without its options."""
    scheme, separator, rest = url.strip().partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2].partition('?')[0]}"
