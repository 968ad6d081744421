"""Read pages that lie in WARCs elsewhere: the members of a WACZ, the records that a CDXJ index selects.

Invariants:
  - The records of all members of a WACZ are numbered in one sequence, in the order of the ZIP's directory.
    A member that cannot be read is one broken part of the file; the next one is read.
  - A line of an index is one result at most, named by its number; a broken one never ends the index.
  - An index names files below a folder: the base of the job, or else the index's own folder, its
    archive/ or the one beside it. A name that leads out of it is refused.
"""

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, cast

import msgspec

from dedup.scan.inputs import kind_of
from dedup.scan.records import Region, longest_line, read_numbered
from dedup.scan.values import Broken, RawPage, Reading, Skipped, shown
from dedup.scan.warc import Read, WarcPages, dictionary_frame

# What zipfile raises for damage, beside OSError for a place that cannot be.
TORN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError)
_HEAD_BYTES = 30  # of the header before a member, without its name and its extra field


def read_wacz(path: str, reading: Reading) -> Iterator[Read]:
    """Yield what each response of a WACZ comes to. Raises OSError if the file cannot be opened."""
    name = shown(os.fsencode(path))
    with open(path, "rb") as raw:  # noqa: PTH123 - a path as text
        try:
            archive = zipfile.ZipFile(raw)
        except (*TORN, OSError) as error:
            yield Broken(0, name, "", f"no ZIP archive ({error})", rest=True)
            return
        members = warc_members(archive)
        if not members:
            yield Broken(0, name, "", "it holds no archive/*.warc.gz", rest=True)
        number = 0
        for info in members:
            try:
                with open_member(archive, raw, info) as file:
                    pages = WarcPages(file, f"{path}/{info.filename}", reading, number)
                    try:
                        yield from pages.read()
                    finally:
                        number = pages.number
            except (*TORN, OSError) as error:
                yield Broken(0, name, info.filename, f"cannot be read ({error})", rest=True)


def warc_members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the WARCs of a WACZ."""
    return [info for info in archive.infolist() if is_warc(info.filename)]


def is_warc(name: str) -> bool:
    """Tell whether a member of a WACZ is a WARC, by its name."""
    return name.startswith("archive/") and kind_of(name) == "warc"


def open_member(archive: zipfile.ZipFile, raw: IO[bytes], info: zipfile.ZipInfo) -> IO[bytes]:
    """Open a member for reading and seeking: in place where it is stored, as WACZ asks for."""
    if info.compress_type != zipfile.ZIP_STORED:
        return archive.open(info)
    archive.open(info).close()  # raises what is wrong with its header
    raw.seek(info.header_offset)
    head = raw.read(_HEAD_BYTES)
    names = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
    begin = info.header_offset + _HEAD_BYTES + names
    return cast("IO[bytes]", Region(raw, begin, info.file_size))


# ------------------------------------------------------------------------------------------- CDXJ


class _Selected(msgspec.Struct, frozen=True):
    """What a line says of its record. Writers give numbers as JSON strings, too."""

    filename: str
    offset: int
    length: int


_decode = msgspec.json.Decoder(_Selected, strict=False).decode


def read_selected(path: str, reading: Reading) -> Iterator[Read]:
    """Yield what the record of each line comes to. Raises OSError if the index cannot be opened."""
    name, line_bytes = shown(os.fsencode(path)), longest_line(reading.max_bytes)
    with _Archives(path, reading) as archives:
        for number, offset, data, error in read_numbered(path, line_bytes):
            place = f"line {number}"
            if error is not None:
                yield Broken(0, name, f"after {place}", error, rest=True)
            elif data is None:
                yield Broken(offset, name, place, f"longer than {line_bytes:,} bytes")
            elif not (data.isspace() or data.startswith((b"!", b" "))):  # its header
                try:
                    read = archives.record(data, number)
                except (OSError, ValueError) as fault:
                    yield Broken(offset, name, place, str(fault))
                    continue
                if isinstance(read, RawPage):
                    yield read._replace(offset=offset, place=place, record=number)
                elif isinstance(read, Skipped):
                    yield Skipped(offset, read.reason)
                elif read is not None:
                    yield Broken(offset, name, place, f"{read.path}: {read.reason}")


class _Archives(ExitStack):
    """The files an index names, the last of them open."""

    def __init__(self, index: str, reading: Reading) -> None:
        super().__init__()
        folder = os.path.dirname(index)  # noqa: PTH120
        beside = os.path.join(folder, os.pardir, "archive")  # noqa: PTH118
        own = [folder, os.path.join(folder, "archive"), beside]  # noqa: PTH118
        self._folders = own if reading.base is None else [reading.base]
        self._reading = reading
        self._named = ""
        self._path = ""
        self._file: IO[bytes]
        self._frame = b""

    def record(self, line: bytes, number: int) -> Read | None:
        """Return what the record that a line selects comes to; None if it is no page's.

        Raises ValueError for a line that selects nothing, and OSError if its file cannot be read.
        """
        begin = line.find(b"{")
        if begin < 0:
            raise ValueError("not a CDXJ line: it has no JSON object")
        try:
            selected = _decode(line[begin:])
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"not a CDXJ line with filename, offset and length ({error})"
            ) from error
        if selected.offset < 0 or selected.length <= 0:
            raise ValueError(f"selects {selected.length} bytes at {selected.offset}")
        if selected.filename != self._named:
            self._open(selected.filename)
        region = cast("IO[bytes]", Region(self._file, selected.offset, selected.length))
        frame = self._frame if selected.offset else b""
        pages = WarcPages(region, self._path, self._reading, number - 1, frame=frame)
        return next(pages.read(), None)

    def _open(self, name: str) -> None:
        if os.path.isabs(name) or os.pardir in name.replace("\\", "/").split("/"):  # noqa: PTH117
            raise ValueError(f"names {name!r}, which is not below the index's folder")
        self.close()
        self._named = ""
        paths = [os.path.join(folder, name) for folder in self._folders]  # noqa: PTH118
        path = next((path for path in paths if os.path.isfile(path)), paths[0])  # noqa: PTH113
        self._file = self.enter_context(open(path, "rb"))  # noqa: PTH123, SIM115
        self._frame = dictionary_frame(self._file)
        self._named, self._path = name, path
