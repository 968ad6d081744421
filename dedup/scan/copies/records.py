"""Copy a file without its near-duplicates: lines, Parquet, WARC; plain, gzip, Zstandard or LZ4.

Invariants:
  - Every other line is copied byte for byte, blank and broken ones, too; where the compression is torn,
    the copy ends after the last complete line.
  - Parquet rows are read a few at a time, and written in row groups of at most GROUP_BYTES.
  - In a WARC a revisit record replaces a near-duplicate. Blocks are streamed; a record that turns out to
    be torn is removed again. The revisit's profile is our own, because the pages are alike and not
    identical; WARC-Refers-To-Target-URI is the document key of the page it resembles.
  - The same input gives the same bytes: a revisit's id is made from that of the record it replaces.
"""

import io
import os
import uuid
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Protocol, Self

import msgspec

from dedup.scan.formats.json_lines import longest_line
from dedup.scan.formats.packed import is_damage, opened
from dedup.scan.formats.parquet import BATCH_BYTES, BATCH_ROWS
from dedup.scan.formats.warc import Read, WarcRecords
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
        suffix = os.path.splitext(packing)[1].lower()  # noqa: PTH122
        packers: dict[str, type[_Packer]] = {".gz": _Gzip, ".zst": _Zstandard, ".lz4": _Lz4}
        self._pack = packers.get(suffix, _Plain)
        self._file: IO[bytes] = path.open("wb")
        self._begun = 0  # where the member begins
        self._member = self._pack(self._file)
        self._is_empty = True

    def write(self, data: bytes) -> None:
        """Write more of the member."""
        self._is_empty = self._is_empty and not data
        self._member.write(data)

    @property
    def begun(self) -> int:
        """Where the member begins that is written next."""
        return self._begun

    def end_member(self) -> None:
        """End the member; what is written next unpacks by itself."""
        if not self._is_empty:
            self._member.finish()
        self._begin()

    def take_back(self) -> None:
        """Forget what was written of the member."""
        if not self._is_empty:
            self._member.finish()
        self._file.seek(self._begun)
        self._file.truncate()
        self._begin()

    def _begin(self) -> None:
        self._begun = self._file.tell()
        self._member = self._pack(self._file)
        self._is_empty = True

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


class _Packer(Protocol):
    def __init__(self, file: IO[bytes]) -> None: ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None: ...


class _Plain:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def finish(self) -> None:
        pass


class _Gzip:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._packer = zlib.compressobj(wbits=31)

    def write(self, data: bytes) -> None:
        self._file.write(self._packer.compress(data))

    def finish(self) -> None:
        self._file.write(self._packer.flush())


class _FastWarc:
    """One of FastWARC's writers, made when it is first needed."""

    _writer_name: str

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._writer: Any = None

    def write(self, data: bytes) -> None:
        if self._writer is None:
            from fastwarc import stream_io

            self._writer = getattr(stream_io, self._writer_name)(self._file)
        self._writer.write(data)

    def finish(self) -> None:
        self._writer.finish()
        self._writer.flush()  # else some of the member is written when the next one has begun


class _Zstandard(_FastWarc):
    _writer_name = "ZstdWriter"


class _Lz4(_FastWarc):
    _writer_name = "Lz4Writer"


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


PROFILE = "urn:x-crawl-dedup:revisit:near-duplicate"

_PIECE = 1 << 16
_MOST_HTTP = 1 << 16  # bytes of HTTP headers that a revisit keeps
# Of the record that is left out; what tells of its block is not true of the revisit's.
_LEFT_OUT = frozenset(
    (
        b"warc-type",
        b"warc-record-id",
        b"warc-block-digest",
        b"warc-truncated",
        b"warc-profile",
        b"content-type",
        b"content-length",
    )
)


def copy_warc(copy: Copy, drops: Drops) -> str | None:
    """Copy a WARC. Torn records are left out, as the scan named them. Raises OSError."""
    with open(copy.source, "rb") as file, PackedFile(copy.target, copy.packing) as out:  # noqa: PTH123
        WarcCopier(file, copy.source, drops, out).run()
    return None


class Moves:
    """Where the records of a WARC were, and where they are in its copy."""

    def __init__(self) -> None:
        self._old, self._new, self._length = array("Q"), array("Q"), array("Q")
        self._revisits = array("b")

    def add(self, old: int, new: int, length: int, *, is_revisit: bool) -> None:
        """Add the next record."""
        for column, number in ((self._old, old), (self._new, new), (self._length, length)):
            column.append(number)
        self._revisits.append(is_revisit)

    def of(self, old: int) -> tuple[int, int, bool] | None:
        """Return a record's offset and length in the copy, and whether it is a revisit there now."""
        at = bisect_left(self._old, old)
        if at == len(self._old) or self._old[at] != old:
            return None
        return self._new[at], self._length[at], bool(self._revisits[at])


class WarcCopier(WarcRecords):
    """Copies each record as it is read."""

    def __init__(
        self,
        file: IO[bytes],
        path: str,
        drops: Drops,
        out: PackedFile,
        number: int = 0,
        moves: Moves | None = None,
    ) -> None:
        super().__init__(file, path, number)
        self._drops, self._out, self._moves = drops, out, moves

    def run(self) -> None:
        """Copy all records."""
        for _ in self.read():
            pass

    def result(self, record: Any) -> Read | None:
        """Copy a record, or write the revisit that stands for it."""
        of = self._drops.of(self._number)
        parts = _copied(record) if of is None else _revisit(record, of)
        try:
            for part in parts:
                self._out.write(part)
        except BaseException as error:
            if not is_damage(error):
                raise
            self._out.take_back()
            return None
        begun = self._out.begun
        self._out.end_member()
        if self._moves is not None:
            length = self._out.begun - begun
            self._moves.add(self._last, begun, length, is_revisit=of is not None)
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


def _revisit(record: Any, of: str) -> Iterator[bytes]:
    """Yield the bytes of the revisit that stands for a record."""
    http = _http_headers(record) if record.is_http else b""
    fields = [item for item in record.headers.items_bytes() if item[0].lower() not in _LEFT_OUT]
    old = record.headers.get_bytes(b"WARC-Record-ID") or b""
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"{PROFILE} {old!r} {fields!r}")
    fields = [
        (b"WARC-Type", b"revisit"),
        (b"WARC-Record-ID", f"<urn:uuid:{name}>".encode()),
        *fields,
        (b"WARC-Profile", PROFILE.encode()),
        (b"WARC-Refers-To-Target-URI", of.encode()),
        (b"WARC-Truncated", b"length"),
    ]
    if http:
        fields.append((b"Content-Type", b"application/http; msgtype=response"))
    fields.append((b"Content-Length", b"%d" % len(http)))
    yield b"WARC/1.1\r\n" + b"".join(b"%s: %s\r\n" % field for field in fields) + b"\r\n"
    yield http + b"\r\n\r\n"


def _http_headers(record: Any) -> bytes:
    """Return what comes before the body, with the empty line; nothing if there is no such line."""
    head = b""
    while len(head) < _MOST_HTTP and (data := record.reader.read(_PIECE)):
        head += data
        for end in (b"\r\n\r\n", b"\n\n"):
            if (at := head.find(end)) >= 0:
                found: bytes = head[: at + len(end)]
                return found
    return b""
