"""What another tool removed, and in favour of which document: pairs of hashes of ids.

    files -> rows (removed, kept), or members (id, group) -> Removals: pairs, each with its group

Members of a group become pairs with the one that was kept: the one whose id the group bears, the first that is in
no list of removed ones, or else the first. Pairs that hang together (A for B, B for C) are one group.

Invariants: an id is a text or an integer, and counts as its text; a file without the fields is refused with the
names that it has.
"""

import csv
import io
import json
from array import array
from collections.abc import Callable, Iterable, Iterator
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
JUMPS = 64  # doublings of the way to the document that was kept at last
_LINES, _TABLES = (".jsonl", ".ndjson", ".json"), (".csv", ".tsv")
_PACKED = (".gz", ".zst", ".lz4")


class RemovalFormat(NamedTuple):
    """How a tool writes what it removed: the fields of a removed and a kept id, or of an id and its group.

    own     the member is kept whose id its group bears
    single  the group of documents that are alone
    """

    tool: str
    removed: str
    kept: str | None = None
    group: str | None = None
    own: bool = False
    single: str = ""

    @property
    def fields(self) -> dict[str, str]:
        """The fields by what they are."""
        other = {"kept": self.kept} if self.kept is not None else {"group": self.group or ""}
        return {"removed": self.removed} | other


# The first one whose fields a file has is taken.
FORMS = (
    RemovalFormat("pairs", "removed", kept="kept"),
    RemovalFormat("dedup scan", "key", kept="of"),
    RemovalFormat("text-dedup", "__INDEX__", group="__CLUSTER__", own=True),
    RemovalFormat("NeMo Curator", "_curator_dedup_id", group="_duplicate_group_id"),
    RemovalFormat("datatrove", "id", group="metadata.minhash_cluster_id", single="-1"),
    RemovalFormat("groups", "id", group="group"),
)


class Removals(NamedTuple):
    """Pairs, by hashes of ids, and what the pairs alone tell.

    removed, kept    a pair at each place
    group            the number of its group; sizes: members of each group, the kept one among them
    superseded       pairs whose kept document was removed, too, in favour of another one
    lost             groups of which every member was removed; lost_members: hashes of some of them
    """

    tool: str
    removed: Hashes
    kept: Hashes
    group: npt.NDArray[np.intp]
    sizes: npt.NDArray[np.intp]
    superseded: int
    lost: int
    lost_members: list[int]


def hash_of(identifier: object) -> int:
    """Return the hash of an id in this process."""
    return hash(str(identifier))


def read_removals(
    paths: Iterable[str], form: RemovalFormat | None = None, removed: Iterable[str] = ()
) -> Removals:
    """Read files, or folders of files, of one form; removed are files that list the ids of removed documents.

    Raises UsageError for a file that has not the fields, DedupError for one that cannot be read.
    """
    paths = list(paths)
    files = [file for path in paths for file in _files(path)]
    form = form or _form_of(files[0])
    gone = _ids(removed, form)
    ids, others = array("q"), array("q")
    for path in files:
        for values in _rows(path, form.fields):
            one, other = values["removed"], values["kept" if form.kept else "group"]
            if _is_empty(one) or _is_empty(other) or str(other) == form.single:
                continue
            for each in one if isinstance(one, list) else [one]:
                ids.append(hash_of(each))
                others.append(hash_of(other))
    first, second = np.array(ids, np.int64), np.array(others, np.int64)
    if form.kept is not None:
        return of_pairs(form.tool, first, second)
    return of_members(form.tool, first, second, gone=gone, own=form.own)


def of_pairs(tool: str, removed: Hashes, kept: Hashes) -> Removals:
    """Return the removals of pairs; a document that was kept for one may be removed for another."""
    order = np.argsort(removed, kind="stable")
    names = removed[order]
    to, known = _look_up(names, kept)
    after = np.where(known, kept[order][to], kept)  # what was kept for what was kept
    root, moving = kept.copy(), known.copy()
    superseded = int(known.sum())
    for _ in range(JUMPS):
        if not moving.any():
            break
        root = np.where(moving, after, root)
        to, moving = _look_up(names, root)
        after = np.where(moving, kept[order][to], root)
        if superseded and _same(root, after):
            break
    in_circle = moving & np.isin(root, names)
    label = root.copy()
    for start in np.unique(root[in_circle]).tolist():
        label[root == start] = _least_of_circle(start, names, kept[order])
    roots, group = np.unique(label, return_inverse=True)
    members = np.unique(np.stack([group, removed]), axis=1)
    sizes = np.bincount(members[0], minlength=len(roots)) if len(roots) else np.empty(0, np.intp)
    lost = np.unique(group[in_circle])
    sizes = sizes + ~np.isin(np.arange(len(roots)), lost)  # and the kept one
    lost_members = removed[np.isin(group, lost)][:LOST_SHOWN].tolist()
    return Removals(tool, removed, kept, group, sizes, superseded, len(lost), lost_members)


LOST_SHOWN = 20


def of_members(
    tool: str, ids: Hashes, groups: Hashes, *, gone: Hashes | None = None, own: bool = False
) -> Removals:
    """Return the removals of groups; gone are the ids of removed documents, where they are known."""
    _, group = np.unique(groups, return_inverse=True)
    count = int(group.max(initial=-1)) + 1
    if gone is not None:
        stays = ~np.isin(ids, gone)
    elif own:
        stays = ids == groups
    else:
        stays = np.zeros(len(ids), bool)
        stays[np.unique(group, return_index=True)[1]] = True
    places = np.arange(len(ids))
    first_of, first_kept = np.full(count, -1), np.full(count, -1)
    first_of[group[::-1]] = places[::-1]
    first_kept[group[stays][::-1]] = places[stays][::-1]
    is_lost = first_kept < 0
    kept_at = np.where(is_lost, first_of, first_kept)
    pairs = ~stays & (places != kept_at[group])
    lost = np.flatnonzero(is_lost)
    sizes = np.bincount(group, minlength=count)
    members = ids[np.isin(group, lost)][:LOST_SHOWN].tolist()
    return Removals(
        tool, ids[pairs], ids[kept_at[group[pairs]]], group[pairs], sizes, 0, len(lost), members
    )


def _look_up(names: Hashes, values: Hashes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Return where each value stands in sorted names, and whether it does."""
    if not len(names):
        return np.zeros(len(values), np.intp), np.zeros(len(values), bool)
    at = np.minimum(np.searchsorted(names, values), len(names) - 1)
    return at, names[at] == values


def _same(a: Hashes, b: Hashes) -> bool:
    return bool(np.array_equal(a, b))


def _least_of_circle(start: int, names: Hashes, kept: Hashes) -> int:
    """Return the least hash of the circle that begins at a removed document."""
    least, at = start, start
    while True:
        at = int(kept[np.searchsorted(names, at)])
        least = min(least, at)
        if at == start:
            return least


# --------------------------------------------------------------------------------------------- files


def _files(path: str) -> list[str]:
    """Return a file, or those of a folder, by name. Raises DedupError where there is none."""
    if not Path(path).is_dir():
        return [path]
    known = [str(each) for each in sorted(Path(path).rglob("*")) if _kind(str(each))]
    if not known:
        raise DedupError(
            f"{path}: no file of pairs or groups in it; known are {', '.join((*_LINES, *_TABLES, '.parquet'))}. (Of "
            "datatrove give what MinhashDedupFilter writes with load_cluster_ids=True)"
        )
    return known


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


def _form_of(path: str) -> RemovalFormat:
    """Return the form whose fields a file has."""
    if _kind(path) == "parquet":
        with _rows_of(path) as file:
            schema = file.schema_arrow
            names = list(schema.names)
            has: Callable[[str], bool] = lambda field: column_path(schema, field) is not None  # noqa: E731
            return _first_form(path, names, has)
    first: Any = {}
    if _kind(path) == "lines":
        for line in read_numbered(path, LINE_BYTES):
            data = (line.data or b"").removeprefix(b"\xef\xbb\xbf").strip()
            if data.startswith(b"["):
                return RemovalFormat("groups", "removed", kept="kept")
            if data:
                first = _decoded(path, line.number, data)
                break
    else:
        first = next(_table(path), {})
    return _first_form(path, list(first), lambda field: _nested(first, field))


def _first_form(path: str, names: list[str], has: Callable[[str], bool]) -> RemovalFormat:
    for form in FORMS:
        if all(map(has, form.fields.values())):
            return form
    known = "; ".join(f"{form.tool}: {', '.join(form.fields.values())}" for form in FORMS)
    raise UsageError(
        f"{path}: its fields {', '.join(map(str, names[:12])) or '(none)'} are of no known form ({known}); name them with "
        "--removed-field, and --kept-field or --group-field"
    )


def _nested(value: Any, field: str) -> bool:
    if field in value:
        return True
    for name in field.split("."):
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


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
        except pa.ArrowException as error:
            raise DedupError(f"{path}: {' '.join(str(error).split())}") from error


def _parquet(path: str, fields: dict[str, str]) -> Iterator[dict[str, Any]]:
    with _rows_of(path) as file:
        found = {name: column_path(file.schema_arrow, field) for name, field in fields.items()}
        for name, way in found.items():
            if way is None:
                names = ", ".join(file.schema_arrow.names[:12])
                raise UsageError(f"{path}: has no column {fields[name]!r}, only {names}")
        for number in range(file.metadata.num_row_groups):
            for batch in row_batches(file, number, list(fields.values())):
                columns = [values_at(batch, way or []).to_pylist() for way in found.values()]
                for values in zip(*columns, strict=True):
                    yield dict(zip(found, values, strict=True))


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [])


def _ids(paths: Iterable[str], form: RemovalFormat) -> Hashes | None:
    """Return the hashes of listed ids; None if no file lists them."""
    found, given = array("q"), False
    for path in paths:
        for file in _files(path):
            given = True
            found.extend(hash_of(row["removed"]) for row in _rows(file, {"removed": form.removed}))
    return np.unique(np.array(found, np.int64)) if given else None
