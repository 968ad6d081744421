"""A page in the words of RESP: read and written from its fields. No I/O.

    RESERVE   value sketch identity features (positional), then NAME value for sparse fields and options
    INSERT    NAME value for fields that are known only after the page was processed
    PROBE     value sketch, then NAME value for other fields of the page
    answers   name value ... for each field of a document (`FIELDS on`)

docs/reference/protocol.md describes the commands. A bad word raises UsageError, which names it and what is allowed.
"""

import re
from binascii import Error as NotHex
from binascii import unhexlify
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from dedup.model.errors import UsageError
from dedup.model.forms import (
    ALWAYS,
    COUNT,
    FIELDS,
    GIVEN_AT_INSERT,
    LEAST_SPAN,
    OPTIONS,
    PATTERNS,
    SPARSE,
    Field,
    built,
    compiled,
    written,
)
from dedup.model.page import Document, PageFingerprint, ReserveOptions

T = TypeVar("T")

LONGEST_SPAN = 86_400.0  # seconds; a client's wish is cut to it
REAL_LENGTH = 32  # of a number with a point; commands are cached by their spelling
FIELD_BYTES = {field.name: field.form.most for field in FIELDS if field.form.codec == "text"} | {
    "namespace": 64,
    "token": 64,
}

_PATTERNS = {name: re.compile(pattern.encode()) for name, pattern in PATTERNS.items()}
_ALLOWED = {
    "reason": "is not a reason: [a-z_], up to 32",
    "token": "is not allowed: [A-Za-z0-9-], 16 to 64",
}


class TooLong(UsageError):
    """A field of a command has more bytes than it may have."""

    code = "LIMIT"


def check_field(name: str, text: str) -> str:
    """Return a field of a command. Raises TooLong if its UTF-8 is beyond FIELD_BYTES."""
    most = FIELD_BYTES[name]
    # a character has up to four bytes: most fields need not be encoded
    if 4 * len(text) > most and len(text if text.isascii() else text.encode()) > most:
        raise TooLong(f"{name} {text[:40]!r}... is too long: {most} bytes are allowed")
    return text


# ------------------------------------------------------------------------------------ one word


def text(word: bytes, name: str) -> str:
    """Return a word that is text. Raises TooLong, too."""
    if len(word) > FIELD_BYTES[name]:
        check_field(name, word.decode("utf-8", "replace"))
    try:
        return word.decode()
    except UnicodeDecodeError as fault:
        raise UsageError(f"{name} is not UTF-8: {fault}") from fault


def number(word: bytes, name: str, greatest: int = COUNT) -> int:
    """Return a word that is a decimal number."""
    digits = 10 if greatest <= COUNT else 19
    if word.isdigit() and len(word) <= digits and (found := int(word)) <= greatest:
        return found
    raise UsageError(f"{name} {word[:40]!r} is not allowed: a number in 0 .. {greatest}")


def hex_number(word: bytes, name: str, digits: int = 16) -> int:
    """Return an unsigned number of so many hex digits."""
    if len(word) == digits:
        try:
            return int.from_bytes(unhexlify(word), "big")
        except NotHex:
            pass
    raise UsageError(f"{name} {word[:40]!r} is not allowed: {digits} hex digits")


def hex_bytes(word: bytes, name: str, least: int, most: int) -> bytes:
    """Return bytes as hex digits."""
    if 2 * least <= len(word) <= 2 * most:
        try:
            return unhexlify(word)
        except NotHex:
            pass
    allowed = f"{2 * most}" if least == most else f"{2 * least} to {2 * most}"
    raise UsageError(f"{name} {word[:80]!r} is not allowed: {allowed} hex digits")


def switch(word: bytes, name: str) -> bool:
    """Return a word that is on or off."""
    if word.lower() not in {b"on", b"off"}:
        raise UsageError(f"{name} {word[:40]!r} is not allowed: on or off")
    return word.lower() == b"on"


def flag(word: bytes, name: str) -> bool:
    """Return a word that is 1 or 0."""
    if word not in {b"1", b"0"}:
        raise UsageError(f"{name} {word[:40]!r} is not allowed: 1 or 0")
    return word == b"1"


def span(word: bytes, name: str) -> float:
    """Return a number of seconds: as the client asks, up to the longest."""
    try:
        seconds = float(word) if len(word) <= REAL_LENGTH else 0.0
    except ValueError:
        seconds = 0.0
    if not seconds >= LEAST_SPAN:
        raise UsageError(f"{name} {word[:40]!r} is not allowed: a number from {LEAST_SPAN} on")
    return min(seconds, LONGEST_SPAN)


def pattern(word: bytes, name: str, codec: str) -> str:
    """Return a text of a pattern."""
    if not _PATTERNS[codec].fullmatch(word):
        raise UsageError(f"{name} {word[:80]!r} {_ALLOWED[codec]}")
    return word.decode()


def _reads(field: Field, name: str, word: str, *, bounded: bool = True) -> str:
    """Return the source that reads a field from a word; name is for errors.

    bounded  whether the bounds are those of what a client sends
    """
    form = field.form
    if not bounded and form.codec == "text":
        return f"{word}.decode()"
    if not bounded and form.codec == "number":
        return f"number({word}, {name!r}, {form.most})"
    if form.codec == "word":
        return f"hex_number({word}, {name!r}, {form.most // 4})"
    if form.codec == "bytes":
        return f"hex_bytes({word}, {name!r}, {form.least}, {form.most})"
    if form.codec == "number":
        return f"number({word}, {name!r}, {min(form.most, COUNT)})"
    if form.codec == "text":
        return f"text({word}, {field.name!r})"
    if form.codec in {"reason", "token"}:
        return f"pattern({word}, {name!r}, {form.codec!r})"
    return f"{'real' if form.codec == 'seconds' else form.codec}({word}, {name!r})"


def _writes(field: Field, value: str) -> str:
    """Return the source of a field's word."""
    sources = {
        "flag": f'(b"1" if {value} else b"0")',
        "switch": f'(b"on" if {value} else b"off")',
        "seconds": f"repr({value})",
        "span": f'f"{{{value}:.3f}}"',
    }
    return sources.get(field.form.codec) or written(field, value)


def real(word: bytes, name: str) -> float:
    """Return a number with a point."""
    try:
        return float(word)
    except ValueError as fault:
        raise UsageError(f"{name} {word[:40]!r} is not a number") from fault


_SCOPE: dict[str, Any] = {
    each.__name__: each
    for each in (text, number, hex_number, hex_bytes, switch, flag, span, pattern, real)
}

Reader = Callable[[bytes], Any]


def _readers(fields: Sequence[Field]) -> dict[bytes, tuple[str, Reader]]:
    """Return what reads NAME value of each field: its attribute, and a function of the value."""
    found = {}
    for field in fields:
        name = field.name.upper()
        source = f"def read(word):\n    return {_reads(field, name, 'word')}\n"
        found[name.encode()] = field.name, compiled(source, "read", **_SCOPE)
    return found


# ------------------------------------------------------------------------------ pages and options

PLACED = [field for field in ALWAYS if field.of_page and field.name != "recipe"]  # in RESERVE
_SPARSE_OF_PAGE = [field for field in SPARSE if field.of_page]

OPTION_WORDS = _readers(OPTIONS)
PAGE_WORDS = _readers(_SPARSE_OF_PAGE)
PROBE_WORDS = _readers([f for f in PLACED if f.form.codec == "word" and f.name != "value"])
PROBE_WORDS |= PAGE_WORDS
INSERT_WORDS = _readers(GIVEN_AT_INSERT)


_PAGE = {
    field.name: _reads(field, "fingerprint" if field.name == "value" else field.name, f"w[{i}]")
    for i, field in enumerate(PLACED)
} | {"recipe": "recipe"}

read_page: Callable[[Sequence[bytes], str], PageFingerprint] = compiled(
    f"def read_page(w, recipe):\n    return {built(PageFingerprint, _PAGE)}\n",
    "read_page",
    **_SCOPE,
)
"""Return the fingerprint of the positional words of RESERVE, given its recipe."""


def _writer(owner: str, first: Sequence[str], given: Sequence[Field], *, upper: bool = True) -> Any:
    """Return the function that writes words: the first ones always, then NAME value of what is given.

    owner  what the fields are of: the function's argument, or the page of a document
    """
    lines = [f"words = [{', '.join(first)}]"]
    for field in given:
        value = f"page.{field.name}" if field.of_page else f"{owner}.{field.name}"
        differs = f"{value} != {field.default!r}" if field.default else value
        lines.append(f"if {differs}: words += ({_named(field, value, upper=upper)})")
    if owner == "document":
        lines.insert(0, "page = document.page")
    body = "".join(f"    {line}\n" for line in lines)
    return compiled(f"def write({owner}):\n{body}    return words\n", "write")


def _named(field: Field, value: str, *, upper: bool = True) -> str:
    name = field.name.upper() if upper else field.name
    return f"{name.encode()!r}, {_writes(field, value)}"


def _of_page(fields: Iterable[Field]) -> list[str]:
    return [_writes(field, f"page.{field.name}") for field in fields]


_PROBED = [field for field in PLACED if field.name in {"value", "sketch"}]
_SHOWN = [field for field in (*ALWAYS, *SPARSE) if field.name != "key"]
Writer = Callable[[T], list[Any]]

write_page: Writer[PageFingerprint] = _writer("page", _of_page(PLACED), ())
"""Return the positional words of RESERVE."""

write_probe: Writer[PageFingerprint] = _writer(
    "page",
    [
        *_of_page(_PROBED),
        'b"RECIPE", page.recipe',
        *(_named(f, f"page.{f.name}") for f in PLACED if f.name.upper().encode() in PROBE_WORDS),
    ],
    _SPARSE_OF_PAGE,
)
"""Return the words of PROBE that say the page: value sketch RECIPE id, then NAME value."""

write_sparse: Writer[PageFingerprint] = _writer("page", (), _SPARSE_OF_PAGE)
"""Return NAME value of a page's sparse fields, where they are set."""

write_options: Writer[ReserveOptions] = _writer(
    "options", (), [field for field in OPTIONS if field.name != "token"]
)
"""Return NAME value of the options that differ from their defaults, without the token, which comes last."""

write_insert: Writer[Document] = _writer("document", (), GIVEN_AT_INSERT)
"""Return NAME value of the fields given at the insert that differ from their defaults."""


# ---------------------------------------------------------------------------- documents in answers

write_document: Writer[Document] = _writer(
    "document",
    [
        _named(f, f"{'page' if f.of_page else 'document'}.{f.name}", upper=False)
        for f in _SHOWN
        if not f.form.sparse
    ],
    SPARSE,
    upper=False,
)
"""Return name value ... of a document, without its key."""

_OF_WORDS = {
    field.name.encode(): (
        field,
        compiled(
            f"def read(word):\n    return {_reads(field, field.name, 'word', bounded=False)}\n",
            "read",
            **_SCOPE,
        ),
    )
    for field in _SHOWN
}


def read_document(key: str, words: Sequence[bytes]) -> Document:
    """Return the document with a key and these words; unknown names are ignored.

    Raises UsageError, TypeError or ValueError for anything else.
    """
    values: dict[bool, dict[str, Any]] = {False: {}, True: {}}
    for name, word in zip(words[::2], words[1::2], strict=True):
        if name in _OF_WORDS:
            field, read = _OF_WORDS[name]
            values[field.of_page][field.name] = read(word)
    return Document(key, PageFingerprint(**values[True]), **values[False])
