"""Where Kafka is, how to log in, and how a connection starts, stops and fails.

    DEDUP_KAFKA_SECURITY_PROTOCOL  PLAINTEXT (default), SSL, SASL_PLAINTEXT, SASL_SSL
    DEDUP_KAFKA_SASL_MECHANISM     PLAIN (default), SCRAM-SHA-256, SCRAM-SHA-512
    DEDUP_KAFKA_SASL_USERNAME, DEDUP_KAFKA_SASL_PASSWORD
    DEDUP_KAFKA_SSL_CAFILE         certificates to trust, PEM; the system's by default
    DEDUP_KAFKA_SSL_CERTFILE, DEDUP_KAFKA_SSL_KEYFILE   this client's own, PEM

Invariants: parsed once, into one frozen value that never shows its password; an invalid value names itself and the
allowed ones. Starting has back-off, stopping a bound.
"""

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec

from dedup.core.faults import Backoff
from dedup.model.errors import DedupError, UsageError
from dedup.wire.tls import client_tls

INSERTS_TOPIC = "dedup.inserts"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
DEFAULT_PORT = 9092
ASK_SECONDS = 5.0  # that a broker has to answer a login

_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class KafkaConfig(msgspec.Struct, frozen=True):
    """How to reach Kafka. Made by kafka_config().

    request_timeout_seconds  of one request to a broker; a record that was not acknowledged within
                             it has failed
    """

    bootstrap: tuple[str, ...]
    topic: str = INSERTS_TOPIC
    protocol: str = "PLAINTEXT"
    mechanism: str = "PLAIN"
    username: str = ""
    password: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    key_password: str = ""
    client_id: str = "crawl-dedup"
    request_timeout_seconds: float = 10.0

    def __repr__(self) -> str:
        return f"KafkaConfig({','.join(self.bootstrap)}, {self.topic}, {self.protocol})"

    @property
    def dead_letters(self) -> str:
        """The topic of invalid records."""
        return f"{self.topic}.dlq"

    def options(self) -> dict[str, Any]:
        """Return the arguments common to all of aiokafka's clients.

        Raises UsageError if a certificate cannot be read.
        """
        options: dict[str, Any] = {
            "bootstrap_servers": list(self.bootstrap),
            "client_id": self.client_id,
            "request_timeout_ms": int(self.request_timeout_seconds * 1000),
            "security_protocol": self.protocol,
            "metadata_max_age_ms": 30_000,
            "retry_backoff_ms": 200,
        }
        if self.protocol.endswith("SSL"):
            options["ssl_context"] = client_tls(
                "Kafka", self.ca_file, self.cert_file, self.key_file, self.key_password
            )
        if self.protocol.startswith("SASL"):
            options["sasl_mechanism"] = self.mechanism
            options["sasl_plain_username"] = self.username
            options["sasl_plain_password"] = self.password
        return options


def kafka_config(
    bootstrap: str,
    topic: str = INSERTS_TOPIC,
    *,
    environ: Mapping[str, str] | None = None,
    client_id: str = "crawl-dedup",
) -> KafkaConfig:
    """Return the configuration of "host:port,host:port" and the environment.

    Raises UsageError naming what is wrong.
    """
    given = os.environ if environ is None else environ

    def setting(name: str, allowed: tuple[str, ...] = ()) -> str:
        value = given.get(f"DEDUP_KAFKA_{name}", "")
        if allowed and value and value.upper() not in allowed:
            raise UsageError(
                f"DEDUP_KAFKA_{name} {value!r} is not allowed: one of {', '.join(allowed)}"
            )
        return value.upper() if allowed else value

    config = KafkaConfig(
        tuple(_server(text.strip()) for text in bootstrap.split(",")),
        check_topic(topic),
        setting("SECURITY_PROTOCOL", PROTOCOLS) or "PLAINTEXT",
        setting("SASL_MECHANISM", MECHANISMS) or "PLAIN",
        setting("SASL_USERNAME"),
        setting("SASL_PASSWORD"),
        setting("SSL_CAFILE"),
        setting("SSL_CERTFILE"),
        setting("SSL_KEYFILE"),
        setting("SSL_KEY_PASSWORD"),
        client_id,
    )
    if config.protocol.startswith("SASL") and not (config.username and config.password):
        raise UsageError(
            f"DEDUP_KAFKA_SECURITY_PROTOCOL {config.protocol} needs DEDUP_KAFKA_SASL_USERNAME and "
            "DEDUP_KAFKA_SASL_PASSWORD"
        )
    return config


def check_topic(topic: str) -> str:
    """Return the topic unchanged. Raises UsageError if Kafka does not allow it."""
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise UsageError(
            f"topic {topic!r} is not allowed: 1 to 249 of the characters A-Z a-z 0-9 . _ -"
        )
    return topic


def _server(text: str) -> str:
    found = _SERVER.fullmatch(text)
    if not found or (found[1] and not 0 < int(found[1]) < 65536):
        raise UsageError(
            f"Kafka's bootstrap server {text!r} is not allowed: host:port, several with commas"
        )
    return text if found[1] else f"{text}:{DEFAULT_PORT}"


async def login_refused(config: KafkaConfig) -> str | None:
    """Return why a broker refuses the user and password; None if none does.

    aiokafka's clients say only that they could not connect. A broker that does not answer, or not as
    expected, has refused nothing.
    """
    from aiokafka import errors
    from aiokafka.conn import create_conn

    if not config.protocol.startswith("SASL"):
        return None
    options = config.options()
    refusals = (
        errors.AuthenticationFailedError,
        errors.SaslAuthenticationFailed,
        errors.UnsupportedSaslMechanismError,
        errors.IllegalSaslStateError,
    )
    for server in config.bootstrap:
        host, _, port = server.rpartition(":")
        try:
            connection = await create_conn(
                host.strip("[]"),
                int(port),
                client_id=config.client_id,
                request_timeout_ms=int(ASK_SECONDS * 1000),
                ssl_context=options.get("ssl_context"),
                security_protocol=config.protocol,
                sasl_mechanism=config.mechanism,
                sasl_plain_username=config.username,
                sasl_plain_password=config.password,
            )
        except refusals as error:
            return (
                f"Kafka at {server} refuses the login of {config.username!r} by {config.mechanism}: "
                f"{error}. See DEDUP_KAFKA_SASL_USERNAME and DEDUP_KAFKA_SASL_PASSWORD"
            )
        except Exception:  # noqa: BLE001, S112 - it does not answer: another one may
            continue
        connection.close()
        return None
    return None


FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0
STOP_SECONDS = 5.0
LOGIN_SECONDS = 15.0  # for which a refused login is tried again: users may just be made

log = logging.getLogger(__name__)

T = TypeVar("T")


class KafkaUnavailable(DedupError):
    """Kafka does not answer, or not in time."""

    code = "STORE"


class RecordRefused(KafkaUnavailable):
    """Kafka, or its producer, will never take this record. too_large: because of its size."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


class LoginRefused(DedupError):
    """Kafka answers, and refuses user or password."""


class TopicUnfit(DedupError):
    """The topic is missing and may not be created, or its settings would lose records of the log."""


class LogLost(DedupError):
    """The log cannot be continued: it is another topic or cluster, or offsets are gone."""


def described(error: BaseException) -> str:
    """Return an error with its kind, which aiokafka's own texts begin with."""
    kind, said = type(error).__name__, str(error)
    return said if said.startswith(kind) else f"{kind}: {said}"


async def started(
    start: Callable[[], Awaitable[T]],
    what: str,
    *,
    within_seconds: float | None = None,
    config: KafkaConfig | None = None,
) -> T:
    """Call start() until it returns, with growing pauses; return its result.

    start must clean up after itself when it raises. Without within_seconds it is retried until
    cancelled. Raises KafkaUnavailable at the timeout, also in the middle of a try, and other DedupErrors of
    start() at once. With a config also LoginRefused, after LOGIN_SECONDS of refusals.
    """
    began, backoff = time.monotonic(), Backoff(FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS)
    until = None if within_seconds is None else asyncio.get_running_loop().time() + within_seconds
    while True:
        try:
            async with asyncio.timeout_at(until):
                return await start()
        except Exception as error:
            if isinstance(error, DedupError) and not isinstance(error, KafkaUnavailable):
                raise
            passed, pause = time.monotonic() - began, backoff.next()
            if within_seconds is not None and passed + pause > within_seconds:
                raise KafkaUnavailable(
                    f"{what}: Kafka did not answer within {within_seconds:g} seconds "
                    f"({described(error)})"
                ) from error
            refused = None if config is None else await refusal(config, passed)
            log.warning("%s: %s; trying again in %.1f s", what, refused or error, pause)
        await asyncio.sleep(pause)


async def refusal(config: KafkaConfig, seconds: float) -> str | None:
    """Return why Kafka refuses our login, if it does; called where connecting failed.

    seconds is how long that has failed. Raises LoginRefused after LOGIN_SECONDS.
    """
    refused = await login_refused(config)
    if refused and seconds > LOGIN_SECONDS:
        raise LoginRefused(refused)
    return refused


async def ended(
    stop: Coroutine[Any, Any, object], what: str, seconds: float = STOP_SECONDS
) -> bool:
    """Wait this long at most for a stop, a flush or a commit; return whether it succeeded.

    Its exception is logged: aiokafka's stop() raises CancelledError when the broker is gone.
    """
    task = asyncio.ensure_future(stop)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.5)
        log.warning("%s: timed out after %g s", what, seconds)
        return False
    if task.cancelled() or task.exception() is not None:
        log.info("%s: %s", what, "cancelled" if task.cancelled() else task.exception())
        return False
    return True
