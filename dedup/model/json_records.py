"""The fields of one record of JSON: the one reader of JSON lines, for scan, worker and audit alike.

    bytes -> the fields that were asked for, by name or by path (`a.b`), and no others

What other programs write beyond JSON is read too: a byte order mark (PowerShell, .NET), half of a surrogate pair
(JavaScript's JSON.stringify of a cut text, Python's json), NaN and Infinity (Python's json).

Invariants: time and memory are linear in the bytes; any bytes end in the fields or in a ValueError.
"""

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec.structs import astuple

UNSET = msgspec.UNSET
_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


def record_reader(fields: Mapping[str, str]) -> Callable[[bytes], SimpleNamespace]:
    """Return the function that reads a record: an object with an attribute for each of `fields`.

    fields maps the name of an attribute to that of a field. A field that the record has under its whole
    name counts; otherwise a name with points is a path: `a.b` is the field b of the object a. What the
    record does not have is UNSET. The function raises ValueError for what is no JSON object.
    """
    paths = {name: field.split(".") for name, field in fields.items() if "." in field}
    names = list(dict.fromkeys([*fields.values(), *(path[0] for path in paths.values())]))
    shape: Any = msgspec.defstruct(
        "Fields",
        [(f"f{i}", Any, UNSET) for i in range(len(names))],
        rename={f"f{i}": name for i, name in enumerate(names)},
    )
    decode = msgspec.json.Decoder(shape).decode

    def read(line: bytes) -> SimpleNamespace:
        line = line.removeprefix(_MARK)
        try:
            held = decode(line)
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            found = _leniently(line, error)
        else:
            found = dict(zip(names, astuple(held), strict=True))
        return SimpleNamespace(
            **{
                name: _at(found, field, paths[name]) if name in paths else found.get(field, UNSET)
                for name, field in fields.items()
            }
        )

    return read


def _at(found: Mapping[str, Any], field: str, path: list[str]) -> Any:
    """Return what stands under a name, or at the end of a path."""
    value = found.get(field, UNSET)
    if value is not UNSET:
        return value
    value = found
    for name in path:
        value = value.get(name, UNSET) if isinstance(value, Mapping) else UNSET
    return value


def _leniently(line: bytes, error: Exception) -> dict[str, Any]:
    """Return an object as Python's own json reads it, which takes NaN and lone surrogates."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    if line.startswith(_WIDE_MARKS):
        raise ValueError("UTF-16; convert the file to UTF-8") from None
    raise ValueError(f"not a JSON object: {str(error)[:200]}") from None
