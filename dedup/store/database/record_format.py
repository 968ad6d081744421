"""What documents.mdb holds, as bytes and back. Pure: bytes in, values out.

The rule kept here: bytes that are not exactly what was written in this place are refused.

    record = checksum (8 bytes) + MessagePack array
    checksum = BLAKE2b-64 of id (8 bytes, big-endian) + MessagePack array

docs/store-format.md specifies the fields and their order.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from operator import index
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.model.errors import DedupError, UsageError
from dedup.model.values import SKETCH_BYTES, Document, PageFingerprint

__all__ = [
    "FORMAT",
    "WORD",
    "Pair",
    "State",
    "decode_offsets",
    "decode_record",
    "decode_state",
    "encode_offsets",
    "encode_records",
    "encode_state",
    "key_digest",
    "key_sums",
    "pack_number",
    "sum_of_keys",
    "sum_of_records",
    "unpack_number",
    "wrote",
]

FORMAT = 2  # 1 held check and links in place of sketch and identity, of recipes that are retired

Numbers = npt.NDArray[np.uint64]
Pair = tuple[int, int]  # (document id, value): what a table holds of a document

CHECKSUM_BYTES = 8
WORD = 2**64 - 1
KEY_FACTOR, ID_FACTOR, SUM_FACTOR = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xBF58476D1CE4E5B9
VECTOR = 32  # keys from which on numpy adds them up faster

_Natural = Annotated[int, msgspec.Meta(ge=0)]
_Sketch = Annotated[bytes, msgspec.Meta(min_length=SKETCH_BYTES, max_length=SKETCH_BYTES)]


class _Record(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    key: str
    domain: str
    inserted_seconds: float
    value: int
    sketch: _Sketch
    identity: int
    features: int
    kind: str
    paid: bool
    links: Annotated[int, msgspec.Meta(ge=1)] = 0


class State(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a store is, and the sums of what it holds.

    next         the id that the next document gets
    snapshot     the id up to which the last snapshot covers documents; 0: there was none
    keys_sum     sum of key_sums() over all keys, modulo 2^64
    records_sum  XOR of all records' checksums
    transaction  the number of the LMDB transaction that wrote it; 0: not noted
    """

    format: int
    namespace: str
    recipe: str
    next: int = 0
    snapshot: int = 0
    keys_sum: int = 0
    records_sum: int = 0
    transaction: int = 0


_encode = msgspec.msgpack.Encoder(enc_hook=index).encode  # index: numpy's integers are integers
_decode = msgspec.msgpack.Decoder(_Record).decode
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
        raise ValueError(f"{len(data)} bytes where 8 belong")
    return int.from_bytes(data, "big")


def key_digest(key: str) -> bytes:
    """Return the 16 bytes under which a document key is filed (a URL may be too long for LMDB).

    Raises UsageError for a key that is no text, or not valid Unicode.
    """
    try:
        return blake2b(key.encode(), digest_size=16).digest()
    except (UnicodeEncodeError, AttributeError) as error:
        raise UsageError(f"document key {key!r} is not valid Unicode text") from error


def encode_records(names: Iterable[bytes], documents: Iterable[Document]) -> list[bytes]:
    """Return the records of documents, given their packed ids.

    The recipe is the store's and is not written again.
    """
    records = []
    for name, document in zip(names, documents, strict=True):
        page = document.page
        fields = (  # as _Record is encoded, without making one
            document.key,
            document.domain,
            document.inserted_seconds,
            page.value,
            page.sketch,
            page.identity,
            page.features,
            document.kind,
            document.paid,
        )
        body = _encode((*fields, page.links) if page.links else fields)
        records.append(blake2b(name + body, digest_size=CHECKSUM_BYTES).digest() + body)
    return records


def decode_record(name: bytes, record: bytes, recipe: str) -> Document:
    """Return the document of a record and a packed id.

    Raises ValueError saying what is wrong with the bytes.
    """
    r = _decode(_body(name, record, "its"))  # msgspec.DecodeError is a ValueError
    page = PageFingerprint(r.value, r.sketch, r.identity, r.features, recipe, links=r.links)
    return Document(r.key, page, r.domain, r.inserted_seconds, r.kind, r.paid)


def sum_of_records(records: Iterable[bytes]) -> int:
    """Return the XOR of the checksums that records bear."""
    checksums = 0
    for record in records:
        checksums ^= int.from_bytes(record[:CHECKSUM_BYTES], "big")
    return checksums


def sum_of_keys(digests: Sequence[bytes], names: Sequence[bytes]) -> int:
    """Return what filed keys add to keys_sum: their digests, and the packed ids they stand for."""
    if len(digests) >= VECTOR:
        halves = np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)
        ids = np.frombuffer(b"".join(names), ">u8").astype(np.uint64)
        return int(key_sums(halves[::2], halves[1::2], ids))
    total = 0
    for digest, name in zip(digests, names, strict=True):
        a, b = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")
        mixed = (a * KEY_FACTOR + b ^ int.from_bytes(name, "big") * ID_FACTOR) & WORD
        total += (mixed ^ mixed >> 29) * SUM_FACTOR
    return total & WORD


def key_sums(a: Numbers, b: Numbers, ids: Numbers) -> np.uint64:
    """Do what sum_of_keys() does for the halves of digests, and ids."""
    mixed = (a * np.uint64(KEY_FACTOR) + b) ^ ids * np.uint64(ID_FACTOR)
    return np.sum((mixed ^ mixed >> 29) * np.uint64(SUM_FACTOR), dtype=np.uint64)


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
        raise ValueError("the state is no list")
    version = fields[0]
    if version != FORMAT:
        # Opening never rewrites a store of another format.
        newer = isinstance(version, int) and version > FORMAT
        advice = (
            "upgrade crawl-dedup; or migrate it as text, with `dedup store export` of the release "
            "that wrote it and `dedup store import` of this one"
            if newer
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
        raise ValueError(f"{whose} checksum does not fit")
    return body
