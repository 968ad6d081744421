"""Read pages from WARCs: plain, gzip or Zstandard, a member for each record or not.

    records (FastWARC) -> responses with HTML -> the body, decoded as its HTTP headers say
                       -> or, of a WET file, conversions to plain text
    the members of a WACZ -> the same

A Zstandard file may begin with the dictionary of all its members (the IIPC's proposal
"Zstandard Compression for WARC Files 1.0"): it is read from the beginning only, and ends at a torn record.

Invariants:
  - A body is read up to a limit; the rest of it is never held. A body that is not in the encoding that
    its headers name is taken as it is: crawlers often decode a body and keep its headers.
  - After a torn record, reading resumes at the next place where a record begins: a compressed member
    that unpacks to "WARC/", or these letters at the start of a line. What lies between is one broken
    record.
  - The records of all members of a WACZ are numbered in one sequence, in the order of the ZIP's directory.
    A member that cannot be read is one broken part of the file; the next one is read.
  - A member's name says that it is a WARC and how it is packed; it is never used as a path.
"""

import io
import os
import re
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from typing import IO, Any

import msgspec

from dedup.core.packed import gunzipped
from dedup.scan.inputs import kind_of
from dedup.scan.records import is_damage
from dedup.scan.values import Broken, RawPage, ReadingOptions, Skipped, shown

_HTML = frozenset(("text/html", "application/xhtml+xml"))
_MARKS = {
    "gzip": b"\x1f\x8b\x08",
    "zstd": b"\x28\xb5\x2f\xfd",
    "plain": b"WARC/1.",
}
_SUFFIXES = {"gzip": ".gz", "zstd": ".zst"}
_DICTIONARY = b"\x5d\x2a\x4d\x18"  # the skippable frame that holds it
_START = b"WARC/"
_SEARCH_BYTES = 1 << 20
_PROBE_BYTES = 1 << 12  # of a gzip member that is unpacked to see how it begins

Read = RawPage | Skipped | Broken


def read_warc(path: str, reading: ReadingOptions, *, texts: bool = False) -> Iterator[Read]:
    """Yield what each response of a file comes to. Raises OSError if the file cannot be opened.

    texts: yield the plain texts of a WET file instead.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - a path as text
        yield from WarcPages(file, path, reading, texts=texts).read()


class WarcRecords(ABC):
    """The records of a WARC, torn ones passed over; a subclass says what each comes to.

    The records have the same numbers however often they are read: HTTP is parsed after a record
    was counted.
    """

    def __init__(self, file: IO[bytes], path: str, number: int = 0) -> None:
        """Begin before the first record, which has the number after this one.

        The path tells how the file is packed.
        """
        self._file, self._path = file, path
        self._name = shown(os.fsencode(path))
        self._number = number
        self._last = -1  # where the last record began; -1 if none was read in this run
        self._torn = False  # it was named as broken
        self._gap: Broken | None = None  # what is wrong after it, until it is known where

    @property
    def number(self) -> int:
        """The number of the last record."""
        return self._number

    @abstractmethod
    def result(self, record: Any) -> Read | None:
        """Return what a record comes to; None for nothing."""

    def read(self) -> Iterator[Read]:
        """Yield what the records come to."""
        offset, last = 0, -1
        while True:
            reason = yield from self._run(offset)
            if reason is None:
                return
            if self._last < 0:  # not even one record was read from here
                yield Broken(offset, self._name, f"byte {offset}", reason, rest=last < 0)
                self._gap, self._last = None, offset
            elif not self._torn:
                place = f"after the record at byte {self._last}"
                self._gap = Broken(self._last, self._name, place, reason)
            last = self._last
            found = self._next_start(last + 1)
            if found is None:
                if self._gap:
                    rest = _has_dictionary(self._file)
                    yield msgspec.structs.replace(self._gap, rest=rest)
                return
            offset = found

    def _run(self, offset: int) -> Generator[Read, None, str | None]:
        """Yield results from an offset on, up to what is no record; return why, or None at the end."""
        self._last = -1
        records = self._records(offset)
        while True:
            try:
                record = next(records, None)
            except BaseException as error:
                if is_damage(error):  # what is no record
                    return str(error)
                if not isinstance(error, OSError):
                    raise
                place = f"byte {max(offset, self._last)}"
                yield Broken(offset, self._name, place, str(error), rest=True)
                return None
            if record is None:
                return None
            self._last = record.stream_pos
            self._number += 1
            result = self.result(record)
            self._torn = isinstance(result, Broken)
            if self._gap and not self._torn:
                yield self._gap
            self._gap = None
            if result is not None:
                yield result

    def _records(self, offset: int) -> Iterator[Any]:
        from fastwarc.warc import ArchiveIterator

        self._file.seek(offset)
        return iter(ArchiveIterator(self._file, inplace=True, parse_http=False))

    def _next_start(self, offset: int) -> int | None:
        """Return where the next record begins, at an offset or after it."""
        packing = _packing(self._file, self._path)
        mark = _MARKS[packing]
        while True:
            self._file.seek(offset)
            data = self._file.read(_SEARCH_BYTES)
            place = data.find(mark)
            while place >= 0:
                if _begins(self._file, packing, offset + place):
                    return offset + place
                place = data.find(mark, place + 1)
            if len(data) < _SEARCH_BYTES:
                return None
            offset += len(data) - len(mark) + 1


class WarcPages(WarcRecords):
    """The pages of a WARC: of responses with HTML, or of a WET file's conversions to text."""

    def __init__(
        self,
        file: IO[bytes],
        path: str,
        reading: ReadingOptions,
        number: int = 0,
        *,
        texts: bool = False,
    ) -> None:
        super().__init__(file, path, number)
        self._reading, self._texts = reading, texts

    def result(self, record: Any) -> Read | None:
        """Return what a record comes to; None for what is no page."""
        from fastwarc.warc import WarcRecordType

        kind, offset = record.record_type, self._last
        if kind == WarcRecordType.revisit:
            return Skipped(offset, "revisit")
        is_text = self._texts and kind == WarcRecordType.conversion
        if not is_text and (
            self._texts or kind not in (WarcRecordType.response, WarcRecordType.resource)
        ):
            return None
        length = record.headers.get("Content-Length")
        if length is None or not (length.isascii() and length.isdigit()):
            return self._broken(offset, "its Content-Length is no number")
        url = (record.headers.get("WARC-Target-URI") or "").strip("<> ")
        if not url:
            return self._broken(offset, "it has no WARC-Target-URI")
        try:
            if is_text:
                return self._text(record, url)
            return self._page(record, url, kind == WarcRecordType.response)
        except BaseException as error:
            if not is_damage(error):
                raise
            return self._broken(offset, str(error))

    def _page(self, record: Any, url: str, is_response: bool) -> Read:
        offset, most, encoding = self._last, self._reading.max_bytes, None
        if is_response:
            if not record.is_http:  # of DNS, say
                return Skipped(offset, "non_html")
            record.parse_http()
            status, kind = record.http_headers.status_code, record.http_content_type
            if status is None:
                return self._broken(offset, "it has no HTTP status line")
            if status != 200:
                return Skipped(offset, "status")
            encoding = (record.http_charset or "").strip("\"' ") or None
        else:
            kind = (record.headers.get("Content-Type") or "").partition(";")[0].strip()
        if kind and kind.lower() not in _HTML:
            return Skipped(offset, "non_html")
        expected = record.content_length
        body = read_up_to(record.reader, most + 1)
        if len(body) < min(expected, most + 1):
            return self._broken(offset, f"cut short: {len(body):,} of {expected:,} bytes")
        if is_response:
            try:
                body = decode_body(record.http_headers, body, most + 1)
            except ValueError as error:
                return self._broken(offset, str(error))
        if not kind and b"<html" not in body[:4096].lower():
            return Skipped(offset, "non_html")
        return RawPage(url, None, body, encoding, offset, f"byte {offset}", self._number)

    def _text(self, record: Any, url: str) -> Read:
        offset, most = self._last, self._reading.max_bytes
        kind = (record.headers.get("Content-Type") or "text/plain").partition(";")[0]
        if kind.strip().lower() != "text/plain":
            return Skipped(offset, "non_html")
        body = read_up_to(record.reader, most + 1)
        if len(body) < min(record.content_length, most + 1):
            reason = f"cut short: {len(body):,} of {record.content_length:,} bytes"
            return self._broken(offset, reason)
        place = f"byte {offset}"
        return RawPage(url, None, body, "utf-8", offset, place, self._number, True)

    def _broken(self, offset: int, reason: str) -> Broken:
        return Broken(offset, self._name, f"byte {offset}", reason)


def _packing(file: IO[bytes], path: str) -> str:
    file.seek(0)
    head, name = file.read(4), path.lower()
    for packing, suffix in _SUFFIXES.items():
        if name.endswith(suffix) or head.startswith(_MARKS[packing][:4]):
            return packing
    return "zstd" if head == _DICTIONARY else "plain"


def _has_dictionary(file: IO[bytes]) -> bool:
    file.seek(0)
    return file.read(4) == _DICTIONARY


def _begins(file: IO[bytes], packing: str, offset: int) -> bool:
    """Tell whether a record begins at an offset."""
    if packing == "plain":
        file.seek(max(0, offset - 1))
        data = file.read(1 + len(_MARKS["plain"]))
        return data.removeprefix(b"\n" if offset else b"") == _MARKS["plain"]
    try:
        if packing == "gzip":
            file.seek(offset)
            return zlib.decompressobj(31).decompress(file.read(_PROBE_BYTES), 5) == _START
        from fastwarc.stream_io import ZstdReader

        if _has_dictionary(file):  # which FastWARC heeds from the beginning only
            return False
        file.seek(offset)
        return bool(ZstdReader(file).read(5) == _START)
    except BaseException as error:
        if not (isinstance(error, OSError) or is_damage(error)):
            raise
        return False


_CHUNK = re.compile(rb"[0-9a-fA-F]{1,16}[ \t]*(;[^\r\n]{0,200})?\r?\n")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_MOST_CODINGS = 3


def read_up_to(reader: Any, size: int) -> bytes:
    """Return the next `size` bytes of a FastWARC reader, fewer at its end."""
    data: bytes = reader.read(size)
    if len(data) == size or not data:
        return data
    parts = [data]
    left = size - len(data)
    while left and (data := reader.read(left)):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def decode_body(headers: Any, body: bytes, size: int) -> bytes:
    """Return a body without its transfer and content encodings, cut after `size` bytes.

    Raises ValueError for one that is torn, or in an encoding that is not known.
    """
    transfer = headers.get("Transfer-Encoding")
    content = headers.get("Content-Encoding")
    if transfer is None and content is None:
        return body
    codings = [c.strip().lower() for c in f"{content or ''},{transfer or ''}".split(",")]
    codings = [c for c in codings if c not in {"", "identity"}]
    if len(codings) > _MOST_CODINGS:
        raise ValueError(f"it has {len(codings)} encodings")
    for coding in reversed(codings):
        body = _decoded(coding, body, size)
    return body


def _decoded(coding: str, body: bytes, size: int) -> bytes:
    from fastwarc import stream_io

    data: Any = io.BytesIO(body)
    try:
        if coding == "chunked":
            return read_up_to(stream_io.ChunkedReader(data), size) if _CHUNK.match(body) else body
        if coding in {"gzip", "x-gzip"}:
            return gunzipped(body, size) if body.startswith(_GZIP) else body
        if coding == "deflate":
            return _deflated(body, size)
        if coding == "zstd":
            is_packed = body.startswith(_ZSTD)
            return read_up_to(stream_io.ZstdReader(data), size) if is_packed else body
        if coding == "br":
            return body if _is_text(body) else read_up_to(stream_io.BrotliReader(data), size)
    except BaseException as error:
        if not (isinstance(error, OSError) or is_damage(error)):
            raise
        raise ValueError(f"its {coding!r} encoding is damaged ({error})") from error
    raise ValueError(f"its encoding {coding[:40]!r} is not known")


def _inflated(body: bytes, window: int, size: int) -> bytes:
    unpack = zlib.decompressobj(window)
    data = unpack.decompress(body, size)
    if not unpack.eof and len(data) < size:
        raise zlib.error("it ends early")
    return data


def _deflated(body: bytes, size: int) -> bytes:
    """Undo "deflate", which is zlib's format by the standard, and raw for some servers."""
    if _is_text(body):
        return body
    try:
        return _inflated(body, 15, size)
    except zlib.error:
        return _inflated(body, -15, size)


def _is_text(body: bytes) -> bool:
    return body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


# ------------------------------------------------------------------------------------------- WACZ

# What zipfile raises for damage, beside OSError for a place that cannot be.
_TORN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError)


def read_wacz(path: str, reading: ReadingOptions) -> Iterator[Read]:
    """Yield what each response of a WACZ comes to. Raises OSError if the file cannot be opened."""
    name, number = shown(os.fsencode(path)), 0
    with open(path, "rb") as raw:  # noqa: PTH123 - a path as text
        try:
            archive = zipfile.ZipFile(raw)
        except (*_TORN, OSError) as error:
            yield Broken(0, name, "", f"no ZIP archive ({error})", rest=True)
            return
        warcs = [each for each in archive.infolist() if _is_warc(each.filename)]
        if not warcs:
            yield Broken(0, name, "", "it holds no archive/*.warc.gz", rest=True)
        for info in warcs:
            try:
                with archive.open(info) as file:
                    pages = WarcPages(file, f"{path}/{info.filename}", reading, number)
                    try:
                        yield from pages.read()
                    finally:
                        number = pages.number
            except (*_TORN, OSError) as error:
                place = shown(os.fsencode(info.filename))
                yield Broken(0, name, place, f"cannot be read ({error})", rest=True)


def _is_warc(name: str) -> bool:
    return name.startswith("archive/") and kind_of(name) == "warc"
