"""RESP, the wire format of Redis: arguments are parsed, answers are encoded.

    arguments (list of bytes) -> numbers, names, options -> a command's answer -> bytes

No I/O. A bad argument raises UsageError, which names it and says what is allowed.
"""

import re
from binascii import Error as NotHex
from binascii import unhexlify
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from dedup.core.numbers import Array
from dedup.model.errors import UsageError
from dedup.model.values import SKETCH_BYTES, TRIES, Neighbour, PageFingerprint
from dedup.service.core.limits import FIELD_BYTES, REASON_PATTERN, TOKEN_PATTERN, check_field
from dedup.service.core.namespaces import Asked

__all__ = ["EMPTY", "NIL", "OK", "Options", "array", "bulk", "error", "integer", "neighbours"]

OK = b"+OK\r\n"
EMPTY = b"*0\r\n"
UNIQUE = b"*7\r\n$6\r\nunique\r\n$%d\r\n%b\r\n%b%b%b%b%b"
NIL = {2: b"$-1\r\n", 3: b"_\r\n"}

LONGEST_RESERVATION_SECONDS = 86_400.0  # a client's wish is cut to it

REAL_LENGTH = 32  # of a number with a point; commands are cached by their spelling

_TOKEN = re.compile(TOKEN_PATTERN.encode())
_REASON = re.compile(REASON_PATTERN.encode())
_BREAKS = re.compile(r"[\r\n]+")


def bulk(data: bytes) -> bytes:
    """Return bytes as a bulk string."""
    return b"$%d\r\n%b\r\n" % (len(data), data)


def integer(number: int) -> bytes:
    """Return an integer."""
    return b":%d\r\n" % number


def real(number: float) -> bytes:
    """Return a number with four places behind the point, as a bulk string."""
    return bulk(b"%.4f" % number)


def array(parts: Sequence[bytes]) -> bytes:
    """Return an array of encoded parts."""
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))


def mapping(parts: Sequence[tuple[bytes, bytes]], protocol: int) -> bytes:
    """Return a map of encoded parts; in protocol 2, an array of keys and values in turn."""
    body = b"".join(key + value for key, value in parts)
    return (b"%%%d\r\n%b" if protocol == 3 else b"*%d\r\n%b") % (
        len(parts) if protocol == 3 else 2 * len(parts),
        body,
    )


def error(code: str, message: str) -> bytes:
    """Return an error, in one line."""
    return f"-{code} {_BREAKS.sub(' ', message)}\r\n".encode("utf-8", "replace")


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


def neighbours_with_identity(found: Sequence[Neighbour]) -> bytes:
    """Return neighbours as an array of [key, distance, similarity, identity, domain]."""
    return array(
        [
            array(
                [
                    bulk(n.key.encode()),
                    integer(n.distance),
                    real(n.similarity),
                    bulk(n.identity.encode()),
                    bulk(n.domain.encode()),
                ]
            )
            for n in found
        ]
    )


# ------------------------------------------------------------------------------------ arguments


def text(argument: bytes, name: str) -> str:
    """Return an argument that is text. Raises TooLong, too."""
    if len(argument) > FIELD_BYTES[name]:
        check_field(name, argument.decode("utf-8", "replace"))
    try:
        return argument.decode()
    except UnicodeDecodeError as fault:
        raise UsageError(f"{name} is not UTF-8: {fault}") from fault


def number(argument: bytes, name: str, greatest: int = 2**32 - 1) -> int:
    """Return an argument that is a decimal number."""
    if argument.isdigit() and len(argument) <= 10 and (found := int(argument)) <= greatest:
        return found
    raise UsageError(f"{name} {argument[:40]!r} is not allowed: a number in 0 .. {greatest}")


def value_and_sketch(value: bytes, sketch: bytes) -> tuple[int, bytes]:
    """Return a fingerprint, 16 hex digits, and a sketch, 74."""
    return fingerprint(value, "fingerprint"), sketch_of(sketch)


def fingerprint(argument: bytes, name: str) -> int:
    """Return 64 bits, 16 hex digits."""
    if len(argument) == 16:
        try:
            return int.from_bytes(unhexlify(argument), "big")
        except NotHex:
            pass
    raise UsageError(f"{name} {argument[:40]!r} is not allowed: 16 hex digits")


def sketch_of(argument: bytes) -> bytes:
    """Return a sketch, 74 hex digits."""
    if len(argument) == 2 * SKETCH_BYTES:
        try:
            return unhexlify(argument)
        except NotHex:
            pass
    raise UsageError(f"sketch {argument[:80]!r} is not allowed: {2 * SKETCH_BYTES} hex digits")


def fingerprints(arguments: Sequence[bytes]) -> Array:
    """Return a batch of fingerprints."""
    joined = b"".join(arguments)
    if len(joined) == 16 * len(arguments) and set(map(len, arguments)) <= {16}:
        try:
            return np.frombuffer(unhexlify(joined), ">u8").astype(np.uint64)
        except NotHex:
            pass
    bad = next(argument for argument in arguments if not _is_fingerprint(argument))
    raise UsageError(f"fingerprint {bad[:40]!r} is not allowed: 16 hex digits")


def _is_fingerprint(argument: bytes) -> bool:
    try:
        return len(argument) == len(unhexlify(argument)) * 2 == 16
    except NotHex:
        return False


def page(arguments: Sequence[bytes]) -> tuple[PageFingerprint, str]:
    """Return `value sketch identity features domain RECIPE id` as a page and its domain."""
    if arguments[5].upper() != b"RECIPE":
        raise UsageError(
            "a page is `value sketch identity features domain RECIPE id`: RECIPE is missing"
        )
    value, sketch = value_and_sketch(arguments[0], arguments[1])
    found = PageFingerprint(
        value,
        sketch,
        fingerprint(arguments[2], "identity"),
        number(arguments[3], "features"),
        text(arguments[6], "recipe"),
    )
    return found, text(arguments[4], "domain")


class Options(msgspec.Struct, frozen=True):
    """A command's options, which follow its fixed arguments."""

    asked: Asked = Asked()
    domain: str | None = None
    count: int | None = None
    exempt: str | None = None
    guard: bool = True
    kind: str = ""
    tries: int = TRIES
    links: int = 0
    identity: int | None = None
    token: str | None = None
    home: bool = True
    seconds: float | None = None


def _seconds(argument: bytes) -> float:
    """Return how long a page may be in flight: as the client asks, up to the longest."""
    try:
        seconds = float(argument) if len(argument) <= REAL_LENGTH else 0.0
    except ValueError:
        seconds = 0.0
    if not seconds >= 0.001:
        raise UsageError(f"SECONDS {argument[:40]!r} is not allowed: a number from 0.001 on")
    return min(seconds, LONGEST_RESERVATION_SECONDS)


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


def _reason(argument: bytes) -> str:
    if not _REASON.fullmatch(argument):
        raise UsageError(f"EXEMPT {argument[:40]!r} is not a reason: [a-z_], up to 32")
    return argument.decode()


def _token(argument: bytes) -> str:
    if not _TOKEN.fullmatch(argument):
        raise UsageError(f"TOKEN {argument[:80]!r} is not allowed: [A-Za-z0-9-], 16 to 64")
    return argument.decode()


def _switch(argument: bytes, name: str) -> bool:
    if argument.lower() not in {b"on", b"off"}:
        raise UsageError(f"{name} {argument[:40]!r} is not allowed: on or off")
    return argument.lower() == b"on"


_FIELDS: dict[bytes, tuple[str, Callable[[bytes], Any]]] = {
    b"SCOPE": ("scope", _scope),
    b"DISTANCE": ("distance", lambda argument: number(argument, "DISTANCE", 64)),
    b"SIMILARITY": ("similarity", _similarity),
    b"FEATURES": ("min_features", lambda argument: number(argument, "FEATURES")),
    b"COUNT": ("count", lambda argument: max(number(argument, "COUNT"), 1)),
    b"EXEMPT": ("exempt", _reason),
    b"GUARD": ("guard", lambda argument: _switch(argument, "GUARD")),
    b"KIND": ("kind", lambda argument: text(argument, "kind")),
    b"TRIES": ("tries", lambda argument: number(argument, "TRIES")),
    b"LINKS": ("links", lambda argument: fingerprint(argument, "LINKS")),
    b"HOME": ("home", lambda argument: _switch(argument, "HOME")),
    b"TOKEN": ("token", _token),
    b"SECONDS": ("seconds", _seconds),
    b"IDENTITY": ("identity", lambda argument: fingerprint(argument, "IDENTITY")),
    b"DOMAIN": ("domain", lambda argument: text(argument, "domain")),
}

OPTIONS_CACHED = 4096  # spellings of RESERVE's options, without the token

Command = Literal["PROBE", "MPROBE", "RESERVE"]

_ALLOWED: dict[str, frozenset[bytes]] = {
    "PROBE": frozenset((b"SCOPE", b"DISTANCE", b"SIMILARITY", b"COUNT", b"IDENTITY", b"DOMAIN")),
    "MPROBE": frozenset((b"DISTANCE", b"SIMILARITY", b"COUNT")),
    "RESERVE": frozenset(
        b"SCOPE DISTANCE SIMILARITY FEATURES SECONDS EXEMPT GUARD KIND TRIES LINKS TOKEN HOME".split()
    ),
}


def options(command: Command, arguments: Sequence[bytes]) -> Options:
    """Return the options of a command, each given once at most."""
    given: dict[str, Any] = {}
    words = iter(arguments)
    for word in words:
        name = word.upper()
        if name not in _ALLOWED[command] or _FIELDS[name][0] in given:
            allowed = ", ".join(sorted(each.decode() for each in _ALLOWED[command]))
            raise UsageError(f"{word[:40]!r} is not an option here; each once: {allowed}")
        field, read = _FIELDS[name]
        try:
            given[field] = read(next(words))
            if command == "PROBE" and given.get("scope") == "site" and field == "scope":
                given["domain"] = text(next(words), "domain")
        except StopIteration:
            raise UsageError(f"{name.decode()} has too few arguments") from None
    asked = {field: given.pop(field) for field in Asked.__struct_fields__ if field in given}
    return Options(Asked(**asked), **given)


_cached: dict[tuple[bytes, ...], Options] = {}


def reserve_options(arguments: Sequence[bytes]) -> tuple[Options, str | None]:
    """Return a RESERVE's options without the token, and the token; equal options are parsed once."""
    at = arguments.index(b"TOKEN") if b"TOKEN" in arguments else len(arguments)
    others = (*arguments[:at], *arguments[at + 2 :])
    given = None if at % 2 else _cached.get(others)  # with LINKS, every page has its own
    if given is not None and at != len(arguments) - 1:
        return given, _token(arguments[at + 1]) if at < len(arguments) else None
    given = options("RESERVE", arguments)
    token, given = given.token, msgspec.structs.replace(given, token=None)
    if not given.links and (at < len(arguments) or token is None):  # TOKEN was not in lower case
        if len(_cached) >= OPTIONS_CACHED:
            _cached.clear()
        _cached[others] = given
    return given, token
