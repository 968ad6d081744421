"""HTTP bodies as a WARC holds them: chunked or compressed, where the crawler kept them so.

The rule kept here: what comes out has a limit, whatever goes in. Crawlers often decode a body and
leave its headers, so a body that is not in the encoding its headers name is taken as it is.
"""

import io
import re
import zlib
from typing import Any

__all__ = ["decode_body", "read_up_to"]

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
            return _inflated(body, 31, size) if body.startswith(_GZIP) else body
        if coding == "deflate":
            return _deflated(body, size)
        if coding == "zstd":
            is_packed = body.startswith(_ZSTD)
            return read_up_to(stream_io.ZstdReader(data), size) if is_packed else body
        if coding == "br":
            return body if _is_text(body) else read_up_to(stream_io.BrotliReader(data), size)
    except (OSError, zlib.error) as error:
        raise ValueError(f"its encoding {coding!r} is torn ({error})") from error
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
