"""TLS: of a table service, of its clients, and of Kafka's."""

import ssl
from pathlib import Path

from dedup.model.errors import UsageError


def client_tls(
    whom: object,
    ca_file: str | None,
    cert_file: str | None,
    key_file: str | None,
    key_password: str = "",
) -> ssl.SSLContext:
    """Return what checks a server's certificate and shows our own, if there is one.

    Raises UsageError for a file that cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
        if cert_file:
            # without a password one would be asked for on the terminal
            context.load_cert_chain(cert_file, key_file or None, lambda: key_password)
    except OSError as error:  # ssl.SSLError is one
        files = ", ".join(filter(None, (ca_file, cert_file, key_file)))
        raise UsageError(f"a certificate for {whom} cannot be read ({files}): {error}") from error
    return context


def server_tls(cert: Path, key: Path | None, client_ca: Path | None) -> ssl.SSLContext:
    """Return what shows a server's certificate, and with an authority asks clients for theirs. Raises OSError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert, key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
