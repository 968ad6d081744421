"""Copy a file of any format without its near-duplicates; how a copy is packed (gzip, Zstandard).

Invariants:
  - The same input gives the same bytes.
  - Every other line is copied byte for byte, blank and broken ones, too; where the compression is torn,
    the copy ends after the last complete line.
  - Parquet rows are read a few at a time, and written in row groups of at most GROUP_BYTES.
  - Blocks of a WARC are streamed; a record that turns out to be torn is removed again.
"""

import io
import os
import zlib
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

import msgspec

from dedup.scan.records import is_damage, longest_line, open_rows, opened, row_batches
from dedup.scan.values import PageToJudge, Result
from dedup.scan.warc import Read, WarcRecords

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


def drop_line(unit: int, result: Result) -> bytes:
    """Return a near-duplicate as a line of dropped.jsonl: its unit, and its record's number there."""
    assert isinstance(result, PageToJudge)
    return _encode((unit, result.record)) + b"\n"


class Drops:
    """The records that are near-duplicates, asked for in their order.

    unit  the number of the unit that is copied
    """

    def __init__(self, lines: IO[bytes]) -> None:
        self._lines, self.unit = lines, 0
        self._decode = msgspec.json.Decoder(tuple[int, int]).decode
        self._next = self._read()

    def has(self, record: int) -> bool:
        """Return whether a record of the unit is one."""
        if self._next != (self.unit, record):
            return False
        self._next = self._read()
        return True

    def skip(self) -> None:
        """Pass over the rest of the unit: a part of it cannot be read."""
        while self.left:
            self._next = self._read()

    @property
    def left(self) -> bool:
        """Whether some of the unit were not found."""
        return self._next is not None and self._next[0] == self.unit

    def _read(self) -> tuple[int, int] | None:
        line = self._lines.readline()
        return self._decode(line) if line else None


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
    if suffix == ".zst":
        from fastwarc.stream_io import ZstdWriter

        writer: Any = ZstdWriter(file)

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
                dropped = drops.has(number)
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

    row = 0
    with open(copy.source, "rb") as raw:  # noqa: PTH123 - a path as text
        try:
            file = open_rows(raw)
        except (pa.ArrowException, OSError, ValueError) as error:
            return _one_line(error)
        schema, codec = file.schema_arrow, _codec(file)
        try:
            with parquet.ParquetWriter(copy.target, schema, compression=codec) as writer:
                held: list[Any] = []
                for number in range(file.num_row_groups):
                    batches = row_batches(file, number)
                    while True:
                        try:
                            batch = next(batches, None)
                        except (pa.ArrowException, OSError, ValueError) as error:
                            _write(writer, held, schema)
                            return f"after row {row}: {_one_line(error)}"
                        if batch is None:
                            break
                        numbers = range(row + 1, row + 1 + batch.num_rows)
                        row += batch.num_rows
                        held += _kept(batch, [not drops.has(n) for n in numbers])
                        if sum(part.nbytes for part in held) >= GROUP_BYTES:
                            _write(writer, held, schema)
                _write(writer, held, schema)
        except pa.ArrowException as error:  # of a type that cannot be written
            return f"after row {row}: {_one_line(error)}"
    return None


def _kept(batch: Any, keep: list[bool]) -> Iterator[Any]:
    """Yield the runs of rows that are kept: slices, which there are of every type."""
    at = 0
    for is_kept, run in groupby(keep):
        size = len(list(run))
        if is_kept:
            yield batch.slice(at, size)
        at += size


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


# ------------------------------------------------------------------------------------------- WARC

_PIECE = 1 << 16


def copy_warc(copy: Copy, drops: Drops) -> str | None:
    """Copy a WARC. Torn records are left out, as the scan named them. Raises OSError."""
    with open(copy.source, "rb") as file, PackedFile(copy.target, copy.packing) as out:  # noqa: PTH123
        WarcCopier(file, copy.source, drops, out).run()
    return None


class WarcCopier(WarcRecords):
    """Copies each record as it is read, but for near-duplicates."""

    def __init__(self, file: IO[bytes], path: str, drops: Drops, out: PackedFile) -> None:
        super().__init__(file, path)
        self._drops, self._out = drops, out

    def run(self) -> None:
        """Copy all records."""
        for _ in self.read():
            pass

    def result(self, record: Any) -> Read | None:
        """Copy a record, unless it is a near-duplicate."""
        if self._drops.has(self._number):
            return None
        try:
            for part in _copied(record):
                self._out.write(part)
        except BaseException as error:
            if not is_damage(error):
                raise
            self._out.take_back()
            return None
        self._out.end_member()
        return None


def _copied(record: Any) -> Iterator[bytes]:
    """Yield a record's bytes. Raises ValueError where its block is cut short."""
    head = io.BytesIO()
    record.headers.write(head)
    yield head.getvalue()
    left = record.content_length
    while left:
        data: bytes = record.reader.read(min(left, _PIECE))
        if not data:
            raise ValueError("cut short")
        left -= len(data)
        yield data
    yield b"\r\n\r\n"
