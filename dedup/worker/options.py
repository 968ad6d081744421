"""The worker's options, parsed once into a frozen value.

Invariant: a wrong value is a UsageError that names the option, the value and what is allowed, before
anything connects.
"""

from pathlib import Path
from typing import Literal

import msgspec

from dedup.model.errors import UsageError
from dedup.model.policy import Options
from dedup.wire.kafka import KafkaConfig
from dedup.wire.kafka.login import check_topic
from dedup.worker.adapters import Format


class Topics(msgspec.Struct, frozen=True):
    """The names of the four topics."""

    input: str
    unique: str
    duplicates: str
    dead: str


class Config(msgspec.Struct, frozen=True):
    """A worker's options.

    kafka                where the brokers are; its topic is the input
    instance             name of a static group member, or None
    begin                where a group without offsets begins
    path, service        the folder of an embedded store, or the URLs of a table service (commas)
    detector             its namespace, distances, scope and secret
    identity             keep pages that are another page of their site by title or canonical URL
    wait_seconds         how long a page waits for a near-duplicate that another worker holds
    stop_seconds         how long the current batch may take once the worker is told to stop
    stall_seconds        a reader that gets no records for this long, while there are some, is replaced
    max_bytes            greater pages are not judged
    batch_records, batch_bytes   what is read at a time, at most
    threads              that read and fingerprint
    until_end            stop when what the topic held at the start is done
    metrics              host and port, or None
    """

    kafka: KafkaConfig
    topics: Topics
    format: Format
    group: str
    instance: str | None = None
    begin: Literal["earliest", "latest"] = "earliest"
    path: Path | None = None
    service: str | None = None
    detector: Options = Options()
    identity: bool = False
    wait_seconds: float = 1.0
    stop_seconds: float = 20.0
    stall_seconds: float = 60.0
    session_seconds: float = 10.0
    max_bytes: int = 16 << 20
    batch_records: int = 500
    batch_bytes: int = 16 << 20
    threads: int = 1
    until_end: bool = False
    metrics: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for options that contradict each other."""
        if not self.group:
            raise UsageError("--group is empty; give the name that the workers of a crawl share")
        if (self.path is None) == (self.service is None):
            raise UsageError(
                "give either --path FOLDER (a store of this worker's own) or --service URL (the "
                "table service that several workers share)"
            )


def topics_of(
    input: str, unique: str | None = None, duplicates: str | None = None, dead: str | None = None
) -> Topics:
    """Return the topics; outputs that are not named take the input's name with an ending.

    Raises UsageError for a name that Kafka does not take, and where one topic would be two.
    """
    made = Topics(
        input,
        unique or f"{input}.unique",
        duplicates or f"{input}.duplicates",
        dead or f"{input}.dlq",
    )
    names = msgspec.structs.asdict(made)
    for name in names.values():
        check_topic(name)
    if len(set(names.values())) < len(names):
        raise UsageError(
            f"input, unique, duplicates and dead letters must be four topics, not {names}"
        )
    return made


def listen_address(text: str, option: str) -> tuple[str, int]:
    """Return the host and port of HOST:PORT; port 0 lets the system choose."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"{option} {text!r} is not allowed: HOST:PORT, for example 127.0.0.1:9470")
    return host.strip("[]"), int(port)
