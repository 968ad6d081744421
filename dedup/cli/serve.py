"""`dedup serve`: the table service.

Invariants: the token comes from the environment, never from the command line, where others
could read it.
"""

import logging
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import click

from dedup.cli import terminal
from dedup.cli.common_options import (
    F,
    LogForm,
    distance_option,
    from_environment,
    log_option,
    number_option,
    set_up_logs,
    setting_option,
)
from dedup.core.memory import memory_bytes
from dedup.model.errors import UsageError
from dedup.model.policy import age_seconds

if TYPE_CHECKING:
    from dedup.model.addresses import HostPort


def _age(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    """Return the seconds of an age."""
    if text is None:
        return None
    if not (age := age_seconds(text)):
        raise click.BadParameter(f"{text!r} is not an age: 30d, 12h, 90m, or seconds.")
    return age


def _size(least: str) -> Callable[[click.Context, click.Option, str], int]:
    """Return what reads a size in bytes, such as 512M, of at least so much."""

    def read(_context: click.Context, _option: click.Option, text: str) -> int:
        try:
            size = memory_bytes(text)
        except UsageError:
            size = 0
        if size < memory_bytes(least):
            raise click.BadParameter(f"{text!r} is not a size from {least} on: 512M, 4G, or bytes.")
        return size

    return read


def _file_option(flag: str, text: str) -> Callable[[F], F]:
    return click.option(flag, type=click.Path(path_type=Path), help=text)


@click.command(epilog="Example: DEDUP_TOKEN=... dedup serve --path store --listen 0.0.0.0:7700")
@click.option(
    "--path",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder of the stores, one for each namespace; created if it is missing.",
)
@click.option(
    "--listen",
    default="127.0.0.1:7700",
    show_default=True,
    help="HOST:PORT where Redis clients are served; none: with --unix only.",
)
@click.option(
    "--unix",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also serve Redis clients of this user at a Unix socket with this path.",
)
@click.option(
    "--http",
    default="127.0.0.1:7780",
    show_default=True,
    help="HOST:PORT for HTTP and the page that draws the metrics; none: without them.",
)
@_file_option("--tls-cert", "Certificate (a PEM file); both ports then use TLS.")
@_file_option("--tls-key", "Private key of the certificate (a PEM file).")
@_file_option(
    "--tls-client-ca", "Serve only clients with a certificate of this authority (a PEM file)."
)
@_file_option(
    "--tokens",
    "A file with lines `ROLE TOKEN`; ROLE is crawl, read or admin. SIGHUP reads it again.",
)
@click.option(
    "--kafka",
    metavar="HOST:PORT,...",
    help="Follow the insert events of these Kafka brokers; for logins see docs/use/kafka.md.",
)
@setting_option("topic", metavar="TOPIC")
@click.option(
    "--rebuild", is_flag=True, help="Empty the stores first, and rebuild them from the topic."
)
@click.option(
    "--keep",
    "keep_seconds",
    metavar="AGE",
    callback=_age,
    help="Remove documents that are older (30d, 12h, 90m), at the start and at least once an hour. "
    "[default: keep all]",
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    help="Host name that HTTP clients may use, besides its addresses and localhost; may be repeated.",
)
@distance_option("Greatest distance that clients may ask for, in bits. [default: the recipe's]")
@number_option(
    "--max-namespaces",
    "Greatest number of namespaces (stores). [default: 256, or as many as open files allow]",
    least=1,
)
@click.option(
    "--memory",
    "memory_bytes",
    metavar="SIZE",
    callback=_size("16M"),
    default="1G",
    show_default=True,
    help="Bound on memory that clients can use: half for pages in flight, a quarter for unread answers, "
    "a quarter for incomplete commands and requests under way. Stores need more.",
)
@click.option(
    "--max-page",
    metavar="SIZE",
    callback=_size("1K"),
    default="4M",
    show_default=True,
    help="Largest page that POST /v1/judge reads.",
)
@log_option
def serve(
    listen: str,
    http: str,
    kafka: str | None,
    topic: str | None,
    memory_bytes: int,
    max_page: int,
    max_namespaces: int | None,
    log_form: LogForm,
    **options: Any,
) -> None:
    """Serve one memory to many crawlers: RESP (any Redis client) and HTTP.

    Clients need the token in the environment variable DEDUP_TOKEN, or one of --tokens; without one the service
    listens only on this machine. A reservation that no client ends expires after DEDUP_RESERVATION_SECONDS (600). Of 4,096 connections one address
    has half; one without a command for 15 minutes is closed. Once it listens, one line on stdout says where. SIGTERM stops it cleanly.
    """
    from dedup.model.addresses import parse_address
    from dedup.service.core.config import Limits, ServiceConfig, check_config
    from dedup.service.table_service import run
    from dedup.wire.kafka.login import INSERTS_TOPIC, kafka_config

    if topic is not None and kafka is None:
        raise UsageError("--topic is for --kafka")
    if kafka is not None:
        import_module("aiokafka")  # otherwise a missing package would be waited for, like brokers
    names = ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")
    # what aiokafka logs of a broker that is away, our own lines say
    set_up_logs(log_form, dict.fromkeys(names, logging.WARNING) | {"aiokafka": logging.CRITICAL})
    config = ServiceConfig(
        listen=None if listen == "none" else parse_address(listen),
        http=None if http == "none" else parse_address(http),
        token=os.environ.get("DEDUP_TOKEN") or None,
        kafka=None if kafka is None else kafka_config(kafka, topic or INSERTS_TOPIC),
        limits=Limits(
            memory_bytes=memory_bytes,
            page_bytes=max_page,
            namespaces=max_namespaces or 256,
        ),
        reservation_seconds=from_environment("reservation_seconds"),
        namespaces_asked=max_namespaces is not None,
        **options,
    )
    _check_writable(check_config(config).path)
    secure = "s" if config.tls_cert else ""

    def listening(resp: "HostPort | None", web: "HostPort | None") -> None:
        where = {} if resp is None else {"redis": f"redis{secure}://{resp}"}
        if web is not None:
            where["http"] = f"http{secure}://{web}"
        if config.unix is not None:
            where["unix"] = f"unix://{config.unix.absolute()}"
        if log_form == "json":
            terminal.out_json({"listening": where})
        else:
            terminal.out("listening on " + " and ".join(where.values()))

    run(config, listening)


def _check_writable(path: Path) -> None:
    """Raise UsageError if no store can be written, before clients are served."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path) as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        raise UsageError(
            f"--path {path} cannot be written to ({error.strerror or error}): give a folder that this user may write to"
        ) from error
