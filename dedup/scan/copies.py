"""Copy a file without its near-duplicates: lines and Parquet; and how a copy is packed (gzip, Zstandard, LZ4).

Invariants:
  - Every other line is copied byte for byte, blank and broken ones, too; where the compression is torn,
    the copy ends after the last complete line.
  - Parquet rows are read a few at a time, and written in row groups of at most GROUP_BYTES.
  - The same input gives the same bytes.
"""

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

import msgspec

from dedup.scan.records import longest_line, open_rows, opened, row_batches
from dedup.scan.values import Found, Result, Row

_encode = msgspec.json.Encoder().encode


class Copy(NamedTuple):
    """A file to be copied.

    packing     a name that says by its end how the copy is compressed
    max_bytes   of a page, as it was scanned
    """

    source: str
    target: Path
    packing: str
    max_bytes: int


class _Drop(msgspec.Struct, frozen=True, array_like=True):
    """A record that is a near-duplicate, and the key of the page it resembles."""

    unit: int
    record: int
    of: str


def drop_line(unit: int, result: Result, row: Row) -> bytes:
    """Return a near-duplicate as a line of dropped.jsonl."""
    assert isinstance(result, Found)
    assert row.of is not None
    return _encode(_Drop(unit, result.record, row.of)) + b"\n"


class Drops:
    """The records of one unit that are near-duplicates, asked for in their order."""

    def __init__(self, lines: IO[bytes], unit: int) -> None:
        """Begin where a file of drops has those of this unit, if it has any."""
        self._lines, self._unit = lines, unit
        self._decode = msgspec.json.Decoder(_Drop).decode
        self.end = lines.tell()  # of those that were found in the input
        self._next = self._read()

    def of(self, record: int) -> str | None:
        """Return the key of the page that a record resembles; None if the record is kept."""
        drop = self._next
        if drop is None or drop.record != record:
            return None
        self.end = self._lines.tell()
        self._next = self._read()
        return drop.of

    def skip(self) -> None:
        """Pass over the rest: a part of the unit cannot be read."""
        while self._next is not None:
            self.of(self._next.record)

    @property
    def left(self) -> bool:
        """Whether some were not found."""
        return self._next is not None

    def _read(self) -> _Drop | None:
        line = self._lines.readline()
        drop = self._decode(line) if line else None
        return drop if drop is not None and drop.unit == self._unit else None


class PackedFile:
    """A file that is written in members, flushed to the disk when it is closed."""

    def __init__(self, path: Path, packing: str) -> None:
        """Make or empty a file. packing is the name of a file that says by its end how to pack."""
        self._suffix = os.path.splitext(packing)[1].lower()  # noqa: PTH122
        self._file: IO[bytes] = path.open("wb")
        self._begun = 0  # where the member begins
        self._member: _Member | None = None  # until something is written of it

    def write(self, data: bytes) -> None:
        """Write more of the member."""
        if data:
            self._member = self._member or _member(self._suffix, self._file)
            self._member.write(data)

    @property
    def begun(self) -> int:
        """Where the member begins that is written next."""
        return self._begun

    def end_member(self) -> None:
        """End the member; what is written next unpacks by itself."""
        if self._member is not None:
            self._member.finish()
        self._begun, self._member = self._file.tell(), None

    def take_back(self) -> None:
        """Forget what was written of the member."""
        if self._member is not None:
            self._member.finish()
        self._file.seek(self._begun)
        self._file.truncate()
        self._member = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._file:
            if kind is None:
                self.end_member()
                self._file.flush()
                os.fsync(self._file.fileno())


class _Member(NamedTuple):
    write: Callable[[bytes], object]
    finish: Callable[[], object]


def _member(suffix: str, file: IO[bytes]) -> _Member:
    """Begin a member of a file, packed as a suffix says."""
    if suffix == ".gz":
        packer = zlib.compressobj(wbits=31)
        return _Member(
            lambda data: file.write(packer.compress(data)), lambda: file.write(packer.flush())
        )
    if suffix in {".zst", ".lz4"}:
        from fastwarc.stream_io import Lz4Writer, ZstdWriter

        writer: Any = (ZstdWriter if suffix == ".zst" else Lz4Writer)(file)

        def finish() -> None:
            writer.finish()
            writer.flush()  # else some of the member is written when the next one has begun

        return _Member(writer.write, finish)
    return _Member(file.write, lambda: None)


def copy_lines(copy: Copy, drops: Drops) -> str | None:
    """Copy a file of lines; return why a part of it is missing, or None. Raises OSError."""
    line_bytes, number, begins, dropped = longest_line(copy.max_bytes), 0, True, False
    with (
        opened(copy.source) as (file, _raw, unpacked),
        PackedFile(copy.target, copy.packing) as out,
    ):
        while line := file.readline(line_bytes):
            is_whole = line.endswith(b"\n")
            if unpacked is not None and unpacked.error and not is_whole:
                break
            if begins:  # else it is more of a line that is too long to be read
                number += 1
                dropped = drops.of(number) is not None
            begins = is_whole
            if not dropped:
                out.write(line)
        error = None if unpacked is None else unpacked.error
    return None if error is None else f"the compressed data is damaged ({error})"


GROUP_BYTES = 1 << 25  # of values in a row group that is written


def copy_parquet(copy: Copy, drops: Drops) -> str | None:
    """Copy a file of rows; return why a part of it is missing, or None. Raises OSError."""
    import pyarrow as pa
    from pyarrow import parquet

    with open(copy.source, "rb") as raw:  # noqa: PTH123 - a path as text
        try:
            file = open_rows(raw)
        except (pa.ArrowException, OSError, ValueError) as error:
            return _one_line(error)
        row = 0
        with parquet.ParquetWriter(
            copy.target, file.schema_arrow, compression=_codec(file)
        ) as writer:
            held: list[Any] = []
            for number in range(file.num_row_groups):
                batches = row_batches(file, number)
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
