"""The settings of a service, and the bounds on what comes from outside: parsed once, then frozen.

Invariants: a service that listens beyond loopback has a token, or does not start. Every field of a command
has a bound in bytes, the same over RESP and HTTP (dedup.model.forms.FIELD_BYTES).
"""

import os
import sys
from pathlib import Path

import msgspec

from dedup.model.addresses import HostPort
from dedup.model.errors import UsageError
from dedup.wire.kafka.login import KafkaConfig


class Limits(msgspec.Struct, frozen=True):
    """The bounds on what comes from outside. Times in seconds, sizes in bytes."""

    connections: int = 4096  # on the RESP port
    connections_of_address: int = 2048  # of one client's address
    http_connections: int = 256
    namespaces: int = 256  # lowered to what the open files allow, unless it was asked for
    policies: int = 64  # of a namespace: distances, scopes and minimum features asked for
    command_bytes: int = 1 << 20  # one RESP command
    greeting_bytes: int = 1 << 12  # what a connection may send before the token
    body_bytes: int = 4 << 20  # one HTTP request
    page_bytes: int = 4 << 20  # one page that is to be read
    batch: int = 10_000  # values of an MPROBE, items of an HTTP request
    neighbours: int = 10_000  # documents near the values of one batch
    answer_bytes: int = 4 << 20  # one answer
    memory_bytes: int = 1 << 30  # that clients make us hold: see the shares below
    unanswered: int = 4096  # commands of one connection that wait for Kafka
    output_bytes: int = 1 << 20  # unread answers, beyond which no commands are taken
    greeting_seconds: float = 10.0  # for the TLS handshake, and for showing the token
    command_seconds: float = 30.0  # from a command's first byte to its last
    unread_seconds: float = 30.0  # answers that are not being read
    idle_seconds: float = 900.0  # without a command
    request_seconds: float = 30.0  # from an HTTP request's first byte to the answer's last
    drain_seconds: float = 10.0  # for commands under way, once SIGTERM has come

    @property
    def judge_bytes(self) -> int:
        """Bytes of a request with pages, packed or not."""
        return max(self.body_bytes, self.page_bytes)

    @property
    def reservations_memory(self) -> int:
        """Bytes that pages in flight may take, in all namespaces."""
        return self.memory_bytes // 2

    @property
    def unread_memory(self) -> int:
        """Bytes of answers that RESP clients have not read, of all connections."""
        return self.memory_bytes * 3 // 16

    @property
    def unread_http_memory(self) -> int:
        """Bytes of answers that HTTP clients have not read."""
        return max(self.memory_bytes // 16, 2 * self.answer_bytes)

    @property
    def unread_share(self) -> int:
        """Bytes of unread answers beyond which a connection is not answered, and counted."""
        share = self.unread_memory // 2 // self.connections
        return min(self.output_bytes, max(share, 1 << 14))

    @property
    def partial_memory(self) -> int:
        """Bytes of RESP commands that are not whole, of all connections."""
        return self.memory_bytes * 3 // 16

    @property
    def work_memory(self) -> int:
        """Bytes of HTTP requests, unpacked, and of answers to batches, of all that are under way."""
        return self.memory_bytes // 16


USUAL_LIMITS = Limits()


class ServiceConfig(msgspec.Struct, frozen=True):
    """A service's settings.

    path                 the folder of the stores, one for each namespace
    distance             greatest distance that can be asked for, in bits; None: the recipe's
    reservation_seconds  how long a page may be in flight
    token                what a client must show; it has every role. None: nothing
    tokens               a file of tokens with roles, of which a client shows one; None: there is none
    unix                 where a Unix socket for RESP is made; None: nowhere
    tls_client_ca        the authority whose certificate a client must show; None: it shows none
    kafka                the log that the stores follow; None: inserts are committed here
    rebuild              empty the stores first, and rebuild them from the log
    keep_seconds         documents that are older are pruned; None: none are
    namespaces_asked     whether limits.namespaces was asked for: refuse it where files do not suffice
    host_names           names by which HTTP clients may call it, besides addresses and localhost
    """

    path: Path
    listen: HostPort | None = HostPort("127.0.0.1", 7700)
    http: HostPort | None = HostPort("127.0.0.1", 7780)
    distance: int | None = None
    reservation_seconds: float = 600.0
    token: str | None = None
    tokens: Path | None = None
    unix: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    host_names: tuple[str, ...] = ()
    kafka: KafkaConfig | None = None
    rebuild: bool = False
    keep_seconds: float | None = None
    limits: Limits = USUAL_LIMITS
    namespaces_asked: bool = False


def check_config(config: ServiceConfig) -> ServiceConfig:
    """Return the config. Raises UsageError for one that must not be run."""
    if config.rebuild and config.kafka is None:
        raise UsageError("--rebuild rebuilds the stores from a log: give it with --kafka")
    for option, address in (("--listen", config.listen), ("--http", config.http)):
        if address is None or address.is_loopback:
            continue
        if config.token is None and config.tokens is None:
            raise UsageError(
                f"{option} {address} is reachable from other machines: set a token in the "
                "environment variable DEDUP_TOKEN, or give --tokens, or listen on 127.0.0.1"
            )
    if config.unix is not None and sys.platform == "win32":
        raise UsageError(
            "--unix is not for Windows, which has no Unix sockets in Python: use --listen"
        )
    if config.listen is None and config.unix is None:
        raise UsageError("--listen none needs --unix")
    if config.token is not None and len(config.token.encode()) < 16:
        raise UsageError(
            "DEDUP_TOKEN is too short: use at least 16 bytes, such as the output of `openssl rand -hex 16`"
        )
    _check_tls(config)
    return config


def _check_tls(config: ServiceConfig) -> None:
    if (config.tls_cert is None) != (config.tls_key is None):
        raise UsageError("--tls-cert and --tls-key belong together: give both, or neither")
    if config.tls_client_ca is not None and config.tls_cert is None:
        raise UsageError("--tls-client-ca is for TLS: give --tls-cert and --tls-key")
    for file in (config.tls_cert, config.tls_key, config.tls_client_ca):
        if file is not None and not os.access(file, os.R_OK):
            raise UsageError(f"{file} cannot be read: expected a PEM file")
