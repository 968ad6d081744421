"""The columns that travel between the steps, and rows of them as Arrow batches."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["FOUND", "PAIR", "VERDICT", "batches", "ddl", "signed", "unsigned", "words"]

ROWS_AT_ONCE = 1024

_FINGERPRINT = {
    "value": pa.int64(),
    "check": pa.int64(),
    "links": pa.int64(),
    "features": pa.int64(),
    "link_count": pa.int64(),
}
FOUND = pa.schema(
    {"position": pa.int64(), "kind": pa.string(), "key": pa.string(), "domain": pa.string()}
    | _FINGERPRINT
    | {"path": pa.string(), "place": pa.string(), "reason": pa.string(), "rest": pa.bool_()}
)
"""A record: kind is page, large, skipped or broken; the last four columns are of what is no page."""

VERDICT = pa.schema(
    {"position": pa.int64(), "key": pa.string(), "domain": pa.string()}
    | _FINGERPRINT
    | {
        "status": pa.string(),
        "reason": pa.string(),
        "of": pa.string(),
        "distance": pa.int64(),
        "check_distance": pa.int64(),
        "cluster": pa.string(),
    }
)
PAIR = pa.schema({"a": pa.int64(), "b": pa.int64()})

_SPARK = {pa.int64(): "bigint", pa.string(): "string", pa.bool_(): "boolean"}


def ddl(schema: pa.Schema) -> str:
    """Return an Arrow schema as Spark writes one."""
    return ", ".join(f"`{field.name}` {_SPARK[field.type]}" for field in schema)


def signed(value: int) -> int:
    """Return a fingerprint as the bigint of the same bits."""
    return value - (1 << 64) if value >> 63 else value


def unsigned(value: int) -> int:
    """Return the fingerprint that signed() made a bigint."""
    return value & ((1 << 64) - 1)


def batches(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows as Arrow batches of that schema."""
    iterator = iter(rows)
    while some := list(islice(iterator, ROWS_AT_ONCE)):
        columns = [
            pa.array(column, field.type)
            for column, field in zip(zip(*some, strict=True), schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def words(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a column of bigints as fingerprints, without a copy."""
    array: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False)
    return array.view(np.uint64)
