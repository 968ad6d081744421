"""Copy a file of any format without its near-duplicates; how a copy is packed (gzip, Zstandard, LZ4).

    lines, Parquet -> the same without some
    WARCs (near-duplicates become revisits) -> indexes of a WACZ with the new offsets -> datapackage.json with
    the new hashes

Invariants:
  - The same input gives the same bytes: a revisit's id is made from that of the record it replaces.
  - Every other line is copied byte for byte, blank and broken ones, too; where the compression is torn,
    the copy ends after the last complete line.
  - Parquet rows are read a few at a time, and written in row groups of at most GROUP_BYTES.
  - In a WARC a revisit record replaces a near-duplicate. Blocks are streamed; a record that turns out to
    be torn is removed again. The revisit's profile is our own, because the pages are alike and not
    identical; WARC-Refers-To-Target-URI is the document key of the page it resembles.
  - What is neither a WARC, an index nor a digest of a WACZ is copied byte for byte, with its time.
  - A line of an index has the offset and the length of its record in the copy; that of a revisit has
    the MIME type warc/revisit, and that of a record that was left out is gone.
  - A signature holds for the original: the copy has none.
"""

import errno
import gzip
import hashlib
import io
import os
import uuid
import zipfile
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

import msgspec

from dedup.scan.records import is_damage, longest_line, open_rows, opened, row_batches
from dedup.scan.values import Found, Result, Row
from dedup.scan.warc import TORN, Read, WarcRecords, is_warc, open_member

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


# ------------------------------------------------------------------------------------------- WARC

PROFILE = "urn:x-crawl-dedup:revisit:near-duplicate"

_PIECE = 1 << 16
_MOST_HTTP = 1 << 16  # bytes of HTTP headers that a revisit keeps
# Headers of the replaced record that are not true of the revisit.
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
        """Copy a record, or write the revisit that replaces it."""
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
    """Yield the bytes of the revisit that replaces a record."""
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
    """Return what is before the body, with the empty line; nothing if there is no such line."""
    head = b""
    while len(head) < _MOST_HTTP and (data := record.reader.read(_PIECE)):
        head += data
        for end in (b"\r\n\r\n", b"\n\n"):
            if (at := head.find(end)) >= 0:
                found: bytes = head[: at + len(end)]
                return found
    return b""


# ------------------------------------------------------------------------------------------- WACZ

_PACKAGE, _DIGEST = "datapackage.json", "datapackage-digest.json"
_INDEXES = (".cdx", ".cdxj", ".cdx.gz", ".cdxj.gz")
_LONGEST = 1 << 24  # bytes of a line or a block of an index
_REVISIT = "warc/revisit"


def copy_wacz(copy: Copy, drops: Drops) -> str | None:
    """Copy a WACZ; return why a part of it is missing, or None. Raises OSError."""
    with open(copy.source, "rb") as raw:  # noqa: PTH123 - a path as text
        try:
            old = zipfile.ZipFile(raw)
        except (*TORN, OSError) as error:
            return f"no ZIP archive ({error})"
        with zipfile.ZipFile(copy.target, "w") as new:
            missing = _WaczCopier(copy, drops, raw, old, new).run()
    with copy.target.open("rb+") as written:
        os.fsync(written.fileno())
    return missing


class _WaczCopier:
    def __init__(
        self,
        copy: Copy,
        drops: Drops,
        raw: IO[bytes],
        old: zipfile.ZipFile,
        new: zipfile.ZipFile,
    ) -> None:
        self._copy, self._drops = copy, drops
        self._raw, self._old, self._new = raw, old, new
        self._number = 0  # of the last record
        self._moves: dict[str, Moves] = {}  # by the name that an index has for the WARC
        self._written: dict[str, tuple[str, int]] = {}  # hash and size of what was written
        self._missing: str | None = None

    def run(self) -> str | None:
        infos = self._old.infolist()
        indexes = [info for info in infos if _is_index(info.filename)]
        blocks = {info.filename for info in infos if info.filename.endswith(".idx")}
        done = {_PACKAGE, _DIGEST, *blocks, *(info.filename for info in indexes)}
        for info in infos:
            if is_warc(info.filename):
                self._guarded(info, self._warc)
        for info in infos:
            if info.filename not in done and not is_warc(info.filename):
                self._guarded(info, self._plain)
        for info in indexes:
            self._guarded(info, self._index)
        for info in infos:
            if info.filename == _PACKAGE:
                self._guarded(info, self._package)
        return self._missing

    def _guarded(self, info: zipfile.ZipInfo, write: Any) -> None:
        try:
            write(info)
        except (*TORN, KeyError, TypeError, AttributeError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in {None, errno.EINVAL}:
                raise  # the disk's
            self._missing = f"{info.filename} cannot be copied ({error})"

    def _warc(self, info: zipfile.ZipInfo) -> None:
        beside = self._copy.target.with_name(f"{self._copy.target.name}.warc")
        moves = self._moves[info.filename.removeprefix("archive/")] = Moves()
        try:
            with (
                open_member(self._old, self._raw, info) as file,
                PackedFile(beside, info.filename) as out,
            ):
                copier = WarcCopier(file, info.filename, self._drops, out, self._number, moves)
                try:
                    copier.run()
                finally:
                    self._number = copier.number
            with beside.open("rb") as part:
                self._write(info, part)
        finally:
            beside.unlink(missing_ok=True)

    def _plain(self, info: zipfile.ZipInfo) -> None:
        with self._old.open(info) as part:
            self._write(info, part)

    def _write(self, info: zipfile.ZipInfo, part: IO[bytes]) -> None:
        """Write a member under the name and with the time of an old one."""
        made = zipfile.ZipInfo(info.filename, info.date_time)
        made.compress_type = zipfile.ZIP_STORED if is_warc(info.filename) else info.compress_type
        made.external_attr = info.external_attr
        digest, size = hashlib.sha256(), 0
        with self._new.open(made, "w", force_zip64=True) as out:
            while data := part.read(1 << 20):
                digest.update(data)
                size += len(data)
                out.write(data)
        self._written[info.filename] = f"sha256:{digest.hexdigest()}", size

    # ------------------------------------------------------------------------------- indexes

    def _index(self, info: zipfile.ZipInfo) -> None:
        beside = self._copy.target.with_name(f"{self._copy.target.name}.index")
        idx = info.filename.removesuffix(".gz").rpartition(".")[0] + ".idx"
        try:
            with beside.open("wb") as out:
                if not info.filename.endswith(".gz"):
                    with self._old.open(info) as lines:
                        for line in self._lines(lines):
                            out.write(line)
                elif idx in self._old.namelist():
                    self._blocks(info, self._old.getinfo(idx), out)
                else:
                    with (
                        gzip.open(self._old.open(info)) as lines,
                        gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed,
                    ):
                        for line in self._lines(lines):
                            packed.write(line)
            with beside.open("rb") as part:
                self._write(info, part)
        finally:
            beside.unlink(missing_ok=True)

    def _blocks(self, info: zipfile.ZipInfo, idx: zipfile.ZipInfo, out: IO[bytes]) -> None:
        """Write a compressed index block by block, and the index of its blocks."""
        with self._old.open(info) as file:
            packed = file.read()  # its own size is about that of a page for a thousand records
        made = io.BytesIO()
        with self._old.open(idx) as lines:
            while line := lines.readline(_LONGEST):
                head, brace, rest = line.partition(b"{")
                if line.startswith(b"!") or not brace:
                    made.write(line)
                    continue
                fields = msgspec.json.decode(brace + rest)
                begin, length = int(fields["offset"]), int(fields["length"])
                block = zlib.decompressobj(31).decompress(packed[begin : begin + length], _LONGEST)
                kept = list(self._lines(io.BytesIO(block)))
                if not kept:
                    continue
                data = gzip.compress(b"".join(kept), mtime=0)
                fields.update(offset=out.tell(), length=len(data))
                if "digest" in fields:
                    fields["digest"] = f"sha256:{hashlib.sha256(data).hexdigest()}"
                head = kept[0].partition(b"{")[0]
                made.write(head + msgspec.json.encode(fields) + b"\n")
                out.write(data)
        made.seek(0)
        self._write(idx, made)

    def _lines(self, lines: Any) -> Iterator[bytes]:
        """Yield the lines of an index as they are in the copy."""
        while line := lines.readline(_LONGEST):
            head, brace, rest = line.partition(b"{")
            if not brace or line.startswith(b"!"):
                yield line
                continue
            fields = msgspec.json.decode(brace + rest)
            moves = self._moves.get(fields.get("filename"))
            if moves is None:
                yield line
                continue
            moved = moves.of(int(fields["offset"]))
            if moved is None:
                continue
            was = type(fields["offset"])  # writers give numbers as strings, too
            fields["offset"], fields["length"] = was(moved[0]), was(moved[1])
            if moved[2]:
                fields["mime"] = _REVISIT
            fields.pop("recordDigest", None)  # of the bytes that the original has
            yield head + msgspec.json.encode(fields) + b"\n"

    # ------------------------------------------------------------------------------- digests

    def _package(self, info: zipfile.ZipInfo) -> None:
        """Write datapackage.json with the new hashes and sizes, and the digest of that."""
        package = msgspec.json.decode(self._old.read(info))
        resources = [r for r in package.get("resources", ()) if r.get("path") in self._written]
        for resource in resources:
            resource["hash"], resource["bytes"] = self._written[resource["path"]]
        if "resources" in package:
            package["resources"] = resources
        self._write(info, io.BytesIO(msgspec.json.format(msgspec.json.encode(package), indent=2)))
        if _DIGEST in self._old.namelist():
            said = {"path": _PACKAGE, "hash": self._written[_PACKAGE][0]}
            digest = io.BytesIO(msgspec.json.format(msgspec.json.encode(said), indent=2))
            self._write(self._old.getinfo(_DIGEST), digest)


def _is_index(name: str) -> bool:
    return name.startswith("indexes/") and name.endswith(_INDEXES)
