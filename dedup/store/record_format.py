"""Encode and decode the entries of documents.mdb. Pure: bytes in, values out.

Invariants: bytes that are not exactly what was written in this place are refused.

    record = checksum (8 bytes) + MessagePack array
    checksum = BLAKE2b-64 of id (8 bytes, big-endian) + MessagePack array

The array holds the fields of dedup.model.page by their `place`. docs/appendix/store-format.md specifies them.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from operator import index
from typing import Annotated, Any

import msgspec

from dedup.model import forms
from dedup.model.errors import DedupError, UsageError
from dedup.model.page import Document

FORMAT = 3  # 2 held a tree of key digests; 1 the fingerprints of recipes that are retired

Removal = tuple[
    int, int, int
]  # (document id, value, key digest): what the index holds of a document

CHECKSUM_BYTES = 8

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class State(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a store is, and the sums of what it holds.

    next         the id that the next document gets
    indexed      the id up to which the index on disk covers documents; 0: there is none
    records_sum  XOR of all records' checksums
    transaction  the number of the LMDB transaction that wrote it; 0: not noted
    """

    format: int
    namespace: str
    recipe: str
    next: int = 0
    indexed: int = 0
    records_sum: int = 0
    transaction: int = 0


_encode = msgspec.msgpack.Encoder(enc_hook=index).encode  # index: numpy's integers are integers
_decode: Any = msgspec.msgpack.Decoder(forms.record_struct()).decode
_to_record = forms.to_record()
_of_record = forms.of_record()
_decode_offsets = msgspec.msgpack.Decoder(dict[_Natural, _Natural]).decode
_decode_state = msgspec.msgpack.Decoder(State).decode

# The packed ids under which the state and the offsets are summed; no document gets that far.
STATE_NAME = (2**64 - 1).to_bytes(8, "big")
OFFSETS_NAME = (2**64 - 2).to_bytes(8, "big")


def pack_number(number: int) -> bytes:
    """Return a number as 8 bytes, big-endian, so that ids sort as numbers."""
    return number.to_bytes(8, "big")


def unpack_number(data: bytes) -> int:
    """Return the number that pack_number wrote. Raises ValueError for any other length than 8."""
    if len(data) != 8:
        raise ValueError(f"expected 8 bytes, got {len(data)}")
    return int.from_bytes(data, "big")


def key_digest(key: str) -> int:
    """Return the 64-bit digest under which a document key is indexed; two keys may share one.

    Raises UsageError for a key that is no text, or not valid Unicode.
    """
    try:
        return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")
    except (UnicodeEncodeError, AttributeError) as error:
        raise UsageError(f"document key {key!r} is not valid Unicode text") from error


def pack_removal(removal: Removal) -> tuple[bytes, bytes]:
    """Return the name and the record of a removed document."""
    document_id, value, digest = removal
    return pack_number(document_id), pack_number(value) + pack_number(digest)


def unpack_removal(name: bytes, record: bytes) -> Removal:
    """Return what pack_removal() wrote. Raises ValueError for another length."""
    return unpack_number(name), unpack_number(record[:8]), unpack_number(record[8:])


def encode_records(names: Iterable[bytes], documents: Iterable[Document]) -> list[bytes]:
    """Return the records of documents, given their packed ids.

    The recipe is the store's and is not written again.
    """
    records = []
    for name, document in zip(names, documents, strict=True):
        body = _encode(_to_record(document))
        records.append(blake2b(name + body, digest_size=CHECKSUM_BYTES).digest() + body)
    return records


def decode_record(name: bytes, record: bytes, recipe: str) -> Document:
    """Return the document of a record and a packed id.

    Raises ValueError saying what is wrong with the bytes.
    """
    # msgspec.DecodeError is a ValueError
    return _of_record(_decode(_body(name, record, "its")), recipe)


def decode_removal(name: bytes, record: bytes) -> Removal:
    """Return what the index holds of a document; raises ValueError naming it."""
    try:
        r = _decode(_body(name, record, "its"))
    except ValueError as error:
        raise ValueError(f"document {unpack_number(name)}: {error}") from error
    return unpack_number(name), r.value, key_digest(r.key)


def sum_of_records(records: Iterable[bytes]) -> int:
    """Return the XOR of the checksums that records bear."""
    checksums = 0
    for record in records:
        checksums ^= int.from_bytes(record[:CHECKSUM_BYTES], "big")
    return checksums


def encode_state(state: State) -> bytes:
    """Return the state as a record."""
    return _signed(STATE_NAME, _encode(state))


def decode_state(record: bytes) -> State:
    """Return the state of a record.

    Raises ValueError saying what is wrong with the bytes, and DedupError for another format.
    """
    body = _body(STATE_NAME, record, "the state's")
    fields = msgspec.msgpack.decode(body)  # msgspec.DecodeError is a ValueError
    if not isinstance(fields, list) or not fields:
        raise ValueError("the state is not a list")
    version = fields[0]
    if version != FORMAT:
        # Opening never rewrites a store of another format.
        advice = (
            "migrate it as text, with `dedup store export` of the release that wrote it and `dedup "
            "store import` of this one, or upgrade crawl-dedup if that release is newer"
            if isinstance(version, int) and version > 1
            else "its fingerprints are of a retired recipe and cannot be converted; use a new path "
            "or namespace; the old store stays as it is, for the release that made it"
        )
        raise DedupError(f"format {version}, where this release reads format {FORMAT}: {advice}")
    return _decode_state(body)


def encode_offsets(offsets: Mapping[int, int]) -> bytes:
    """Return {partition: next offset} as a record."""
    return _signed(OFFSETS_NAME, _encode(dict(sorted(offsets.items()))))


def decode_offsets(record: bytes) -> dict[int, int]:
    """Return {partition: next offset}. Raises ValueError saying what is wrong with the bytes."""
    return _decode_offsets(_body(OFFSETS_NAME, record, "the offsets'"))


def wrote(record: bytes, transaction: int) -> bool:
    """Tell whether a transaction can have written a state; an unreadable one by none."""
    try:
        return decode_state(record).transaction in {0, transaction}
    except (ValueError, DedupError):  # an older state, its page in use again
        return True


def _signed(name: bytes, body: bytes) -> bytes:
    """Return a record: the checksum of its packed id and its body, then the body."""
    return blake2b(name + body, digest_size=CHECKSUM_BYTES).digest() + body


def _body(name: bytes, record: bytes, whose: str) -> bytes:
    """Return the body of a record. Raises ValueError if its checksum is another."""
    body = record[CHECKSUM_BYTES:]
    if _signed(name, body) != record:
        raise ValueError(f"{whose} checksum does not match")
    return body
