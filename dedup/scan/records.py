"""Pages from JSON lines, Parquet and HTML files; files of lines, plain or compressed (.gz, .zst).

Invariants: a line is read up to a limit and no further; where the compression is torn, the lines
before that place are read, and the rest of the file is one broken record, as is a bad line. Rows of
Parquet are read a few at a time, as many as the file's own figures allow. (pyarrow holds a value as a
whole; a file that lies about its figures is bounded by the machine alone.)
"""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from dedup.model.errors import UsageError
from dedup.model.json_records import UNSET, record_reader
from dedup.scan.values import STDIN, Broken, RawPage, ReadingOptions, shown

_BUFFER_BYTES = 1 << 16
_ROOM = 1 << 20


def is_damage(error: BaseException) -> bool:
    """Tell whether an error says that packed bytes are damaged, and not that the disk failed.

    FastWARC panics on some damage; Rust's panics are BaseExceptions in Python, not Exceptions.
    """
    if isinstance(error, OSError):
        return not error.errno
    is_known = isinstance(error, ValueError | EOFError | zlib.error)
    return is_known or type(error).__name__ == "PanicException"


class Line(NamedTuple):
    """A line of a file: its number from 1, the bytes of the file behind it, and its bytes.

    data is None for a line that is too long; error says why there are no more lines after this one.
    """

    number: int
    offset: int
    data: bytes | None
    error: str | None = None


def read_numbered(path: str, line_bytes: int) -> Iterator[Line]:
    """Yield the lines of a file; the last has the error, where its compression is torn. Raises OSError."""
    number = 0
    with opened(path) as (file, raw, unpacked):
        while line := file.readline(line_bytes):
            is_whole = line.endswith(b"\n")
            if unpacked is not None and unpacked.error and not is_whole:
                break
            number += 1
            offset = 0 if raw is None else raw.tell()
            if len(line) == line_bytes and not is_whole:
                while (rest := file.readline(_ROOM)) and not rest.endswith(b"\n"):
                    pass
                yield Line(number, offset, None)
            else:
                yield Line(number, offset, line)
        if unpacked is not None and unpacked.error:
            yield Line(number, 0, None, f"the compressed data is damaged ({unpacked.error})")


@contextmanager
def opened(path: str) -> Iterator[tuple[IO[bytes], IO[bytes] | None, "_Unpacked | None"]]:
    """Open a file as plain bytes; yield them, the file whose tell() says how much was read, and what unpacks it."""
    if path == STDIN:
        yield sys.stdin.buffer, None, None
        return
    with open(path, "rb") as raw:  # noqa: PTH123 - a path as text
        unpacked = None
        if path.lower().endswith(".gz"):
            unpacked = _Unpacked(gzip.GzipFile(fileobj=raw).read1)
        elif path.lower().endswith(".zst"):
            from fastwarc.stream_io import ZstdReader

            unpacked = _Unpacked(ZstdReader(raw).read)
        if unpacked is None:
            yield raw, raw, None
        else:
            yield io.BufferedReader(unpacked, _BUFFER_BYTES), raw, unpacked


class _Unpacked(io.RawIOBase):
    """A compressed file as Python's io has it: it ends where it is torn, and keeps the error."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._read(len(buffer))
        except BaseException as error:
            if not (isinstance(error, OSError) or is_damage(error)):
                raise
            self.error = Exception(str(error)) if not isinstance(error, Exception) else error
            return 0
        buffer[: len(data)] = data
        return len(data)


# ------------------------------------------------------------------------------------- JSON lines

_LARGEST_ESCAPE = 6  # bytes that JSON may take for a byte of text
_OTHER_FIELDS_BYTES = 1 << 20  # of a line


def read_lines(path: str, reading: ReadingOptions) -> Iterator[RawPage | Broken]:
    """Yield the page of each line that is not blank, or what is wrong with it. Raises OSError if the file cannot be read."""
    line_bytes = longest_line(reading.max_bytes)
    decode = record_reader(reading.fields)
    name = shown(os.fsencode(path))
    for number, offset, data, error in read_numbered(path, line_bytes):
        if error is not None:
            yield Broken(0, name, f"after line {number}", error, rest=True)
        elif data is None:
            yield Broken(offset, name, f"line {number}", f"longer than {line_bytes:,} bytes")
        elif not data.isspace():
            try:
                record = decode(data)
            except ValueError as error:
                yield Broken(offset, name, f"line {number}", str(error))
            else:
                place = f"line {number}"
                yield _raw_page(vars(record), reading, name, place, number, offset)


def longest_line(max_bytes: int) -> int:
    """Return how many bytes of a line are read, for pages of up to max_bytes."""
    return _LARGEST_ESCAPE * max_bytes + _OTHER_FIELDS_BYTES


def _raw_page(
    values: dict[str, Any], reading: ReadingOptions, name: str, place: str, number: int, offset: int
) -> RawPage | Broken:
    """Return the page of a line or a row; Broken where one of its fields holds no text."""
    url, page, key = values["url"], values["page"], values.get("key")
    if not (reading.needs_url or isinstance(url, str)):
        url = ""
    if isinstance(key, int):
        key = str(key)
    try:  # Parquet's strings may lack the mark that says so
        url = url.decode() if isinstance(url, bytes) else url
        key = key.decode() if isinstance(key, bytes) else key
    except UnicodeDecodeError as error:
        return Broken(offset, name, place, f"its URL or id is not UTF-8 ({error})")
    for part, value, form in (("key", key, str), ("url", url, str), ("page", page, str | bytes)):
        if part in reading.fields and not isinstance(value, form):
            held = "is missing" if value is UNSET else f"holds {_NAMES.get(type(value), 'no text')}"
            other = "other names: --url-field, --html-field, --text-field"
            return Broken(
                offset, name, place, f"the field {reading.fields[part]!r} {held} ({other})"
            )
    is_text = reading.text_field is not None or (isinstance(page, str) and _is_text(page))
    return RawPage(url, key, page, None, offset, place, number, is_text)


def _is_text(page: str) -> bool:
    """Tell whether a field of HTML holds text about markup: it begins with no tag and has no end tag."""
    return "</" not in page and "<" in page and not page.lstrip("\ufeff \t\r\n").startswith("<")


_NAMES = {
    type(None): "null",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "an object",
}


# ---------------------------------------------------------------------------------------- Parquet

BATCH_BYTES = 1 << 24  # of pages in memory at once, by their mean size
BATCH_ROWS = 256
LARGEST = 4  # times the limit of a page: row groups with greater rows are left out


def read_parquet(path: str, reading: ReadingOptions) -> Iterator[RawPage | Broken]:
    """Yield each row as a page. Raises OSError if the file cannot be opened."""
    import pyarrow as pa

    columns = reading.fields
    row, shown_path = 0, shown(os.fsencode(path))
    with open(path, "rb") as raw:  # noqa: PTH123 - a path as text
        try:
            file = open_rows(raw)
            paths = {part: column_path(file.schema_arrow, name) for part, name in columns.items()}
            missing = [columns[part] for part, found in paths.items() if found is None]
            if missing and not (missing == [reading.url_field] and not reading.needs_url):
                names = ", ".join(file.schema_arrow.names[:20])
                reason = f"has no column {missing[0]!r}, only {names}; name the right ones with "
                reason += "--url-field, and --html-field or --text-field"
                yield Broken(0, shown_path, "", reason, rest=True)
                return
            named = [columns[part] for part, found in paths.items() if found is not None]
            for number in range(file.metadata.num_row_groups):
                rows, mean_bytes = _size(file, number)
                if mean_bytes > LARGEST * reading.max_bytes:
                    reason = f"{rows:,} rows of {mean_bytes:,.0f} bytes each"
                    yield Broken(raw.tell(), shown_path, f"row group {number}", reason, rest=True)
                    row += rows
                    continue
                for batch in row_batches(file, number, named):
                    held = {part: values_at(batch, path) for part, path in paths.items() if path}
                    for i in range(batch.num_rows):
                        row += 1
                        values = {
                            part: held[part][i].as_py() if part in held else UNSET for part in paths
                        }
                        yield _raw_page(values, reading, shown_path, f"row {row}", row, raw.tell())
        except UsageError as error:
            yield Broken(0, shown_path, "", str(error), rest=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            yield Broken(raw.tell(), shown_path, f"after row {row}", reason, rest=True)


def open_rows(raw: IO[bytes]) -> Any:
    """Open a Parquet file. Raises pyarrow.ArrowException, OSError, ValueError."""
    from pyarrow import parquet

    return parquet.ParquetFile(raw, pre_buffer=False, buffer_size=1 << 20)


def row_batches(file: Any, group: int, columns: Sequence[str] | None = None) -> Any:
    """Iterate over the rows of a row group in batches of bounded size in bytes."""
    _, mean_bytes = _size(file, group)
    rows = max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(mean_bytes, 1.0))))
    return file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False)


def _size(file: Any, group: int) -> tuple[int, float]:
    """Return the number of rows of a row group, and their mean size in bytes."""
    said = file.metadata.row_group(group)
    return said.num_rows, said.total_byte_size / max(said.num_rows, 1)


def column_path(schema: Any, name: str) -> list[str] | None:
    """Return the way to a column: its name, or for `a.b` the fields of a struct; None if there is none.

    Raises UsageError if there are several.
    """
    import pyarrow as pa

    path = [name] if name in schema.names else name.split(".")
    kind: Any = pa.struct(list(schema))
    for field in path:
        held = kind.get_all_field_indices(field) if pa.types.is_struct(kind) else []
        if len(held) > 1:
            raise UsageError(f"has {len(held)} columns {field!r}; rename one")
        if not held:
            return None
        kind = kind.field(held[0]).type
    return path


def values_at(batch: Any, path: Sequence[str]) -> Any:
    """Return a column of a batch, or a field of its structs; null where a struct is."""
    import pyarrow.compute as pc

    column = batch.column(path[0])
    return pc.struct_field(column, path[1:]) if path[1:] else column


# ------------------------------------------------------------------------------------- HTML files


def read_files(paths: Sequence[str], reading: ReadingOptions) -> Iterator[RawPage | Broken]:
    """Yield each HTML file as a page. Its path, as it was given, is its document key."""
    offset = 0
    for number, path in enumerate(paths, 1):
        key = shown(os.fsencode(path))
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - a path as text
                html = file.read(reading.max_bytes + 1)
        except OSError as error:
            yield Broken(offset, key, "", error.strerror or str(error), rest=True)
            continue
        offset += len(html)
        yield RawPage("", key, html, None, offset, "", number)
