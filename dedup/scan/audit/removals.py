"""What another tool removed, and in favour of which document: pairs of hashes of ids.

    files -> rows (removed, kept), or members (id, group) -> Removals: pairs

Members of a group become pairs with the one that was kept: the one whose id the group bears, or else the first.

Invariants: an id is a text or an integer, and counts as its text; a document that was kept for itself was not removed;
a file without the fields is refused with the names that it has.
"""

import csv
import io
import json
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dedup.model.errors import DedupError, UsageError
from dedup.model.json_records import UNSET, record_reader
from dedup.scan.records import (
    column_path,
    open_rows,
    opened,
    read_numbered,
    row_batches,
    values_at,
)

Hashes = npt.NDArray[np.int64]

LINE_BYTES = 1 << 26  # of JSON; documents may stand in it, too
_LINES, _TABLES = (".jsonl", ".ndjson", ".json"), (".csv", ".tsv")
_PACKED = (".gz", ".zst")
ALONE = "-1"  # the group of documents that are in none (datatrove, scikit-learn)


class RemovalFields(NamedTuple):
    """The fields of a removed and a kept id, or of an id and its group."""

    removed: str
    kept: str | None = None
    group: str | None = None

    @property
    def names(self) -> dict[str, str]:
        """The fields by what they are."""
        other = {"group": self.group or ""} if self.kept is None else {"kept": self.kept}
        return {"removed": self.removed} | other


PAIRS, GROUPS = RemovalFields("removed", kept="kept"), RemovalFields("id", group="group")


class Removals(NamedTuple):
    """Pairs, by hashes of ids.

    removed, kept    a pair at each place
    superseded       how many of the kept documents' pairs have a kept one that was removed, too
    """

    removed: Hashes
    kept: Hashes
    superseded: int

    @property
    def kept_documents(self) -> int:
        """How many documents others were removed for."""
        return len(np.unique(self.kept))


def hash_of(identifier: object) -> int:
    """Return the hash of an id in this process."""
    return hash(identifier.decode() if isinstance(identifier, bytes) else str(identifier))


def read_removals(paths: Iterable[str], fields: RemovalFields | None = None) -> Removals:
    """Read files of one form.

    Raises UsageError for a file that has not the fields, DedupError for one that cannot be read.
    """
    files = list(paths)
    fields = fields or _fields_of(files[0])
    ids, others = array("q"), array("q")
    for path in files:
        for values in _rows(path, fields.names):
            one, other = values["removed"], values["group" if fields.kept is None else "kept"]
            if _is_empty(one) or _is_empty(other) or (fields.kept is None and str(other) == ALONE):
                continue
            for each in one if isinstance(one, list) else [one]:
                ids.append(hash_of(each))
                others.append(hash_of(other))
    first, second = np.array(ids, np.int64), np.array(others, np.int64)
    if fields.kept is None:
        second = kept_of_groups(first, second)
    return removals_of(first, second)


def removals_of(removed: Hashes, kept: Hashes) -> Removals:
    """Return the removals of pairs; a document that was kept for one may be removed for another."""
    others = removed != kept
    removed, kept = removed[others], kept[others]
    return Removals(removed, kept, int(np.isin(kept, removed).sum()))


def kept_of_groups(ids: Hashes, groups: Hashes) -> Hashes:
    """Return for each member of a group the one that was kept."""
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    kept = ids[first]
    bears_its_id = ids == groups
    kept[group[bears_its_id]] = ids[bears_its_id]
    found: Hashes = kept[group]
    return found


# --------------------------------------------------------------------------------------------- files


def _kind(path: str) -> str:
    suffixes = Path(path.lower()).suffixes
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    last = suffixes[-1] if suffixes else ""
    return {
        **dict.fromkeys(_LINES, "lines"),
        **dict.fromkeys(_TABLES, "table"),
        ".parquet": "parquet",
    }.get(last, "")


def _fields_of(path: str) -> RemovalFields:
    """Return the fields of the form that a file has. Raises UsageError."""
    names: list[str] = []
    if _kind(path) == "parquet":
        with _rows_of(path) as file:
            names = file.schema_arrow.names
    elif _kind(path) == "lines":
        for line in read_numbered(path, LINE_BYTES):
            data = (line.data or b"").removeprefix(b"\xef\xbb\xbf").strip()
            if data.startswith(b"["):
                return PAIRS
            if data:
                names = list(_decoded(path, line.number, data))
                break
    else:
        names = list(next(_table(path), {}))
    for fields in (PAIRS, GROUPS):
        if {*fields.names.values()} <= {*names}:
            return fields
    raise UsageError(
        f"{path}: its fields {', '.join(map(str, names[:12])) or '(none)'} are of no known form (removed and kept, id and "
        "group); name them with --removed-field, and --kept-field or --group-field"
    )


def _decoded(path: str, number: int, data: bytes) -> Any:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DedupError(f"{path} line {number}: not JSON ({error})") from None
    if not isinstance(found, dict | list):
        raise DedupError(f"{path} line {number}: neither an object nor an array")
    return found


def _rows(path: str, fields: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the fields of each row of a file. Raises DedupError, UsageError, OSError."""
    kind = _kind(path)
    if kind == "parquet":
        yield from _parquet(path, fields)
    elif kind == "table":
        for row in _table(path):
            yield _checked(
                path, {name: row.get(field, UNSET) for name, field in fields.items()}, fields, row
            )
    elif kind == "lines":
        read = record_reader(fields)
        for line in read_numbered(path, LINE_BYTES):
            if line.data is None:
                raise DedupError(f"{path} line {line.number}: {line.error or 'too long'}")
            data = line.data.removeprefix(b"\xef\xbb\xbf").strip()
            if data.startswith(b"["):
                members = _decoded(path, line.number, data)
                yield {"kept": members[0] if members else None, "removed": members[1:]}
            elif data:
                try:
                    yield _checked(path, vars(read(data)), fields, {})
                except ValueError as error:
                    raise DedupError(f"{path} line {line.number}: {error}") from None
    else:
        raise UsageError(
            f"{path}: its format is not known by its name; name it .jsonl, .csv, .tsv or .parquet"
        )


def _checked(path: str, values: dict[str, Any], fields: dict[str, str], row: Any) -> dict[str, Any]:
    for name, value in values.items():
        if value is UNSET:
            more = f", only {', '.join(map(str, list(row)[:12]))}" if row else ""
            raise UsageError(f"{path}: a row has no field {fields[name]!r}{more}")
    return values


def _table(path: str) -> Iterator[dict[str, Any]]:
    with opened(path) as (raw, _, unpacked):
        text = io.TextIOWrapper(raw, "utf-8-sig", "replace", newline="")
        separator = "\t" if ".tsv" in path.lower() else ","
        try:
            yield from csv.DictReader(text, delimiter=separator)
        except csv.Error as error:
            raise DedupError(f"{path}: not a table of comma-separated values ({error})") from error
        if unpacked is not None and unpacked.error:
            raise DedupError(f"{path}: the compressed data is damaged ({unpacked.error})")


@contextmanager
def _rows_of(path: str) -> Iterator[Any]:
    """Open a Parquet file; what is wrong with it becomes a DedupError."""
    import pyarrow as pa

    with open(path, "rb") as raw:  # noqa: PTH123 - a path as text
        try:
            yield open_rows(raw)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
        except pa.ArrowException as error:
            raise DedupError(f"{path}: {' '.join(str(error).split())}") from error


def _parquet(path: str, fields: dict[str, str]) -> Iterator[dict[str, Any]]:
    with _rows_of(path) as file:
        found = {name: column_path(file.schema_arrow, field) for name, field in fields.items()}
        for name, way in found.items():
            if way is None:
                names = ", ".join(file.schema_arrow.names[:12])
                raise UsageError(f"has no column {fields[name]!r}, only {names}")
        for number in range(file.metadata.num_row_groups):
            for batch in row_batches(file, number, list(fields.values())):
                columns = [values_at(batch, way or []).to_pylist() for way in found.values()]
                for values in zip(*columns, strict=True):
                    yield dict(zip(found, values, strict=True))


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", b"", [])
