r"""Insert events: what a record on the log says. No I/O (docs/events.md specifies the record).

    record key    <namespace> \x00 <document key>, UTF-8
    record value  {"v":1,"ns","key","value","sketch","identity","features","recipe","domain",
                   "ts","kind","paid"[,"links"]}, or null: the document is forgotten (a tombstone)

The rule kept here: whatever bytes come in, decode() gives an Event or raises EventInvalid, which
says what is wrong and where; a record of a version that this release does not know raises
EventNewer. What encode() gives, decode() takes. Both are linear in the record's size, and a record
is at most a million bytes.
"""

import math
import re
from functools import lru_cache
from typing import Annotated, NamedTuple

import msgspec

from dedup.model.errors import EventInvalid
from dedup.model.names import check_namespace
from dedup.model.values import SKETCH_BYTES, Document, PageFingerprint, hex_fingerprint

__all__ = [
    "RECORD_BYTES",
    "TIME_LIMIT",
    "VERSION",
    "Event",
    "EventNewer",
    "decode",
    "decode_value",
    "encode",
    "encode_value",
    "record_key",
]

VERSION = 1
RECORD_BYTES = 1_000_000  # of key and value together: below the broker's usual limit of a message
TIME_LIMIT = 10**15  # milliseconds; up to there seconds and milliseconds turn into each other

WORD, MOST = 2**64 - 1, 2**63 - 1
_NO_LINKS = hex_fingerprint(0)

_hex_digits = re.compile("[0-9a-f]*").fullmatch

_Hex = Annotated[str, msgspec.Meta(min_length=16, max_length=16)]
_Sketch = Annotated[str, msgspec.Meta(min_length=2 * SKETCH_BYTES, max_length=2 * SKETCH_BYTES)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]


class EventNewer(EventInvalid):
    """A record of a later version than this release reads: upgrade crawl-dedup, lose nothing."""


class Event(NamedTuple):
    """What a record says: the document that a key stands for from now on, or None: forget it."""

    namespace: str
    key: str
    document: Document | None


class _Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    v: int
    ns: str
    key: str
    value: _Hex
    sketch: _Sketch
    identity: _Hex
    features: _Count
    recipe: str
    domain: str
    ts: Annotated[int, msgspec.Meta(ge=-TIME_LIMIT, le=TIME_LIMIT)]
    kind: str = ""
    paid: bool = True
    links: _Hex | msgspec.UnsetType = msgspec.UNSET


class _Version(msgspec.Struct, frozen=True):
    v: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Value).decode
_decode_version = msgspec.json.Decoder(_Version).decode
_known_namespace = lru_cache(1024)(check_namespace)


def encode(namespace: str, document: Document) -> tuple[bytes, bytes]:
    """Return the record of an accepted document, as (key, value).

    Raises EventInvalid if no record can say it: too long, not Unicode, numbers out of range;
    UsageError for a namespace that is not one.
    """
    page = document.page
    words = (page.value, page.identity, page.links)
    if (
        min(*words, page.features) < 0
        or max(words) > WORD
        or page.features > MOST
        or len(page.sketch) != SKETCH_BYTES
        or page.unread
    ):
        raise EventInvalid(
            f"the fingerprint of {document.key[:200]!r} is unread, or out of range: {page}"
        )
    key, value = record_key(namespace, document.key), encode_value(namespace, document)
    if len(key) + len(value) > RECORD_BYTES:
        raise EventInvalid(_too_long(len(key) + len(value)))
    return key, value


def record_key(namespace: str, key: str) -> bytes:
    """Return the record key of a document; with a null value it is the tombstone.

    Raises EventInvalid if it is too long or not Unicode, UsageError for a namespace that is not one.
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
    """Return what a record says.

    Raises EventNewer for a later version, EventInvalid for whatever else is no event.
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

    Raises EventInvalid if it cannot be said.
    """
    page, milliseconds = document.page, document.inserted_seconds * 1000
    fits = math.isfinite(milliseconds) and abs(milliseconds) <= TIME_LIMIT
    try:
        return _encode(
            _Value(
                VERSION,
                namespace,
                document.key,
                hex_fingerprint(page.value),
                page.sketch.hex(),
                hex_fingerprint(page.identity),
                page.features,
                page.recipe,
                document.domain,
                round(milliseconds) if fits else 0,  # no clock says so; the time decides nothing
                document.kind,
                document.paid,
                hex_fingerprint(page.links) if page.links else msgspec.UNSET,
            )
        )
    except (ValueError, OverflowError) as error:  # UnicodeEncodeError is a ValueError
        raise EventInvalid(f"document key {document.key[:200]!r}: {error}") from error


def decode_value(value: bytes) -> tuple[str, Document]:
    """Return the namespace and the document of a value, of any length.

    Raises EventNewer and EventInvalid as decode() does.
    """
    try:
        r = _decode(value)
        if r.v != VERSION:
            raise ValueError(f"version {r.v} - at `$.v`")
        _known_namespace(r.ns)
        digits = r.value + r.identity + (r.links or _NO_LINKS) + r.sketch
        # int() takes signs, spaces, underscores and capitals too; what was meant has one form
        if not _hex_digits(digits):
            raise ValueError(_wrong_hex(r))
        words, sketch = int(digits[:48], 16), bytes.fromhex(r.sketch)
    except (ValueError, RecursionError) as error:  # msgspec's errors and UsageError are ValueErrors
        raise _invalid(value, error) from error
    page = PageFingerprint(
        words >> 128, sketch, words >> 64 & WORD, r.features, r.recipe, links=words & WORD
    )
    return r.ns, Document(r.key, page, r.domain, r.ts / 1000, r.kind, r.paid)


def _decode_key(key: bytes) -> tuple[str, str]:
    namespace, separator, document_key = key.partition(b"\0")
    if not separator:
        raise EventInvalid(f"the record's key {_shown(key)} has no \\x00 after the namespace")
    try:
        return _known_namespace(namespace.decode()), document_key.decode()
    except ValueError as error:  # UnicodeDecodeError and UsageError are
        raise EventInvalid(f"the record's key {_shown(key)}: {error}") from error


def _invalid(value: bytes, error: Exception) -> EventInvalid:
    """Return what to raise for a value that is no event of this version."""
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


def _wrong_hex(value: _Value) -> str:
    for name in ("value", "identity", "links", "sketch"):
        text = getattr(value, name) or _NO_LINKS
        if not _hex_digits(text):
            return f"{text!r} is not lower-case hex digits - at `$.{name}`"
    raise AssertionError


def _shown(key: bytes) -> str:
    return repr(key[:200])


def _too_long(size: int) -> str:
    return f"the record has {size:,} bytes, key and value together; {RECORD_BYTES:,} are allowed"
