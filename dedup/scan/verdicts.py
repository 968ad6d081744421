"""Verdicts as they are written: JSON lines, or Parquet made from them.

The rule kept here: an output is there as a whole or not at all.
"""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import msgspec

from dedup.core.files import replacing
from dedup.model.errors import UsageError
from dedup.scan.scan_values import Row

__all__ = ["check_output", "publish", "read_rows", "to_line"]

ROWS_AT_ONCE = 1 << 15
_TEXT = ("key", "value", "sketch", "status", "reason", "of", "identity", "cluster")
_SUFFIXES = (".jsonl", ".ndjson", ".parquet")

_encode = msgspec.json.Encoder().encode


def check_output(output: str) -> None:
    """Raise UsageError for an output whose name is none of verdicts, or that is no file."""
    if not output.lower().endswith(_SUFFIXES):
        raise UsageError(f"{output}: verdicts are written to a file named {', '.join(_SUFFIXES)}")
    if Path(output).exists() and not Path(output).is_file():
        raise UsageError(f"{output}: is no file; give the name of a new one")


def to_line(row: Row) -> bytes:
    """Return a verdict as a line of JSON."""
    return _encode(row) + b"\n"


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the verdicts of a file of JSON lines."""
    decode = msgspec.json.Decoder(Row).decode
    with path.open("rb") as file:
        for line in file:
            yield decode(line)


def publish(lines: Path, output: str) -> None:
    """Bring a file of JSON lines, which may move, to an output. Doing it once more changes nothing."""
    target = Path(output)
    if output.lower().endswith(".parquet"):
        with replacing(target) as file:
            _write_parquet(lines, file)
    elif lines.exists():  # else an earlier attempt has moved it
        _flush(lines)
        lines.replace(target)


def _write_parquet(lines: Path, file: IO[bytes]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    types: dict[str, Any] = {
        name: pa.string() if name in _TEXT else pa.int64() for name in Row.__struct_fields__
    }
    types["similarity"] = pa.float64()
    schema = pa.schema(list(types.items()))
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        rows = read_rows(lines)
        while some := list(islice(rows, ROWS_AT_ONCE)):
            columns = [[getattr(row, name) for row in some] for name in types]
            arrays = [pa.array(c, t) for c, t in zip(columns, types.values(), strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
