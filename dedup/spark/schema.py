"""The columns that travel between the steps, and rows of them as Arrow batches."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["FOUND", "PAIR", "VERDICT", "batches", "ddl", "signed", "unsigned", "words"]

ROWS_AT_ONCE = 1024


def _numbers(*names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, pa.int64()) for name in names]


def _texts(*names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, pa.string()) for name in names]


_FINGERPRINT = [
    *_numbers("value"),
    ("sketch", pa.binary()),
    *_numbers("page_identity", "features"),
]
FOUND = pa.schema(
    [
        ("position", pa.int64()),
        *_texts("kind", "key", "domain"),
        *_FINGERPRINT,
        *_texts("path", "place", "reason"),
        ("rest", pa.bool_()),
    ]
)
"""A record: kind is page, unread, large, skipped or broken; the last four columns are of what is no page.

page_identity is PageFingerprint.identity; the identity of VERDICT is Verdict's."""

VERDICT = pa.schema(
    [
        ("position", pa.int64()),
        *_texts("key", "domain"),
        *_FINGERPRINT,
        *_texts("status", "reason", "of"),
        *_numbers("distance"),
        ("similarity", pa.float64()),
        *_texts("identity", "cluster"),
    ]
)
PAIR = pa.schema(_numbers("a", "b"))

_SPARK = {
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
}


def ddl(schema: pa.Schema) -> str:
    """Return an Arrow schema as Spark writes one."""
    return ", ".join(f"`{field.name}` {_SPARK[field.type]}" for field in schema)


def signed(value: int) -> int:
    """Return an unsigned number as the bigint of the same bits."""
    return value - (1 << 64) if value >> 63 else value


def unsigned(value: int) -> int:
    """Return the number that signed() made a bigint."""
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


def words(column: Any) -> npt.NDArray[np.uint64]:
    """Return a column of bigints as fingerprints, without a copy."""
    array: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False)
    return array.view(np.uint64)
