r"""Insert events: the records of the log. No I/O (docs/reference/events.md specifies the record).

    record key    <namespace> \x00 <document key>, UTF-8
    record value  {"v":1,"ns","key", ... the fields of a document ...}, or null: the document is
                  forgotten (a tombstone)

The fields are those of dedup.model.page, in their order; sparse ones come last, where they have a value.

Invariants: for any bytes decode() returns an Event or raises EventInvalid, which names the fault and its
place; a record of a version that this release does not know raises EventNewer. decode() accepts
everything that encode() produces. Both are linear in the record's size, and a record is at most a
million bytes.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from dedup.model.errors import EventInvalid, UsageError
from dedup.model.forms import TIME_LIMIT, check_storable, of_event, to_event
from dedup.model.forms import Event as EventForm
from dedup.model.names import check_namespace
from dedup.model.page import Document

VERSION = 1
RECORD_BYTES = 1_000_000  # of key and value together: below the broker's usual limit of a message


class EventNewer(EventInvalid):
    """A record of a later version than this release reads: upgrade crawl-dedup, lose nothing."""


class Event(NamedTuple):
    """The content of a record: the document under a key from now on, or None: forget it."""

    namespace: str
    key: str
    document: Document | None


class _Version(msgspec.Struct, frozen=True):
    v: int


_encode = msgspec.json.Encoder().encode
_decode: Any = msgspec.json.Decoder(EventForm).decode
_decode_version = msgspec.json.Decoder(_Version).decode
_known_namespace = lru_cache(1024)(check_namespace)


def encode(namespace: str, document: Document) -> tuple[bytes, bytes]:
    """Return the record of an accepted document, as (key, value).

    Raises EventInvalid if it does not fit a record: too long, not Unicode, numbers out of range;
    UsageError for an invalid namespace.
    """
    try:
        check_storable(document)
    except UsageError as error:
        raise EventInvalid(str(error)) from error
    return record_key(namespace, document.key), encode_value(namespace, document)


def record_key(namespace: str, key: str) -> bytes:
    """Return the record key of a document; with a null value it is the tombstone.

    Raises EventInvalid if it is too long or not Unicode, UsageError for an invalid namespace.
    """
    _known_namespace(namespace)
    try:
        made = f"{namespace}\0{key}".encode()
    except UnicodeEncodeError as error:
        raise EventInvalid(f"document key {key!r} is not valid Unicode text") from error
    if len(made) > RECORD_BYTES:
        raise EventInvalid(_too_long(len(made)))
    return made


def decode(key: bytes | None, value: bytes | None) -> Event:
    """Return the event of a record.

    Raises EventNewer for a later version, EventInvalid for anything else that is not an event.
    """
    size = len(key or b"") + len(value or b"")
    if size > RECORD_BYTES:
        raise EventInvalid(_too_long(size))
    if key is None:
        raise EventInvalid("the record has no key: it should be <namespace> \\x00 <document key>")
    if value is None:
        return Event(*_decode_key(key), None)
    namespace, document = decode_value(value)
    if f"{namespace}\0{document.key}".encode() != key:
        raise EventInvalid(
            f"the record's key {_shown(key)} is not that of its value, whose ns is {namespace!r} "
            f"and whose key is {document.key[:200]!r}"
        )
    return Event(namespace, document.key, document)


def encode_value(namespace: str, document: Document) -> bytes:
    """Return a document as the value of a record. Its time is rounded to milliseconds.

    Raises EventInvalid if it does not fit an event.
    """
    try:
        return _encode(event_of(namespace, document))
    except (ValueError, OverflowError) as error:  # UnicodeEncodeError is a ValueError
        raise EventInvalid(f"document key {document.key[:200]!r}: {error}") from error


def event_of(namespace: str, document: Document) -> Any:
    """Return a document as an event, which is encoded as the value of a record."""
    milliseconds = document.inserted_seconds * 1000
    # no clock says a time that does not fit; it informs only
    fits = math.isfinite(milliseconds) and abs(milliseconds) <= TIME_LIMIT
    return to_event(VERSION, namespace, document, round(milliseconds) if fits else 0)


def decode_value(value: bytes) -> tuple[str, Document]:
    """Return the namespace and the document of a value, of any length.

    Raises EventNewer and EventInvalid as decode() does.
    """
    try:
        r = _decode(value)
        if r.v != VERSION:
            raise ValueError(f"version {r.v} - at `$.v`")
        _known_namespace(r.ns)
        document = of_event(r)
        check_storable(document)
        return r.ns, document
    except (ValueError, RecursionError) as error:  # msgspec's errors and UsageError are ValueErrors
        raise _invalid(value, error) from error


def _decode_key(key: bytes) -> tuple[str, str]:
    namespace, separator, document_key = key.partition(b"\0")
    if not separator:
        raise EventInvalid(f"the record's key {_shown(key)} has no \\x00 after the namespace")
    try:
        return _known_namespace(namespace.decode()), document_key.decode()
    except ValueError as error:  # UnicodeDecodeError and UsageError are
        raise EventInvalid(f"the record's key {_shown(key)}: {error}") from error


def _invalid(value: bytes, error: Exception) -> EventInvalid:
    """Return the error to raise for a value that is not an event of this version."""
    try:
        version = _decode_version(value).v
    except (ValueError, RecursionError):
        version = VERSION
    if version > VERSION:
        return EventNewer(
            f"the record is of version {version}, this release reads version {VERSION}: upgrade "
            "crawl-dedup"
        )
    return EventInvalid(f"the record's value: {error}")


def _shown(key: bytes) -> str:
    return repr(key[:200])


def _too_long(size: int) -> str:
    return f"the record has {size:,} bytes, key and value together; {RECORD_BYTES:,} are allowed"
