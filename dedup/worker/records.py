"""Records as they come in and go out, and what is written into their headers.

    Record -> (a verdict, or an error) -> Output: the same key, value, timestamp and headers, and ours

The rule kept here: key and value pass through byte for byte, and so do all headers but those whose
names begin with "dedup.", which are ours alone. In the name of one that is not UTF-8 stands U+FFFD for what
cannot be read. Pure values; no I/O.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from dedup.model.values import Verdict
from dedup.model.verdict_forms import to_headers

__all__ = ["Output", "Record", "Way", "dead_letter", "judged", "kept", "record_of"]

Headers = tuple[tuple[str, bytes], ...]
Way = Literal["unique", "duplicates", "dead"]

OURS = "dedup."
MESSAGE_CHARACTERS = 500


class Record(msgspec.Struct, frozen=True):
    """A record that was read. timestamp_ms is Unix time; None where the record has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def record_of(found: Any) -> Record:
    """Return a record as Kafka's client (aiokafka.ConsumerRecord) gives it."""
    return Record(
        found.topic,
        found.partition,
        found.offset,
        found.timestamp if found.timestamp is not None and found.timestamp >= 0 else None,
        found.key,
        found.value,
        tuple(found.headers),
    )


class Output(msgspec.Struct, frozen=True):
    """A record to be written, and which of the three topics it goes to."""

    way: Way
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


def judged(record: Record, verdict: Verdict) -> Output:
    """Return the output of a judged page; raises ValueError while its verdict is pending."""
    if verdict.status == "pending":
        raise ValueError(f"{verdict.key!r} is not decided yet")
    way: Way = "duplicates" if verdict.status == "near_duplicate" else "unique"
    return _output(record, way, to_headers(verdict).items())


def kept(record: Record, reason: str) -> Output:
    """Return the output of a page that was not judged, for a reason."""
    return _output(record, "unique", {"status": "exempt", "reason": reason}.items())


def dead_letter(record: Record, stage: str, error: Exception, *, whole: bool = True) -> Output:
    """Return the dead letter of a record that could not be read or written.

    stage  where it failed: "read" or "produce"
    whole  False leaves the value out, where it is too large for any topic but its own; the headers
           say where it stands
    """
    ours = {
        "error.topic": record.topic,
        "error.partition": record.partition,
        "error.offset": record.offset,
        "error.stage": stage,
        "error.class": type(error).__name__,
        "error.message": str(error)[:MESSAGE_CHARACTERS],
    }
    if not whole:
        ours["error.value_bytes"] = len(record.value or b"")
    made = _output(record, "dead", ours.items())
    return made if whole else msgspec.structs.replace(made, value=None)


def _output(record: Record, way: Way, ours: Iterable[tuple[str, object]]) -> Output:
    theirs = tuple(h for h in record.headers if not h[0].startswith(OURS))
    made = tuple((OURS + name, str(value).encode("utf-8", "replace")) for name, value in ours)
    return Output(way, record.timestamp_ms, record.key, record.value, theirs + made)
