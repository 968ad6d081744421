"""Read pages from WACZ files: the WARCs of a ZIP, one after the other.

Invariants:
  - The records of all members are numbered in one sequence, in the order of the ZIP's directory.
  - A member that cannot be read is one broken part of the file; the next one is read.
"""

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, cast

from dedup.scan.formats.inputs import kind_of, shown
from dedup.scan.formats.packed import Region
from dedup.scan.formats.warc import Read, WarcPages
from dedup.scan.values import Broken, Reading

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
