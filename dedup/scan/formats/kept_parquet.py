"""Parquet once more without the rows that are near-duplicates: all columns, the same schema.

The rule kept here: rows are read a few at a time, as parquet.py reads them, and written in row groups
of at most GROUP_BYTES.
"""

from typing import Any

from dedup.scan.formats.drops import Copy, Drops
from dedup.scan.formats.parquet import BATCH_BYTES, BATCH_ROWS

__all__ = ["copy_parquet"]

GROUP_BYTES = 1 << 25  # of values in a row group that is written


def copy_parquet(copy: Copy, drops: Drops) -> str | None:
    """Copy a file of rows; return why a part of it is missing, or None. Raises OSError."""
    import pyarrow as pa
    from pyarrow import parquet

    with open(copy.source, "rb") as raw:  # noqa: PTH123 - a path as text
        try:
            file = parquet.ParquetFile(raw, pre_buffer=False, buffer_size=1 << 20)
        except (pa.ArrowException, OSError, ValueError) as error:
            return _one_line(error)
        row = 0
        with parquet.ParquetWriter(
            copy.target, file.schema_arrow, compression=_codec(file)
        ) as writer:
            held: list[Any] = []
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                mean_bytes = group.total_byte_size / max(group.num_rows, 1)
                rows = max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(mean_bytes, 1.0))))
                batches = file.iter_batches(rows, row_groups=[number], use_threads=False)
                while True:
                    try:
                        batch = next(batches, None)
                    except (pa.ArrowException, OSError, ValueError) as error:
                        _write(writer, held, file.schema_arrow)
                        return f"after row {row}: {_one_line(error)}"
                    if batch is None:
                        break
                    numbers = range(row + 1, row + 1 + batch.num_rows)
                    row += batch.num_rows
                    held.append(batch.filter(pa.array([drops.of(n) is None for n in numbers])))
                    if sum(part.nbytes for part in held) >= GROUP_BYTES:
                        _write(writer, held, file.schema_arrow)
            _write(writer, held, file.schema_arrow)
    return None


def _write(writer: Any, held: list[Any], schema: Any) -> None:
    import pyarrow as pa

    table = pa.Table.from_batches(held, schema)
    if table.num_rows:
        writer.write_table(table, row_group_size=table.num_rows)
    held.clear()


def _codec(file: Any) -> str:
    """Return how the file's first column is compressed."""
    metadata = file.metadata
    if not metadata.num_row_groups or not metadata.num_columns:
        return "snappy"
    codec = metadata.row_group(0).column(0).compression
    return "none" if codec == "UNCOMPRESSED" else str(codec)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
