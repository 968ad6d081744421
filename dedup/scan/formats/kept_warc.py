"""A WARC once more, with revisit records in place of the responses that are near-duplicates.

    record -> copied, header fields and block as they are -> a member of its own
    near-duplicate -> WARC/1.1 revisit: its HTTP headers, and the page it resembles

The rules kept here:
  - A block is streamed, never held; a record that turns out to be torn is taken back.
  - A revisit says what is true: its profile is our own, for the pages are alike and not identical.
    WARC-Refers-To-Target-URI is the document key (the canonical URL) of the page it resembles.
  - The same input gives the same bytes: a revisit's id is made from that of the record it stands for.
"""

import io
import uuid
from collections.abc import Iterator
from typing import IO, Any

from dedup.scan.formats.drops import Copy, Drops
from dedup.scan.formats.packed import PackedFile
from dedup.scan.formats.warc import Read, WarcRecords

__all__ = ["PROFILE", "copy_warc"]

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
        for _ in _Copier(file, copy.source, drops, out).read():
            pass
    return None


class _Copier(WarcRecords):
    """Copies each record as it is read."""

    def __init__(self, file: IO[bytes], path: str, drops: Drops, out: PackedFile) -> None:
        super().__init__(file, path)
        self._drops, self._out = drops, out

    def result(self, record: Any) -> Read | None:
        of = self._drops.of(self._number)
        parts = _copied(record) if of is None else _revisit(record, of)
        try:
            for part in parts:
                self._out.write(part)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno:  # the disk's
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
