"""RESP, the wire format of Redis: arguments are parsed, answers are encoded.

    arguments (list of bytes) -> numbers, names, options -> a command's answer -> bytes

No I/O. A bad argument raises UsageError, which names it and says what is allowed.
"""

from binascii import Error as NotHex
from binascii import unhexlify
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from dedup.core.numbers import Packed, big_endian
from dedup.model.errors import UsageError
from dedup.model.page import (
    SKETCH_BYTES,
    USUAL,
    Document,
    Neighbour,
    ReserveOptions,
)
from dedup.model.words import (
    OPTION_WORDS,
    PAGE_WORDS,
    PROBE_WORDS,
    REAL_LENGTH,
    Reader,
    hex_bytes,
    number,
    switch,
    text,
    write_document,
)
from dedup.service.core.namespaces import Asked
from dedup.wire.resp import array, bulk, integer, real

UNIQUE = b"*%d\r\n$6\r\nunique\r\n$%d\r\n%b\r\n%b"


def neighbours(found: Sequence[Neighbour]) -> bytes:
    """Return neighbours as an array of [key, distance, similarity]."""
    parts = [b"*%d\r\n" % len(found)]
    for n in found:
        key, similarity = n.key.encode(), b"%.4f" % n.similarity
        parts.append(
            b"*3\r\n$%d\r\n%b\r\n:%d\r\n$%d\r\n%b\r\n"
            % (len(key), key, n.distance, len(similarity), similarity)
        )
    return b"".join(parts)


def neighbours_with_identity(found: Sequence[Neighbour], *, fields: bool) -> bytes:
    """Return neighbours as an array of [key, distance, similarity, identity, domain].

    With fields it is [key, distance, similarity, identity, [name, value, ...]].
    """
    return array(
        [
            array(
                [
                    bulk(n.document.key.encode()),
                    integer(n.distance),
                    real(n.similarity),
                    bulk(n.identity.encode()),
                    document(n.document) if fields else bulk(n.document.domain.encode()),
                ]
            )
            for n in found
        ]
    )


def document(found: Document) -> bytes:
    """Return the fields of a document as an array of name, value, name, value and so on."""
    return array(
        [
            bulk(word if isinstance(word, bytes) else str(word).encode())
            for word in write_document(found)
        ]
    )


# ------------------------------------------------------------------------------------ arguments


def sketch_of(argument: bytes) -> bytes:
    """Return a sketch, 74 hex digits."""
    return hex_bytes(argument, "sketch", SKETCH_BYTES, SKETCH_BYTES)


def fingerprints(arguments: Sequence[bytes]) -> Packed:
    """Return a batch of fingerprints."""
    joined = b"".join(arguments)
    if len(joined) == 16 * len(arguments) and set(map(len, arguments)) <= {16}:
        try:
            return big_endian(unhexlify(joined))
        except NotHex:
            pass
    bad = next(argument for argument in arguments if not _is_fingerprint(argument))
    raise UsageError(f"fingerprint {bad[:40]!r} is not allowed: 16 hex digits")


def _is_fingerprint(argument: bytes) -> bool:
    try:
        return len(argument) == len(unhexlify(argument)) * 2 == 16
    except NotHex:
        return False


class Options(msgspec.Struct, frozen=True):
    """A command's options, which follow its fixed arguments.

    page    fields of the page that are given by name
    fields  whether the answer has the fields of documents
    """

    asked: Asked = Asked()
    reserve: ReserveOptions = USUAL
    page: dict[str, Any] = {}
    domain: str | None = None
    count: int | None = None
    fields: bool = False


def _similarity(argument: bytes) -> float:
    try:
        similarity = float(argument) if len(argument) <= REAL_LENGTH else -1.0
    except ValueError:
        similarity = -1.0
    if not 0 <= similarity <= 1:
        raise UsageError(f"SIMILARITY {argument[:40]!r} is not allowed: a number from 0 to 1")
    return similarity


def _scope(argument: bytes) -> str:
    if argument.lower() not in {b"site", b"global"}:
        raise UsageError(f"SCOPE {argument[:40]!r} is not allowed: site or global")
    return argument.lower().decode()


_POLICY: dict[bytes, tuple[str, Reader]] = {
    b"SCOPE": ("scope", _scope),
    b"DISTANCE": ("distance", lambda argument: number(argument, "DISTANCE", 64)),
    b"SIMILARITY": ("similarity", _similarity),
    b"FEATURES": ("min_features", lambda argument: number(argument, "FEATURES")),
}
_COUNT: dict[bytes, tuple[str, Reader]] = {
    b"COUNT": ("count", lambda argument: max(number(argument, "COUNT"), 1))
}
_FIELDS: dict[bytes, tuple[str, Reader]] = {
    b"FIELDS": ("fields", lambda argument: switch(argument, "FIELDS"))
}
_DOMAIN: dict[bytes, tuple[str, Reader]] = {
    b"DOMAIN": ("domain", lambda argument: text(argument, "domain"))
}

Command = Literal["PROBE", "MPROBE", "RESERVE"]


def _without(
    words: dict[bytes, tuple[str, Reader]], name: bytes
) -> dict[bytes, tuple[str, Reader]]:
    return {each: read for each, read in words.items() if each != name}


# The words of each command by the part of Options that they go into.
_WORDS: dict[str, dict[str, dict[bytes, tuple[str, Reader]]]] = {
    "PROBE": {
        "asked": _without(_POLICY, b"FEATURES"),
        "page": PROBE_WORDS,
        "": _COUNT | _FIELDS | _DOMAIN,
    },
    "MPROBE": {"asked": {n: _POLICY[n] for n in (b"DISTANCE", b"SIMILARITY")}, "": _COUNT},
    "RESERVE": {"asked": _POLICY, "reserve": OPTION_WORDS, "page": PAGE_WORDS, "": _FIELDS},
}
_ALLOWED = {
    command: {name: (part, *read) for part, words in parts.items() for name, read in words.items()}
    for command, parts in _WORDS.items()
}


def options(command: Command, arguments: Sequence[bytes]) -> Options:
    """Return the options of a command, each given once at most."""
    given: dict[str, dict[str, Any]] = {"asked": {}, "reserve": {}, "page": {}, "": {}}
    allowed, words = _ALLOWED[command], iter(arguments)
    for word in words:
        name = word.upper()
        part, field, read = allowed.get(name, ("", "", None))
        if read is None or field in given[part]:
            names = ", ".join(sorted(each.decode() for each in allowed))
            raise UsageError(f"{word[:40]!r} is not an option here; each once: {names}")
        try:
            given[part][field] = read(next(words))
            if command == "PROBE" and field == "scope" and given["asked"]["scope"] == "site":
                given[""]["domain"] = text(next(words), "domain")
        except StopIteration:
            raise UsageError(f"{name.decode()} has too few arguments") from None
    return Options(
        Asked(**given["asked"]), ReserveOptions(**given["reserve"]), given["page"], **given[""]
    )


def spelled(
    arguments: Sequence[bytes],
) -> tuple[tuple[bytes, ...] | None, dict[str, Any], str | None]:
    """Split a RESERVE's options: those that several pages may share, the page's own fields, the token.

    None in place of the first: parse them with options(), which names the first word that is wrong, and takes
    names in lower case.
    """
    token: str | None = None
    page: dict[str, Any] = {}
    shared: list[bytes] = []
    try:
        for name, word in zip(arguments[::2], arguments[1::2], strict=True):
            if name == b"TOKEN" and token is None:
                token = OPTION_WORDS[b"TOKEN"][1](word)
            elif name in PAGE_WORDS and PAGE_WORDS[name][0] not in page:
                field, read = PAGE_WORDS[name]
                page[field] = read(word)
            else:
                shared += (name, word)
    except ValueError:  # UsageError is one
        return None, {}, None
    return tuple(shared), page, token
